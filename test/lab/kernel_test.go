// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const class = "/sys/class/infiniband"

// read is the content of a file without the newline; empty if the kernel has no answer. It is read in one go,
// without what os.ReadFile does beside: a GID table has thousands of files, and the guest is slow.
func read(elem ...string) string {
	fd, err := syscall.Open(filepath.Join(elem...), syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer syscall.Close(fd)
	var page [4096]byte
	n, err := syscall.Read(fd, page[:])
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(page[:n]))
}

// answer decodes what a command of iproute2 prints.
func answer(v any, name string, args ...string) error {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return json.Unmarshal(out, v)
}

// A port as `rdma -j link` prints it.
type port struct {
	Device        string `json:"ifname"`
	Number        int    `json:"port"`
	State         string `json:"state"`
	PhysicalState string `json:"physical_state"`
	Netdev        string `json:"netdev"`
}

func (p port) name() string { return fmt.Sprintf("%s/%d", p.Device, p.Number) }

// file reads a file of the port in sysfs.
func (p port) file(elem ...string) string {
	return read(append([]string{class, p.Device, "ports", strconv.Itoa(p.Number)}, elem...)...)
}

// entries is the number of files in a folder of the port.
func (p port) entries(folder string) int {
	files, err := os.ReadDir(filepath.Join(class, p.Device, "ports", strconv.Itoa(p.Number), folder))
	if err != nil {
		return -1
	}
	return len(files)
}

// gbps is the rate that the RDMA core prints: "400 Gb/sec (4X NDR)".
func (p port) gbps() float64 {
	rate, _, _ := strings.Cut(p.file("rate"), " ")
	v, err := strconv.ParseFloat(rate, 64)
	if err != nil {
		return -1
	}
	return v
}

func kernelPorts() ([]port, error) {
	var ports []port
	err := answer(&ports, "rdma", "-j", "link")
	return ports, err
}

// A gid is an occupied slot of a GID table.
type gid struct {
	port
	index                int
	addr                 netip.Addr
	kind, family, netdev string
}

// text is all but the index: slots are filled in order of arrival.
func (g gid) text() string {
	return fmt.Sprint(g.name(), " ", g.addr, " ", g.kind, " ", g.family, " ", g.netdev)
}

// gids reads the whole table of a port, slot by slot.
func (p port) gids() (occupied []gid, slots int, err error) {
	for {
		index := strconv.Itoa(slots)
		text := p.file("gids", index)
		if text == "" {
			return occupied, slots, nil
		}
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", p.name(), err)
		}
		if addr != netip.IPv6Unspecified() {
			kind := p.kind(p.file("gid_attrs/types", index))
			occupied = append(occupied, gid{p, slots, addr, kind, family(kind, addr), p.file("gid_attrs/ndevs", index)})
		}
		slots++
	}
}

// kind names the type of a GID. The kernel has one name for InfiniBand and RoCE v1, and iWARP gets it too.
func (p port) kind(text string) string {
	switch {
	case strings.HasSuffix(read(class, p.Device, "node_type"), ": RNIC"):
		return "iwarp"
	case text == "RoCE v2":
		return "roce_v2"
	case text != "IB/RoCE v1":
		return "other"
	case p.file("link_layer") == "InfiniBand":
		return "ib"
	}
	return "roce_v1"
}

// family is that of the address in a GID; the GID of an iWARP device is its MAC address.
func family(kind string, addr netip.Addr) string {
	switch {
	case kind == "iwarp":
		return "other"
	case addr.Is4In6():
		return "ipv4"
	case addr.IsLinkLocalUnicast():
		return "link_local"
	}
	return "ipv6"
}

// An address as `ip -j addr` prints it.
type address struct {
	netdev string
	addr   netip.Addr
}

func kernelAddresses() ([]address, error) {
	var netdevs []struct {
		Name      string                   `json:"ifname"`
		Addresses []struct{ Local string } `json:"addr_info"`
	}
	if err := answer(&netdevs, "ip", "-j", "addr"); err != nil {
		return nil, err
	}
	var all []address
	for _, netdev := range netdevs {
		for _, a := range netdev.Addresses {
			addr, err := netip.ParseAddr(a.Local)
			if err != nil {
				return nil, err
			}
			all = append(all, address{netdev.Name, addr})
		}
	}
	return all, nil
}

// guestState is all that a test may change and must restore.
func guestState(t *testing.T) []string {
	t.Helper()
	ports, err := kernelPorts()
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := kernelAddresses()
	if err != nil {
		t.Fatal(err)
	}
	var state []string
	for _, p := range ports {
		state = append(state, fmt.Sprint(p.name(), " ", p.State, " ", p.PhysicalState, " ", p.Netdev, " ", p.file("rate")))
		occupied, _, err := p.gids()
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range occupied {
			state = append(state, g.text())
		}
	}
	for _, a := range addresses {
		state = append(state, fmt.Sprint(a.netdev, " ", a.addr))
	}
	return state
}

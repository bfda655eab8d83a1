// SPDX-License-Identifier: Apache-2.0

//go:build lab

package rdmanl

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/host/netlink"
)

// These tests need a kernel with RDMA devices, and root for the recordings:
//
//	mkdir /tmp/job && go test -c -tags lab -o /tmp/job/rdmanl.test ./internal/host/rdmanl
//	./test/lab/run.sh /tmp/job ./rdmanl.test -test.v -test.run 'TestKernel|TestRecord' -record .
var recordTo = flag.String("record", "", "write the answers of the kernel into this folder")

const class = "/sys/class/infiniband/"

func sysfs(t *testing.T, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func dialKernel(t *testing.T) *Client {
	t.Helper()
	if _, err := os.Stat(class); err != nil {
		t.Skip("no RDMA class")
	}
	c, err := Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestKernel(t *testing.T) {
	c := dialKernel(t)
	devices, err := c.Devices()
	if err != nil || len(devices) == 0 {
		t.Fatal(devices, err)
	}
	if entries, _ := os.ReadDir(class); len(entries) != len(devices) {
		t.Errorf("%d devices, sysfs has %d", len(devices), len(entries))
	}
	for _, d := range devices {
		t.Run(d.Name, func(t *testing.T) { compareDevice(t, c, d) })
	}
	system, err := c.System()
	mode := sysfs(t, "/sys/module/ib_core/parameters/netns_mode")
	if err != nil || system.SharedNetNS != (mode == "Y") {
		t.Error(system, err, mode)
	}
	_, err = c.Port(9999, 1)
	if !errors.Is(err, unix.EINVAL) {
		t.Error("no such device:", err)
	}
	t.Logf("%+v\n%+v\n%v", devices, system, c.Requests())
}

func compareDevice(t *testing.T, c *Client, d Device) {
	same := func(file, got string) {
		t.Helper()
		if want := sysfs(t, class, d.Name, file); want != got {
			t.Errorf("%s: %q, sysfs says %q", file, got, want)
		}
	}
	same("node_guid", d.NodeGUID)
	same("sys_image_guid", d.ImageGUID)
	same("fw_ver", d.Firmware)
	for n := uint32(1); n <= d.Ports; n++ {
		dir := fmt.Sprintf("ports/%d/", n)
		p, err := c.Port(d.Index, n)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v %+v", p, p.Subnet)
		_, state, _ := strings.Cut(sysfs(t, class, d.Name, dir, "state"), ": ")
		_, phys, _ := strings.Cut(sysfs(t, class, d.Name, dir, "phys_state"), ": ")
		if !strings.EqualFold(state, string(p.State)) || !strings.EqualFold(phys, strings.ReplaceAll(string(p.PhysState), "_", "")) {
			t.Errorf("%s %s, sysfs says %s %s", p.State, p.PhysState, state, phys)
		}
		if p.Subnet != nil {
			same(dir+"lid", fmt.Sprintf("0x%x", p.Subnet.LID))
			same(dir+"sm_lid", fmt.Sprintf("0x%x", p.Subnet.SMLID))
		}
		compareCounters(t, c, d, n)
	}
}

func compareCounters(t *testing.T, c *Client, d Device, port uint32) {
	dir := filepath.Join(class, d.Name, "ports", strconv.Itoa(int(port)), "hw_counters")
	entries, _ := os.ReadDir(dir)
	var want, got []string
	for _, e := range entries {
		if e.Name() != "lifespan" {
			want = append(want, e.Name())
		}
	}
	counters, err := c.Counters(d.Index, port)
	if len(want) == 0 {
		if !errors.Is(err, unix.EINVAL) {
			t.Error("a device without counters:", counters, err)
		}
		return
	}
	for _, v := range counters {
		got = append(got, v.Name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("counters %q, %v, sysfs has %q", got, err, want)
	}
}

// Users without any privilege get the same answers.
func TestKernelUnprivileged(t *testing.T) {
	dialKernel(t)
	if os.Getuid() != 0 {
		t.Skip("not root")
	}
	cmd := exec.Command("/proc/self/exe", "-test.run", "TestKernel$")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// An open socket keeps ib_core from being unloaded; a closed one does not.
func TestKernelModule(t *testing.T) {
	dialKernel(t).Close()
	count := func() string { return sysfs(t, "/sys/module/ib_core/refcnt") }
	before := count()
	c, err := Dial()
	if err != nil {
		t.Fatal(err)
	}
	during := count()
	c.Close()
	if during == before || count() != before {
		t.Errorf("references to ib_core: %s before, %s during, %s after", before, during, count())
	}
}

func TestRecord(t *testing.T) {
	if *recordTo == "" {
		t.Skip("no -record")
	}
	devices, err := dialKernel(t).Devices()
	if err != nil {
		t.Fatal(err)
	}
	index := map[string]uint32{}
	for _, d := range devices {
		index[d.Name] = d.Index
	}
	for file, value := range map[string]string{"np_cnp_sent": "77", "rx_icrc_encapsulated": "18446744073709551615"} {
		if err := os.WriteFile("/sys/kernel/debug/fakehca/0/"+file, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	record(t, "get", "GET, all devices", encode(cmdGet, netlink.Dump))
	record(t, "port_get_rxe0", "PORT_GET, rxe0 (Soft-RoCE on a veth)", encode(cmdPortGet, 0, index["rxe0"], 1))
	record(t, "port_get_siw1", "PORT_GET, siw1 (software iWARP on a dummy that is down)", encode(cmdPortGet, 0, index["siw1"], 1))
	record(t, "port_get_fakehca_0", "PORT_GET, fakehca_0 (Ethernet)", encode(cmdPortGet, 0, index["fakehca_0"], 1))
	record(t, "port_get_fakehca_5", "PORT_GET, fakehca_5 (InfiniBand)", encode(cmdPortGet, 0, index["fakehca_5"], 1))
	record(t, "port_get_list", "PORT_GET, rxe0, as a list", encode(cmdPortGet, netlink.Dump, index["rxe0"]))
	record(t, "port_get_einval", "PORT_GET, no such device", encode(cmdPortGet, 0, 9999, 1))
	record(t, "stat_get_rxe0", "STAT_GET, rxe0 (Soft-RoCE)", encode(cmdStatGet, 0, index["rxe0"], 1))
	record(t, "stat_get_fakehca_0", "STAT_GET, fakehca_0 (names of mlx5)", encode(cmdStatGet, 0, index["fakehca_0"], 1))
	record(t, "stat_get_einval", "STAT_GET, siw0, which has no counters", encode(cmdStatGet, 0, index["siw0"], 1))
	record(t, "sys_get", "SYS_GET", encode(cmdSysGet, 0))
	unknown := encode(cmdSysGet, 0)
	unknown.Header.Type = cmdSysGet.header() + 200
	record(t, "unknown_command_einval", "command 206, which no kernel has", unknown)
	runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	record(t, "port_get_rxe0_other_netns", "PORT_GET, rxe0 from another network namespace", encode(cmdPortGet, 0, index["rxe0"], 1))
}

// record writes the datagrams with which the kernel answers, each as one block of hexadecimal digits.
func record(t *testing.T, name, about string, request netlink.Message) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	request.Header.Length = uint32(unix.NLMSG_HDRLEN + len(request.Data))
	request.Header.Sequence = 1
	b, err := request.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "# Linux %s, %s; request %x\n", sysfs(t, "/proc/sys/kernel/osrelease"), about, b)
	for done := false; !done; {
		p := make([]byte, bufferSize)
		n, _, err := unix.Recvfrom(fd, p, 0)
		if err != nil {
			t.Fatal(err)
		}
		messages, err := syscall.ParseNetlinkMessage(p[:n])
		if err != nil {
			t.Fatal(err)
		}
		last := messages[len(messages)-1].Header
		done = last.Flags&unix.NLM_F_MULTI == 0 || last.Type == unix.NLMSG_DONE
		digits := hex.EncodeToString(p[:n])
		for line := range slices.Chunk([]byte(digits), 64) {
			fmt.Fprintf(&out, "%s\n", line)
		}
		if !done {
			out.WriteString("\n")
		}
	}
	if err := os.WriteFile(filepath.Join(*recordTo, name+".hex"), []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

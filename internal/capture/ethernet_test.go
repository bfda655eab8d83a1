// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/dcbnl"
	"gpufabric_exporter/internal/host/ethtool"
	"gpufabric_exporter/internal/host/netlink"
	"gpufabric_exporter/internal/simulator"
)

// answers are what drivers of network interfaces say to the kernel's questions.
type answers struct {
	dcb  []netlink.Exchange
	tool []netlink.Exchange
}

// answersOf makes up the answers of all interfaces of a node: DCB as a kernel with another interface said it, pause
// frames and FEC as the kernel would encode them, and the statistics that the simulator has.
func answersOf(t *testing.T, tree *simulator.Tree) *answers {
	t.Helper()
	a := &answers{}
	names, err := os.ReadDir(filepath.Join(tree.Sysfs(), netClass))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range names {
		name := f.Name()
		dcb := dcbnl.Rewrite(netlink.Exchange{Command: "DCB_CMD_IEEE_GET", NetDev: "hca0", Answer: message(t, "ieee_get_hca0")},
			func(string) string { return name })
		a.dcb = append(a.dcb, dcb)
		statistics := netlink.Exchange{Command: "ETHTOOL_GSTATS", NetDev: name}
		list, err := tree.Ethernet().Statistics(name, func(string) bool { return true }, time.Now())
		if err != nil {
			statistics.Errno = syscall.EOPNOTSUPP
		}
		for _, s := range list {
			statistics.Statistics = append(statistics.Statistics, netlink.Statistic{Name: s.Name, Value: s.Value.Value})
		}
		speed := netlink.Exchange{Command: "ETHTOOL_MSG_LINKMODES_GET", NetDev: name, Errno: syscall.EOPNOTSUPP}
		if b, err := os.ReadFile(filepath.Join(tree.Sysfs(), netClass, name, "speed")); err == nil {
			megabits, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			speed.Errno, speed.Answer = 0, binary.NativeEndian.AppendUint32(raw(t, "08000500"), uint32(megabits))
		}
		a.tool = append(a.tool, speed,
			netlink.Exchange{Command: "ETHTOOL_MSG_PAUSE_GET", NetDev: name, Answer: raw(t, "0500030001000000"+"0500040000000000")},
			netlink.Exchange{Command: "ETHTOOL_MSG_FEC_GET", NetDev: name, Answer: raw(t, "0800040032000000")}, statistics)
	}
	return a
}

// message returns the payload of a recorded datagram of package dcbnl.
func message(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../host/dcbnl/testdata", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	_, digits, _ := strings.Cut(string(b), "\n") // after the comment
	return raw(t, strings.ReplaceAll(digits, "\n", ""))[syscall.NLMSG_HDRLEN:]
}

func raw(t *testing.T, digits string) []byte {
	t.Helper()
	b, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (a *answers) dial() (*dcbnl.Client, *ethtool.Client, error) {
	tool, err := ethtool.Replay(a.tool)
	return dcbnl.Replay(a.dcb), tool, err
}

// interfaces returns those in the archive of a capture that drivers were asked about, for more than the
// speed.
func (c *Capture) interfaces(t *testing.T) []string {
	t.Helper()
	names := map[string]bool{}
	for _, file := range []string{dcbName, ethtoolName} {
		var list []struct{ Command, NetDev string }
		if err := json.Unmarshal([]byte(c.entries[file].text), &list); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, e := range list {
			if e.Command != "ETHTOOL_MSG_LINKMODES_GET" {
				names[e.NetDev] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// folder returns a folder with the answers as --path.netlink takes them.
func (a *answers) folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, list := range map[string]any{dcbnl.File: a.dcb, ethtool.File: a.tool} {
		b, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestPhysicalInterfaces asks the members of bonds and what VLANs sit on, and no others: neither interfaces
// of devices that are left alone nor those without RDMA.
func TestPhysicalInterfaces(t *testing.T) {
	tree := materialise(t, find(t, "healthy"), nil)
	o := options(tree)
	o.dial = answersOf(t, tree).dial
	o.Devices.Exclude = regexp.MustCompile("^mlx5_0$")
	o.Policy = &fabric.Policy{Restricted: regexp.MustCompile("^mlx5_1$")}
	c := take(t, o)
	want := []string{
		"enp154s0np0", "enp192s0np0", "enp206s0np0", "enp220s0np0", "enp231s0f0np0", "enp231s0f1np1",
		"enp41s0f0np0", "enp41s0f1np1", "enp79s0np0", "enp94s0np0",
	}
	if got := c.interfaces(t); !slices.Equal(got, want) {
		t.Errorf("asked about %q, want %q", got, want)
	}
	for name := range c.entries {
		left := strings.Contains(name, "/enp24s0np0/") || strings.Contains(name, "/enp64s0np0/") || strings.Contains(name, "/bond0/")
		if left && (strings.Contains(name, "/ecn") || strings.Contains(name, "/qos")) {
			t.Errorf("captured %s", name)
		}
		if strings.HasSuffix(name, "/speed") {
			t.Errorf("captured %s, which netlink reports", name)
		}
	}
}

// TestNoInterfacesToRead: a copy of some sysfs has nothing to do with this kernel's drivers, and where there
// are no Ethernet ports only speeds are asked for.
func TestNoInterfacesToRead(t *testing.T) {
	c := take(t, options(materialise(t, find(t, "healthy"), nil)))
	for name := range c.entries {
		if strings.HasPrefix(name, netlinkPart+"/") {
			t.Errorf("captured %s", name)
		}
	}
	tree := materialise(t, find(t, "healthy-efa"), nil)
	o := options(tree)
	o.dial = answersOf(t, tree).dial
	if got := take(t, o).interfaces(t); len(got) > 0 {
		t.Errorf("asked about %q", got)
	}
}

func TestDriversThatDoNotAnswer(t *testing.T) {
	tree := materialise(t, find(t, "healthy"), nil)
	o := options(tree)
	a := &answers{} // of a kernel without ethtool netlink whose interfaces have all gone
	o.dial = a.dial
	c := take(t, o)
	if n := len(c.interfaces(t)); n != 12 || len(c.Manifest.Errors) != 2*n {
		t.Errorf("%d interfaces, errors %v", n, c.Manifest.Errors)
	}
	o.dial = func() (*dcbnl.Client, *ethtool.Client, error) { return nil, nil, syscall.EPERM }
	want := []Problem{{"drivers of network interfaces", syscall.EPERM.Error()}}
	if got := take(t, o).Manifest.LeftOut; !slices.Equal(got, want) {
		t.Errorf("left out %v, want %v", got, want)
	}
}

// TestQoSFiles captures what only some kernels and sites have, and nothing of configfs and debugfs beside it.
func TestQoSFiles(t *testing.T) {
	tree := materialise(t, find(t, "healthy-two-port"), nil)
	read := map[string]string{
		"kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos":      "106\n",
		"class/infiniband/mlx5_0/tc/1/traffic_class":                 "Global tclass=106\n",
		"kernel/debug/mlx5/0000:41:00.0/cc_params/rp_clamp_tgt_rate": "1\n",
	}
	alone := []string{"kernel/config/rdma_cm/other/ports/1/default_roce_tos", "kernel/debug/mlx5/0000:41:00.0/QPs/1", "kernel/debug/mlx5/9999:18:00.0/cc_params/x"}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(read)), alone) {
		p := filepath.Join(tree.Sysfs(), name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(read[name]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(tree.Sysfs(), netClass, "enp65s0f0np0/device") // as the kernel makes it: it names the function
	if err := errors.Join(os.Remove(link), os.Symlink("../../../0000:41:00.0", link)); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := take(t, options(tree))
	if _, err := Unpack(bytes.NewReader(archive(t, c)), dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range read {
		if b, err := os.ReadFile(filepath.Join(dir, "sys", name)); err != nil || string(b) != text {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	for _, name := range alone {
		if _, err := os.Stat(filepath.Join(dir, "sys", name)); err == nil {
			t.Errorf("captured %s", name)
		}
	}
}

// TestNamesInAnswers: the name of an interface may have been made of its MAC address.
func TestNamesInAnswers(t *testing.T) {
	const name = "enx0c42a1d35e77"
	a := anonymous(6, nil)
	rename := func(string) string { return name }
	dcb, err := marshal([]netlink.Exchange{dcbnl.Rewrite(netlink.Exchange{NetDev: "hca0", Answer: message(t, "ieee_get_hca0")}, rename)})
	if err != nil {
		t.Fatal(err)
	}
	tool, err := marshal([]netlink.Exchange{{NetDev: name}})
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{dcbName: dcb, ethtoolName: tool} {
		got := a.rewrite(file, entry{kind: regular, text: text})
		digits := hex.EncodeToString([]byte("0c42a1d35e77"))
		if strings.Contains(got, name) || strings.Contains(got, digits) || !strings.Contains(got, a.device(name)) || len(got) != len(text) {
			t.Errorf("%s: %s", file, got)
		}
	}
}

// TestTooManyStatistics: what does not fit is named, and what is there can be unpacked.
func TestTooManyStatistics(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: too slow under the race detector; make test runs it without")
	}
	tree := materialise(t, find(t, "healthy"), nil)
	a := answersOf(t, tree)
	many := make([]netlink.Statistic, 1<<16)
	for i := range many {
		many[i] = netlink.Statistic{Name: fmt.Sprintf("tx_queue_%d_packets", i), Value: 1 << 60}
	}
	for i, e := range a.tool {
		if e.Command == "ETHTOOL_GSTATS" {
			a.tool[i].Statistics = many
		}
	}
	o := options(tree)
	o.dial = a.dial
	c := take(t, o)
	if n := len(c.interfaces(t)); n < 3 || n > 10 || len(c.Manifest.LeftOut) != 1 || !strings.Contains(c.Manifest.LeftOut[0].Reason, "too many statistics") {
		t.Errorf("%d interfaces, left out %v", n, c.Manifest.LeftOut)
	}
	if _, err := Unpack(bytes.NewReader(archive(t, c)), t.TempDir()); err != nil {
		t.Error(err)
	}
}

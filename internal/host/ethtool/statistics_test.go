// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

func TestStatistics(t *testing.T) {
	for _, old := range []bool{false, true} {
		k := &fakeKernel{nics: map[string]*nic{"eth0": hca(7, "3")}, old: old}
		c := client(t, k)
		prio := func(name string) bool { return strings.Contains(name, "prio") }
		want := []fabric.Counter{
			{Name: "rx_prio3_pause", Value: fabric.Known[uint64](2, "ETHTOOL_GSTATS", now())},
			{Name: "rx_prio3_pause_duration", Value: fabric.Known[uint64](3, "ETHTOOL_GSTATS", now())},
			{Name: "tx_prio3_pause", Value: fabric.Known[uint64](4, "ETHTOOL_GSTATS", now())},
		}
		got, err := c.Statistics("eth0", prio, now())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
		if n := k.count(); !maps.Equal(n, map[command]int{cmdCounts: 1, cmdNames: 2, cmdValues: 1}) {
			t.Errorf("first reading: %v", n)
		}
		k.nics["eth0"].values[1] = 200
		later, err := c.Statistics("eth0", prio, now().Add(time.Second))
		if err != nil || later[0].Value.Value != 200 || !later[0].Value.At.Equal(now().Add(time.Second)) {
			t.Errorf("%+v, %v", later, err)
		}
		if n := k.count(); !maps.Equal(n, map[command]int{cmdNames: 1, cmdValues: 1}) {
			t.Errorf("second reading: %v", n)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the second reading changed the first: %+v", got)
		}
		if n := c.Commands(); n[fabric.CommandNetStats] != 2 || n[fabric.CommandNetNames] != 4 || n[fabric.CommandPause] != 0 {
			t.Errorf("commands %v", n)
		}
		if got, err := c.Statistics("eth0", func(string) bool { return false }, now()); err != nil || len(got) != 3 {
			t.Errorf("names that are known are asked about again: %v, %v", got, err)
		}
	}
}

// The list changes between two requests of one reading, and between two readings: no value ever has another name than
// the driver's at that moment. Every name stands for one value.
func TestChangingList(t *testing.T) {
	const netdev = "eth0"
	lists := map[string]*nic{
		"same length":     hca(7, "4"),
		"longer":          {index: 7, names: []string{"a", "rx_packets", "b", "rx_prio3_pause", "c", "d"}, values: []uint64{10, 1, 11, 2, 12, 13}},
		"shorter":         {index: 7, names: []string{"rx_prio3_pause"}, values: []uint64{2}},
		"other interface": {index: 8, names: hca(7, "3").names, values: []uint64{21, 22, 23, 24, 25}},
		"none":            {index: 7},
		"gone":            nil,
	}
	lists["same length"].values = []uint64{1, 92, 93, 94, 5}
	for name, other := range lists {
		for _, old := range []bool{false, true} {
			for at := range 8 {
				for _, warm := range []bool{false, true} {
					k := &fakeKernel{nics: map[string]*nic{netdev: hca(7, "3")}, old: old}
					c := client(t, k)
					if warm {
						if _, err := c.Statistics(netdev, all, now()); err != nil {
							t.Fatal(err)
						}
					}
					left := at
					k.before = func(command, string) {
						if left--; left < 0 && other != nil {
							k.nics[netdev] = other
						} else if left < 0 {
							delete(k.nics, netdev)
						}
					}
					for range 2 {
						got, err := c.Statistics(netdev, all, now())
						was, is := correct(got, hca(7, "3")), other != nil && correct(got, other)
						ok := err == nil && (was || is)
						switch {
						case name == "none" && errors.Is(err, errors.ErrUnsupported), name == "gone" && errors.Is(err, unix.ENODEV):
							ok = true
						}
						if !ok {
							t.Errorf("%s, old kernel %t, warm %t, before request %d: %v, %v", name, old, warm, at, pairs(got), err)
						}
					}
				}
			}
		}
	}
}

// correct reports whether a reading is that of n.
func correct(got []fabric.Counter, n *nic) bool {
	m := map[string]uint64{}
	for i, name := range n.names {
		m[name] = n.values[i]
	}
	return maps.Equal(pairs(got), m)
}

// A list that is another one each time it is read ends with an error, not in a loop.
func TestEverChangingList(t *testing.T) {
	k := &fakeKernel{nics: map[string]*nic{"eth0": hca(7, "3")}}
	turn := 0
	k.before = func(command, string) {
		turn++
		k.nics["eth0"] = hca(7, strconv.Itoa(turn%8))
	}
	c := client(t, k)
	if got, err := c.Statistics("eth0", all, now()); !errors.Is(err, ErrChanging) || got != nil {
		t.Errorf("%v, %v", got, err)
	}
	if n := k.count()[cmdValues]; n != attempts {
		t.Errorf("asked %d times", n)
	}
	k.before = nil
	if _, err := c.Statistics("eth0", all, now()); err != nil {
		t.Error("afterwards:", err)
	}
}

// A kernel that writes no data leaves what another interface said: it must not become that of this one.
func TestNoDataWritten(t *testing.T) {
	k := &fakeKernel{nics: map[string]*nic{"eth0": hca(7, "3"), "eth1": hca(8, "3")}}
	c := client(t, k)
	for _, netdev := range []string{"eth0", "eth1"} {
		if _, err := c.Statistics(netdev, all, now()); err != nil {
			t.Fatal(err)
		}
	}
	k.before = func(cmd command, netdev string) { // the list is longer whenever values are asked for
		k.nics[netdev] = hca(7, "3")
		if cmd == cmdValues {
			k.nics[netdev].names = append(k.nics[netdev].names, "new")
		}
	}
	if got, err := c.Statistics("eth0", all, now()); !errors.Is(err, ErrChanging) || got != nil {
		t.Errorf("%v, %v", pairs(got), err)
	}
}

func TestOddNames(t *testing.T) {
	long := strings.Repeat("x", nameSize) // no NUL at its end
	k := &fakeKernel{nics: map[string]*nic{"eth0": {
		index: 7,
		names: []string{
			"Tx Queue#: 0", "  TSO pkts tx", "", "Tx Queue#: 1", "  TSO pkts tx", long + "cut", "caf\xe9", "   ", "zero\x00rest", "zero", "\ttab ",
		},
		values: []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
	}}}
	var asked []string
	got, err := client(t, k).Statistics("eth0", func(name string) bool {
		asked = append(asked, name)
		return !strings.HasPrefix(name, "Tx")
	}, now())
	var names []string
	for _, c := range got {
		names = append(names, c.Name)
	}
	if want := []string{"TSO pkts tx", long, "caf\xe9", "zero", "tab"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v, want %q", names, err, want)
	}
	if want := map[string]uint64{"TSO pkts tx": 1, long: 5, "caf\xe9": 6, "zero": 8, "tab": 10}; !maps.Equal(pairs(got), want) {
		t.Errorf("%v, want %v", pairs(got), want)
	}
	if slices.Contains(asked, "") {
		t.Error("asked about the empty name")
	}
}

func TestErrors(t *testing.T) {
	k := &fakeKernel{nics: map[string]*nic{
		"none": {index: 1}, "refuses": {index: 2, err: unix.EOPNOTSUPP}, "broken": {index: 3, names: []string{"a"}, err: unix.EIO},
		"detached": {index: 4, err: unix.ENODEV},
	}}
	c := client(t, k)
	for netdev, want := range map[string]error{
		"none": errors.ErrUnsupported, "refuses": errors.ErrUnsupported, "broken": unix.EIO, "detached": unix.ENODEV, "missing": unix.ENODEV,
	} {
		got, err := c.Statistics(netdev, all, now())
		if got != nil || !errors.Is(err, want) || !strings.Contains(err.Error(), netdev) {
			t.Errorf("%s: %v, %v", netdev, got, err)
		}
	}
	if n := k.count()[cmdValues]; n != 0 {
		t.Errorf("%d requests for values, of drivers without any", n)
	}
	k.nics["none"], k.counted = hca(1, "3"), maxStatistics+1
	if _, err := c.Statistics("none", all, now()); !errors.Is(err, netlink.ErrMalformed) {
		t.Error(err)
	}
	k.counted = 4 // fewer than there are: seen by every kernel
	if _, err := c.Statistics("none", all, now()); !errors.Is(err, ErrChanging) {
		t.Error(err)
	}
}

// The largest list fits into what is reserved, and what lies behind that cannot be written to.
func TestReserve(t *testing.T) {
	k := &fakeKernel{nics: map[string]*nic{"eth0": {index: 1}}}
	n := k.nics["eth0"]
	for i := range maxStatistics {
		n.names = append(n.names, strconv.Itoa(i))
		n.values = append(n.values, uint64(i))
	}
	c := client(t, k)
	got, err := c.Statistics("eth0", func(name string) bool { return name == "65535" }, now())
	if err != nil || !maps.Equal(pairs(got), map[string]uint64{"65535": 65535}) {
		t.Errorf("%v, %v", got, err)
	}
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Skip(err)
	}
	defer zero.Close()
	for name, b := range map[string][]byte{"names": c.names, "values": c.values} {
		if got := cap(b) - len(b); got != os.Getpagesize() {
			t.Errorf("%s: %d bytes behind", name, got)
		}
		if n, err := unix.Read(int(zero.Fd()), b); err != nil || n != len(b) {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		if n, err := unix.Read(int(zero.Fd()), b[len(b):cap(b)]); !errors.Is(err, unix.EFAULT) {
			t.Errorf("%s: the kernel wrote %d bytes behind the end, %v", name, n, err)
		}
	}
}

// Names are kept of the interfaces that are asked for.
func TestForget(t *testing.T) {
	k := &fakeKernel{nics: map[string]*nic{"eth0": hca(1, "3"), "eth1": hca(2, "3")}}
	c := client(t, k)
	ask := func(netdev string, after time.Duration, want int) {
		t.Helper()
		if _, err := c.Statistics(netdev, all, now().Add(after)); err != nil && k.nics[netdev] != nil {
			t.Error(err)
		}
		if len(c.tables) != want {
			t.Errorf("%s: %d tables, want %d", netdev, len(c.tables), want)
		}
	}
	ask("eth0", 0, 1)
	ask("eth1", 0, 2)
	ask("eth0", rememberIt, 2)
	ask("eth0", rememberIt+1, 1)
	delete(k.nics, "eth0")
	ask("eth0", rememberIt+2, 0)
	for i := range 1000 {
		k.nics = map[string]*nic{strconv.Itoa(i): hca(uint32(i), "3")}
		if _, err := c.Statistics(strconv.Itoa(i), all, now().Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.tables) > 11 {
		t.Errorf("%d tables", len(c.tables))
	}
}

// Two interfaces exchange their names.
func TestRenamed(t *testing.T) {
	a, b := hca(1, "3"), hca(2, "5")
	b.values = []uint64{11, 12, 13, 14, 15}
	k := &fakeKernel{nics: map[string]*nic{"eth0": a, "eth1": b}}
	c := client(t, k)
	for range 3 {
		for netdev, n := range k.nics {
			got, err := c.Statistics(netdev, all, now())
			if err != nil || !correct(got, n) {
				t.Errorf("%s: %v, %v", netdev, pairs(got), err)
			}
			if c.Instance(netdev) != n.index {
				t.Errorf("%s: interface %d, want %d", netdev, c.Instance(netdev), n.index)
			}
		}
		k.nics["eth0"], k.nics["eth1"] = k.nics["eth1"], k.nics["eth0"]
	}
	if got := c.Instance("eth9"); got != 0 {
		t.Errorf("an interface that was not read has number %d", got)
	}
	a.names = b.names // what is wanted of a name depends on the driver, which is another one now
	for _, n := range []*nic{a, b} {
		k.nics["eth0"] = n
		got, err := c.Statistics("eth0", func(name string) bool { return n == a || name == "rx_packets" }, now())
		if want := map[bool]int{true: 5, false: 1}[n == a]; err != nil || len(got) != want {
			t.Errorf("%d statistics of interface %d, want %d: %v", len(got), n.index, want, err)
		}
	}
}

func FuzzChoose(f *testing.F) {
	f.Add([]byte("rx_packets\x00" + strings.Repeat("\x00", 21) + strings.Repeat("x", 32) + "  a b: \x00"))
	f.Add([]byte(strings.Repeat("same"+strings.Repeat("\x00", 28), 3)))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := slices.Clone(b)
		list := choose(b, func(name string) bool { return name[0] != 'x' })
		if !slices.Equal(b, before) {
			t.Fatal("names were written to")
		}
		seen, last := map[string]bool{}, -1
		for _, s := range list {
			if s.at <= last || (s.at+1)*nameSize > len(b) || s.name == "" || len(s.name) > nameSize || seen[s.name] ||
				strings.ContainsRune(s.name, 0) || strings.TrimSpace(s.name) != s.name || s.name[0] == 'x' ||
				!strings.Contains(string(b[s.at*nameSize:][:nameSize]), s.name) {
				t.Errorf("%+v in %+v of %q", s, list, b)
			}
			seen[s.name], last = true, s.at
		}
	})
}

// A reading of a NIC with 6,000 statistics, of which 120 are wanted.
func BenchmarkStatistics(b *testing.B) {
	n := &nic{index: 1}
	for i := range 6000 {
		n.names = append(n.names, fmt.Sprintf("rx%d_csum_complete_tail_slow", i))
		n.values = append(n.values, uint64(i))
	}
	k := &copier{}
	k.names = make([]byte, nameSize*len(n.names))
	for i, name := range n.names {
		copy(k.names[i*nameSize:], name)
	}
	c := client(b, k)
	wanted := func(name string) bool {
		return strings.HasSuffix(strings.TrimSuffix(name, "_csum_complete_tail_slow"), "50")
	}
	got, err := c.Statistics("eth0", wanted, now())
	if err != nil || len(got) != 60 {
		b.Fatal(len(got), err)
	}
	before := k.calls
	b.ReportAllocs()
	b.ResetTimer()
	turns := 0
	for b.Loop() {
		if _, err := c.Statistics("eth0", wanted, now()); err != nil {
			b.Fatal(err)
		}
		turns++
	}
	b.ReportMetric(float64(k.calls-before)/float64(turns), "syscalls/op")
}

// copier is a kernel that costs as little as it can: it copies what it has.
type copier struct {
	names []byte
	calls int
}

func (k *copier) close()                       {}
func (k *copier) index(string) (uint32, error) { k.calls++; return 1, nil }
func (k *copier) ethtool(_ string, b []byte) error {
	k.calls++
	switch command(binary.NativeEndian.Uint32(b)) {
	case cmdCounts:
		binary.NativeEndian.PutUint32(b[16:], uint32(len(k.names)/nameSize))
	case cmdNames:
		copy(b[namesHeader:], k.names)
	}
	return nil
}

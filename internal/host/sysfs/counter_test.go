// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// The names of pma_attrs_ext, as recorded from a port of a device whose driver has process_mad.
var pmaNames = []string{
	"VL15_dropped", "excessive_buffer_overrun_errors", "link_downed", "link_error_recovery", "local_link_integrity_errors",
	"multicast_rcv_packets", "multicast_xmit_packets", "port_rcv_constraint_errors", "port_rcv_data", "port_rcv_errors",
	"port_rcv_packets", "port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors", "port_xmit_constraint_errors",
	"port_xmit_data", "port_xmit_discards", "port_xmit_packets", "port_xmit_wait", "symbol_error", "unicast_rcv_packets",
	"unicast_xmit_packets",
}

var trafficNames = []string{"port_rcv_data", "port_rcv_packets", "port_xmit_data", "port_xmit_packets", "port_xmit_wait"}

// counters is a directory of counters with the values 100, 101 and so on, in the order of the names.
func counters(directory string, names ...string) tree {
	t := tree{}
	for i, name := range names {
		t[directory+"/"+name] = strconv.Itoa(100+i) + "\n"
	}
	return t
}

// mlx5Counting is the mlx5 shape with counters/ and hw_counters/.
func mlx5Counting() tree {
	return mlx5("mlx5_0", mlx5PCI, "hca0").with(counters("counters", pmaNames...).under(strings.TrimSuffix(mlx5Port, "/")), mlx5HW())
}

// counting opens the device and finds its ports.
func (t tree) counting(tb testing.TB, name string) (*Device, fabric.HCA, string) {
	tb.Helper()
	d, root := t.device(tb, name)
	var h fabric.HCA
	must(tb, d.Identify(&h, false, now))
	return d, h, root
}

func names(list []fabric.Counter) []string {
	var all []string
	for _, c := range list {
		all = append(all, c.Name)
	}
	return all
}

// valueOf returns the fact of a counter in a list that must be known.
func valueOf(t *testing.T, list fabric.Fact[[]fabric.Counter], name string) fabric.Fact[uint64] {
	t.Helper()
	for _, c := range list.Value {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("no counter %q in %+v", name, list.Meta())
	return fabric.Fact[uint64]{}
}

func TestPMA(t *testing.T) {
	d, h, root := mlx5Counting().counting(t, "mlx5_0")
	must(t, d.ReadPMA(&h, true, now))
	first := h.Ports[0].Counters.PMA
	if got := names(first.Value); !slices.Equal(got, pmaNames) {
		t.Errorf("names %q", got)
	}
	for i, c := range first.Value {
		known(t, c.Name, c.Value, uint64(100+i))
		if want := "class/infiniband/mlx5_0/ports/1/counters/" + c.Name; c.Value.Source != want {
			t.Errorf("source %q, want %q", c.Value.Source, want)
		}
	}
	before := slices.Clone(first.Value)

	for _, name := range pmaNames {
		tree{mlx5Port + "counters/" + name: "7\n"}.write(t, root)
	}
	later := now.Add(15 * time.Second)
	must(t, d.ReadPMA(&h, false, later))
	for i, c := range h.Ports[0].Counters.PMA.Value {
		want := fabric.Known(uint64(100+i), c.Value.Source, now)
		if slices.Contains(trafficNames, c.Name) {
			want = fabric.Known(uint64(7), c.Value.Source, later)
		}
		if c.Value != want {
			t.Errorf("%s = %+v, want %+v", c.Name, c.Value, want)
		}
	}
	if !slices.Equal(first.Value, before) {
		t.Error("counters that were handed out were written again")
	}
	must(t, d.ReadPMA(&h, true, later))
	for _, c := range h.Ports[0].Counters.PMA.Value {
		if c.Value != fabric.Known(uint64(7), c.Value.Source, later) {
			t.Errorf("%s = %+v", c.Name, c.Value)
		}
	}
}

func TestPMANotYetRead(t *testing.T) {
	d, h, _ := mlx5Counting().counting(t, "mlx5_0")
	must(t, d.ReadPMA(&h, false, now))
	pma := h.Ports[0].Counters.PMA
	known(t, "fast", valueOf(t, pma, "port_xmit_wait"), 117)
	unknown(t, "slow", valueOf(t, pma, "link_downed"), fabric.ReasonNotRead)
}

func TestNoPMA(t *testing.T) {
	const counters = "devices/virtual/infiniband/rxe0/ports/1/counters/"
	d, h, root := rxe("rxe0", 1).counting(t, "rxe0")
	must(t, d.ReadPMA(&h, true, now))
	absent(t, "PMA", h.Ports[0].Counters.PMA)

	tree{counters + "port_xmit_data": "5\n"}.write(t, root)
	must(t, d.ReadPMA(&h, false, now))
	absent(t, "PMA between slow reads", h.Ports[0].Counters.PMA)
	must(t, d.ReadPMA(&h, true, now))
	known(t, "PMA that came", valueOf(t, h.Ports[0].Counters.PMA, "port_xmit_data"), 5)

	tree{counters + "new_in_linux_9": "6\n"}.write(t, root)
	must(t, os.Remove(filepath.Join(root, counters, "port_xmit_data")))
	opened := len(openFiles(t))
	must(t, d.ReadPMA(&h, true, now))
	if got := len(openFiles(t)); got != opened {
		t.Errorf("%d open files, %d before one counter left and another came", got, opened)
	}
	if got := names(h.Ports[0].Counters.PMA.Value); !slices.Equal(got, []string{"new_in_linux_9"}) {
		t.Errorf("names %q", got)
	}
	must(t, os.RemoveAll(filepath.Join(root, counters)))
	must(t, d.ReadPMA(&h, true, now))
	absent(t, "PMA that left", h.Ports[0].Counters.PMA)

	must(t, os.WriteFile(filepath.Join(root, filepath.Clean(counters)), nil, 0o644))
	must(t, d.ReadPMA(&h, true, now))
	unknown(t, "PMA that is no directory", h.Ports[0].Counters.PMA, fabric.ReasonIO)
}

// TestCountersAreListedUntilTheyAreAllThere: a directory is listed every minute until two lists are alike,
// then every hour, and at once when one of its counters is missing.
func TestCountersAreListedUntilTheyAreAllThere(t *testing.T) {
	const counters = "devices/" + mlx5PCI + "/infiniband/mlx5_0/ports/1/"
	d, h, root := mlx5Counting().counting(t, "mlx5_0")
	p := d.port(1)
	for i, c := range []struct {
		after  time.Duration
		change func()
		listed bool
	}{
		{0, func() {}, true},
		{time.Minute, func() { tree{counters + "counters/a_new": "1\n", counters + "hw_counters/a_new": "1\n"}.write(t, root) }, true},
		{2 * time.Minute, func() {}, true},
		{3 * time.Minute, func() { tree{counters + "counters/b_new": "1\n", counters + "hw_counters/b_new": "1\n"}.write(t, root) }, false},
		{62 * time.Minute, func() {}, true},
		{63 * time.Minute, func() {}, true},
		{64 * time.Minute, func() {}, false},
	} {
		c.change()
		at := now.Add(c.after)
		must(t, errors.Join(d.ReadPMA(&h, true, at), d.ReadHWCounters(&h, at)))
		for what, listed := range map[string]time.Time{"counters": p.pma.listed, "hw_counters": p.hw.listed} {
			if listed.Equal(at) != c.listed {
				t.Errorf("%d. after %s: %s was listed %s after the first reading", i, c.after, what, listed.Sub(now))
			}
		}
	}
	for _, list := range []fabric.Fact[[]fabric.Counter]{h.Ports[0].Counters.PMA, h.Ports[0].Counters.HW} {
		if v := valueOf(t, list, "b_new"); v.Or(0) != 1 {
			t.Errorf("the counter that came is %+v", v)
		}
	}

	missing := &p.hw.files[1]
	missing.close()
	must(t, os.Remove(filepath.Join(root, missing.source)))
	must(t, d.ReadHWCounters(&h, now.Add(65*time.Minute)))
	must(t, d.ReadHWCounters(&h, now.Add(66*time.Minute)))
	if name := missing.name; slices.Contains(names(h.Ports[0].Counters.HW.Value), name) {
		t.Errorf("%s is listed though it left", name)
	}
}

// lies is what a counter may hold or answer that is not its value.
var lies = map[string]struct {
	content string
	want    fabric.Reason
}{
	"no PMA":       {"N/A (no PMA)\n", fabric.ReasonUnsupported},
	"EINVAL":       {"!EINVAL", fabric.ReasonUnsupported},
	"EOPNOTSUPP":   {"!EOPNOTSUPP", fabric.ReasonUnsupported},
	"ENOSYS":       {"!ENOSYS", fabric.ReasonUnsupported},
	"EIO":          {"!EIO", fabric.ReasonIO},
	"EACCES":       {"!EACCES", fabric.ReasonPrivilege},
	"ENXIO":        {"!ENXIO", fabric.ReasonGone},
	"directory":    {"/", fabric.ReasonIO},
	"empty":        {"", fabric.ReasonMalformed},
	"negative":     {"-1\n", fabric.ReasonMalformed},
	"text":         {"N/A\n", fabric.ReasonMalformed},
	"fraction":     {"1.5\n", fabric.ReasonMalformed},
	"hexadecimal":  {"0x10\n", fabric.ReasonMalformed},
	"two values":   {"1 2\n", fabric.ReasonMalformed},
	"2^64":         {"18446744073709551616\n", fabric.ReasonMalformed},
	"many zeros":   {strings.Repeat("0", 21) + "\n", fabric.ReasonMalformed},
	"a whole page": {strings.Repeat("1", pageSize), fabric.ReasonMalformed},
	"overlong":     {strings.Repeat("1", 10*pageSize), fabric.ReasonMalformed},
}

// TestOneBadCounter lets every counter of mlx5 lie in every way and checks that one fact is lost.
func TestOneBadCounter(t *testing.T) {
	_, all, root := mlx5Counting().counting(t, "mlx5_0")
	for lie, c := range lies {
		t.Run(lie, func(t *testing.T) {
			for directory, of := range map[string][]string{"counters": pmaNames, "hw_counters": mlx5Names} {
				for _, bad := range of {
					if bad == "rx_write_requests" && refusing(c.content) {
						continue // TestHWCountersRefused
					}
					p := filepath.Join(root, mlx5Port, directory, bad)
					before, err := os.ReadFile(p)
					must(t, err)
					must(t, os.Remove(p))
					if c.content == "/" {
						must(t, os.Mkdir(p, 0o755))
					} else {
						must(t, os.WriteFile(p, []byte(c.content), 0o644))
					}
					f, err := Open(root)
					must(t, err)
					f.pread = kernfs
					d, err := f.Device("mlx5_0")
					must(t, err)
					h := all
					h.Ports = slices.Clone(all.Ports)
					must(t, d.ReadPMA(&h, true, now))
					must(t, d.ReadHWCounters(&h, now))
					d.Close()
					must(t, f.Close())
					p1 := h.Ports[0].Counters
					got := map[string]fabric.Fact[[]fabric.Counter]{"counters": p1.PMA, "hw_counters": p1.HW}
					if len(p1.PMA.Value) != len(pmaNames) || len(p1.HW.Value) != len(mlx5Names) {
						t.Fatalf("%s: %d and %d counters", bad, len(p1.PMA.Value), len(p1.HW.Value))
					}
					for in, list := range got {
						for _, v := range list.Value {
							if in == directory && v.Name == bad {
								unknown(t, bad, v.Value, c.want)
							} else if v.Value.State != fabric.OK {
								t.Errorf("%s broke %s: %+v", bad, v.Name, v.Value)
							}
						}
					}
					must(t, os.RemoveAll(p))
					must(t, os.WriteFile(p, before, 0o644))
				}
			}
		})
	}
}

func refusing(content string) bool {
	return slices.Contains([]string{"!EINVAL", "!EIO", "!EOPNOTSUPP", "!ENOSYS", noPMA + "\n"}, content)
}

// TestCounterLimits is about values at the edge and names that no kernel has.
func TestCounterLimits(t *testing.T) {
	files := tree{
		"link_downed": "255\n", "port_xmit_data": "18446744073709551615\n", "excessive_buffer_overrun_errors": "15\n", "symbol_error": "0",
		strings.Repeat("n", maxCounterName): "1\n", strings.Repeat("n", maxCounterName+1): "1\n", "a\nb": "1\n", "\xff": "1\n", "lifespan": "12\n",
	}
	d, h, root := rxe("rxe0", 1).with(files.under("devices/virtual/infiniband/rxe0/ports/1/counters")).counting(t, "rxe0")
	must(t, d.ReadPMA(&h, true, now))
	pma := h.Ports[0].Counters.PMA
	want := []string{"excessive_buffer_overrun_errors", "link_downed", strings.Repeat("n", maxCounterName), "port_xmit_data", "symbol_error"}
	if got := names(pma.Value); !slices.Equal(got, want) {
		t.Errorf("names %q", got)
	}
	known(t, "greatest", valueOf(t, pma, "port_xmit_data"), 1<<64-1)
	known(t, "without newline", valueOf(t, pma, "symbol_error"), 0)

	many := tree{}
	for i := range 2 * maxCounters {
		many[fmt.Sprintf("x%03d", i)] = "1\n"
	}
	many.under("devices/virtual/infiniband/rxe0/ports/1/counters").write(t, root)
	must(t, d.ReadPMA(&h, true, now))
	if got := len(h.Ports[0].Counters.PMA.Value); got != maxCounters {
		t.Errorf("%d counters", got)
	}
}

// TestCountersOfRestrictedDevice: nothing below its name is read.
func TestCountersOfRestrictedDevice(t *testing.T) {
	files := mlx5Counting().with(counters("hw_counters", "rx_write_requests").under("devices/" + mlx5PCI + "/infiniband/mlx5_0"))
	d, h, _ := files.counting(t, "mlx5_0")
	must(t, d.ReadHWCounters(&h, now))
	must(t, d.ReadPMA(&h, true, now))
	must(t, d.Identify(&h, true, now))
	before, asked, opened := d.preads, d.Commands(), len(openFiles(t))
	must(t, d.ReadPorts(&h, now))
	must(t, d.ReadPortDetails(&h, now))
	must(t, d.ReadPMA(&h, true, now))
	must(t, d.ReadHWCounters(&h, now))
	must(t, d.ReadCM(&h, now))
	if d.preads != before || len(h.Ports) != 0 || fmt.Sprint(d.Commands()) != fmt.Sprint(asked) {
		t.Errorf("%d preads, ports %+v, commands %v", d.preads-before, h.Ports, d.Commands())
	}
	unknown(t, "hw_counters", h.HWCounters, fabric.ReasonRestricted)
	if got := len(openFiles(t)); got >= opened {
		t.Errorf("%d open files, %d before", got, opened)
	}
}

func TestCountersGone(t *testing.T) {
	base := mlx5Counting()
	for name, again := range map[string]bool{"removed": false, "removed and added again": true} {
		t.Run(name, func(t *testing.T) {
			for what, read := range countings {
				d, h, root := base.counting(t, "mlx5_0")
				must(t, read(d, &h, now))
				must(t, os.Remove(filepath.Join(root, "class/infiniband/mlx5_0")))
				must(t, os.RemoveAll(filepath.Join(root, "devices", mlx5PCI)))
				if again {
					base.write(t, root)
				}
				wantGone(t, what, read(d, &h, now.Add(listEvery)))
				d.Close()
			}
		})
	}
}

// countings are the methods that read counters.
var countings = map[string]func(*Device, *fabric.HCA, time.Time) error{
	"ReadPMA":        func(d *Device, h *fabric.HCA, at time.Time) error { return d.ReadPMA(h, false, at) },
	"ReadPMA all":    func(d *Device, h *fabric.HCA, at time.Time) error { return d.ReadPMA(h, true, at) },
	"ReadHWCounters": (*Device).ReadHWCounters,
	"ReadCM":         func(d *Device, h *fabric.HCA, at time.Time) error { return d.ReadCM(h, at) },
}

// recorder notes which files are read, relative to the root.
type recorder struct {
	root string
	read []string
}

func record(d *Device, root string) *recorder {
	r := &recorder{root: root}
	next := d.pread
	d.pread = func(fd int, p []byte, offset int64) (int, error) {
		r.read = append(r.read, r.name(fd))
		return next(fd, p, offset)
	}
	return r
}

func (r *recorder) name(fd int) string {
	buf := make([]byte, 512)
	n, err := unix.Readlink("/proc/self/fd/"+itoa(fd), buf)
	if err != nil {
		return err.Error()
	}
	return strings.TrimPrefix(string(buf[:n]), r.root+"/")
}

// TestCountersReadOnce: no file is read twice in one call, and which descriptors stay open.
func TestCountersReadOnce(t *testing.T) {
	outside := len(openFiles(t))
	d, h, root := mlx5Counting().with(cm().under(strings.TrimSuffix(mlx5Port, "/"))).counting(t, "mlx5_0")
	r := record(d, root)
	for what, want := range map[string]int{"ReadPMA": 5, "ReadPMA all": 21, "ReadHWCounters": len(mlx5Names), "ReadCM": 44} {
		must(t, countings[what](d, &h, now))                             // lists the directory
		for try := 0; try == 0 || try < 5 && len(r.read) > want; try++ { // a signal may interrupt a read, which is repeated
			r.read = nil
			must(t, countings[what](d, &h, now))
		}
		slices.Sort(r.read)
		if got := len(slices.Compact(slices.Clone(r.read))); got != want || len(r.read) != want {
			t.Errorf("%s: %d reads of %d files, want %d", what, len(r.read), got, want)
		}
	}
	inside := len(openFiles(t))
	for range 100 {
		for _, read := range countings {
			must(t, read(d, &h, now))
		}
	}
	if got := len(openFiles(t)); got != inside {
		t.Errorf("%d open files, %d before", got, inside)
	}
	// The root twice; the directories of the device, the port and its six with counters; all of counters/ and
	// hw_counters/; fw_ver and link_layer.
	if got, most := inside-outside, 2+2+6+21+len(mlx5Names)+2; got > most {
		t.Errorf("%d descriptors, want at most %d", got, most)
	}
	d.Close()
	if got := len(openFiles(t)); got != outside+2 {
		t.Errorf("%d open files after Close, %d before Device", got, outside+2)
	}
}

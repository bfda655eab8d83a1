// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// The names of a ConnectX-7 on Ethernet (basic_q_cnts and the following of drivers/infiniband/hw/mlx5/counters.c).
var mlx5Names = []string{
	"duplicate_request", "implied_nak_seq_err", "local_ack_timeout_err", "np_cnp_sent", "np_ecn_marked_roce_packets",
	"out_of_buffer", "out_of_sequence", "packet_seq_err", "req_cqe_error", "req_cqe_flush_error", "req_remote_access_errors",
	"req_remote_invalid_request", "req_rnr_retries_exceeded", "req_transport_retries_exceeded", "resp_cqe_error",
	"resp_cqe_flush_error", "resp_local_length_error", "resp_remote_access_errors", "rnr_nak_retry_err", "roce_adp_retrans",
	"roce_adp_retrans_to", "roce_slow_restart", "roce_slow_restart_cnps", "roce_slow_restart_trans", "rp_cnp_handled",
	"rp_cnp_ignored", "rx_atomic_requests", "rx_dct_connect", "rx_icrc_encapsulated", "rx_read_requests", "rx_write_requests",
}

// The names of rxe, as recorded from Linux 6.1.
var rxeNames = []string{
	"ack_deferred", "completer_retry_err", "duplicate_request", "link_downed", "out_of_seq_request", "rcvd_pkts",
	"rcvd_rnr_err", "rcvd_seq_err", "rdma_recvs", "rdma_sends", "retry_exceeded_err", "retry_rnr_exceeded_err", "send_err",
	"send_rnr_err", "sent_pkts",
}

const (
	mlx5Device = "devices/" + mlx5PCI + "/infiniband/mlx5_0/"
	rxePort    = "devices/virtual/infiniband/rxe0/ports/1/"
)

func mlx5HW() tree {
	return counters("hw_counters", mlx5Names...).with(tree{"hw_counters/lifespan": "12\n"}).under(strings.TrimSuffix(mlx5Port, "/"))
}

func rxeCounting() tree {
	hw := counters("hw_counters", rxeNames...).with(tree{"hw_counters/lifespan": "12\n"})
	return rxe("rxe0", 1).with(hw.under(strings.TrimSuffix(rxePort, "/")))
}

// hwStats is the kernel's cache behind hw_counters/: update_hw_stats of drivers/infiniband/core/sysfs.c.
type hwStats struct {
	*recorder
	trap     bool // as mlx5_ib_get_hw_stats, answers in full only to the first counter
	lifespan time.Duration
	firmware time.Duration        // how long it takes to answer
	pace     time.Duration        // of the reader, from file to file
	stalls   []string             // files after which the reader does not run for a while
	filled   map[string]time.Time // by directory
	asked    int
}

func simulate(d *Device, root string, trap bool) *hwStats {
	k := &hwStats{recorder: &recorder{root: root}, trap: trap, lifespan: 12 * time.Millisecond, filled: map[string]time.Time{}}
	d.pread = k.pread
	return k
}

func (k *hwStats) pread(fd int, p []byte, offset int64) (int, error) {
	directory, name := filepath.Split(k.name(fd))
	if filepath.Base(directory) == "hw_counters" && name != lifespanName {
		k.read = append(k.read, name)
		if time.Since(k.filled[directory]) > k.lifespan {
			k.asked++
			time.Sleep(k.firmware)
			if !k.trap || name == "rx_write_requests" {
				k.filled[directory] = time.Now()
			}
		}
		time.Sleep(k.pace)
		if slices.Contains(k.stalls, name) {
			time.Sleep(50 * time.Millisecond)
		}
	}
	return kernfs(fd, p, offset)
}

// TestHWCounters reads mlx5 and looks at the order.
func TestHWCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, h, root := mlx5Counting().counting(t, "mlx5_0")
		k := simulate(d, root, true)
		must(t, d.ReadHWCounters(&h, now))
		want := append([]string{"rx_write_requests"}, mlx5Names[:len(mlx5Names)-1]...)
		if !slices.Equal(k.read, want) {
			t.Errorf("read %q", k.read)
		}
		hw := h.Ports[0].Counters.HW
		if got := names(hw.Value); !slices.Equal(got, want) {
			t.Errorf("names %q", got)
		}
		for i, name := range mlx5Names {
			known(t, name, valueOf(t, hw, name), uint64(100+i))
		}
		known(t, "lifespan", h.Ports[0].Counters.Lifespan, 12*time.Millisecond)
		absent(t, "of the device", h.HWCounters)
	})
}

// The list of mlx5, whose first counter is not the first by name, is made once and not with every listing.
func TestHWCountersListedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, h, root := mlx5Counting().counting(t, "mlx5_0")
		k := simulate(d, root, true)
		must(t, d.ReadHWCounters(&h, now))
		first := &d.port(1).hw.files[0]
		k.read = nil
		must(t, d.ReadHWCounters(&h, now.Add(listEvery)))
		if d.port(1).hw.listed != now.Add(listEvery) {
			t.Error("not listed again")
		}
		if &d.port(1).hw.files[0] != first {
			t.Error("made anew")
		}
		if len(k.read) != len(mlx5Names) || k.read[0] != "rx_write_requests" {
			t.Errorf("read %q", k.read)
		}
	})
}

// A driver that never answers within its lifespan is asked for the whole set a few times a round, not for each file.
func TestHWRefillsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, h, root := mlx5Counting().with(tree{mlx5Port + "hw_counters/lifespan": "1\n"}).counting(t, "mlx5_0")
		k := simulate(d, root, true)
		k.lifespan, k.pace = time.Millisecond, 2*time.Millisecond
		must(t, d.ReadHWCounters(&h, now))
		fills := 0
		for _, name := range k.read {
			if name == "rx_write_requests" {
				fills++
			}
		}
		if fills != 1+maxRefills {
			t.Errorf("the file that fills the cache was read %d times, want %d", fills, 1+maxRefills)
		}
	})
}

// TestHWStatsAsked compares how often the driver was asked with what Commands says.
func TestHWStatsAsked(t *testing.T) {
	stall := func(names ...string) func(*hwStats) { return func(k *hwStats) { k.stalls = names } }
	lifespan := func(ms string) tree {
		return tree{mlx5Port + "hw_counters/lifespan": ms + "\n", rxePort + "hw_counters/lifespan": ms + "\n"}
	}
	ofDevice := counters("hw_counters", mlx5Names...).under(strings.TrimSuffix(mlx5Device, "/"))
	for name, c := range map[string]struct {
		change      tree
		set         func(*hwStats)
		mlx5, other int // asked by the kernel
		count       int // where that is more, because one cannot see from outside when the answer came
	}{
		"at once":                {mlx5: 1, other: 1},
		"stalled":                {set: stall("duplicate_request"), mlx5: 2, other: 2},
		"stalled twice":          {set: stall("duplicate_request", "rcvd_pkts", "rx_dct_connect"), mlx5: 3, other: 3},
		"stalled at the end":     {set: stall("rx_read_requests", "sent_pkts"), mlx5: 1, other: 1},
		"slow firmware":          {set: func(k *hwStats) { k.firmware = 15 * time.Millisecond }, mlx5: 1, other: 1, count: 2},
		"long lifespan":          {change: lifespan("10000"), set: func(k *hwStats) { k.lifespan = 10 * time.Second; stall("duplicate_request")(k) }, mlx5: 1, other: 1},
		"within one jiffy":       {change: lifespan("0"), set: func(k *hwStats) { k.lifespan, k.pace = 4*time.Millisecond, 20*time.Microsecond }, mlx5: 1, other: 1},
		"malformed lifespan":     {change: lifespan("soon"), mlx5: 1, other: 1},
		"counters of the device": {change: ofDevice, mlx5: 2, other: 1},
	} {
		for device, shape := range map[string]tree{"mlx5_0": mlx5Counting(), "rxe0": rxeCounting()} {
			want := c.mlx5
			if device == "rxe0" {
				want = c.other
			}
			t.Run(name+"/"+device, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d, h, root := shape.with(c.change).counting(t, device)
					k := simulate(d, root, device == "mlx5_0")
					if c.set != nil {
						c.set(k)
					}
					for i := range 3 {
						k.asked = 0
						must(t, d.ReadHWCounters(&h, now))
						if k.asked != want {
							t.Errorf("the driver was asked %d times, want %d", k.asked, want)
						}
						if got, want := d.Commands()[fabric.CommandHWStats], uint64((i+1)*max(want, c.count)); got != want {
							t.Errorf("counted %d, want %d", got, want)
						}
						time.Sleep(15 * time.Second)
					}
				})
			})
		}
	}
	t.Run("in the order of names", func(t *testing.T) { // what others pay
		synctest.Test(t, func(t *testing.T) {
			d, _, root := mlx5Counting().counting(t, "mlx5_0")
			k := simulate(d, root, true)
			c := d.port(1).hw.dir
			for _, name := range mlx5Names {
				must(t, d.readOnce(c, name).err)
			}
			if k.asked != len(mlx5Names) {
				t.Errorf("the driver was asked %d times", k.asked)
			}
		})
	})
}

func TestHWCountersOfDevice(t *testing.T) {
	hw := counters("hw_counters", "submitted_cmds", "completed_cmds").with(tree{"hw_counters/lifespan": "10\n"})
	d, h, _ := efa("rdmap0s29").with(hw.under("devices/pci0000:00/0000:00:1d.0/infiniband/rdmap0s29")).counting(t, "rdmap0s29")
	must(t, d.ReadHWCounters(&h, now))
	if got := names(h.HWCounters.Value); !slices.Equal(got, []string{"completed_cmds", "submitted_cmds"}) {
		t.Errorf("names %q", got)
	}
	known(t, "submitted_cmds", valueOf(t, h.HWCounters, "submitted_cmds"), 100)
	absent(t, "of the port", h.Ports[0].Counters.HW)
	absent(t, "lifespan of the port", h.Ports[0].Counters.Lifespan)
}

// TestLifespan: it is read at first and each minute, and is in milliseconds.
func TestLifespan(t *testing.T) {
	d, h, root := rxeCounting().counting(t, "rxe0")
	set := func(content string) { tree{rxePort + "hw_counters/lifespan": content}.write(t, root) }
	must(t, d.ReadHWCounters(&h, now))
	known(t, "lifespan", h.Ports[0].Counters.Lifespan, 12*time.Millisecond)
	set("10\n")
	must(t, d.ReadHWCounters(&h, now.Add(listEvery-1)))
	known(t, "lifespan", h.Ports[0].Counters.Lifespan, 12*time.Millisecond)
	at := now
	for content, want := range map[string]fabric.Fact[time.Duration]{
		"10\n":    {Value: 10 * time.Millisecond, State: fabric.OK},
		"0\n":     {State: fabric.OK},
		"10000\n": {Value: 10 * time.Second, State: fabric.OK},
		"-1\n":    {Reason: fabric.ReasonMalformed},
		"99999\n": {Reason: fabric.ReasonMalformed},
		"!EACCES": {Reason: fabric.ReasonPrivilege},
	} {
		set(content)
		at = at.Add(listEvery)
		must(t, d.ReadHWCounters(&h, at))
		got := h.Ports[0].Counters.Lifespan
		if got.Or(0) != want.Value || got.State != want.State || got.Reason != want.Reason || !got.At.Equal(at) {
			t.Errorf("%q: %+v, want %+v", content, got, want)
		}
		if slices.Contains(names(h.Ports[0].Counters.HW.Value), lifespanName) {
			t.Error("lifespan is among the counters")
		}
	}
	must(t, os.Remove(filepath.Join(root, rxePort, "hw_counters/lifespan")))
	must(t, d.ReadHWCounters(&h, at.Add(listEvery)))
	if got := h.Ports[0].Counters.Lifespan; got.State != fabric.Absent {
		t.Errorf("without file: %+v", got)
	}
}

// TestHWCountersRefused: with PPCNT refused, as to the management functions of HGX boards, get_hw_stats of mlx5
// fails whichever file is read.
func TestHWCountersRefused(t *testing.T) {
	for errno, want := range map[string]fabric.Reason{"!EINVAL": fabric.ReasonUnsupported, "!EIO": fabric.ReasonIO, "!EOPNOTSUPP": fabric.ReasonUnsupported} {
		d, h, root := mlx5Counting().counting(t, "mlx5_0")
		r := record(d, root)
		tree{mlx5Port + "hw_counters/rx_write_requests": errno}.write(t, root)
		for _, after := range []time.Duration{0, firstPause - 1} {
			must(t, d.ReadHWCounters(&h, now.Add(after)))
			for _, c := range h.Ports[0].Counters.HW.Value {
				unknown(t, c.Name, c.Value, want)
			}
		}
		files := slices.DeleteFunc(slices.Clone(r.read), func(s string) bool { return filepath.Base(s) == lifespanName })
		if len(files) != 1 || d.Commands()[fabric.CommandHWStats] != 1 {
			t.Errorf("%s: read %q, commands %v", errno, files, d.Commands())
		}
		tree{mlx5Port + "hw_counters/rx_write_requests": "5\n"}.write(t, root)
		must(t, d.ReadHWCounters(&h, now.Add(firstPause)))
		for _, c := range h.Ports[0].Counters.HW.Value {
			if c.Value.State != fabric.OK {
				t.Errorf("after %s, %s: %+v", errno, c.Name, c.Value)
			}
		}
	}
}

// TestHWCountersRefusedMidway: the reader does not run for a while, and then the driver refuses to fill the cache.
func TestHWCountersRefusedMidway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, h, root := mlx5Counting().counting(t, "mlx5_0")
		k := simulate(d, root, true)
		d.pread = func(fd int, p []byte, offset int64) (int, error) {
			n, err := k.pread(fd, p, offset)
			if filepath.Base(k.name(fd)) == "out_of_buffer" {
				tree{mlx5Port + "hw_counters/rx_write_requests": "!EIO"}.write(t, root)
				time.Sleep(time.Second)
			}
			return n, err
		}
		must(t, d.ReadHWCounters(&h, now))
		hw := h.Ports[0].Counters.HW
		last := slices.Index(mlx5Names, "out_of_buffer")
		for i, name := range mlx5Names {
			if i <= last {
				known(t, name, valueOf(t, hw, name), uint64(100+i))
			} else {
				unknown(t, name, valueOf(t, hw, name), fabric.ReasonIO)
			}
		}
		if k.asked != 2 || d.Commands()[fabric.CommandHWStats] != 2 || len(k.read) != 1+last+1+1 {
			t.Errorf("asked %d times, counted %v, read %q", k.asked, d.Commands(), k.read)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// everything reads all that a driver answers.
func everything(t *testing.T, d *Device, h *fabric.HCA, at time.Time) {
	t.Helper()
	must(t, d.ReadPorts(h, at))
	must(t, d.ReadPortDetails(h, at))
	must(t, d.ReadPMA(h, true, at))
	must(t, d.ReadHWCounters(h, at))
}

// answers returns what is known of the attributes that a driver answers, by file.
func answers(h *fabric.HCA) map[string]fabric.Meta {
	p := &h.Ports[0]
	all := map[string]fabric.Meta{
		"state": p.State.Meta(), "phys_state": p.PhysState.Meta(), "rate": p.Rate.Meta(), "lid": p.LID.Meta(), "sm_lid": p.SMLID.Meta(),
	}
	for _, c := range slices.Concat(p.Counters.PMA.Value, p.Counters.HW.Value) {
		all[strings.SplitN(c.Value.Source, "/", 6)[5]] = c.Value.Meta()
	}
	return all
}

func infiniBandCounting() tree {
	return infiniBand("mlx5_0").with(counters("counters", pmaNames...).under(strings.TrimSuffix(mlx5Port, "/")), mlx5HW())
}

// TestBackoff asks every 30 s for 5 h and looks when a driver that refuses is asked.
func TestBackoff(t *testing.T) {
	const minute = time.Minute
	schedule := []time.Duration{0, minute, 3 * minute, 7 * minute, 15 * minute, 31 * minute, 63 * minute, 123 * minute, 183 * minute, 243 * minute}
	for file, answer := range map[string]string{
		"state": "!EIO", "phys_state": "!EINVAL", "rate": "!EINVAL", "lid": "!EOPNOTSUPP", "sm_lid": "!EIO",
		"counters/VL15_dropped": "!EINVAL", "counters/port_xmit_wait": "!EIO", "counters/symbol_error": noPMA,
		"hw_counters/out_of_sequence": "!EOPNOTSUPP", "hw_counters/rx_write_requests": "!EINVAL",
	} {
		t.Run(file, func(t *testing.T) {
			d, h, root := infiniBandCounting().with(tree{mlx5Port + file: answer}).counting(t, "mlx5_0")
			r := record(d, root)
			var asked []time.Duration
			var refused time.Time
			want := fabric.ReasonUnsupported
			if answer == "!EIO" {
				want = fabric.ReasonIO
			}
			for after := time.Duration(0); after <= 300*minute; after += 30 * time.Second {
				r.read = nil
				everything(t, d, &h, now.Add(after))
				if slices.Contains(r.read, mlx5Port+file) {
					asked = append(asked, after)
					refused = now.Add(after)
				}
				if m := answers(&h)[file]; m.State != fabric.Unknown || m.Reason != want || !m.At.Equal(refused) {
					t.Fatalf("after %v: %+v, want unknown: %s since %v", after, m, want, refused)
				}
			}
			if !slices.Equal(asked, schedule) {
				t.Errorf("asked after %v, want %v", asked, schedule)
			}

			// A success ends it, and the next refusal starts anew.
			healthy := infiniBandCounting()[mlx5Port+file]
			at := now.Add(303 * minute)
			tree{mlx5Port + file: healthy}.write(t, root)
			everything(t, d, &h, at)
			if m := answers(&h)[file]; m.State != fabric.OK || !m.At.Equal(at) {
				t.Errorf("healthy again: %+v", m)
			}
			tree{mlx5Port + file: answer}.write(t, root)
			everything(t, d, &h, at)
			tree{mlx5Port + file: healthy}.write(t, root)
			everything(t, d, &h, at.Add(minute-1))
			if m := answers(&h)[file]; m.State != fabric.Unknown {
				t.Errorf("within the first minute: %+v", m)
			}
			everything(t, d, &h, at.Add(minute))
			if m := answers(&h)[file]; m.State != fabric.OK {
				t.Errorf("after the first minute: %+v", m)
			}
		})
	}
}

// TestNoBackoff: errors that are no refusal, and wrong values, do not prevent reads; nor does EINVAL of an empty slot.
func TestNoBackoff(t *testing.T) {
	for _, answer := range []string{"!EACCES", "!ENODEV", "!ENXIO", "garbage", ""} {
		files := []string{"state", "lid", "counters/port_xmit_data", "hw_counters/rx_write_requests"}
		bad, good := tree{}, tree{}
		for _, file := range files {
			bad[mlx5Port+file] = answer
			good[mlx5Port+file] = infiniBandCounting()[mlx5Port+file]
		}
		d, h, root := infiniBandCounting().with(bad).counting(t, "mlx5_0")
		everything(t, d, &h, now)
		for _, file := range files {
			if m := answers(&h)[file]; m.State != fabric.Unknown {
				t.Errorf("%s while %q: %+v", file, answer, m)
			}
		}
		good.write(t, root)
		everything(t, d, &h, now)
		for _, file := range files {
			if m := answers(&h)[file]; m.State != fabric.OK {
				t.Errorf("%s after %q: %+v", file, answer, m)
			}
		}
	}
	d, h, root := infiniBandCounting().counting(t, "mlx5_0")
	must(t, d.ScanGIDs(&h, now))
	tree{mlx5Port + "gids/0": "!EINVAL", mlx5Port + "gid_attrs/ndevs/0": "!EINVAL"}.write(t, root)
	must(t, d.ScanGIDs(&h, now))
	if e := h.Ports[0].GIDs.Entries; e.State != fabric.OK || len(e.Value) != 0 {
		t.Errorf("entries %+v", e)
	}
	tree{mlx5Port + "gids/0": "fe80:0000:0000:0000:b8ce:f603:0012:3456\n"}.write(t, root)
	must(t, d.ScanGIDs(&h, now))
	if got := len(h.Ports[0].GIDs.Entries.Value); got != 1 {
		t.Errorf("%d entries", got)
	}
}

// TestRefusalBetweenOtherErrors: ENXIO neither ends nor lengthens the pauses.
func TestRefusalBetweenOtherErrors(t *testing.T) {
	var b backoff
	at := now
	for i, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
		b.note(unix.EIO, at)
		at = at.Add(want)
		if b.pause != want || b.active(at) || !b.active(at.Add(-1)) {
			t.Errorf("%d: pause %v, want %v", i, b.pause, want)
		}
		b.note(unix.ENXIO, at)
		if b.active(at) {
			t.Errorf("%d: ENXIO started a pause", i)
		}
	}
}

func TestCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the lifespan of hw_counters is 12 ms, which a loaded machine exceeds
		d, h, root := infiniBandCounting().counting(t, "mlx5_0")
		want := fabric.Commands{}
		after := func(what string, more fabric.Commands) {
			t.Helper()
			want.Add(more)
			if got := d.Commands(); !maps.Equal(got, want) {
				t.Errorf("after %s: %v, want %v", what, got, want)
			}
		}
		after("Identify", nil)
		must(t, d.ReadPorts(&h, now))
		after("the first ReadPorts", fabric.Commands{fabric.CommandQueryPort: 3}) // state, phys_state, rate
		must(t, d.ReadPorts(&h, now))
		after("ReadPorts", fabric.Commands{fabric.CommandQueryPort: 2})
		must(t, d.ReadPortDetails(&h, now))
		after("ReadPortDetails", fabric.Commands{fabric.CommandQueryPort: 3}) // rate, lid, sm_lid
		must(t, d.ScanGIDs(&h, now))
		must(t, d.ReadCM(&h, now))
		after("ScanGIDs, ReadCM", nil)
		must(t, d.ReadPMA(&h, true, now))
		after("ReadPMA of all", fabric.Commands{fabric.CommandProcessMAD: 21})
		must(t, d.ReadPMA(&h, false, now))
		after("ReadPMA", fabric.Commands{fabric.CommandProcessMAD: 5})
		must(t, d.ReadHWCounters(&h, now))
		must(t, d.ReadHWCounters(&h, now))
		after("ReadHWCounters twice", fabric.Commands{fabric.CommandHWStats: 2})

		tree{mlx5Port + "state": "!EIO", mlx5Port + "counters/port_rcv_data": "!EINVAL"}.write(t, root)
		for range 3 {
			must(t, d.ReadPorts(&h, now))
			must(t, d.ReadPMA(&h, false, now))
		}
		after("refusals", fabric.Commands{fabric.CommandQueryPort: 3 + 1, fabric.CommandProcessMAD: 3*4 + 1})

		d.Commands()[fabric.CommandQueryPort] = 0
		after("writing into the copy", nil)

		d, h, _ = efa("rdmap0s29").counting(t, "rdmap0s29")
		everything(t, d, &h, now)
		if got := d.Commands(); len(got) != 0 {
			t.Errorf("EFA: %v", got)
		}
	})
}

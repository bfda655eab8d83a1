// SPDX-License-Identifier: Apache-2.0

package job

import (
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// A job that goes on without one of the NICs that it used is found, and one that merely uses fewer is not.
func TestFewerNICs(t *testing.T) {
	const much = 1e9 // bytes per second
	for name, c := range map[string]struct {
		// rate is what a device carries after the first 20 readings, of which each carries much; below 0: its counters
		// cannot be read.
		rate  [3]float64
		opens int  // devices that the rank still has
		from  int  // first reading with data
		other bool // another job has the same devices
		lost  string
	}{
		"one silent":            {rate: [3]float64{0, much, much}, opens: 3, lost: "mlx5_0"},
		"two silent":            {rate: [3]float64{0, 0, 2 * much}, opens: 3, lost: "mlx5_0 mlx5_1"},
		"device gone":           {rate: [3]float64{much, much, -1}, opens: 2, lost: "mlx5_2"},
		"all as before":         {rate: [3]float64{much, much, much}, opens: 3},
		"all silent":            {opens: 3},
		"small collectives":     {rate: [3]float64{0, much / 4, much / 4}, opens: 3},
		"less on one":           {rate: [3]float64{much / 50, much, much}, opens: 3},
		"counters unreadable":   {rate: [3]float64{-1, much, much}, opens: 3},
		"shared":                {rate: [3]float64{0, much, much}, opens: 3, other: true},
		"used for a while only": {rate: [3]float64{0, much, much}, opens: 3, from: 15},
	} {
		var tr Tracker
		total := [3]float64{}
		var found string
		for i := range 40 {
			at := epoch.Add(time.Duration(i) * 10 * time.Second)
			list := []fabric.RankCandidate{rankOf(100, 0, 0)}
			if c.other {
				list = append(list, rankOf(200, 0, 0))
				list[1].Workload.Value.Job = "8"
			}
			devices := []string{"mlx5_0", "mlx5_1", "mlx5_2"}
			if i >= 20 {
				devices = devices[:c.opens]
			}
			n := nodeOf(at, list...)
			for k := range list {
				n.Ranks.Value[k].Files.Value.Uverbs = []string{"uverbs0"}
				n.Ranks.Value[k].Verbs.Value = fabric.VerbsUse{Contexts: 3, QueuePairs: 12, Devices: devices}
			}
			for d, device := range devices {
				rate := float64(much)
				switch {
				case i >= 20:
					rate = c.rate[d]
				case d == 0 && i < c.from:
					rate = 0
				}
				counter := fabric.Counter{Name: "port_xmit_data", Value: fabric.UnknownFact[uint64](fabric.ReasonMissing, "", at)}
				if rate >= 0 {
					total[d] += rate * 10
					counter.Value = fabric.Known(uint64(total[d])/4, "", at)
				}
				n.HCAs = append(n.HCAs, fabric.HCA{Name: device, Driver: fabric.Known("mlx5_core", "", at), Ports: []fabric.Port{{
					Number: 1, Counters: fabric.PortCounters{PMA: fabric.Known([]fabric.Counter{counter}, "", at)},
				}}})
			}
			found = ""
			for _, f := range tr.Update(n).List[0].Findings {
				if f.Rule == RuleFewerNICs {
					found = f.Text
				}
			}
			if i < 20+lostFrom-1 && found != "" {
				t.Errorf("%s: reading %d: %s", name, i, found)
			}
		}
		if (found != "") != (c.lost != "") {
			t.Errorf("%s: %q", name, found)
		}
		for device := range strings.FieldsSeq(c.lost) {
			if !strings.Contains(found, device) {
				t.Errorf("%s: %q does not name %s", name, found, device)
			}
		}
	}
}

// A device that carries data again is no longer missed.
func TestNICIsBack(t *testing.T) {
	var m nics
	both, one := []string{"mlx5_0", "mlx5_1"}, []string{"mlx5_1"}
	rates := traffic{"mlx5_0": 1e9, "mlx5_1": 1e9}
	take := func(times int, devices []string) {
		for range times {
			m.take(&rdmaUse{carried: true, devices: devices}, both, rates, epoch)
		}
	}
	take(usualFrom, both)
	take(lostFrom, one)
	if m.lost() == "" {
		t.Error("not missed")
	}
	if take(1, both); m.lost() != "" {
		t.Error(m.lost())
	}
}

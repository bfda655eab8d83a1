// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"

	"gpufabric_exporter/internal/counters"
)

// Queues of bnxt serve traffic classes: what one counts is a priority's only where the class has no other.
func TestClassesOfPriorities(t *testing.T) {
	ets := func(classes ...int) QoS {
		var q QoS
		copy(q.ETS.Value.PriorityClass[:], classes)
		q.ETS = ok(q.ETS.Value)
		return q
	}
	for _, c := range []struct {
		q    QoS
		want string // priorities
	}{
		{ets(0, 0, 0, 1, 0, 0, 2, 0), "36"}, {ets(), ""}, {ets(0, 1, 2, 3, 4, 5, 6, 7), "01234567"}, {ets(1, 1, 1, 1, 1, 1, 1, 0), "7"}, {QoS{}, ""},
	} {
		for _, name := range []string{"tx_bytes_pri", "rx_bytes_pri", "tx_packets_pri", "rx_packets_pri"} {
			var got []byte
			for _, p := range []byte("01234567") {
				if spec, known := counters.StatSpecOf("bnxt_en", name+string(p)); known && (!spec.OfClass || c.q.OwnClass(spec.Priority)) {
					got = append(got, p)
				}
			}
			if string(got) != c.want {
				t.Errorf("classes %v: %s names priorities %q, want %q", c.q.ETS, name, got, c.want)
			}
		}
	}
	if spec, known := counters.StatSpecOf("bnxt_en", "rx_pfc_ena_frames_pri3"); !known || spec.OfClass {
		t.Error("PFC frames are of a priority, whatever its class")
	}
}

// A set of priorities reads as a person would write it.
func TestPriorityMaskText(t *testing.T) {
	for set, want := range map[PriorityMask]string{0: "no priority", 1 << 3: "priority 3", 1<<0 | 1<<5: "priorities 0 and 5", 1<<0 | 1<<3 | 1<<5: "priorities 0, 3 and 5"} {
		if got := set.Text(); got != want {
			t.Errorf("%08b: %q, want %q", set, got, want)
		}
	}
}

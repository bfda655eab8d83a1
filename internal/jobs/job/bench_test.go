// SPDX-License-Identifier: Apache-2.0

package job

import (
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// BenchmarkUpdate is what a reading of eight ranks with 64 forked children and 40 sockets each costs.
func BenchmarkUpdate(b *testing.B) {
	var list []fabric.RankCandidate
	for pid := range 8 {
		r := rankOf(pid+1, 0, 0)
		for i := range 38 {
			s := r.Sockets.Value[0]
			s.Inode = uint64(1000*pid + i + 100)
			r.Sockets.Value = append(r.Sockets.Value, s)
			r.Files.Value.Sockets = append(r.Files.Value.Sockets, s.Inode)
		}
		r.Settings.Value = []fabric.NCCLVariable{{Name: "NCCL_IB_TIMEOUT", Value: "22", Number: 22, IsNumber: true}}
		list = append(list, r)
		for i := range 8 {
			c := r
			c.PID, c.Parent, c.Start, c.GPUs = 1000*(pid+1)+i, r.PID, r.Start+1000, fabric.AbsentFact[[]string]("nvml", epoch)
			list = append(list, c)
		}
	}
	var t Tracker
	at := epoch
	b.ReportAllocs()
	for b.Loop() {
		at = at.Add(15 * time.Second)
		n := nodeOf(at, list...)
		if jobs := t.Update(n); len(jobs.List) != 1 || len(jobs.List[0].Ranks) != 8 {
			b.Fatalf("%+v", jobs)
		}
	}
}

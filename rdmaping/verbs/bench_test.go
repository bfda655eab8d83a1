// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/verbs/verbstest"
)

// BenchmarkRound is a second of a node with eight rails and eight peers each: it asks 64 peers and itself, and answers
// as many. The stand-in's threads and sockets are part of it.
func BenchmarkRound(b *testing.B) {
	b.Run("by the host", func(b *testing.B) { benchmarkRound(b, "") })
	b.Run("by NICs", func(b *testing.B) { benchmarkRound(b, clocks) })
}

func benchmarkRound(b *testing.B, lines ...string) {
	built.Do(func() { built.path = verbstest.Build(b, built.path) })
	for i := range 16 {
		lines = append(lines, fmt.Sprintf("device rdma%d %s", i, host(i)))
	}
	verbstest.Describe(b, built.path, lines...)
	do := func(s *Server, q rdmaping.Request) (r rdmaping.Reply) {
		raw, _ := json.Marshal(q)
		out, err := s.Handle(b.Context(), raw)
		if err == nil {
			err = json.Unmarshal(out, &r)
		}
		if err != nil {
			b.Fatal(err)
		}
		return r
	}
	servers, ends := [2]*Server{NewServer(), NewServer()}, [16]rdmaping.Endpoint{}
	for i := range ends {
		s := servers[i/8]
		device := fmt.Sprintf("rdma%d", i)
		r := do(s, rdmaping.Request{Open: &rdmaping.Open{Library: built.path, Device: device, Port: 1}})
		if r.Endpoint == nil {
			b.Fatal(r.Failure)
		}
		ends[i] = *r.Endpoint
		rail := s.rails[device]
		rail.mayAsk.perSecond, rail.mayAnswer.exporters.perSecond, rail.ways.perPeer.exporters.perSecond = 1e6, 1e6, 1e6
	}
	defer servers[0].Close()
	defer servers[1].Close()
	round := rdmaping.Round{Gap: time.Millisecond, Timeout: time.Second}
	for i := range 8 {
		round.Asks = append(round.Asks, rdmaping.Ask{Device: ends[i].Device, To: ends[i], Size: rdmaping.Least})
		for k := range 8 {
			round.Asks = append(round.Asks, rdmaping.Ask{Device: ends[i].Device, To: ends[8+k], Size: rdmaping.Least})
		}
	}
	used := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before, lost := used(), 0
	for b.Loop() {
		for _, p := range do(servers[0], rdmaping.Request{Round: &round}).Pongs {
			if p.Lost || p.Failure != nil || p.Timed != ends[0].Timed {
				lost++
			}
		}
	}
	b.ReportMetric(float64((used()-before).Microseconds())/1000/float64(b.N), "cpu-ms/round")
	b.ReportMetric(float64(lost)/float64(b.N), "lost/round")
}

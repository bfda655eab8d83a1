// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"context"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/verdict"
)

// BenchmarkRun is what all checks cost a scrape of a simulated H100 node of 11 devices and 8 GPUs, and what
// each of them does. cpu-ns/op is user time: other than the clock it does not depend on how busy the machine
// is.
func BenchmarkRun(b *testing.B) {
	n := healthy(b)
	state := diagnose.Catalogue()
	b.Run("all", func(b *testing.B) { repeat(b, func() { diagnose.Run(n, state) }) })
	for _, c := range diagnose.Catalogue() {
		one := []*verdict.Check{c}
		b.Run(c.ID, func(b *testing.B) { repeat(b, func() { diagnose.Run(n, one) }) })
	}
	b.Run("DeriveGDR", func(b *testing.B) { repeat(b, n.DeriveGDR) })
}

func repeat(b *testing.B, do func()) {
	b.ReportAllocs()
	begin := userTime(b)
	for b.Loop() {
		do()
	}
	b.ReportMetric(float64((userTime(b)-begin).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

func userTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano())
}

// healthy reads the simulated node through the real readers.
func healthy(b *testing.B) *fabric.Node {
	b.Helper()
	s, err := simulator.Find("healthy")
	if err != nil {
		b.Fatal(err)
	}
	tree, err := s.Build().Materialise(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	ob, err := observer.New(observer.Options{
		Sysfs: tree.Sysfs(), Procfs: tree.Procfs(), Rootfs: tree.Rootfs(), Ethernet: tree.Ethernet(), GPUs: tree.GPUs(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(ob.Close)
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	return ob.Observe(ctx, fabric.WantHCA|fabric.WantGID|fabric.WantNCCL|fabric.WantCounters|fabric.WantQoS|fabric.WantNetStats|fabric.WantPCI|fabric.WantGPU)
}

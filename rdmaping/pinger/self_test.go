// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/rdmaping"
)

// lookAmong is a Pinger of host "n7" with targets of that many nodes.
func lookAmong(tb testing.TB, nodes int, host func() ([]string, error)) *Pinger {
	tb.Helper()
	var list strings.Builder
	for i := range nodes {
		fmt.Fprintf(&list, `,{"targets":["n%d:1"],"labels":{"leaf":"l%d"}}`, i, i/32)
	}
	file := filepath.Join(tb.TempDir(), "targets.json")
	if err := os.WriteFile(file, []byte("["+list.String()[1:]+"]"), 0o600); err != nil {
		tb.Fatal(err)
	}
	config := rdmaping.DefaultConfig()
	config.Files = []string{file}
	return New(Options{
		Config: config, Log: slog.New(slog.DiscardHandler), Host: host,
		Maintenance: func() (string, error) { return "", nil },
		Observe:     func(context.Context) *fabric.Node { return nodeOf("10.0.0.1", "mlx5_0") },
	})
}

// services are the names of a host that has the addresses of services, as kube-ipvs0 has them.
func services(first, many int) []string {
	names := []string{"n7"}
	for i := range many {
		names = append(names, fmt.Sprintf("10.96.%d.%d", (first+i)/250, (first+i)%250))
	}
	return names
}

// TestServices has addresses come and go that are no targets: peers are not chosen anew.
func TestServices(t *testing.T) {
	names := services(0, 8)
	p := lookAmong(t, 16, func() ([]string, error) { return names, nil })
	p.look(t.Context())
	was := p.current().rails
	if len(was) != 1 || was[0].self.Address != "n7:1" || len(was[0].peers) != 8 {
		t.Fatalf("%+v", was)
	}
	for _, names = range [][]string{services(1, 8), services(0, 9), services(0, 0)} {
		if p.look(t.Context()); &p.current().rails[0] != &was[0] {
			t.Errorf("%d names: chosen anew", len(names))
		}
	}
	names = append(services(0, 8), "n8")
	if p.look(t.Context()); &p.current().rails[0] == &was[0] || len(p.current().rails[0].peers) != 8 {
		t.Errorf("another target is this node: not chosen anew")
	}
}

// TestManyAddresses finds this node among 100,000 targets by thousands of addresses that change at each look. To compare
// each target with each address takes many seconds; a set takes tens of milliseconds.
func TestManyAddresses(t *testing.T) {
	const addresses = 5000
	first := 0
	p := lookAmong(t, 100_000, func() ([]string, error) { first++; return services(first, addresses), nil })
	p.look(t.Context())
	begun := time.Now()
	p.look(t.Context())
	if took := time.Since(begun); took > 2*time.Second || p.current().rails[0].self.Address != "n7:1" {
		t.Errorf("took %v, this node is %+v", took, p.current().rails[0].self)
	}
}

// BenchmarkLook is a look at 100,000 targets by a host with 5,000 addresses.
func BenchmarkLook(b *testing.B) {
	one, two := services(0, 5000), services(1, 5000)
	for _, c := range []struct {
		name  string
		other []string
	}{{"as it was", one}, {"another address", two}} {
		b.Run(c.name, func(b *testing.B) {
			now, next := one, c.other
			p := lookAmong(b, 100_000, func() ([]string, error) { now, next = next, now; return now, nil })
			p.look(b.Context())
			for b.Loop() {
				p.look(b.Context())
			}
		})
	}
}

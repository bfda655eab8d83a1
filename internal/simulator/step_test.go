// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"testing"
	"time"
)

func TestSteps(t *testing.T) {
	n := small()
	n.Flaps = []Flap{{"mlx5_4", 60, 20}}
	tree := materialise(t, n)
	for _, step := range []int{40, 61, 0} {
		if err := tree.Step(step); err != nil {
			t.Fatal(err)
		}
		sameAs(t, tree, n.at(step))
	}
	sameAs(t, tree, n)
	if err := tree.Step(-1); err == nil {
		t.Error("step -1: no error")
	}
}

func TestFlap(t *testing.T) {
	f := Flap{Device: "mlx5_4", Period: 60, Down: 20}
	downs := 0
	for step := range 200 {
		if down := step%60 >= 40; f.down(step) != down {
			t.Errorf("step %d: down is %t", step, f.down(step))
		} else if down {
			downs++
		}
		if f.downs(step) != downs {
			t.Errorf("step %d: %d steps down, want %d", step, f.downs(step), downs)
		}
	}
	n := small()
	n.Flaps = []Flap{f}
	tree := materialise(t, n)
	var states []string
	for _, step := range []int{39, 40, 59, 60} {
		if err := tree.Step(step); err != nil {
			t.Fatal(err)
		}
		states = append(states, read(t, tree.Sysfs(), "class/infiniband/mlx5_4/ports/1/state"), read(t, tree.Sysfs(), "class/net/enp154s0np0/speed"))
	}
	if want := []string{"4: ACTIVE", "400000", "1: DOWN", "-1", "1: DOWN", "-1", "4: ACTIVE", "400000"}; !slices.Equal(states, want) {
		t.Errorf("%q, want %q", states, want)
	}
}

func TestLinkOfABond(t *testing.T) {
	n := small()
	n.Flaps = []Flap{{"mlx5_bond_0", 10, 5}}
	for _, name := range []string{"bond0", "enp41s0f0np0", "enp41s0f1np1"} {
		before, at := n.NetDev(name), n.at(17).NetDev(name) // up at 9 of the 17 steps
		if at.Carrier || at.Received.Start-before.Received.Start != 9*before.Received.PerStep {
			t.Errorf("%s: carrier %t, received %d", name, at.Carrier, at.Received.Start)
		}
	}
}

func TestLinkOfAPortWithoutInterface(t *testing.T) {
	n := small()
	n.HCA("mlx5_0").Ports[0].NetDev = ""
	n.Flaps = []Flap{{"mlx5_0", 10, 5}}
	at := n.at(17)
	for i, d := range at.NetDevs {
		if !d.Carrier || d.Received != n.NetDevs[i].Received.at(17) {
			t.Errorf("%s: carrier %t, received %d", d.Name, d.Carrier, d.Received.Start)
		}
	}
}

func TestRun(t *testing.T) {
	tree := materialise(t, small())
	bytes := func() string { return read(t, tree.Sysfs(), "class/net/bond0/statistics/rx_bytes") }
	before := bytes()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error)
	go func() { ended <- tree.Run(ctx, time.Millisecond) }()
	for bytes() == before && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil || bytes() == before {
		t.Errorf("rx_bytes %s: %v", bytes(), err)
	}
	if err := os.RemoveAll(tree.Sysfs()); err != nil {
		t.Fatal(err)
	}
	if err := tree.Run(t.Context(), time.Millisecond); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a tree that is gone: %v", err)
	}
}

func BenchmarkStep(b *testing.B) {
	tree := materialise(b, healthyNode(h100))
	for step := 0; b.Loop(); step++ {
		if err := tree.Step(step); err != nil {
			b.Fatal(err)
		}
	}
}

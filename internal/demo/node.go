// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/simulator"
)

// Options says which node is simulated.
type Options struct {
	Scenario simulator.Scenario
	Folder   string        // where its files are laid
	Break    time.Duration // until the scenario happens to the node; 0: it has from the start
	Mend     time.Duration // from then until the node is healthy again; 0: it stays so
	Log      *slog.Logger
}

// Node is a simulated node of which counters move, which breaks and is repaired, and which is probed where it
// has GPUs. Its counters start from 0: one that is started again looks as if its drivers had been loaded
// again, and no rate has a spike.
type Node struct {
	*simulator.Tree
	Probes *Rehearsal // nil: it has no GPUs

	options Options
}

// NewNode lays the files of a node. Nothing moves before Run. Errors are those of the file system, and that
// of ctx if it ends first.
func NewNode(ctx context.Context, o Options) (*Node, error) {
	node := o.Scenario.Build()
	if o.Break > 0 {
		node = o.Scenario.Healthy()
	}
	tree, err := node.Reload().MaterialiseContext(ctx, o.Folder)
	if err != nil {
		return nil, err
	}
	n := &Node{Tree: tree, options: o}
	if len(node.GPUs) > 0 {
		if n.Probes, err = NewRehearsal(tree.NCCL, o.Scenario.Healthy()); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// Run has the node live until ctx ends.
func (n *Node) Run(ctx context.Context) {
	var life sync.WaitGroup
	defer life.Wait()
	if n.options.Break > 0 {
		life.Go(func() { n.play(ctx) })
	}
	if err := n.Tree.Run(ctx, time.Second); err != nil && ctx.Err() == nil {
		n.options.Log.Warn("the simulated node stands still", "err", err)
	}
}

// play lets the scenario happen to a healthy node, and takes it back.
func (n *Node) play(ctx context.Context) {
	o := &n.options
	for _, act := range []struct {
		after time.Duration
		node  func() *simulator.Node
		says  string
	}{
		{o.Break, o.Scenario.Build, "the simulated node breaks"},
		{o.Mend, o.Scenario.Healthy, "the simulated node is mended"},
	} {
		if act.after == 0 {
			return
		}
		wait := time.NewTimer(act.after)
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
		if err := n.Probes.Change(func() error { return n.Become(act.node().Reload()) }); err != nil {
			o.Log.Error("the simulated node stays as it is", "err", err)
			return
		}
		o.Log.Info(act.says, "scenario", o.Scenario.Name)
	}
}

// Config is the configuration of the node's site.
func (n *Node) Config() (config.Config, error) {
	s := &n.options.Scenario
	c, err := config.Parse("scenario "+s.Name, []byte(s.ConfigOf(n.Tree)))
	if n.Probes != nil && err == nil {
		c.Probes = Config()
	}
	return c, err
}

// Title is what the node is called on its page.
func (n *Node) Title() string { return "simulated node: " + n.options.Scenario.Name }

// Note says on the page that the node is made up, and what to look for.
func (n *Node) Note() string {
	s := &n.options.Scenario
	note := "This node is simulated: " + s.Summary + ". " + s.Truth
	if n.Probes != nil {
		note += fmt.Sprintf(" Its probes are simulated, too, and run every %s instead of every few hours.", Every)
	}
	return note
}

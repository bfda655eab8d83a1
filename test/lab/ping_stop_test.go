// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pingOutlive is how long queue pairs may outlive their exporter: a second that the kernel waits for a neighbour, and what looking takes.
const pingOutlive = 3 * time.Second

var queuePairs = regexp.MustCompile(`n(\d)r\d: .*\bqp (\d+)`)

// end ends all nodes as systemd does, and waits until no device has another queue pair than that of the kernel. A process that waits in
// the kernel for a neighbour ends only then.
func (f *pingFabric) end(t *testing.T) {
	t.Helper()
	type ended struct {
		node  int
		after time.Duration
		err   error
	}
	if all := queuePairs.FindAllString(shellOutput(t, "rdma resource show"), -1); len(all) != 2*pingNodes || strings.HasSuffix(all[0], " 1") {
		t.Errorf("before SIGTERM devices have %s", all)
	}
	all := make(chan ended, pingNodes)
	begin := time.Now()
	for n, cmd := range f.nodes {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		go func() {
			err := cmd.Wait()
			all <- ended{n, time.Since(begin), err}
		}()
	}
	var left [pingNodes]time.Duration // when queue pairs of nodes were last seen
	for more := true; more && time.Since(begin) < 40*time.Second; time.Sleep(200 * time.Millisecond) {
		out, after := shellOutput(t, "rdma resource show"), time.Since(begin)
		more = false
		for _, m := range queuePairs.FindAllStringSubmatch(out, -1) {
			if m[2] != "1" {
				more, left[m[1][0]-'0'] = true, after
			}
		}
	}
	var exporters, outlive []string
	for range f.nodes {
		e := <-all
		if e.err != nil {
			t.Errorf("n%d: %v", e.node, e.err)
		}
		longer := max(0, left[e.node]-e.after)
		if longer > pingOutlive {
			t.Errorf("n%d: its queue pairs outlive it by %s", e.node, longer)
		}
		exporters = append(exporters, fmt.Sprintf("%.1f", e.after.Seconds()))
		outlive = append(outlive, fmt.Sprintf("%.1f", longer.Seconds()))
	}
	t.Logf("nodes end %s s after SIGTERM, their queue pairs %s s later", strings.Join(exporters, ", "), strings.Join(outlive, ", "))
}

// TestPingStops ends eight nodes, also while a leaf is dead, and prints how long their queue pairs outlive them; more often with -test.count.
func TestPingStops(t *testing.T) {
	if !*pinging || *pingOnly != "" || *pingAsk {
		t.Skip("only in a guest of its own (PING=1 of test.sh), with all faults")
	}
	leaf, none := netem("loss 100%", "ua", "sa"), func(*testing.T, *pingFabric) {}
	for _, when := range []struct {
		name          string
		before, after func(*testing.T, *pingFabric) // they start
		mend          func(*testing.T, *pingFabric)
		wait          time.Duration
	}{
		{"while nothing is wrong", none, none, none, 0},
		{"a few seconds after a leaf died", none, leaf.plant, leaf.mend, 4 * time.Second},
		{"while a leaf is dead since they started", leaf.plant, none, leaf.mend, 20 * time.Second},
	} {
		t.Run(when.name, func(t *testing.T) {
			shellOutput(t, "ip neigh flush all")
			when.before(t, nil)
			f := startPingNodes(t)
			f.await(t)
			when.after(t, f)
			shellOutput(t, "ip neigh flush all")
			time.Sleep(when.wait)
			f.end(t)
			when.mend(t, f)
		})
	}
}

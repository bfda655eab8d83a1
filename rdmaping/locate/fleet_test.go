// SPDX-License-Identifier: Apache-2.0

package locate_test

import (
	"cmp"
	"os"
	"slices"
	"testing"
	"time"

	"gpufabric_exporter/rdmaping/locate"
	"gpufabric_exporter/rdmaping/locate/locatetest"
)

// spans are the windows: of what, and the least ratio that is looked at in it.
var spans = []struct {
	step  time.Duration
	steps int
	least float64
}{{10 * time.Second, 1, 0.3}, {30 * time.Second, 1, 0.01}, {10 * time.Minute, 1, 0.002}, {time.Hour, 1, 0.0003}}

// begins is when a fault does, in the middle of a window; that of an hour begins with one.
const begins = 14

// outcome is what was said of a fault.
type outcome struct {
	right     map[string]time.Duration // since the fault began
	wrong     []string
	unlocated int // verdicts of closed windows
}

// run has a fleet ping, and judges the windows of all nodes together.
func run(c locatetest.Clos, f locatetest.Fault, seed uint64, seconds int) outcome {
	o := outcome{right: map[string]time.Duration{}}
	start := time.Unix(0, 0).Add(1000 * time.Hour)
	windows := make([]locate.Windows, len(spans))
	for i, s := range spans {
		windows[i] = locate.Windows{Step: s.step, Steps: s.steps}
	}
	close := func(now time.Time) {
		for i := range windows {
			for _, v := range locate.Judge(windows[i].Close(now), spans[i].least) {
				o.count(locatetest.Words(v), v.Kind, f, now.Sub(start)-begins*time.Second)
			}
		}
	}
	c.Run(f, begins, seconds, seed, func(second int, pairs []locate.Pair) {
		now := start.Add(time.Duration(second) * time.Second)
		for _, p := range pairs {
			for i := range windows {
				windows[i].Add(now, p)
			}
		}
		close(now)
	})
	close(start.Add(time.Duration(seconds+2) * time.Second))
	return o
}

func (o *outcome) count(word string, kind locate.Kind, f locatetest.Fault, after time.Duration) {
	switch {
	case kind == locate.Unlocated, kind == locate.Host && word != "host "+f.Noisy: // of a noisy host by chance
		o.unlocated++
	case !slices.Contains(f.Want, word):
		if !slices.Contains(o.wrong, word) {
			o.wrong = append(o.wrong, word)
		}
	case o.right[word] == 0:
		o.right[word] = after
	}
}

// score is how many of what was named is right, how much of what was planted is named, and the slowest.
type score struct {
	right, wrong, missed int
	slowest              time.Duration
}

func (s *score) add(t *testing.T, c locatetest.Clos, f locatetest.Fault, o outcome) {
	t.Logf("%4d nodes  %-50s %v, wrong %v, unlocated %d", c.Nodes, f.Name, o.right, o.wrong[:min(len(o.wrong), 4)], o.unlocated)
	s.right, s.wrong, s.missed = s.right+len(o.right), s.wrong+len(o.wrong), s.missed+len(f.Want)-len(o.right)
	for _, after := range o.right {
		s.slowest = max(s.slowest, after)
	}
}

// TestFleets plants faults in fleets of leaves and spines, and measures precision, recall and seconds.
func TestFleets(t *testing.T) {
	fleets := []locatetest.Clos{
		{Nodes: 9, PerLeaf: 3, Rails: 1, Spines: 2, Noise: true},
		{Nodes: 16, PerLeaf: 4, Rails: 2, Spines: 4, Noise: true},
		{Nodes: 64, PerLeaf: 8, Rails: 1, Spines: 4, Noise: true},
		{Nodes: 256, PerLeaf: 16, Rails: 1, Spines: 8, Noise: true},
	}
	if testing.Short() {
		fleets = fleets[:2]
	}
	full := os.Getenv("FULL") != ""
	if full {
		fleets = append(fleets, locatetest.Clos{Nodes: 512, PerLeaf: 128, Rails: 1, Spines: 8, Noise: true},
			locatetest.Clos{Nodes: 1024, PerLeaf: 32, Rails: 1, Spines: 16, Noise: true},
			locatetest.Clos{Nodes: 4096, PerLeaf: 32, Rails: 1, Spines: 32, Noise: true}) // minutes
	}
	for _, c := range fleets {
		var s score
		for _, f := range c.Faults() {
			if c.Nodes > 64 && !full && !slices.Contains([]string{"rail dead", "leaf dead"}, f.Name) {
				continue
			}
			if c.Asks(f) {
				s.add(t, c, f, run(c, f, 1, begins+90))
			}
		}
		t.Logf("%4d nodes: precision %.3f, recall %.3f, at most %s", c.Nodes, float64(s.right)/float64(max(1, s.right+s.wrong)),
			float64(s.right)/float64(s.right+s.missed), s.slowest)
		if s.wrong > 0 || s.missed > 0 {
			t.Errorf("%d nodes: %+v", c.Nodes, s)
		}
	}
}

// TestSmallLoss finds small losses within two hours, beside hosts that lose as much.
func TestSmallLoss(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: it takes a minute")
	}
	c := locatetest.Clos{Nodes: 64, PerLeaf: 8, Rails: 1, Spines: 4, Noise: true}
	var s score
	for i, f := range c.SmallFaults() {
		if i > 1 && os.Getenv("FULL") == "" {
			continue
		}
		s.add(t, c, f, run(c, f, 1, 3605))
	}
	if s.wrong > 0 || s.missed > 0 {
		t.Errorf("%+v", s)
	}
}

// TestTwoFaults names both.
func TestTwoFaults(t *testing.T) {
	c := locatetest.Clos{Nodes: 256, PerLeaf: 16, Rails: 2, Spines: 8}
	o := run(c, locatetest.Fault{
		Broken: []locatetest.Broken{{Link: locatetest.OfNode("n100"), Share: 1}, {Link: locatetest.OfLeaf("l0.0"), Share: 0.5}},
		Want:   []string{"node n100", "leaf l0.0"},
	}, 1, begins+40)
	if len(o.right) != 2 || len(o.wrong) > 0 || cmp.Or(o.right["leaf l0.0"]) > 30*time.Second {
		t.Errorf("%+v", o)
	}
}

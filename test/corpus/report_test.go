// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/verdict"
)

// reach is what precision and recall have to be.
const reach = 0.97

// report counts. Its methods may be called by any number of goroutines.
type report struct {
	mu sync.Mutex

	samples, healthy        int
	found, missed, optional int
	right, wrong, followed  int // failed verdicts: they find something, nothing, or say what comes of it
	alerts                  map[string]int
	modes                   map[string]*[2]int // found and missed
	criticals               []string           // on healthy nodes
	misses, falsehoods      []string
	unknown                 map[string]int // verdicts on healthy nodes, by check
}

func newReport() *report {
	return &report{alerts: map[string]int{}, modes: map[string]*[2]int{}, unknown: map[string]int{}}
}

// add compares what failed on a node with its labels.
func (r *report) add(s sample, failed []claim, unknown []verdict.Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples++
	for _, f := range s.labels {
		hit := slices.ContainsFunc(failed, f.shownBy)
		mode := cmp.Or(f.mode, conditions()[f.what].mode)
		if r.modes[mode] == nil {
			r.modes[mode] = &[2]int{}
		}
		switch {
		case hit:
			r.found++
			r.modes[mode][0]++
		case f.optional:
			r.optional++
		case f.leftToAlerts():
			r.alerts[f.what]++
		default:
			r.missed++
			r.modes[mode][1]++
			r.misses = append(r.misses, s.name+": "+f.String())
		}
	}
	for _, v := range failed {
		switch {
		case slices.ContainsFunc(s.labels, func(f finding) bool { return f.shownBy(v) }):
			r.right++
		case slices.ContainsFunc(s.labels, func(f finding) bool { return f.explains(v) }):
			r.followed++
		default:
			r.wrong++
			r.falsehoods = append(r.falsehoods, fmt.Sprintf("%s: %s (%s)", s.name, v, v.evidence))
			if s.healthy() && v.check.Severity == verdict.Critical {
				r.criticals = append(r.criticals, s.name+": "+v.String())
			}
		}
	}
	if s.healthy() {
		r.healthy++
		for _, v := range unknown {
			r.unknown[v.Check.ID]++
		}
	}
}

func ratio(good, bad int) float64 {
	if good+bad == 0 {
		return 1
	}
	return float64(good) / float64(good+bad)
}

func (r *report) precision() float64 { return ratio(r.right, r.wrong) }
func (r *report) recall() float64    { return ratio(r.found, r.missed) }

// String is the report as text.
func (r *report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d nodes, %d of them healthy\n", r.samples, r.healthy)
	fmt.Fprintf(&b, "precision %.4f: %d verdicts are right, %d wrong (%d more say what comes of what is wrong)\n", r.precision(), r.right, r.wrong, r.followed)
	fmt.Fprintf(&b, "recall    %.4f: %d findings are found, %d missed (%d more are hidden by others)\n", r.recall(), r.found, r.missed, r.optional)
	fmt.Fprintf(&b, "%d criticals on healthy nodes\n", len(r.criticals))
	fmt.Fprintln(&b, "left to alert rules, which see more than two readings:", counts(r.alerts))
	fmt.Fprintln(&b, "unknown verdicts on healthy nodes:", counts(r.unknown))
	fmt.Fprintln(&b, "recall by mode of failure:")
	var without []string
	for _, m := range r.modeIDs() {
		if c := r.modes[m]; c != nil && c[0]+c[1] > 0 {
			fmt.Fprintf(&b, "  %-26s %.3f  %4d of %d\n", m, ratio(c[0], c[1]), c[0], c[0]+c[1])
		} else if c == nil {
			without = append(without, m)
		}
	}
	fmt.Fprintln(&b, "modes without a node that shows them here:", strings.Join(without, ", "))
	for _, list := range []struct {
		title string
		lines []string
	}{{"criticals on healthy nodes", r.criticals}, {"misses", r.misses}, {"false findings", r.falsehoods}} {
		fmt.Fprintf(&b, "%s: %d\n", list.title, len(list.lines))
		slices.Sort(list.lines)
		for _, l := range list.lines {
			fmt.Fprintln(&b, "  "+l)
		}
	}
	return b.String()
}

// modeIDs returns the modes that diagnose knows, in its order, then those that only labels have.
func (r *report) modeIDs() []string {
	var all []string
	for _, m := range diagnose.Modes() {
		all = append(all, m.ID)
	}
	for _, m := range slices.Sorted(maps.Keys(r.modes)) {
		if !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return all
}

func counts(by map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, by[name]))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

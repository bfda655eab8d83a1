// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/internal/verdict"
	"gpufabric_exporter/probes"
)

// probeViewOf shows a probe. On a node with rails nothing but the probe of sockets is to go over them.
func probeViewOf(p *status.Probed, now time.Time) probeView {
	v := probeView{
		Name: p.Key.Name(), Ran: quiet("never"), Next: quiet("on demand only"), Skip: quiet("none"),
		Counts: countsOf(p.ProbeStatus), Changes: changesOf(p.ProbeStatus),
	}
	if !p.LastRun.IsZero() {
		v.Ran = cell{Text: age(now.Sub(p.LastRun)) + " ago", Title: stamp(p.LastRun)}
	}
	if !p.NextRun.IsZero() {
		v.Next = cell{Text: "in " + age(p.NextRun.Sub(now)), Note: "every " + shortly(p.Every), Title: stamp(p.NextRun)}
	} else if p.Every > 0 {
		v.Next = cell{Text: "not due", Note: "every " + shortly(p.Every), Class: "unsure", Title: "requirements are missing"}
	}
	if s := p.LastSkip; s != nil {
		v.Skip = cell{Text: verdict.Spaced(string(s.Why)), Note: age(now.Sub(s.At)) + " ago: " + s.Detail}
	}
	for _, why := range slices.Sorted(maps.Keys(p.Skips)) {
		what := times(p.Skips[why])
		if why.Lasting() {
			what += ": " + why.Advice()
		}
		v.Skips = append(v.Skips, namedValue{verdict.Spaced(string(why)), what})
	}
	result, ended := p.Result()
	v.Result = cell{Text: result, Class: classOf(ended, "")}
	if r := p.Last; r != nil {
		if r.Outcome == probes.OK && result != "completed" { // else it is long, and shown with the run
			_, v.Result.Note, _ = status.Ended(r)
		}
		v.Path, v.GPUDirect = show(r.Path.Fact, func(p probes.Path) string { return string(p) }),
			show(r.GPUDirect.Fact, probes.YesNo)
		v.Path.Note = r.Network
		switch {
		case p.TCP:
			v.Path.Class = "bad"
		case r.FellBack():
			v.Path.Class = "unsure"
		}
		switch {
		case p.Far:
			v.GPUDirect.Note = "the GPUs are too far from the NICs, by design"
		case p.NoGPUDirect:
			v.GPUDirect.Class = "bad"
		}
		v.Latency, v.BusBW, v.Ratio = measuredCells(r)
		v.Last = runViewOf("Last run", r)
	}
	for _, r := range slices.Backward(p.Kept) {
		if p.Last == nil || !r.At.Equal(p.Last.At) {
			v.Kept = append(v.Kept, *runViewOf("Kept", &r))
		}
	}
	return v
}

func quiet(text string) cell { return cell{Text: text, Class: "quiet"} }

// countsOf says how often a probe ran, and how that ended.
func countsOf(p *probes.ProbeStatus) string {
	parts := []string{probes.Counted(int(p.Runs), "run")}
	for _, f := range slices.Sorted(maps.Keys(p.Failures)) {
		parts = append(parts, fmt.Sprintf("%d %s", p.Failures[f], verdict.Spaced(string(f))))
	}
	if p.Wrong > 0 {
		parts = append(parts, fmt.Sprintf("%d wrong elements", p.Wrong))
	}
	if p.Judged > 0 {
		parts = append(parts, fmt.Sprintf("%d compared with a baseline (%d slow, %d late)", p.Judged, p.Slow, p.Late))
	}
	return strings.Join(parts, ", ") + "; " + probes.Counted(p.Baselines, "baseline")
}

func times(n uint64) string {
	if n == 1 {
		return "once"
	}
	return strconv.FormatUint(n, 10) + " times"
}

// changesOf is what differs from the last good run, or from those before the last change; nil if there is
// nothing to compare.
func changesOf(p *probes.ProbeStatus) *changesView {
	old, new := changed(p)
	if old == nil {
		return nil
	}
	return &changesView{fmt.Sprintf("Changes between the good run of %s and the run of %s", stamp(old.At),
		stamp(new.At)), probes.Changes(*old, *new)}
}

// changed returns the two results whose comparison with Changes is most useful: a failure and the last good
// run; else the last good run and that before something changed.
func changed(p *probes.ProbeStatus) (old, new *probes.Result) {
	switch {
	case p.Last != nil && p.Last.Outcome == probes.Failed && p.LastGood != nil:
		return p.LastGood, p.Last
	case p.Before != nil && p.LastGood != nil:
		return p.Before, p.LastGood
	}
	return nil, nil
}

// measuredCells are the time of the smallest message, the bus bandwidth of the last one and how that compares.
func measuredCells(r *probes.Result) (latency, busBW, ratio cell) {
	latency, busBW, ratio = quiet("not measured"), quiet("not measured"), quiet("none")
	if n := len(r.Measurements); n > 0 {
		last := r.Measurements[n-1]
		if small := r.SmallMessage(); small != nil {
			latency = cell{Text: small.Time.Microseconds() + " µs", Note: string(small.Op) + " of " +
				probes.SizeText(small.Bytes)}
			if c := r.Comparison.Latency; c != nil && c.Median.Value > 0 {
				latency.Note += fmt.Sprintf(", %.0f %% of its baseline", 100*c.Ratio.Value)
				latency.Title = fmt.Sprintf("%d results, median %s µs", c.Samples, c.Median.Value.Microseconds())
				latency.Class = map[bool]string{true: "unsure"}[c.Late]
			}
		}
		busBW = cell{Text: probes.Bandwidth(last.BusBW), Note: string(last.Op) + " of " + probes.SizeText(last.Bytes)}
	}
	if r.Comparison.Fingerprint == "" {
		return latency, busBW, ratio
	}
	c := r.Comparison
	ratio = show(c.Ratio.Fact, func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) })
	ratio.Note, ratio.Title = fmt.Sprintf("%d results, median %s", c.Samples, probes.Bandwidth(c.Median.Value)),
		c.Fingerprint
	if c.Median.Value == 0 {
		ratio.Note = fmt.Sprintf("%d results so far", c.Samples)
	}
	if c.Regressed {
		ratio.Class = "bad"
	}
	return latency, busBW, ratio
}

func runViewOf(title string, r *probes.Result) *runView {
	text, note, ended := status.Ended(r)
	v := &runView{
		Result: r, Title: title, Stamp: stamp(r.At),
		Ended: cell{Text: text, Note: note, Class: classOf(ended, "")},
	}
	if r.Outcome != probes.OK {
		v.Advice = verdict.Sentence(r.Failure.Advice())
	}
	add := func(name, value string) { v.Facts = append(v.Facts, namedValue{name, value}) }
	add("NCCL, CUDA, GPU driver", strings.Join([]string{
		probes.OrUnknown(r.NCCL), probes.OrUnknown(r.CUDA),
		probes.OrUnknown(r.Driver),
	}, ", "))
	add("Path, network", fmt.Sprintf("%s, %s", probes.Word(r.Path, func(p probes.Path) string { return string(p) }),
		probes.OrUnknown(r.Network)))
	add("GPUDirect RDMA, NVLS, SHARP", strings.Join([]string{
		probes.Word(r.GPUDirect, probes.YesNo),
		probes.Word(r.NVLS, probes.YesNo), probes.Word(r.SHARP, probes.YesNo),
	}, ", "))
	add("Channels", probes.Word(r.Channels, strconv.Itoa))
	add("GPUs", strings.Join(r.GPUs, ", "))
	add("Took", fmt.Sprintf("%s, %s of GPU time; communicator %s, first collective %s", r.Wall.Text(), r.GPUTime.Text(),
		r.Init.Brief(), r.Connect.Brief()))
	if share, ok := r.Expected.Get(); ok {
		add("Share of the hardware limit", fmt.Sprintf("%.0f %%", 100*share))
	}
	if r.Comparison.Fingerprint != "" {
		add("Baseline", r.Comparison.Fingerprint)
	}
	if i := r.Intrusion; i != nil {
		add("Other use of the GPUs", fmt.Sprintf("%s; ranks killed after %s, exited after %s", i.Who, i.Killed.Brief(),
			i.Gone.Brief()))
	}
	if text := r.ReleaseText(); text != "" {
		add("GPUs afterwards", text)
	}
	return v
}

// age is a duration in its usual unit.
func age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return probes.Counted(int(d.Seconds()), "second")
	case d < 2*time.Hour:
		return probes.Counted(int(d.Minutes()), "minute")
	case d < 48*time.Hour:
		return probes.Counted(int(d.Hours()), "hour")
	}
	return probes.Counted(int(d.Hours()/24), "day")
}

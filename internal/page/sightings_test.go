// SPDX-License-Identifier: Apache-2.0

package page

import (
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/internal/verdict"
)

func TestSightings(t *testing.T) {
	begin := time.Date(2026, 11, 22, 16, 0, 0, 0, time.UTC)
	state, rate := diagnose.Find("port_active"), diagnose.Find("roce_pause_sent")
	if state.Rate || !rate.Rate {
		t.Fatal("not what they are taken for")
	}
	about := func(c *verdict.Check, device string, s verdict.Status) verdict.Verdict {
		return verdict.Verdict{Check: c, Subject: verdict.Subject{Device: device, Port: 1}, Status: s}
	}
	bad := func(c *verdict.Check) verdict.Verdict { return about(c, "a", verdict.Failed) }
	good := func(c *verdict.Check) verdict.Verdict { return about(c, "a", verdict.OK) }
	hidden := func(c *verdict.Check) verdict.Verdict { return about(c, "a", verdict.Unknown) }
	type look struct {
		at    time.Duration
		rates bool
		list  []verdict.Verdict
	}
	for _, c := range []struct {
		what  string
		looks []look
		of    *verdict.Check
		want  string // empty: it does not fail
	}{
		{
			"from the first look",
			[]look{{0, true, []verdict.Verdict{bad(state)}}, {time.Minute, true, []verdict.Verdict{bad(state)}}},
			state,
			"at least since 2026-11-22 16:00:00 UTC; before that it was not checked",
		},
		{
			"later",
			[]look{{0, false, []verdict.Verdict{good(state)}}, {time.Minute, false, []verdict.Verdict{bad(state)}}, {time.Hour, true, []verdict.Verdict{bad(state)}}},
			state,
			"since 2026-11-22 16:01:00 UTC",
		},
		{"recovered", []look{{0, true, []verdict.Verdict{bad(state)}}, {time.Minute, true, []verdict.Verdict{good(state)}}}, state, ""},
		{"gone", []look{{0, true, []verdict.Verdict{bad(state)}}, {time.Minute, true, nil}}, state, ""},
		{
			"again",
			[]look{{0, true, []verdict.Verdict{bad(state)}}, {time.Minute, true, []verdict.Verdict{good(state)}}, {time.Hour, true, []verdict.Verdict{bad(state)}}},
			state,
			"since 2026-11-22 17:00:00 UTC",
		},
		{"hidden meanwhile", []look{
			{0, true, []verdict.Verdict{good(state)}},
			{time.Minute, true, []verdict.Verdict{bad(state)}},
			{2 * time.Minute, true, []verdict.Verdict{hidden(state)}},
			{3 * time.Minute, true, []verdict.Verdict{bad(state)}},
		}, state, "since 2026-11-22 16:01:00 UTC"},
		{
			"hidden at first",
			[]look{{0, true, []verdict.Verdict{hidden(state)}}, {time.Minute, true, []verdict.Verdict{bad(state)}}},
			state,
			"at least since 2026-11-22 16:01:00 UTC; before that it was not checked",
		},
		{
			"a scrape that was overtaken",
			[]look{{time.Minute, true, []verdict.Verdict{bad(state)}}, {0, true, []verdict.Verdict{good(state)}}},
			state,
			"at least since 2026-11-22 16:01:00 UTC; before that it was not checked",
		},
		{"traffic, scraped meanwhile", []look{
			{0, true, []verdict.Verdict{good(rate)}},
			{time.Minute, true, []verdict.Verdict{bad(rate)}},
			{2 * time.Minute, false, nil},
			{3 * time.Minute, true, []verdict.Verdict{bad(rate)}},
		}, rate, "since 2026-11-22 16:01:00 UTC"},
		{
			"traffic, not looked at for long",
			[]look{{0, true, []verdict.Verdict{bad(rate)}}, {time.Hour, true, []verdict.Verdict{bad(rate)}}},
			rate,
			"at least since 2026-11-22 17:00:00 UTC; before that it was not checked",
		},
		{"the first of several", []look{
			{0, true, []verdict.Verdict{good(state)}},
			{time.Minute, true, []verdict.Verdict{about(state, "b", verdict.Failed)}},
			{2 * time.Minute, true, []verdict.Verdict{bad(state), about(state, "b", verdict.Failed)}},
		}, state, "since 2026-11-22 16:01:00 UTC"},
	} {
		var s Sightings
		for _, l := range c.looks {
			s.See(l.list, l.rates, begin.Add(l.at))
		}
		at, atLeast, known := s.first([]verdict.Verdict{bad(c.of), about(c.of, "b", verdict.Failed)})
		got := seen(&status.Finding{Since: &at, AtLeast: atLeast})
		if known != (c.want != "") || known && got != c.want {
			t.Errorf("%s: %q, %v; expected %q", c.what, got, known, c.want)
		}
	}
}

// What was judged in one request of the page is known in the next one: a port that fails since then has
// failed since then.
func TestSinceFromRequestToRequest(t *testing.T) {
	n := fabrictest.Healthy()
	seen := new(Sightings)
	text := func() string {
		return landingOf(t, func() *fabric.Node { return n }, func(o *LandingOptions) { o.Seen = seen })
	}
	if strings.Contains(text(), "since 20") {
		t.Fatal("something fails")
	}
	n.At = n.At.Add(time.Minute)
	n.HCAs[0].Ports[0].State = fabric.Known(fabric.PortDown, "state", n.At)
	want := "since " + n.At.UTC().Format("2006-01-02 15:04:05 UTC")
	if page := text(); !strings.Contains(page, want) || strings.Contains(page, "at least "+want) {
		t.Errorf("the page lacks %q, or is not sure of it", want)
	}
}

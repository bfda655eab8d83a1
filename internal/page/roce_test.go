// SPDX-License-Identifier: Apache-2.0

package page

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/status"
)

func TestLandingShowsTheChain(t *testing.T) {
	page := func(edit func(n *fabric.Node)) string {
		n := fabrictest.Lossless()
		edit(n)
		n.Derive()
		return landingOf(t, func() *fabric.Node { return n })
	}
	fine := page(func(n *fabric.Node) { fabrictest.Counted(n, nil) })
	contains(t, fine, "2 ports <span class=\"good\">consistent</span>: traffic class 106 → DSCP 26 → priority 3 · PFC and ECN", `class="verdict good"`,
		"Priority 3 has receive buffer 1 of 156096 bytes.", "In the last 15 s this host dropped 0 packets of the lossless priority 3.", `<li class="ok">DSCP 26 `)
	lacks(t, fine, "reload this page")

	once := page(func(n *fabric.Node) {
		fabrictest.Counted(n, nil)
		n.NetDevs[1].QoS.Before = fabric.Fact[[]fabric.Counter]{}
	})
	contains(t, once, "reload this page</a> after 11 s", `class="verdict unsure"`, "No problems found so far; traffic has not been checked yet</h2>")
	lacks(t, once, `class="verdict good"`, "http-equiv")

	contains(t, page(func(n *fabric.Node) { n.NetDevs[1].QoS.PFC.Value.Enabled = 0 }), `class="bad">broken at PFC<`, "ECN without PFC",
		`<li class="failed">PFC <span role="img" aria-label="broken">✕</span>`, `<strong class="bad">PFC:</strong>`)
	contains(t, page(func(n *fabric.Node) { fabrictest.Counted(n, map[string]uint64{"tx_prio3_pause_duration": 15e6}) }), `class="bad">problem in its traffic: pauses sent<`)
	contains(t, page(func(n *fabric.Node) { n.NCCL.Variables = nil }), "traffic class ? → DSCP ? → priority ?", `class="unsure">unknown at traffic class (jobs choose it)<`)

	evil := page(func(n *fabric.Node) {
		n.NCCL.Variables[0].Value, n.NCCL.Variables[0].Source = "<script>", "<script>"
	})
	lacks(t, evil, "<script")
	contains(t, evil, "NCCL_IB_TC=&lt;script&gt;")
}

// A document for the first reader names the checks that have compared nothing yet: findings that are missing
// are not ok.
func TestStatusNamesWhatIsNotYetJudged(t *testing.T) {
	var rates []string
	for _, c := range diagnose.Catalogue() {
		if c.Rate {
			rates = append(rates, c.ID)
		}
	}
	for name, c := range map[string]struct {
		edit   func(n *fabric.Node)
		checks []string
		after  int
	}{
		"two readings": {func(*fabric.Node) {}, nil, 0},
		"one reading":  {func(n *fabric.Node) { n.NetDevs[1].QoS.Before = fabric.Fact[[]fabric.Counter]{} }, rates, 11},
	} {
		n := fabrictest.Lossless()
		fabrictest.Counted(n, nil)
		c.edit(n)
		n.Derive()
		w := httptest.NewRecorder()
		newLanding(t, func() *fabric.Node { return n }).ServeJSON(w, httptest.NewRequest(http.MethodGet, "/status.json", nil))
		var got struct {
			Checks []string `json:"not_yet_judged"`
			After  int      `json:"retry_after_seconds"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || !slices.Equal(got.Checks, c.checks) || got.After != c.after {
			t.Errorf("%s: %+v, %v, want %q after %d s", name, got, err, c.checks, c.after)
		}
	}
	if len(rates) == 0 {
		t.Error("no check compares readings")
	}
}

// Every step and every mode has its own text.
func TestRoCEStepNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range fabric.RoCESteps() {
		if name := status.StepName(string(s)); seen[name] || strings.Contains(name, "observed") {
			t.Errorf("%s: %q", s, name)
		}
		seen[status.StepName(string(s))] = true
	}
	for _, m := range fabric.RoCEModes() {
		if text := m.Text(); seen[text] {
			t.Errorf("%s: %q", m, text)
		}
		seen[m.Text()] = true
	}
	for policy, want := range map[*fabric.RoCEPolicy]string{
		{}: "", {DSCP: new(26), Priority: new(3), Lossless: new(true), ECN: new(true)}: "DSCP 26, priority 3, lossless (PFC), with ECN",
		{Lossless: new(false), ECN: new(false)}: "lossy by design, without ECN",
	} {
		if got := expectedRoCEText(*policy); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

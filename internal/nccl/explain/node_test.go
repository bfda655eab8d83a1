// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/verdict"
)

// The checks of a node decide among the reasons of its own failures, and never make those of others certain.
func TestWeigh(t *testing.T) {
	status := func(id string, s verdict.Status) []verdict.Verdict {
		return []verdict.Verdict{{Check: &verdict.Check{ID: id}, Status: s, What: "It is so"}}
	}
	acs := "gpu1:41:50 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n" +
		warn("transport/net_ib.cc:7", "NET/IB : Got completion from peer 10.7.0.2<4711> with error 4, opcode 7, len 7, vendor err 81 (Send)")
	memlock := warn("misc/ibvwrap.cc:7", "Call to ibv_reg_mr failed with error Cannot allocate memory")
	for name, tt := range map[string]struct {
		log, host string
		verdicts  []verdict.Verdict
		certainty Certainty
		reason    string
	}{
		"ACS, of this node":         {acs, "gpu1.example", status("pcie_acs", verdict.Failed), Certain, "ACS"},
		"ACS, of another node":      {acs, "gpu2", status("pcie_acs", verdict.Failed), Likely, "ACS"},
		"ACS, of a node unnamed":    {acs, "", status("pcie_acs", verdict.Failed), Certain, "ACS"},
		"no ACS":                    {acs, "gpu1", status("pcie_acs", verdict.OK), Possible, "ACS"},
		"ACS, which is not known":   {acs, "gpu1", status("pcie_acs", verdict.Unknown), Likely, "ACS"},
		"a limit":                   {memlock, "gpu1", status("memlock", verdict.Failed), Certain, "locked memory"},
		"no limit":                  {memlock, "gpu1", status("memlock", verdict.OK), Possible, ""},
		"a check of something else": {acs, "gpu1", status("port_rate", verdict.Failed), Likely, "ACS"},
		"two hosts, one unnamed":    {acs + ranks(2, "gpu1", "gpu2"), "", status("pcie_acs", verdict.Failed), Likely, "ACS"},
	} {
		r := read(t, tt.log)
		r.Weigh(tt.host, tt.verdicts)
		f := r.First()
		if f == nil || f.Reasons[0].Certainty != tt.certainty || !strings.Contains(f.Reasons[0].Cause, tt.reason) {
			t.Errorf("%s: %+v, expected %s %q", name, f.Reasons, tt.certainty, tt.reason)
		}
	}
}

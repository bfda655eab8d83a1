// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strings"

	"gpufabric_exporter/internal/nccl/signature"
	"gpufabric_exporter/internal/verdict"
)

// deciders are the checks of a node that decide a reason, by words of the reason.
var deciders = []struct {
	words  string
	checks []string
}{
	{"(ACS)", []string{"pcie_acs"}},
	{"ACS/IOMMU", []string{"pcie_acs"}},
	{"locked memory", []string{"memlock"}},
	{"nvidia_peermem", []string{"gpudirect_usable", "peermem_bound"}},
	{"GPUDirect RDMA does not work", []string{"gpudirect_usable"}},
	{"GID", []string{"gid_usable"}},
	{"port of a device went down", []string{"port_active"}},
	{"port of the device went down", []string{"port_active"}},
	{"MTUs", []string{"mtu_uniform", "roce_lossless", "roce_pause_sent"}},
	{"fabric manager", []string{"nvlink_fabric"}},
	{"NCCL_IB_HCA", []string{"nccl_devices", "compute_ports"}},
	{"NCCL_SOCKET_IFNAME", []string{"nccl_socket_interface"}},
	{"NCCL_IB_DISABLE", []string{"nccl_rdma_off"}},
}

// Weigh lets the verdicts on a node decide among reasons. host is its name; empty: it is not known. A check that fails
// makes its reason one step surer, and certain only where the log is of this node; one that is right makes it possible
// at most. Findings of other hosts stay as they are.
func (r *Result) Weigh(host string, verdicts []verdict.Verdict) {
	host, _, _ = strings.Cut(host, ".")
	for i := range r.Findings {
		f := &r.Findings[i]
		own := f.Host != "" && f.Host == host || len(r.Hosts) == 1 && (host == "" || r.Hosts[0] == host)
		if !own && (f.Host != "" || len(r.Hosts) > 1) {
			continue
		}
		for j := range f.Reasons {
			f.Reasons[j].weigh(verdicts, own)
		}
		slices.SortStableFunc(f.Reasons, bySurety)
		if f.Reasons[0].Certainty == Certain && f.Signature != &signature.WrongResults {
			f.Reasons = f.Reasons[:1]
		}
	}
}

// weigh is Weigh for one reason.
func (s *Stated) weigh(verdicts []verdict.Verdict, own bool) {
	right, unknown := 0, 0
	for _, d := range deciders {
		if !strings.Contains(s.Cause, d.words) {
			continue
		}
		for i := range verdicts {
			v := &verdicts[i]
			if !slices.Contains(d.checks, v.Check.ID) {
				continue
			}
			switch v.Status {
			case verdict.Failed:
				s.Evidence = "check " + v.Check.ID + " fails: " + v.What + "."
				switch {
				case s.Certainty == Likely && own:
					s.Certainty = Certain
				case s.Certainty == Possible:
					s.Certainty = Likely
				}
				return
			case verdict.OK:
				right++
			case verdict.Unknown:
				unknown++
			}
		}
	}
	if right > 0 && unknown == 0 && s.Certainty != Certain {
		s.Certainty, s.Evidence = Possible, "the checks that would show it are right."
	}
}

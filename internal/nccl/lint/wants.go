// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/lazyregexp"
	"gpufabric_exporter/internal/verdict"
)

// want is a setting that software around NCCL, or another setting, asks for: such a line stays.
type want struct {
	by     string // software of traces, or NAME=value of the job
	name   string
	values string // words between |; *: any
	judged bool   // another value is mentioned
}

// wants are what the guides of these plugins have (GoogleCloudPlatform/container-engine-accelerators, Google's
// guide of RDMA machines, aws-ofi-nccl), and what belongs together by NCCL's source.
var wants = []want{
	{ofTCPX, "NCCL_ALGO", "Ring|Ring,Tree", true},
	{ofTCPX, "NCCL_PROTO", "Simple", true},
	{ofTCPX, "NCCL_CROSS_NIC", "0", true},
	{ofTCPX, "NCCL_NET_GDR_LEVEL", "PIX", true},
	{ofTCPX, "NCCL_P2P_PXN_LEVEL", "0", true},
	{ofTCPX, "NCCL_BUFFSIZE", "4194304", false},
	{ofTCPX, "NCCL_MIN_NCHANNELS", "*", false},
	{ofTCPX, "NCCL_MAX_NCHANNELS", "*", false},
	{ofTCPX, "NCCL_SOCKET_NTHREADS", "1", false},
	{ofTCPXO, "NCCL_ALGO", "Ring,Tree", false},
	{ofTCPXO, "NCCL_PROTO", "Simple|Simple,LL128", true},
	{ofTCPXO, "NCCL_CROSS_NIC", "0", true},
	{ofTCPXO, "NCCL_NET_GDR_LEVEL", "PIX", true},
	{ofTCPXO, "NCCL_BUFFSIZE", "8388608", true},
	{ofTCPXO, "NCCL_MIN_NCHANNELS", "*", false},
	{ofTCPXO, "NCCL_TUNER_PLUGIN", "libnccl-tuner.so", false},
	{ofGIB, "NCCL_CROSS_NIC", "0", true},
	{ofGIB, "NCCL_NET_GDR_LEVEL", "PIX", true},
	{ofGIB, "NCCL_IB_ADAPTIVE_ROUTING", "1", true},
	{ofGIB, "NCCL_IB_QPS_PER_CONNECTION", "4", true},
	{ofGIB, "NCCL_IB_TC", "52", true},
	{ofGIB, "NCCL_IB_FIFO_TC", "84", true},
	{ofGIB, "NCCL_IB_GID_INDEX", "3", false},
	{ofEFA, "NCCL_PROTO", "Simple", false}, // aws-ofi-nccl before 1.6
	{"NCCL_IB_SUBNET_AWARE_ROUTING=1", "NCCL_CROSS_NIC", "1", false},
	{"NCCL_IB_SUBNET_AWARE_ROUTING=1", "NCCL_IB_MERGE_NICS", "0", false},
}

// wanted keeps what software asks for, and mentions other values.
func (j job) wanted(in *Input, lines []Line) {
	for _, w := range wants {
		i, set := j[w.name]
		name, value, isSetting := strings.Cut(w.by, "=")
		asks := isSetting && j.value(*in, name) == value || slices.Contains(in.traces, w.by)
		if !set || !asks {
			continue
		}
		same := func(v string) bool { return v == "*" || strings.EqualFold(v, in.settings[i].Value) }
		first, _, _ := strings.Cut(w.values, "|")
		switch {
		case slices.ContainsFunc(strings.Split(w.values, "|"), same):
			replace(&lines[i], Finding{Verdict: Works})
		case w.judged:
			replace(&lines[i], Finding{
				NotRecommended, verdict.Info, fmt.Sprintf("The guide of %s has %s=%s", w.by, w.name, first), w.name + "=" + first,
			})
		}
	}
	j.checkedByTCPXO(in, lines)
}

// tcpxoProfile is what GPUDirect-TCPXO of some releases compares the settings of a job with. It ends the job
// where they differ (guest config checker).
type tcpxoProfile struct {
	from, to int    // v1.0.from to v1.0.to
	file     string // what the name of the checker's file ends in where the job chooses the profile
	settings []string
}

const newestTCPXO = 1 << 10

var tcpxoProfiles = []tcpxoProfile{
	{0, 8, "_simple", []string{"NCCL_PROTO=Simple", "NCCL_ALGO=Ring,Tree", "NCCL_NVLS_ENABLE=0"}},
	{9, 11, "_ll128", []string{"NCCL_PROTO=Simple,LL128", "NCCL_ALGO=Ring,Tree", "NCCL_NVLS_ENABLE=0"}},
	{12, newestTCPXO, "_nvlstree", []string{"NCCL_PROTO=Simple,LL128", "NCCL_NVLSTREE_MAX_CHUNKSIZE=131072"}},
}

var tcpxoImage = lazyregexp.New(`nccl-plugin-gpudirecttcpx-dev:v1\.0\.(\d{1,2})\b`)

// tcpxoRelease is the number in v1.0.number of the plugin's image in a text; below 0: it is not there.
func tcpxoRelease(text []byte) int {
	m := tcpxoImage().FindSubmatch(text)
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n
}

func (p tcpxoProfile) String() string {
	releases := fmt.Sprintf("v1.0.%d to v1.0.%d", p.from, p.to)
	switch {
	case p.from == 0:
		releases = fmt.Sprintf("up to v1.0.%d", p.to)
	case p.to == newestTCPXO:
		releases = fmt.Sprintf("from v1.0.%d on", p.from)
	}
	return releases + " with " + strings.Join(p.settings, ", ")
}

// checkedByTCPXO compares settings with the profiles of GPUDirect-TCPXO.
func (j job) checkedByTCPXO(in *Input, lines []Line) {
	i, set := j["NCCL_PROTO"]
	if !set || !slices.Contains(in.traces, ofTCPXO) || in.sourcesTCPXO {
		return
	}
	file := strings.TrimSuffix(j.value(*in, "NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE"), ".textproto")
	var all []string
	for _, p := range tcpxoProfiles {
		known := in.tcpxo >= 0
		if known && (in.tcpxo < p.from || in.tcpxo > p.to) && !strings.HasSuffix(file, p.file) {
			continue
		}
		if !slices.ContainsFunc(p.settings, func(s string) bool {
			name, value, _ := strings.Cut(s, "=")
			return !strings.EqualFold(j.value(*in, name), value)
		}) {
			return
		}
		all = append(all, p.String())
	}
	f := Finding{
		Undecided, verdict.Info, "GPUDirect-TCPXO compares settings, and ends the job where they differ: " +
			strings.Join(all, "; ") + ". Which release the job has is not known",
		"source nccl-env-profile.sh, which comes with the plugin",
	}
	if in.tcpxo >= 0 {
		f.Verdict, f.Severity = WrongHere, verdict.Warning
		f.Reason = "GPUDirect-TCPXO compares settings, and ends the job where they differ: " + strings.Join(all, "; ")
	}
	replace(&lines[i], f)
}

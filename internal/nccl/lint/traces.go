// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"maps"
	"slices"

	"gpufabric_exporter/internal/lazyregexp"
)

// Software around NCCL that is known by its traces.
const (
	ofEFA       = "EFA"
	ofLibfabric = "libfabric"
	ofTCPX      = "GPUDirect-TCPX"
	ofTCPXO     = "GPUDirect-TCPXO"
	ofGIB       = "gIB"
	ofRCCL      = "RCCL"
)

// traces are texts in an input that show which software the job uses: names of variables, images, files and
// resources. Where none of them is, nothing is known.
var traces = map[string][]string{
	ofEFA:   {"FI_EFA_", "aws-ofi-nccl", "libnccl-net-ofi", "/amazon/efa", "amazonaws.com/efa"},
	ofTCPXO: {"NCCL_FASTRAK_", "tcpxo", "TCPXO", "gpudirecttcpx-dev"},
	ofTCPX:  {"NCCL_GPUDIRECTTCPX_", "/gpudirect-tcpx/", "nccl-plugin-gpudirecttcpx:"},
	ofGIB:   {"gIB", "/gib/", "nccl-plugin-gib"},
	ofRCCL: {
		"RCCL_", "HSA_", "MIOPEN_", "HIP_FORCE_", "librccl", "ROCm", "rocm/", "/opt/rocm", "/dev/kfd", "amd.com/gpu",
	},
}

// provider is how a text chooses a network of libfabric.
var provider = lazyregexp.New(`FI_PROVIDER\W{1,16}(?:value\W{1,8})?(efa|cxi|verbs|psm\d?|opx)\b`)

// trace notes which software an input shows.
func (in *Input) trace(data []byte) {
	if !bytes.Contains(data, []byte("NCCL_")) {
		return
	}
	for _, software := range slices.Sorted(maps.Keys(traces)) {
		if slices.ContainsFunc(traces[software], func(text string) bool { return bytes.Contains(data, []byte(text)) }) {
			in.traces = append(in.traces, software)
		}
	}
	if chosen := provider().FindSubmatch(data); chosen != nil {
		network := ofLibfabric
		if string(chosen[1]) == "efa" {
			network = ofEFA
		}
		in.traces = append(in.traces, network)
	}
	in.tcpxo, in.sourcesTCPXO = tcpxoRelease(data), bytes.Contains(data, []byte("nccl-env-profile"))
}

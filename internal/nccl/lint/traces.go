// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"regexp"

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
var traces = []struct {
	software string
	text     func() *regexp.Regexp
}{
	{ofEFA, lazyregexp.New(`\bFI_EFA_|\bFI_PROVIDER\W+(?:value\W+)?efa\b|\baws-ofi-nccl|libnccl-net-ofi|/amazon/efa\b|amazonaws\.com/efa\b`)},
	{ofLibfabric, lazyregexp.New(`\bFI_PROVIDER\W+(?:value\W+)?(?:cxi|verbs|psm\d?|opx)\b`)},
	{ofTCPXO, lazyregexp.New(`(?i)\bNCCL_FASTRAK_|tcpxo\b|gpudirecttcpx-dev\b`)},
	{ofTCPX, lazyregexp.New(`\bNCCL_GPUDIRECTTCPX_|gpudirect-tcpx\b|nccl-plugin-gpudirecttcpx:`)},
	{ofGIB, lazyregexp.New(`\bNCCL_NET\W+(?:value\W+)?gIB\b|/gib/|nccl-plugin-gib\b`)},
	{ofRCCL, lazyregexp.New(`\b(?:RCCL|HSA|MIOPEN)_[A-Z]|\bHIP_FORCE_|\blibrccl|\bROCm\b|\brocm/|/opt/rocm|/dev/kfd\b|\bamd\.com/gpu\b`)},
}

// trace notes which software an input shows.
func (in *Input) trace(data []byte) {
	if !bytes.Contains(data, []byte("NCCL_")) {
		return
	}
	for _, t := range traces {
		if t.text().Match(data) {
			in.traces = append(in.traces, t.software)
		}
	}
	in.tcpxo, in.sourcesTCPXO = tcpxoRelease(data, tcpxoImage()), tcpxoSources().Match(data)
}

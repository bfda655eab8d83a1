// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"strings"
	"testing"
)

// NCCL fails with a network that neither it nor a plugin has; real names of plugins are right, and a name
// that is not known here is never called wrong.
func TestNetworkNames(t *testing.T) {
	const (
		wrong   = "misread (warning): No network has the name "
		unknown = "undecided (info): NCCL itself has the networks IB and Socket. Whether a plugin has "
	)
	for value, want := range map[string]string{
		"IB": "works", "ib": "works", "AWS Libfabric": "works", "aws libfabric": "works", "Libfabric": "works", "FasTrak": "works", "gIB": "works", "GPUDirectTCPX_v7": "works",
		"IBext": "works", "IBext_v8": "works", "UCX": "works", "SHARP": "works", "FastSocket": "works",
		"ib0": wrong + "ib0", "ibp24s0": wrong, "mlx5_0": wrong, "eth0": wrong, "enp24s0np0": wrong, "RoCE": wrong, "tcp": wrong, "EFA": wrong, "ofi": wrong, "$(HOME)": wrong, "IBverbs": wrong,
		"rocep24s0": wrong, "rdmap79s0": wrong, "Sockets1": wrong, "libnccl-net.so": wrong,
		"Spectrum-X": unknown + "Spectrum-X", "RCCL-ANP": unknown, "IBfast": unknown,
		"": "refused (critical): NCCL looks for a network without a name",
	} {
		in, err := Environment("environment", []string{"NCCL_NET=" + value})
		if err != nil {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(describe(Judge([]Input{in}, Newest(), nil)), ": ")
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, expected %q", value, got, want)
		}
	}
	if got := lintText(t, "env: [{name: NCCL_NET, value: $(NET)}]", FormatManifest, "2.30.7"); !strings.HasPrefix(got, "1 NCCL_NET=$(NET): undecided (info): The value is known only when") {
		t.Errorf("a variable of the container: %s", got)
	}
	in, err := Environment("environment", []string{"NCCL_NET=Other", "NCCL_NET_PLUGIN=other"})
	if err != nil {
		t.Fatal(err)
	}
	if text := describe(Judge([]Input{in}, Newest(), nil)); strings.Contains(text, "undecided") || strings.Contains(text, "misread") {
		t.Errorf("with a plugin of its own: %s", text)
	}
}

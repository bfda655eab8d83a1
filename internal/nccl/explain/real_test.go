// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strings"
	"testing"
)

// Lines of NCCL 2.29.7 itself (TestLogs in test/nccl), shortened: a healthy job of one host without libibverbs.
const oneHost = `vm:78:78 [0] NCCL INFO NCCL version 2.29.7+cuda12.4
vm:78:78 [0] NCCL INFO Failed to open libibverbs.so[.1]
vm:78:78 [0] NCCL INFO transport/net_ib/init.cc:396 -> 3
vm:78:78 [0] NCCL INFO Initialized NET plugin Socket
[2026-11-28 18:38:51] vm:78:78 [0] misc/ibvwrap.cc:173 NCCL WARN lib wrapper not initialized.
vm:78:78 [0] NCCL INFO transport/net_ib/gdr.cc:56 -> 3
vm:78:78 [0] NCCL INFO Failed to initialize any GIN plugin
vm:78:78 [0] NCCL INFO Using network Socket
vm:78:78 [0] NCCL INFO ncclCommInitRank comm 0x7fb9 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 41000 commId 0x7b0f - Init START
vm:78:78 [0] NCCL INFO comm 0x7fb9 rank 0 nRanks 1 nNodes 1 localRanks 1 localRank 0 MNNVL 0
vm:78:78 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct
vm:78:78 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 1
vm:78:78 [0] NCCL INFO ncclCommInitRank comm 0x7fb9 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 41000 commId 0x7b0f - Init COMPLETE
`

func TestRealLogs(t *testing.T) {
	for name, c := range map[string]struct {
		add       string // to that log
		want      string // the first failure, or why it is not decided; empty: all is well
		signature string // that is found, too
	}{
		"healthy without libibverbs": {"", "", "ib_library_missing"},
		"Soft-RoCE":                  {"[2026-11-28 18:38:51] vm:78:78 [0] transport/net_ib/init.cc:67 NCCL WARN Could not find real path of rxe0 (/sys/class/infiniband/rxe0/device)\n", "", "ib_no_pci_path"},
		"no PCI device":              {"[2026-11-28 18:38:51] vm:78:78 [0] os/linux.cc:637 NCCL WARN Could not find real path of /sys/class/pci_bus/0000:41/../../0000:41:00.0\n", "sysfs_missing", ""},
		"TCP within the host":        {"vm:78:78 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0\n", "transport_tcp", ""},
		"TCP, and a rank died": {
			"vm:78:78 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0\n[2026-11-28 18:38:51] vm:78:78 [0] misc/socket.cc:35 NCCL WARN socketProgress: Connection closed by remote peer \n",
			"peer_closed", "transport_tcp",
		},
		"a program": {"train: ncclAllReduce: unhandled system error (run with NCCL_DEBUG=INFO for details)\n", "nccl_error", ""},
		"no path": {
			"[2026-11-28 18:38:51] vm:78:78 [0] graph/topo.cc:2048 NCCL WARN Could not find any local path from gpu 0 to net.\n", "gpu_without_net", "",
		},
		"token": {"[2026-11-28 18:38:51] vm:78:78 [0] graph/tuning.cc:109 NCCL WARN Unrecognized element token \"Rong\" when parsing \"Rong\"\n", "setting_unrecognized", ""},
		"a connection that failed": {
			"vm:78:79 [0] NCCL INFO transport/net_ib/p2p.cc:854 -> 6\nvm:78:79 [0] NCCL INFO transport/net.cc:1359 -> 6\n",
			"a call of NCCL failed, and no line says why: transport/net_ib/p2p.cc:854 -> 6", "",
		},
	} {
		r, err := Read(strings.NewReader(oneHost + c.add))
		if err != nil {
			t.Fatal(err)
		}
		got := r.Undecided()
		if f := r.First(); f != nil {
			got = f.Signature.ID
			if f.Signature.Source == "PyTorch" {
				t.Errorf("%s: it is called PyTorch", name)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
		if c.signature != "" && !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Signature.ID == c.signature }) {
			t.Errorf("%s: no %s in %+v", name, c.signature, r.Findings)
		}
		if f := r.First(); f != nil && strings.Contains(f.Text, "between hosts") {
			t.Errorf("%s: %s, and there is one host", name, f.Text)
		}
		ids := map[string]bool{}
		for _, f := range r.Findings {
			if ids[f.Signature.ID] {
				t.Errorf("%s: %s is found twice", name, f.Signature.ID)
			}
			ids[f.Signature.ID] = true
		}
		if _, known := r.RingsGPUDirect(); known {
			t.Errorf("%s: it says whether GPUDirect RDMA is used, and nothing goes over a network", name)
		}
	}
}

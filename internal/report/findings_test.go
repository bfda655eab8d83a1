// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/explain"
	"gpufabric_exporter/probes"
)

// A fault and what follows from it are one issue, whose remedy is the first step, as on the page and in the
// output of check.
func TestConsequencesAreNoIssues(t *testing.T) {
	for scenario, want := range map[string][]string{
		"rate-mismatch":    {"1 issue found, and 1 more follows (1 critical, 1 warning)", "First step: Kernels report a rate"},
		"nvlink-down":      {"1 issue found, and 1 more follows (1 critical, 1 warning)"},
		"gid-index-pinned": {"1 issue found, and 1 more follows (1 critical, 1 info)"},
		"pcie-acs-on":      {"1 issue found, and 1 more follows (1 critical, 1 warning)", "slow (acs)"},
	} {
		t.Run(scenario, func(t *testing.T) {
			page := markdownOf(t, Collect(input(t, scenario)).Document(nil))
			for _, w := range want {
				if !strings.Contains(page, w) {
					t.Errorf("want %q in:\n%s", w, page)
				}
			}
			if strings.Contains(page, "no check explains it") {
				t.Error("the report has a probe that nothing explains")
			}
		})
	}
}

// A report reads no traffic, and does not pass it as good.
func TestTrafficIsOpen(t *testing.T) {
	for _, scenario := range []string{"healthy", "pfc-storm"} {
		if page := markdownOf(t, Collect(input(t, scenario)).Document(nil)); !strings.Contains(page, "Traffic was not checked") {
			t.Errorf("%s: the report does not say that traffic was not checked", scenario)
		}
	}
}

// NVLinks that are not connected carry nothing: GPUs of this node reach each other over PCIe.
func TestUnusedNVLinksAreNoTransport(t *testing.T) {
	f := Collect(input(t, "healthy-sriov-vf"))
	for i := range f.Results {
		if r := &f.Results[i]; r.Kind == string(probes.Node) && r.Link != "PCIe" {
			t.Errorf("the probe within the node went over %q", r.Link)
		}
	}
}

// Devices of one card at two PCIe links have one port, whose rate is not counted twice.
func TestSharedPortIsOne(t *testing.T) {
	in := input(t, "healthy")
	n := *in.Node
	n.HCAs = slices.Clone(n.HCAs[:2])
	for i := range n.HCAs {
		n.HCAs[i].ImageGUID = n.HCAs[0].ImageGUID
	}
	in.Node = &n
	in.judged()
	page := markdownOf(t, Collect(in).Document(nil))
	if want := "2 RDMA ports for training (RoCE), all active at 400 Gb/s through 1 physical port."; !strings.Contains(page, want) {
		t.Errorf("want %q in:\n%s", want, page)
	}
}

// GPUs of AMD are there, and NCCL, its probes and NVLink are not for them.
func TestGPUsOfAMD(t *testing.T) {
	in := input(t, "healthy-cpu-node")
	n := *in.Node
	n.PCI.Functions = slices.Clone(n.PCI.Functions)
	for i := range 8 {
		n.PCI.Functions = append(n.PCI.Functions, fabric.PCIFunction{
			Address: fmt.Sprintf("0000:%02x:00.0", 0x10+i), Kind: fabric.PCIGPU, Vendor: fabric.Known(0x1002, "vendor", n.At), Device: fabric.Known(0x74a1, "device", n.At),
			Class: fabric.Known(0x120000, "class", n.At), Driver: fabric.Known("amdgpu", "driver", n.At),
		})
	}
	slices.SortFunc(n.PCI.Functions, func(a, b fabric.PCIFunction) int { return strings.Compare(a.Address, b.Address) })
	n.Derive()
	in.Node = &n
	in.judged()
	page := markdownOf(t, Collect(in).Document(nil))
	for _, want := range []string{"8 GPUs and", "| `GPU7` | unknown: a GPU of another vendor than NVIDIA |", "NCCL does not run on this node: the GPUs are of another vendor than NVIDIA.", "no probe runs here: the GPUs are of another vendor than NVIDIA", "the rules of NCCL are known for GPUs of NVIDIA only"} {
		if !strings.Contains(page, want) {
			t.Errorf("want %q in:\n%s", want, page)
		}
	}
	for _, wrong := range []string{"No GPU", "no GPU", "no visible GPU", "measure it", "the driver refuses"} {
		if strings.Contains(page, wrong) {
			t.Errorf("%q in:\n%s", wrong, page)
		}
	}
}

// What was learned has what a fault costs and what to watch, and does not call good what was not measured.
func TestLearned(t *testing.T) {
	for scenario, want := range map[string]string{
		"rate-degraded":    "1 probe is slower than the baseline. The slowest, `rail mlx5_6 port 1`, measured 2",
		"pcie-acs-on":      "8 probes are slower than the baseline.",
		"port-down":        "To watch after the repair: `GpuFabricPortDown`.",
		"healthy-cpu-node": "Nothing was measured: whether the node is as fast",
		"healthy-ib":       "InfiniBand: the median of 8 ports reached 9",
		"healthy":          "No difference between what was expected, what the node shows and what was measured.",
	} {
		_, learned, _ := strings.Cut(markdownOf(t, Collect(input(t, scenario)).Document(nil)), "## What was learned")
		if !strings.Contains(learned, want) {
			t.Errorf("%s: lacks %q: %.800s", scenario, want, learned)
		}
	}
}

// A probe that goes over TCP, and is therefore slow, is one issue.
func TestTCPIsOneIssue(t *testing.T) {
	f := Collect(input(t, "probe-tcp-fallback"))
	if len(f.Findings) != 1 || f.Findings[0].ID != "probe_socket" {
		t.Errorf("findings: %+v", f.Findings)
	}
}

// TCP is critical where a source states that the node has ports for training, as the alerts have it.
func TestTCPWhereTrainingIsAGuess(t *testing.T) {
	for guess, want := range map[bool]string{false: "critical", true: "warning"} {
		in := input(t, "probe-tcp-fallback")
		if guess {
			n := in.Node.Copy()
			n.NCCL, n.Policy = fabric.NCCLConfig{}, &fabric.Policy{}
			n.Derive()
			in.Node = n
		}
		at := slices.IndexFunc(Collect(in).Findings, func(f Finding) bool { return f.ID == "probe_socket" && f.Severity == want })
		if at < 0 {
			t.Errorf("guess %t: not %s: %+v", guess, want, Collect(in).Findings)
		}
	}
}

// A job that used TCP, or had GPUDirect RDMA disabled, is at odds with a node that has both. Where the log of
// one rank does not show what the job used, the report is no all-clear. Nodes without either have nothing to
// repair.
func TestLogAgainstNode(t *testing.T) {
	const (
		sockets = "gpu1:41:50 [0] NCCL INFO NET/IB : No device found.\ngpu1:41:50 [0] NCCL INFO Using network Socket\n"
		off     = "gpu1:41:50 [0] NCCL INFO Using network IB\ngpu1:41:50 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
		rank    = "gpu1:41:50 [0] NCCL INFO comm 0x55d0 rank 0 nranks 16 cudaDev 0 busId 1b000 commId 0x7d - Init COMPLETE\n"
		nodes   = "gpu1:41:50 [0] NCCL INFO comm 0x55d0 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0\n"
		alone   = "gpu1:41:50 [0] NCCL INFO comm 0x55d0 rank 0 nRanks 16 nNodes 1 localRanks 16 localRank 0 MNNVL 0\n"
		apart   = "NCCL reported it in the log of the job as disabled for mlx5_0"
		clear   = "No issue was found: "
	)
	for name, tt := range map[string]struct {
		scenario, log string
		want, without []string
	}{
		"sockets, one rank":           {"healthy", sockets + rank, []string{"this is no all-clear", "the network Socket", "| Network | Socket |", "| Devices | NCCL found no RDMA device |"}, []string{"No difference", clear}},
		"sockets, two hosts":          {"healthy", sockets + nodes + rank, []string{"1 issue found (1 critical)", "shows transport_tcp (critical)", "This node has 8 RDMA ports for training", "The job of the log used TCP"}, []string{"No difference", "Could not be judged"}},
		"sockets, two hosts of EFA":   {"healthy-efa", sockets + nodes + rank, []string{"shows transport_tcp (critical)", "This node has 32 RDMA ports for training"}, nil},
		"sockets, no RDMA":            {"", sockets + nodes + rank, []string{"shows transport_tcp (info)"}, nil},
		"sockets, one host":           {"healthy", sockets + alone + rank, []string{clear, "No difference", "NCCL found no RDMA device"}, nil},
		"disabled, one rank":          {"healthy", off + rank, []string{"this is no all-clear", apart, "| Devices | GPUDirect RDMA disabled for mlx5_0 |"}, []string{"No difference", clear}},
		"disabled, two hosts":         {"healthy", off + nodes + rank, []string{"1 issue found (1 warning)", apart}, []string{"No difference", "Could not be judged"}},
		"disabled, one host":          {"healthy", off + alone + rank, []string{clear, "No difference"}, []string{apart}},
		"disabled, as the node shows": {"peermem-missing", off + nodes + rank, nil, []string{apart}},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(t, cmp.Or(tt.scenario, "healthy"))
			if tt.scenario == "" {
				in.Node.HCAs = nil
			}
			r, err := explain.Read(strings.NewReader(tt.log))
			if err != nil {
				t.Fatal(err)
			}
			in.Log, in.LogFile = r, "job.log"
			page := markdownOf(t, Collect(in).Document(nil))
			for _, w := range tt.want {
				if !strings.Contains(page, w) {
					t.Errorf("want %q in:\n%s", w, page)
				}
			}
			for _, w := range tt.without {
				if strings.Contains(page, w) {
					t.Errorf("%q is in:\n%s", w, page)
				}
			}
		})
	}
}

// The report shows of a log what explain shows first: what, where, how sure, what to do. A log is not trusted, so that
// nothing in it is certain.
func TestLogAsExplained(t *testing.T) {
	const (
		failed = "gpu7:41:50 [0] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-Abc to 33030532 bytes, error: No space left on device (28)\n" +
			"gpu7:41:50 [0] NCCL INFO transport.cc:183 -> 2\n"
		begun = "gpu7:41:50 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 3 nranks 8 cudaDev 0 nvmlDev 0 busId 7000 commId 0x77 - Init START\n"
	)
	for log, want := range map[string][]string{
		begun + failed: {"shows shared_memory (critical)", "line 2, host gpu7, rank 3", "likely, as the log has it: ", "/dev/shm"},
		begun:          {"the set-up of a communicator did not end on all ranks; possible: setup_stalls, "},
	} {
		in := input(t, "healthy")
		r, err := explain.Read(strings.NewReader(log))
		if err != nil {
			t.Fatal(err)
		}
		in.Log, in.LogFile = r, "job.log"
		page := markdownOf(t, Collect(in).Document(nil))
		for _, w := range want {
			if !strings.Contains(page, w) {
				t.Errorf("want %q in:\n%s", w, page)
			}
		}
		if strings.Contains(page, "certain, as the log") {
			t.Errorf("a log decides for certain:\n%s", page)
		}
	}
}

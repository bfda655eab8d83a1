// SPDX-License-Identifier: Apache-2.0

package log

import "testing"

// TestParseEntry has the prefix of each release (src/debug.cc), with and without the words of launchers.
func TestParseEntry(t *testing.T) {
	for line, want := range map[string]Entry{
		"gpu1:41:50 [0] NCCL INFO Using network IB":                                                           {"gpu1", 41, 50, Info, "", "Using network IB"},
		"gpu1:41:50 NCCL INFO Using network IB":                                                               {"gpu1", 41, 50, Info, "", "Using network IB"},
		"gpu1:41:50 [0] misc/ibvwrap.cc:190 NCCL WARN x":                                                      {"gpu1", 41, 50, Warn, "misc/ibvwrap.cc:190", "x"},
		"[2026-01-02 03:04:05] gpu1:41:50 [0] transport/net_ib.cc:7 NCCL WARN x":                              {"gpu1", 41, 50, Warn, "transport/net_ib.cc:7", "x"},
		"[2026-01-02 03:04:05] gpu1:41:50 [0] init.cc:7 (ncclFoo(int, char const*)) NCCL WARN x":              {"gpu1", 41, 50, Warn, "init.cc:7", "x"},
		"2026-01-02T03:04:05.600000000Z stdout F gpu1:41:50 [0] NCCL INFO x":                                  {"gpu1", 41, 50, Info, "", "x"},
		"12: (Worker pid=7, ip=10.0.0.5) gpu1:41:50 [0] NCCL INFO x":                                          {"gpu1", 41, 50, Info, "", "x"},
		"NCCL version 2.27.3+cuda12.9":                                                                        {"", Unknown, Unknown, Version, "", "2.27.3+cuda12.9"},
		"a line without a host NCCL WARN x":                                                                   {"", Unknown, Unknown, Warn, "", "x"},
		"RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1331, unhandled system error, NCCL version 2.18.3": {},
		"NCCL NCCL NCCL": {},
		"(head, rank=0, pid=7) [gpu1:3]:gpu1:41:50 [3] NCCL INFO x":               {"gpu1", 41, 50, Info, "", "x"},
		"\x1b[36m(W pid=7)\x1b[0m gpu1:41:50 [3] NCCL INFO x":                     {"gpu1", 41, 50, Info, "", "x"},
		"gpu1:41:50 [0] NCCL INFO x - Init COMPLETE [repeated 8x across cluster]": {"gpu1", 41, 50, Info, "", "x - Init COMPLETE"},
		"gpu1:41:50 [1] create_send_comm:5390 NCCL WARN NET/OFI x":                {"gpu1", 41, 50, Warn, "create_send_comm:5390", "NET/OFI x"},
	} {
		got, found := parseEntry(line)
		if found != (want.Level != "") || found && got != want {
			t.Errorf("%q: %+v, %v, expected %+v", line, got, found, want)
		}
	}
}

// TestParseInit has the wording of each release (src/init.cc).
func TestParseInit(t *testing.T) {
	for message, want := range map[string]Init{
		"comm 0x55d0 rank 0 nranks 2 cudaDev 0 busId 1b000 - Init COMPLETE":                                                              {"", 0, 2, true},
		"comm 0x55d0 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x7d - Init START":                                           {"0x7d", 1, 2, false},
		"ncclCommSplit comm 0x55d0 rank 3 nranks 4 cudaDev 0 nvmlDev 0 busId 1b000 parent 0x1 color 1 key 3 commId 0x7d - Init COMPLETE": {"0x7d", 3, 4, true},
		"[Rank 5] ncclCommInitRankConfig comm 0x55d0 rank 5 nranks 8 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x7d - Init START":           {"0x7d", 5, 8, false},
	} {
		if got, ok := ParseInit(message); !ok || got != want {
			t.Errorf("%q: %+v, %v, expected %+v", message, got, ok, want)
		}
	}
	for _, message := range []string{"comm 0x1 rank 2 nranks 2 - Init COMPLETE", "rank 0 nranks 99999999999 Init START", "Init COMPLETE", "Using network IB"} {
		if got, ok := ParseInit(message); ok {
			t.Errorf("%q is taken for %+v", message, got)
		}
	}
}

// TestParseTimings has the wordings of 2.22 and later (src/init.cc).
func TestParseTimings(t *testing.T) {
	for message, want := range map[string]Timings{
		"Init timings - ncclCommInitRank: rank 3 nranks 4 total 1.50 (kernels 0.20, alloc 0.10, bootstrap 0.90, allgathers 0.05, topo 0.20, graphs 0.00, connections 0.05, rest 0.00)": {3, 1.5, "bootstrap", 0.9},
		"Init timings: rank 0 nranks 2 total 2.00 (kernels 1.20, bootstrap 0.30, allgathers 0.05, topo 0.20, graphs 0.05, connections 0.10, rest 0.10)":                                {0, 2, "kernels", 1.2},
	} {
		if got, ok := parseTimings(message); !ok || got != want {
			t.Errorf("%q: %+v, %v, expected %+v", message, got, ok, want)
		}
	}
	for _, message := range []string{"Init timings: rank 0 total NaN", "Init timings: rank 0 total 1e300", "Init timings: total 1.0", "x"} {
		if got, ok := parseTimings(message); ok {
			t.Errorf("%q is taken for %+v", message, got)
		}
	}
}

// TestFile has the forms in which NCCL, RCCL and plugins name the source.
func TestFile(t *testing.T) {
	for place, want := range map[string]string{
		"transport/nvls.cc:244": "transport/nvls.cc", "/build/rccl/src/init.cpp:120": "init.cc", "create_send_comm:5390": "", "": "",
		"ib_plugin.c:1007": "ib_plugin.c", "nccl_ofi_net.cpp:7": "nccl_ofi_net.cpp",
	} {
		if got := (&Entry{Place: place}).File(); got != want {
			t.Errorf("%q is of %q, expected %q", place, got, want)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"
)

// What no row has is judged by what it is about, and by whether the program went on.
func TestWordsOfPrograms(t *testing.T) {
	const step = "epoch 7: loss 0.77\n"
	for name, tt := range map[string]struct {
		log       string
		first     string // empty: no failure
		certainty Certainty
		reason    string
		undecided string // a word of why; empty: the log is fine or failed
	}{
		"an error of CUDA":             {"E0708 14:02:11.381220  77 Transport.cc:77] Cuda failure 777 'words of a driver to come'\n", "program_error", Likely, "CUDA or HIP", ""},
		"an error of a library":        {"2026-01-02 03:04:05 ERROR engine: allreduce of layer 7 returned ncclSomethingNew\n", "program_error", Likely, "call of NCCL", ""},
		"an error of the system":       {"[worker] ERROR: open of /dev/zzz7: Permission denied\n", "program_error", Likely, "may not do this", ""},
		"of another process":           {"ERROR: peer 7 lost: heartbeat missing\n", "program_error", Likely, "Another process", ""},
		"of a C++ program":             {"terminate called after throwing an instance of 'x'\n", "program_error", Possible, "program itself", ""},
		"an error, and it goes on":     {"ERROR: words to come\n" + step + step, "", Possible, "program itself", "went on"},
		"words of an error alone":      {"could not set affinity of 7\n", "", Possible, "program itself", "went on"},
		"words, and it goes on":        {"could not set affinity of 7\n" + step, "", "", "", ""},
		"a warning, and it goes on":    {"UserWarning: zzz is deprecated\n" + step, "", "", "", ""},
		"a warning, and nothing":       {"UserWarning: zzz is deprecated\n", "", "", "", "no line is of NCCL"},
		"an information":               {"2026-01-02 03:04:05 INFO x: 0 errors\n", "", "", "", "no line is of NCCL"},
		"a value":                      {"Traceback (most recent call last):\n  File \"x.py\", line 7, in f\nKeyError: 'zzz'\n", "program_exception", Likely, "configuration, data or code", ""},
		"a file":                       {"Traceback (most recent call last):\n  File \"x.py\", line 7, in f\nFileNotFoundError: /zzz7\n", "program_exception", Likely, "not there", ""},
		"a package":                    {"Traceback (most recent call last):\n  File \"x.py\", line 7, in f\nModuleNotFoundError: No module named 'zzz'\n", "program_exception", Likely, "package is missing", ""},
		"after a set-up":               {complete + "ERROR: words to come\n", "program_error", Possible, "program itself", ""},
		"after a set-up, goes on":      {complete + "could not set affinity of 7\n" + step, "", "", "", ""},
		"an engine that sets NCCL up":  {"INFO 08-20 11:22:33 [pynccl.py:7] vLLM is using nccl==2.27.7\n", "", Possible, "between hosts", "where the engine sets it up"},
		"an engine that goes on":       {"INFO 08-20 11:22:33 [pynccl.py:7] vLLM is using nccl==2.27.7\nINFO 08-20 11:22:40 Loading weights took 7 s\n", "", "", "", "no line is of NCCL"},
		"a result of nccl-tests alone": {"# nThread 1 nGpus 2\n#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n  77 7 float sum -1 7.7 7.7 7.7 0 7.7 7.7 7.7 0\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 7.7\n", "", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := read(t, tt.log)
			first, f := "", r.First()
			if f != nil {
				first = f.Signature.ID
			} else {
				f = r.Open()
			}
			reason := Stated{}
			if f != nil {
				reason = f.Reasons[0]
			}
			why := r.Undecided()
			if first != "" {
				why = ""
			}
			if first != tt.first || reason.Certainty != tt.certainty || !strings.Contains(reason.Cause, tt.reason) ||
				(why == "") != (tt.undecided == "") || !strings.Contains(why, tt.undecided) {
				t.Errorf("%s %s: %q, %q; expected %s %s: %q, %q", first, reason.Certainty, reason.Cause, why, tt.first, tt.certainty, tt.reason, tt.undecided)
			}
		})
	}
}

// A call that returns an error is named where no warning says why, by the file of the source.
func TestCallsWithoutWarnings(t *testing.T) {
	for name, tt := range map[string]struct{ call, id, reason string }{
		"bootstrap": {"bootstrap.cc:777 -> 3", "bootstrap_failed", "Another rank failed"},
		"NVLS":      {"transport/nvls.cc:777 -> 1", "nvls_call_failed", "NVLS does not work"},
		"topology":  {"graph/xml.cc:777 -> 3", "topology_failed", "PCI topology"},
		"RCCL":      {"/x/build/hipify/src/transport/p2p.cc:777 -> 1", "gpu_sharing_failed", "share memory"},
		"windows":   {"dev_runtime.cc:777 (ncclZzz) -> 5", "registration_failed", "registration"},
	} {
		r := read(t, says(tt.call)+says("group.cc:7 -> 3"))
		f := r.Open()
		if r.Failed() || f == nil || f.Signature.ID != tt.id || !strings.Contains(f.Reasons[0].Cause, tt.reason) || f.Host != "gpu1" {
			t.Errorf("%s: failed %v, %+v", name, r.Failed(), f)
		}
		if r = read(t, says(tt.call)+complete); r.Failed() || r.Open() != nil {
			t.Errorf("%s: %+v, though the set-up ended after it", name, r.Open())
		}
	}
}

// A set-up that does not end is named with the ranks that are missing and how far it came.
func TestSetupsThatStall(t *testing.T) {
	start := func(rank, of int, host string) string {
		return strings.Replace(strings.Replace(ranks(of, host), "COMPLETE", "START", 1), "rank 0", "rank "+string(rune('0'+rank)), 1)
	}
	for name, tt := range map[string]struct {
		log, reason string
		certainty   Certainty
	}{
		"ranks that did not begin": {start(0, 4, "gpu1") + start(1, 4, "gpu1"), "Not all ranks began", Likely},
		"P2P":                      {start(0, 2, "gpu1") + start(1, 2, "gpu1") + says("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC"), "P2P", Likely},
		"the network":              {start(0, 2, "gpu1") + start(1, 2, "gpu2") + says("Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA"), "between hosts", Likely},
	} {
		f := read(t, tt.log).Open()
		if f == nil || f.Signature.ID != "setup_stalls" || f.Reasons[0].Certainty != tt.certainty || !strings.Contains(f.Reasons[0].Cause, tt.reason) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// A NIC that failed makes the job slow; one that came back is a note, and one that is given up is a cause.
func TestFailover(t *testing.T) {
	const failing = "gpu1:41:77 [0] transport/net_ib/p2p_resiliency.cc:500 NCCL WARN NET/IB: Device 1 marked as failed. Initiating recovery? Yes (send comm=0x1, outstandingRecovery=1)\n"
	back := says("NET/IB: ncclIbPortRecovery: Port recovery succeeded for devIndex 1")
	gone := says("NET/IB: ncclIbPortRecovery: Marking device 1 as permanently failed (send comm=0x1)")
	for name, tt := range map[string]struct {
		log, first string
		slow       bool
	}{
		"failed":   {complete + failing, "nic_failing", true},
		"back":     {complete + failing + back, "", false},
		"given up": {complete + failing + back + gone, "nic_failed", false},
	} {
		r := read(t, tt.log)
		first := ""
		if f := r.First(); f != nil {
			first = f.Signature.ID
		}
		if first != tt.first || r.Slow() != tt.slow {
			t.Errorf("%s: %q, slow %v; expected %q, %v", name, first, r.Slow(), tt.first, tt.slow)
		}
	}
}

// A set-up with P2P of which RCCL says that the IOMMU translates is not fine as long as nothing comes after it.
func TestSilenceAfterSetup(t *testing.T) {
	log := "gpu1:41:41 [0] init.cc:90 NCCL WARN Missing \"iommu=pt\" from kernel command line which can lead to system instablity or hang!\n" +
		says("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC") + complete
	if r := read(t, log); r.Undecided() == "" || r.Open() == nil || r.Open().Signature.ID != "first_collective_stalls" || r.Failed() {
		t.Errorf("%q, %+v", r.Undecided(), r.Open())
	}
	if r := read(t, log+"step 7 loss 0.7\n"); r.Undecided() != "" || r.Failed() {
		t.Errorf("%q, though the program goes on", r.Undecided())
	}
}

// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"
)

// Values of a line decide among the reasons of its row, and what the log does not show is not said to be certain.
func TestValuesDecide(t *testing.T) {
	bind := func(port, why string) string {
		return "[W socket.cpp:7] [c10d] The server socket has failed to bind to [::]:" + port + " (errno: " + why + ").\n" +
			"[E socket.cpp:7] [c10d] The server socket has failed to listen on any local network address.\n"
	}
	const taken = "RuntimeError: Address already in use\n"
	agent := func(port string) string {
		return "  rdzv_endpoint    : gpu7:7077\n    dist.init_process_group(\"nccl\", init_method=\"tcp://gpu7:" + port + "\", rank=0)\n" + taken
	}
	load := func(why string) string {
		return says("NET/Plugin : dlerror="+why) + says("Using network Socket") + ranks(2, "gpu1", "gpu2")
	}
	cxi := func(name string) string {
		return says("NET/OFI Selected Provider is "+name+" (found 7 nics)") + warn("nccl_ofi_net.c:7", "NET/OFI Couldn't open a fabric access domain. RC: -61, ERROR: No data available")
	}
	retry := func(layer string) string {
		return says("NET/IB : Using [0]mlx7_0:1/"+layer+" ; OOB eth7:10.7.0.1<0>") + warn("net_ib.cc:7", "NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129")
	}
	named := func(host, pid, address string) string {
		return host + ":" + pid + ":" + pid + " [0] NCCL INFO Bootstrap : Using eth7:" + address + "<0>\n"
	}
	ipc := warn("transport/p2p.cu:7", "failed to open CUDA IPC handle : 30 unknown error")
	for name, tt := range map[string]struct{ log, want string }{
		"a port for root":           {bind("77", "13 - Permission denied"), "FAILED certain rendezvous_failed: The process may not listen at this port: those below 1024"},
		"a port that is forbidden":  {bind("7777", "13 - Permission denied"), "FAILED likely rendezvous_failed: The process may not listen at this port: a rule"},
		"a port of someone":         {taken, "FAILED likely rendezvous_failed: Another process"},
		"a port of the agent":       {agent("7077"), "FAILED likely rendezvous_failed: The launcher's own agent"},
		"a port beside the agent's": {agent("7078"), "FAILED likely rendezvous_failed: Another process"},
		"hang-up":                   {"W1 api.py:7] Received 1 death signal, shutting down workers\n", "FAILED certain launcher_signalled: The launcher got SIGHUP"},
		"a signal by number":        {"torch.distributed.elastic.multiprocessing.api.SignalException: Process 77 got signal: 15\n", "FAILED likely launcher_signalled: The launcher got SIGTERM"},
		"a signal by name":          {"Received Signals.SIGINT death signal, shutting down workers\n", "FAILED certain launcher_signalled: The launcher got SIGINT"},
		"a name, by ssh":            {"ssh: Could not resolve hostname gpu7: Name or service not known\n", "FAILED certain launcher_failed: The name of a host"},
		"a login, by ssh":           {"ssh: connect to host gpu7 port 22: Connection refused\n", "FAILED likely launcher_failed: The launcher"},
		"a command of a script":     {"/opt/run.sh: 7: zzzctl: not found\n", "FAILED certain launcher_failed: A command"},
		"a command of bash":         {"bash: zzzctl: command not found\n", "FAILED certain launcher_failed: A command"},
		"not of a shell":            {"zzz key: not found\n", "UNKNOWN"},
		"a command, and an end":     {"run.sh: line 7: zzzctl: command not found\nzzz: exit code 127\n", "FAILED certain launcher_failed: A command"},
		"a command, and others":     {"run.sh: line 7: zzzctl: command not found\nzzz: hello of a program\n", "UNKNOWN certain launcher_failed: A command"},
		"a command, and work":       {"run.sh: line 7: nvidia-smi: command not found\nstep 7: loss 0.7\nstep 8: loss 0.6\n", "OK"},
		"a release of the driver":   {"nv-fabricmanager[7]: fabric manager NVIDIA GPU driver interface version 7.7 don't match with driver version 7.8.\n", "FAILED certain fabric_manager_error: The fabric manager is not of the release"},
		"and what CUDA says":        {"RuntimeError: CUDA error: Error 802: system not yet initialized\nnv-fabricmanager[7]: fabric manager NVIDIA GPU driver interface version 7.7 don't match with driver version 7.8.\n", "FAILED certain fabric_manager_error"},
		"a library that is old":     {load("/opt/zzz/libfabric.so.1: version `FABRIC_7.7' not found (required by /opt/libnccl-net.so)"), "SLOW likely transport_tcp: The network plugin of the image cannot be loaded: it needs FABRIC_7.7"},
		"a library of another CPU":  {load("/opt/zzz/libfabric.so.1: wrong ELF class: ELFCLASS32"), "SLOW likely transport_tcp: The network plugin of the image cannot be loaded: it, or a library"},
		"cxi":                       {cxi("cxi"), "FAILED possible ofi_provider: The job has no VNI"},
		"cxi, and its own warning":  {"libfabric:7:7::cxi:fabric:x():7<warn> : Failed to find valid default rgroup and vni for cxi7\n" + cxi("cxi"), "FAILED likely ofi_provider: The job has no VNI"},
		"verbs":                     {cxi("verbs"), "FAILED possible ofi_provider: The container or user may not open the RDMA"},
		"efa, with devices":         {cxi("efa"), "FAILED possible ofi_provider: libfabric of the image"},
		"retries of InfiniBand":     {retry("IB"), "FAILED possible completion_retry_exceeded: The two InfiniBand ports"},
		"retries of RoCE":           {retry("RoCE"), "FAILED possible completion_retry_exceeded: The path between the two devices"},
		"one name, two machines":    {named("gpu7", "7", "10.7.0.1") + named("gpu7", "8", "10.7.0.2") + ipc, "FAILED likely p2p_failed: Several machines"},
		"one name, one machine":     {named("gpu7", "7", "10.7.0.1") + named("gpu7", "8", "10.7.0.1") + ipc, "FAILED likely p2p_failed: The ranks of the host"},
		"a warning before":          {warnOnly("NET/OFI Failed to open gdr handle of GDRCopy") + "RuntimeError: NCCL zzz is unavailable\n", "FAILED likely warning_unknown: GDRCopy"},
		"no warning before":         {"RuntimeError: NCCL zzz is unavailable\n", "FAILED likely program_error: A call of NCCL failed, and its warning"},
	} {
		if got := printed(read(t, tt.log)); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, expected %q\n%s", name, got, tt.want, tt.log)
		}
	}
}

func warnOnly(message string) string { return "gpu1:41:77 [0] NCCL WARN " + message + "\n" }

// Tests show how many ranks they had and where, and that nothing is known of what was not run.
func TestWorlds(t *testing.T) {
	head := func(lines ...string) string {
		const before, after = "#  Rank  ", " [0x17] NVIDIA Z7\n"
		return "# nThread 1 nGpus 1 minBytes 7 maxBytes 7\n# Using devices\n" +
			before + strings.Join(lines, after+before) + after
	}
	const one, other = "0 Group  0 Pid  7 on gpu7 device  0", "0 Group  0 Pid  8 on gpu8 device  0"
	const second, far = "1 Group  0 Pid  9 on gpu7 device  1", "1 Group  0 Pid  9 on gpu8 device  0"
	const idle, busy = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0\n", "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 7.7\n"
	const wrong = "# Out of bounds values : 7 FAILED\n"
	socket := says("NET/IB : No device found.") + says("Using network Socket")
	p2p := says("Channel 00 : 0[1000] -> 1[2000] via P2P/IPC") + says("Channel 00 : 1[2000] -> 0[1000] via P2P/IPC")
	const row = "  77 7 float sum -1 7.7 7.7 7.7 %1 7.7 7.7 7.7 %2\n"
	const table = "#       size         count      type   redop     time   algbw   busbw #wrong\n"
	old := "gpu1:41:77 [0] NCCL INFO comm 0x7 rank 0 nranks 2 - COMPLETE\ngpu1:41:78 [1] NCCL INFO comm 0x8 rank 1 nranks 2 - COMPLETE\n"
	for name, tt := range map[string]struct{ log, want string }{
		"worlds at once":           {head(one) + head(other) + idle + idle, "FAILED likely tests_apart"},
		"one after the other":      {head(one) + idle + head(other) + idle, "UNKNOWN likely tests_apart"},
		"a test of one GPU":        {head(one) + strings.NewReplacer("%1", "0", "%2", "0").Replace(row) + idle, "UNKNOWN likely tests_apart"},
		"a test of two":            {head(one, second) + strings.NewReplacer("%1", "0", "%2", "0").Replace(row) + busy, "OK"},
		"wrong, a forced protocol": {"$ mpirun -x NCCL_PROTO=LL128 zzz\n" + head(one, far) + wrong, "FAILED certain results_wrong: The test computed wrong results. | likely: A setting forces a protocol or an algorithm (NCCL_PROTO=LL128)"},
		"wrong, an old release":    {"NCCL version 2.5.6+cuda10.1\n" + strings.Replace(head(one, second), "maxBytes 7", "maxBytes 7777777777 step", 1) + wrong, "FAILED certain results_wrong: The test computed wrong results. | likely: This release"},
		"wrong, old, and small":    {"NCCL version 2.5.6+cuda10.1\n" + head(one, second) + wrong, "FAILED certain results_wrong: The test computed wrong results. | possible: P2P"},
		"wrong, two hosts":         {head(one, far) + wrong, "FAILED certain results_wrong: The test computed wrong results. | possible: GPUDirect RDMA"},
		"wrong, one host":          {head(one, second) + wrong, "FAILED certain results_wrong: The test computed wrong results. | possible: P2P"},
		"no result, one host":      {head(one, second) + socket + p2p + table, "UNKNOWN possible first_collective_stalls: Traffic between the GPUs of the host"},
		"old, one host":            {socket + old, "OK"},
		"set-up alone, by P2P":     {socket + p2p + ranks(2, "gpu1", "gpu1"), "UNKNOWN possible first_collective_stalls"},
		"set-up, and an end":       {socket + p2p + ranks(2, "gpu1", "gpu1") + says("comm 0x7 rank 0 nranks 2 - Destroy COMPLETE"), "OK"},
		"set-up, and the program":  {socket + p2p + ranks(2, "gpu1", "gpu1") + "zzz: hello of a program\n", "OK"},
	} {
		r := read(t, tt.log)
		got := printed(r)
		if f := r.First(); f != nil && len(f.Reasons) > 1 {
			got += " | " + string(f.Reasons[1].Certainty) + ": " + f.Reasons[1].Cause
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, expected %q\n%s", name, got, tt.want, tt.log)
		}
	}
}

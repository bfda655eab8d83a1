// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"
)

// printed is what the command would print first.
func printed(r *Result) string {
	f, word := r.First(), "FAILED"
	switch {
	case f != nil && r.Slow():
		word = "SLOW"
	case f == nil && r.Undecided() == "":
		return "OK"
	case f == nil:
		f, word = r.Open(), "UNKNOWN"
	}
	if f == nil {
		return word + ": " + r.Undecided()
	}
	return word + " " + string(f.Reasons[0].Certainty) + " " + f.Signature.ID + ": " + f.Reasons[0].Cause
}

// TestSignsOfFailure: nothing is fine beside a sign of failure, and nothing fails without one.
func TestSignsOfFailure(t *testing.T) {
	const row = "  77 7 float sum -1 7.7 7.7 7.7 %1 7.7 7.7 7.7 %2\n"
	results := func(a, b string) string {
		return strings.NewReplacer("%1", a, "%2", b).Replace(row)
	}
	const average = "# Avg bus bandwidth    : 7.7\n"
	const old = "Rem Allocator] Allocation failed (segment 7, fd 7)"
	const steps = "step 7: loss 0.7\nstep 8: loss 0.6\nstep 9: loss 0.5\n"
	closed := warn("include/socket.h:7", "Net : Connection closed by remote peer 10.7.0.9<4711>")
	near := says("Bootstrap : Using [0]eth7:10.7.0.1<0>") + says("NET/IB : No device found.") + says("Using network Socket")
	begun := says("ncclCommInitRank comm 0x7 rank 0 nranks 2 cudaDev 0 busId 70 - Init COMPLETE")
	bar := "zzz prompts:   0%|          | 0/77 [00:00<?, ?it/s]\n"
	const memory = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.00 GiB.\n"
	again := func(stamp string) string { return "2026-01-02 03:0" + stamp + " step 7/99 loss 0.7\n" }
	for name, tt := range map[string]struct{ log, want string }{
		"values out of bounds, old": {"nThread 1 nGpus 7 minBytes 7\n Out of bounds values : 77 FAILED\n", "FAILED certain results_wrong"},
		"behind mpirun":             {"   [1,0]<stdout>:# Out of bounds values : 7 FAILED\n", "FAILED certain results_wrong"},
		"a column of wrong values":  {results("0", "7") + average, "FAILED certain results_wrong"},
		"wrong, behind docker":      {"gpu7 | " + results("7", "0"), "FAILED certain results_wrong"},
		"errors of old tests":       {results("2e-07", "0e+00") + average, "OK"},
		"not counted":               {results("N/A", "N/A") + average, "OK"},
		"right, behind mpirun":      {"    [1,0]<stdout>:" + results("0", "0") + "    [1,0]<stdout>:# Out of bounds values : 0 OK\n", "OK"},
		"a retry, and steps":        {memory + steps, "UNKNOWN certain gpu_out_of_memory"},
		"one, and its end":          {memory + "{'train_runtime': 7.7}\n", "UNKNOWN certain gpu_out_of_memory"},
		"one before few steps":      {memory + "step 7: loss 0.7\n", "FAILED certain gpu_out_of_memory"},
		"one after the end":         {"{'train_runtime': 7.7}\n" + memory, "FAILED certain gpu_out_of_memory"},
		"one that someone stopped":  {memory + "KeyboardInterrupt\n" + steps, "FAILED certain gpu_out_of_memory"},
		"a logger without a name":   {"socket.gaierror: [Errno -3] zzz\nzzz: Network error, retry\n" + steps, "UNKNOWN certain name_lookup_failed"},
		"a bar that stays at 0":     {complete + bar, "UNKNOWN possible first_collective_stalls"},
		"a bar after steps":         {complete + steps + bar, "OK"},
		"a bar that moved":          {complete + bar + "zzz prompts:   7%|          | 7/77 [00:07<00:77, 7it/s]\n", "OK"},
		"the same step for long":    {complete + steps + again("4:05") + again("5:05") + again("7:05"), "UNKNOWN possible first_collective_stalls"},
		"the same step of ranks":    {complete + again("4:05") + again("4:05") + again("4:06"), "OK"},
		"no progress, as it says":   {complete + "gpu7 zzz: worker 7 made no progress in 77 s\n", "FAILED possible engine_waits"},
		"it waits, and serves":      {complete + "zzz: worker 7 made no progress in 77 s\nApplication startup complete.\n", "UNKNOWN possible engine_waits"},
		"it served, and waits":      {complete + "Application startup complete.\nzzz: worker 7 made no progress in 77 s\n", "FAILED possible engine_waits"},
		"an end after a failure":    {warn("transport/p2p.cc:7", "Cuda failure 2 'out of memory'") + "zzz finished\n", "FAILED likely gpu_memory_full"},
		"a heartbeat":               {complete + "zzz: heartbeat lost of worker 7\n", "FAILED possible engine_waits"},
		"an allocator, and steps":   {closed + warn("bootstrap.cc:7", "["+old) + steps, "UNKNOWN likely remote_allocator: NCCL took a connection"},
		"the same without steps":    {closed + warn("bootstrap.cc:7", "["+old), "FAILED likely remote_allocator"},
		"steps before":              {steps + warn("transport/p2p.cc:7", "Cuda failure 2 'out of memory'"), "FAILED likely gpu_memory_full"},
		"steps, and an error":       {warn("transport/p2p.cc:7", "Cuda failure 2 'out of memory'") + "[rank7]: RuntimeError: NCCL error in: zzz, unhandled cuda error (run with NCCL_DEBUG=INFO\n" + steps, "FAILED likely gpu_memory_full"},
		"ranks of one host":         {near + says("Channel 00 : 0[70] -> 1[80] via P2P/IPC") + begun, "OK"},
		"a rank of another host":    {near + says("Channel 00 : 0[70] -> 1[80] via P2P/IPC") + strings.Replace(begun, "nranks 2", "nranks 3", 1), "UNKNOWN likely transport_tcp"},
		"sockets of old releases":   {"NCCL version 2.2.7+cuda7.7\ngpu1:41:77 [0] misc/ibvwrap.cu:7 WARN Failed to open libibverbs.so[.1]\ngpu1:41:77 [0] INFO Using internal Network Socket\ngpu2:42:78 [0] INFO Using internal Network Socket\n", "SLOW likely transport_tcp: The image has no libibverbs"},
		"connections alone":         {says("Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0/GDRDMA"), "UNKNOWN: no failure so far, and the connections that it shows are 1 RDMA"},
		"a set-up that is cut":      {says("Bootstrap : Using eth7:10.7.0.1<0>") + says("NVLS multicast support is available on dev 0"), "UNKNOWN possible setup_stalls: The ranks do not reach"},
		"TensorFlow ends":           {"gpu1:41:77 [0] misc/ibvwrap.cc:7 NCCL WARN Failed to open libibverbs.so[.1]\n" + steps + "2026-01-02 03:04:05.077: W tensorflow/zzz.cc:7] Error occurred when finalizing zzz: Cancelled\n", "OK"},
		"a loop of another rank":    {"Zzz (num_proc=7):  77%|███  | 77/99 [07:07<07:07, 7.7 examples/s]\n[rank7]:[W516 14:34:56.1 socket.cpp:7] [c10d] waitForInput: socket SocketImpl(fd=7) timed out after 600000ms\n", "FAILED likely store_timeout: Another rank still works"},
	} {
		if got := printed(read(t, tt.log)); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, expected %q", name, got, tt.want)
		}
	}
	twice := results("0", "0") + average
	if text := read(t, twice+twice).Unseen(); !strings.Contains(text, "make MPI=1") {
		t.Errorf("two results: %q", text)
	}
	if text := read(t, twice+"# nThread 1 nGpus 7\n"+twice).Unseen(); strings.Contains(text, "make MPI=1") {
		t.Errorf("two tests: %q", text)
	}
}

// TestReasonsOfTheirClass: candidates are of the kind of the line, and nothing that is set already is advised.
func TestReasonsOfTheirClass(t *testing.T) {
	refused := warn("transport/p2p.cc:77", "Cuda failure 'invalid argument'")
	hami := "[HAMI-core Msg(7:77:libvgpu.c:7)]: zzz\n"
	for name, tt := range map[string]struct{ log, want, never string }{
		"a connection of no errno":     {"rank_7.gpu7.log:[0007/0077] [misc/socket.cc:7] NCCL WARN socketPollConnect poll() returned 1, no POLLOUT events\n", "FAILED possible bootstrap_connect: The host of the peer dropped", "privileged"},
		"a connection that is refused": {warn("misc/socket.cc:7", "socketPollConnect: connect to 10.9.8.7<4711> returned Operation not permitted, exceeded error retry count"), "FAILED likely bootstrap_connect: The program or the container may not connect", "IPC_LOCK"},
		"rights of /dev/shm":           {warn("include/shm.h:7", "Call to shm_open failed : Permission denied"), "FAILED certain host_memory_failed: /dev/shm may not be written", "privileged"},
		"rights of a segment":          {warn("misc/shmutils.cc:7", "Error while creating shared memory segment /dev/shm/nccl-zzz (size 77), error: Permission denied (13)"), "FAILED certain shared_memory: /dev/shm may not be written", "privileged"},
		"a setting that is set":        {says("NCCL_CUMEM_ENABLE set by environment to 0.") + refused, "FAILED likely nvlink_import_refused: NCCL_CUMEM_ENABLE=0 is set", "NCCL_CUMEM_ENABLE=0 for one run"},
		"a setting of a file":          {"export NCCL_CUMEM_ENABLE=0\n" + refused, "FAILED likely nvlink_import_refused: NCCL_CUMEM_ENABLE=0 is set", "NCCL_CUMEM_ENABLE=0 uses"},
		"a setting in prose":           {"zzz: try NCCL_CUMEM_ENABLE=0 there\n" + refused, "FAILED possible nvlink_import_refused: The container may not share", "nothing"},
		"an interceptor on loopback":   {hami + says("Bootstrap: Using lo:127.0.0.1<0>") + says("NET/IB : No device found.") + says("Using network Socket"), "UNKNOWN likely setup_stalls: A library that is between", "RDMA device"},
		"a library of the driver":      {"gpu1:41:77 [0] misc/cudawrap.cc:7 NCCL WARN Failed to find CUDA library libcuda.so : No such file or directory\n" + strings.Replace(says("Channel 00 : 0[70] -> 1[80] via SHM/direct/direct"), ":50 ", ":77 ", 1) + warn("transport.cc:77", "Cuda failure 'invalid argument'"), "FAILED likely cuda_failed: The library of the driver is not where", "/dev/infiniband"},
		"it fails by that":             {warn("misc/cudawrap.cc:7", "Failed to find CUDA library libcuda.so : No such file or directory"), "FAILED likely driver_library_missing", "/dev/infiniband"},
		"NVML":                         {warn("misc/nvmlwrap.cc:7", "Failed to open libnvidia-ml.so.1: No such file or directory"), "FAILED likely cuda_library: The loader does not find", "/dev/infiniband"},
		"WSL2":                         {"Linux 7.7.7-microsoft-standard-WSL2\n" + warn("transport.cc:77", "Cuda failure 'invalid argument'"), "FAILED likely cuda_failed: The job runs in WSL2", "nothing"},
		"NCCL is not there":            {"zzz: NCCL operation ncclZzz() failed: Unable to load NCCL library. zzz\n", "FAILED certain nccl_library_missing", "nothing"},
		"a value that none sets":       {warn("init.cc:7", "Invalid config zzz attribute value -2147483648"), "FAILED likely call_invalid: Program and NCCL are of releases", "nothing"},
		"rings":                        {"NCCL version 2.19.3\n[7] graph/rings.cc:7 NCCL WARN Error : ring 7 does not loop back to start (7 != 9).\n", "FAILED likely topology_unreadable: Ranks found different topologies", "PLUGIN"},
		"a place without a process":    {"[7] graph/zzz.cc:7 NCCL WARN zzz zzz\n", "UNKNOWN possible topology_failed", "PLUGIN"},
	} {
		r := read(t, tt.log)
		if got := printed(r); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, expected %q", name, got, tt.want)
		}
		f := r.First()
		if f == nil {
			f = r.Open()
		}
		if f == nil {
			continue
		}
		if steps := strings.Join(f.Steps(), "\n"); strings.Contains(steps, tt.never) {
			t.Errorf("%s: %q advises %q", name, steps, tt.never)
		}
	}
}

// TestPartsOfNCCL: a stack names the part of NCCL that crashed, and the setting that turns it off.
func TestPartsOfNCCL(t *testing.T) {
	const ucx = "[gpu7:41:0:77] Caught signal 11 (Segmentation fault: zzz)\n==== backtrace (tid: 77) ====\n 0 0x77 "
	frame := func(function string) string { return "  File \"<unknown>\", line 0, in " + function + "\n" }
	handler := "!!!!!!! Segfault encountered !!!!!!!\n  File \"../sysdeps/posix/zzz.c\", line 7, in __GI_raise\n"
	for name, tt := range map[string]struct{ log, want, step string }{
		"memory of the host": {handler + frame("cuMemCreate") + "  File \"misc/cudawrap.cc\", line 7, in ncclCuMemHostEnable()\n", "FAILED likely process_crashed: The driver crashed, in cuMemCreate", "NCCL_CUMEM_HOST_ENABLE=0"},
		"RAS":                {ucx + "rasNetZzz()  /x/src/ras/zzz.cc:7\n", "FAILED likely process_crashed: NCCL crashed in its RAS thread, in rasNetZzz", "NCCL_RAS_ENABLE=0"},
		"NVLS":               {ucx + "ncclNvlsZzz()  /x/src/transport/nvls.cc:7\n", "FAILED likely process_crashed: NCCL crashed in NVLS", "NCCL_NVLS_ENABLE=0"},
		"the proxy":          {ucx + "ncclProxyZzz()  /x/src/proxy.cc:7\n", "FAILED likely process_crashed: NCCL crashed in its proxy", "NCCL_NET_PLUGIN=none"},
		"a stack of Python":  {handler + "  File \"/x/zzz.py\", line 7, in main\n", "FAILED possible process_crashed", "PYTHONFAULTHANDLER"},
	} {
		r := read(t, tt.log)
		if got := printed(r); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, expected %q", name, got, tt.want)
		} else if steps := r.First().Steps(); !strings.Contains(steps[0], tt.step) {
			t.Errorf("%s: %q", name, steps)
		}
	}
}

// TestEnds: of a long line both ends are shown, and of a comparison what both ranks do.
func TestEnds(t *testing.T) {
	const print = "CollectiveFingerPrint(SequenceNumber=77, OpType=%, TensorShape=[7, 9], TensorDtypes=zzz)"
	line := "RuntimeError: Detected mismatch between collectives on ranks. Rank 7 is running collective: " +
		strings.Replace(print, "%", "GATHER", 1) + strings.Repeat("z", 777) + ", but Rank 9 is running collective: CollectiveFingerPrint(SequenceNumber=77OpType=BARRIER).\n"
	text := read(t, line).First().Text
	if !strings.Contains(text, "rank 7 in GATHER 77 of shape [7, 9], rank 9 in BARRIER 77") {
		t.Errorf("%q", text)
	}
	without := strings.Replace(timeout(7, 77, "GATHER"), "NumelIn=77, NumelOut=77, ", "", 1)
	if who := read(t, without).Waiters(); !strings.HasPrefix(who, "rank 7 in GATHER 77") || strings.Contains(who, "elements") {
		t.Errorf("%q", who)
	}
	long := warn("zzz:7", "NET/OFI Request 0x77 completed with error. RC: 7. Error: zzz "+strings.Repeat("z", 777)+" Peer host id: i-77")
	if text := read(t, long).First().Text; !strings.Contains(text, "Request 0x77") || !strings.HasSuffix(text, "Peer host id: i-77") {
		t.Errorf("%q", text)
	}
}

// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"
	"testing"
)

// shows is the verdict of a log, and why it is undecided where no failure is in it.
func shows(r *Result) string {
	if f := r.First(); f != nil {
		word := "FAILED"
		if r.Slow() {
			word = "SLOW"
		}
		return fmt.Sprintf("%s %s %s: %s", word, f.Reasons[0].Certainty, f.Signature.ID, f.Reasons[0].Cause)
	}
	why := r.Undecided()
	if why == "" {
		return "OK" + r.slower()
	}
	if f := r.Open(); f != nil {
		why += fmt.Sprintf("; %s %s: %s", f.Reasons[0].Certainty, f.Signature.ID, f.Reasons[0].Cause)
	}
	return "UNKNOWN " + why
}

// waited is a time-out of PyTorch's watchdog after so many milliseconds.
func waited(rank, seq, most int) string {
	return fmt.Sprintf("[E ProcessGroupNCCL.cpp:7] [Rank %d] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=%d, OpType=ALLREDUCE, NumelIn=7, NumelOut=7, Timeout(ms)=%d) ran for %d milliseconds before timing out.\n", rank, seq, most, most+7)
}

// What a log states before or beside a failure decides what it was: values, names, work that is done.
func TestStatedBeside(t *testing.T) {
	const stuck = "[rank7]:[E7 ProcessGroupNCCL.cpp:7] [PG ID 7 PG GUID 7 Rank 7] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress\n"
	const saved = "[INFO] Successfully saved zzz in /zzz\n"
	const rename = "    os.rename(zzz, yyy)\nFileNotFoundError: [Errno 2] No such file or directory: 'zzz/tmp-checkpoint-7' -> 'zzz/checkpoint-7'\n"
	const refused = "gpu1:41:77 [0] include/socket.h:7 NCCL WARN Connect to 10.7.7.7<777> failed : Connection refused\ngpu1:41:77 [0] NCCL INFO init.cc:7 -> 2\n"
	const bind = "gpu1:41:77 [0] misc/socket.cc:7 NCCL WARN Call to bind failed: Address already in use\ngpu1:41:77 [0] NCCL INFO init.cc:7 -> 2\n"
	const system = "RuntimeError: NCCL error in: x.cpp:7, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.7.7\n"
	const pinned = "gx10-7:41:77 [0] misc/ibvwrap.cc:7 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory\n"
	const busy = "gpu1: Test CUDA failure common.cu:7 'CUDA-capable device(s) is/are busy or unavailable'\n"
	card := func(rank int, name string) string {
		return fmt.Sprintf("#  Rank  %d Group  0 Pid 7 on gpu1 device  %d [0x0%d] %s\n", rank, rank, rank, name)
	}
	const head, wrong = "# nThread 1 nGpus 2 minBytes 8 maxBytes 8\n", "# Out of bounds values : 7 FAILED\n"
	uses := func(host, device string) string {
		return host + ":41:77 [0] NCCL INFO Bootstrap : Using " + device + "<0>\n"
	}
	for name, tt := range map[string]struct{ log, want string }{
		"a time-out of nothing":      {waited(7, 1, 7), "FAILED certain pytorch_watchdog_timeout: The time-out of the process group is 7 ms"},
		"a short one of a rank":      {waited(7, 77, 20000), "FAILED possible pytorch_watchdog_timeout: The time-out of the process group is only 20 s"},
		"a short one, and ranks":     {waited(3, 77, 20000) + waited(2, 77, 20000), "FAILED likely pytorch_watchdog_timeout: Ranks 0, 1 did not call"},
		"a usual one":                {waited(7, 77, 600000), "FAILED possible pytorch_watchdog_timeout: Only this rank"},
		"an exception before":        {rename + waited(7, 77, 600000), "FAILED certain program_error: A rank failed when it saved a checkpoint"},
		"one that the program left":  {"KeyError: 'zzz'\nstep 7: loss 7\nstep 8: loss 7\n" + waited(7, 77, 600000), "FAILED possible pytorch_watchdog_timeout"},
		"work that is saved":         {saved + "zzz: 100%|███| 7/7 [00:07<00:00, 1it/s]\n" + stuck, "FAILED likely watchdog_stuck: The program had done its work and saved it"},
		"work that goes on":          {saved + "zzz: 7%|█  | 7/99 [00:07<00:00, 1it/s]\n" + stuck, "FAILED possible watchdog_stuck: A call of CUDA"},
		"peer access":                {quoted("", "cuda", "Cuda failure 217 'peer access is not supported between these two devices'"), "FAILED likely cuda_failed: CUDA refuses peer access"},
		"a file of ranks":            {"zzz_init_method: file:///zzz/zzz.init\n" + refused, "FAILED likely bootstrap_connect: The address is of an earlier job"},
		"no file of ranks":           {refused, "FAILED likely bootstrap_connect: The process of the other rank is gone"},
		"ports of many ranks":        {"$ mpirun -np 1024 -x NCCL_DEBUG=WARN ./zzz\n" + bind, "FAILED likely ports_exhausted: No local port is left"},
		"a fixed port":               {"export NCCL_COMM_ID=10.7.7.7:777\n" + bind, "FAILED likely ports_exhausted: Another process has the port, where it is a fixed one"},
		"interfaces of containers":   {"gpu1:41:77 [0] NCCL INFO NET/Socket : Using [0]eth7:10.7.7.7<0> [1]br-777:172.18.0.1<0>\n" + system, "FAILED likely nccl_error: NCCL takes interfaces of containers or virtual machines beside the network (br-777)"},
		"interfaces of the network":  {"gpu1:41:77 [0] NCCL INFO NET/Socket : Using [0]eth7:10.7.7.7<0>\n" + system, "FAILED possible nccl_error: The kind of the error"},
		"interfaces of two networks": {uses("gpu1", "zzz0:10.7.1.1") + "gpu2:41:77 [0] NCCL INFO NET/IB : Using [0]mlx5_7:1/IB ; OOB zzz7:10.7.2.1<0>\ngpu2:41:77 [0] NCCL INFO misc/socket.cc:7 -> 2\n", "FAILED likely socket_call_failed: The hosts chose interfaces of different networks (gpu1: zzz0:10.7.1.1, gpu2: zzz7:10.7.2.1)"},
		"one interface of two":       {uses("gpu1", "zzz0:10.7.1.1") + uses("gpu2", "zzz0:10.7.2.1") + "gpu2:41:77 [0] NCCL INFO misc/socket.cc:7 -> 2\n", "UNKNOWN a call of NCCL failed"},
		"cards of two kinds":         {head + card(0, "NVIDIA Zzz 7") + card(1, "NVIDIA Zzz 8") + wrong, "FAILED certain results_wrong: The test computed wrong results."},
		"EFA without memory of GPUs": {"libfabric:7:7::efa:domain:zzz():7<warn> Failed to register CUDA buffer with the EFA device, FI_HMEM zzz\n" + says("Channel 00/0 : 8[0] -> 0[0] [send] via NET/Socket/0"), "SLOW likely transport_tcp: EFA cannot register memory of the GPU"},
		"a GPU of HIP":               {"# nThread: 1 nGpus: 7 minBytes: 8\ngpu1: Test HIP failure common.cu:7 'hipErrorInvalidDevice'\n", "FAILED likely gpu_ordinal: The process sees fewer GPUs than it asks for: -g 7"},
		"memory that is not pinned":  {pinned + "$ ulimit -l\nunlimited\nCmaTotal: 0 kB\nCmaFree: 777 kB\n", "FAILED likely memory_registration: The kernel has no contiguous memory"},
		"NCCL in Horovod":            {warn("init.cc:7", "Cuda failure 'CUDA driver is a stub library'") + "E zzz.UnknownError: ncclCommInitRank failed: unhandled cuda error [Op:HorovodAllgather]\n", "FAILED likely driver_mismatch: Horovod has NCCL linked statically"},
		"a driver of two releases":   {"RuntimeError: system has unsupported display driver / cuda driver combination\n", "FAILED certain gpu_driver_mismatch: The library of the driver is not of the release of the kernel module"},
		"GPUs of one process":        {busy + "index, compute_mode\n0, Exclusive_Process\n", "FAILED certain gpu_busy: The GPUs are in compute mode Exclusive_Process"},
		"GPUs of any":                {busy, "FAILED likely gpu_busy: The GPU cannot be used"},
		"launches that wait":         {"CUDA_LAUNCH_BLOCKING=1\n" + ranks(2, "gpu1", "gpu2"), "UNKNOWN no failure is in it, and nothing comes after the set-up: the program logs no work, the job hangs, or the log is cut; likely first_collective_stalls: CUDA_LAUNCH_BLOCKING=1"},
	} {
		if got := shows(read(t, tt.log)); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, expected %q\n%s", name, got, tt.want, tt.log)
		}
	}
}

// A test that passed, work that ended, and what only a cut hides are no failures; a test that failed is.
func TestNoFailureSoFar(t *testing.T) {
	const closes = "gpu1:41:77 [0] zzz_close:7 NCCL WARN NET/OFI zzz with requests\ngpu1:41:77 [0] NCCL INFO transport/net.cc:7 -> 3\n"
	const plugin = "gpu1:41:77 [0] nccl_net_ofi_create_plugin:7 NCCL WARN NET/OFI aws-ofi-nccl initialization failed\ngpu1:41:77 [0] NCCL INFO Using network Socket\n"
	const ended = "gpu1:41:77 [0] transport/net_ib.cc:7 NCCL WARN NET/IB : Got completion from peer 10.7.7.7<777> with status=12 opcode=0 len=0 vendor err 129 (Send) localGid ::ffff:10.7.7.6 remoteGids::ffff:10.7.7.7\n"
	const time, begun = "Process 7 - Training time: 7.7 seconds\n", "gpu1:41:77 [0] NCCL INFO Bootstrap: Using zzz0:10.7.7.7<0>\ngpu1:41:77 [0] NCCL INFO NCCL version 2.26.2+cuda12.2\n"
	const row = "           8             2     float     sum      -1    45.46    0.00    0.00    N/A    124.9    0.00    0.00    N/A\n"
	const far = "gpu1:41:77 [0] NCCL INFO GPU Direct RDMA Disabled for GPU 7000 / HCA 7 (distance 9 > 4)\ngpu1:41:77 [0] NCCL INFO Channel 00/0 : 1[7000] -> 0[7000] [send] via NET/IB/0\n"
	const off = "gpu1:41:77 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_7'\nRCCL version 2.7.8+hip3.9\n"
	for name, tt := range map[string]struct{ log, want string }{
		"a test that passed":     {closes + "--- PASS: TestZzz (7.77s)\n", "OK"},
		"tests of Python":        {closes + "===== 7 passed in 77.7s =====\n", "OK"},
		"tests with warnings":    {closes + "== 7 passed, 7 warnings in 77.7s (0:01:17) ==\n", "OK"},
		"prose that passed":      {closes + "zzz check passed in 7.7s\n", "FAILED possible warning_unknown"},
		"a request that failed":  {ended + "== 7 passed in 7.7s ==\n", "FAILED possible completion_retry_exceeded"},
		"one of Python failed":   {closes + "===== 1 failed, 7 passed in 77.7s =====\n", "FAILED possible warning_unknown"},
		"a test that failed":     {closes + "--- PASS: TestYyy (7.77s)\n--- FAIL: TestZzz (7.77s)\n", "FAILED possible warning_unknown"},
		"a test before it":       {"--- PASS: TestZzz (7.77s)\n" + closes, "FAILED possible warning_unknown"},
		"work that ended":        {plugin + ranks(4, "gpu1", "gpu2") + time, "OK If it is slower than it should be: The plugin aws-ofi-nccl did not start"},
		"work that is not seen":  {plugin + ranks(4, "gpu1", "gpu2"), "SLOW possible ofi_failed"},
		"cut before the network": {begun + "gpu1:41:77 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so.\n", "UNKNOWN no failure so far: NCCL began over zzz0 (10.7.7.7); not seen"},
		"cut where ranks wait":   {begun, "UNKNOWN NCCL began, and no set-up of a communicator is in the log: it hangs before, or the log is cut; possible setup_stalls"},
		"cut after connections":  {begun + says("Connected all trees"), "UNKNOWN no failure so far: the ranks are connected; not seen"},
		"cut in a test":          {begun + says("Connected all trees") + row, "UNKNOWN no failure so far: the ranks are connected, and a test has results; not seen"},
		"a device that is far":   {far + says("Connected all rings"), "UNKNOWN no failure so far: the ranks are connected; not seen: the end of the set-up, and what the job did then (it goes on, or the log is cut); certain gpudirect_unused: The device is further from the GPU than NCCL uses GPUDirect RDMA for, as it says: GPU 7000 / HCA 7 (distance 9 > 4)."},
		"RCCL without GPUDirect": {off, "UNKNOWN no failure so far: NCCL began; "},
		"what ls does not find":  {off + "ls: cannot access '/sys/kernel/mm/memory_peers/amdkfd/version': No such file or directory\n", "UNKNOWN no failure so far: "},
	} {
		if got := shows(read(t, tt.log)); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, expected %q\n%s", name, got, tt.want, tt.log)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"
	"testing"
)

// What a file lists that is given with a log decides among reasons, and what a stack shows says whose exception it is.
func TestGivenDecides(t *testing.T) {
	const ordinal = "  host      : gpu7\n  rank      : 7 (local_rank: 2)\n  exitcode  : 1 (pid: 77)\n  RuntimeError: CUDA error: invalid device ordinal\n"
	qp := warn("misc/ibvwrap.cc:77", "Call to ibv_create_qp failed")
	stack := func(frames ...string) string {
		const before, after = "  File \"", "\", line 7, in zzz\n    zzz()\n"
		return "Traceback (most recent call last):\n" + before + strings.Join(frames, after+before) + after + "ValueError: zzz\n"
	}
	completion := func(near, far string) string {
		return warn("net_ib.cc:7", "NET/IB : Got completion from peer 10.7.0.2<77> with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid "+near+" remoteGids"+far)
	}
	ray := func(host string) string {
		return "(RayWorkerProc pid=77, ip=" + host + ") Cuda error /zzz/csrc/custom_all_reduce.cuh:7 'invalid resource handle'\n"
	}
	const package7 = "/zzz/lib/python3.7/site-packages/zzz/yyy.py"
	for name, tt := range map[string]struct{ log, want string }{
		"no limit is given":       {qp, "possible: The limit of locked memory is too small."},
		"a limit of nothing":      {qp + "$ ulimit -l\n77\n", "certain: The limit of locked memory is too small: 77 KiB."},
		"a limit of all":          {qp + "$ ulimit -l\nunlimited\n", "possible: The queue pairs"},
		"an interface":            {"export NCCL_SOCKET_IFNAME=zzz7\n" + warn("bootstrap.cc:7", "Bootstrap : no socket interface found"), "certain: NCCL_SOCKET_IFNAME=zzz7 fits no interface"},
		"no interface":            {warn("bootstrap.cc:7", "Bootstrap : no socket interface found"), "certain: No interface fits"},
		"two GPUs":                {ordinal + "CUDA_VISIBLE_DEVICES=7,9 ./zzz\n", "certain: A rank chose a GPU that its process does not see: local rank 2 against 2"},
		"seven GPUs":              {ordinal + "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6 ./zzz\n", "likely: A rank chose a GPU that its process does not see: more"},
		"seven processes":         {ordinal + "CUDA_VISIBLE_DEVICES=7,9 torchrun --nproc-per-node 7 zzz.py\n", "certain: A rank chose a GPU that its process does not see: 7 processes for each host against 2"},
		"two packages":            {quoted("", "invalid argument", "Invalid config zzz attribute value -2147483648") + "nvidia-nccl-cu7 7.7\nnvidia-nccl-cu8 7.8\n", "likely: The environment has two packages of NCCL (nvidia-nccl-cu7 7.7, nvidia-nccl-cu8 7.8)"},
		"both ends at home":       {completion("fd00::7", "fd00::8") + "    inet6 fd00::8/64 scope global\n", "likely: Both devices are of one host"},
		"both ends in the log":    {completion("fd00::7", "fd00::8") + completion("fd00::8", "fd00::9"), "likely: Both devices are of one host"},
		"ends of two hosts":       {completion("fd00::7", "fd00::8") + "    inet6 fd00::7/64 scope global\n", "possible: The path"},
		"all-reduce of two hosts": {ray("10.7.0.1") + ray("10.7.0.2"), "likely: The program's own all-reduce opens memory of GPUs of other processes by CUDA IPC, which works within one host, and its ranks are on several (10.7.0.1, 10.7.0.2)"},
		"all-reduce of one host":  {ray("10.7.0.1"), "likely: The program's own all-reduce failed"},
		"a package":               {stack("/zzz/main.py", package7, "/usr/lib/python3.7/ast.py"), "likely: The program itself failed, in zzz/yyy.py:7 (zzz)"},
		"a caller of torch":       {stack("/www/xxx/zzz/main.py", "/zzz/lib/python3.7/site-packages/torch/zzz.py"), "likely: The program itself failed, in xxx/zzz/main.py:7 (zzz)"},
		"no stack":                {"ValueError: zzz\n", "likely: The program itself failed: "},
	} {
		r := read(t, tt.log)
		got := ""
		if f := r.First(); f != nil {
			got = fmt.Sprintf("%s: %s", f.Reasons[0].Certainty, f.Reasons[0].Cause)
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, expected %q\n%s", name, got, tt.want, tt.log)
		}
	}
}

// A log without lines of NCCL is judged as far as it goes, one that is cut names no cause, and what a process tried again
// and again is what it failed by.
func TestJudgedSoFar(t *testing.T) {
	const device = "[rank1]:[W712 17:30:52.1 ProcessGroupNCCL.cpp:7] [PG ID 0 PG GUID 0 Rank 1]  using GPU 1 as device used by this process is currently unknown.\n"
	const ipv6 = "[W socket.cpp:401] [c10d] The server socket cannot be initialized on [::]:29500 (errno: 97 - Address family not supported by protocol).\n"
	const refused = "RuntimeError: NCCL error: remote process exited or there was a network error\n"
	retry := func(address string) string {
		line := says("socketPollConnect: connect to " + address + "<7777> returned Connection refused, retrying (7/34)")
		return says("NET/Socket : Using [0]eth7:10.7.0.1<0> [1]zzz7:169.254.7.7<0>") + line + line
	}
	began := func(release string) string {
		return says("Bootstrap : Using eth7:10.7.0.1<0>") + "NCCL version " + release + "+cuda12.7\n" + says("Using network IB")
	}
	timeout := func(bar string) string {
		return bar + "[rank1]:[E1 ProcessGroupNCCL.cpp:7] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=7, NumelOut=7, Timeout(ms)=1800000) ran for 1800001 milliseconds before timing out.\n" +
			"[rank2]:[E1 ProcessGroupNCCL.cpp:7] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=7, NumelOut=7, Timeout(ms)=1800000) ran for 1800001 milliseconds before timing out.\n"
	}
	const illegal = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
	xid := func(n string) string { return "[ 77.7] NVRM: Xid (PCI:0000:07:00): " + n + ", pid=77, name=zzz, zzz\n" }
	for name, tt := range map[string]struct{ log, want string }{
		"a guess of the device":      {device, "OK"},
		"a guess, and an error":      {device + "zzz: cannot zzz\n", "UNKNOWN"},
		"no IPv6, and nothing":       {ipv6, "UNKNOWN: no line is of NCCL"},
		"no IPv6, and a test":        {ipv6 + "Ran 7 tests in 77.7s\n", "OK"},
		"no IPv6, and another test":  {ipv6 + "==== 7 passed in 77.7s ====\n", "OK"},
		"no IPv6, and a failed test": {ipv6 + "==== 1 failed, 7 passed in 77.7s ====\n", "UNKNOWN"},
		"retries, by a link-local":   {retry("169.254.7.7") + refused, "FAILED certain bootstrap_connect: NCCL chose an interface (zzz7) with a link-local address"},
		"retries, of a process":      {retry("10.7.0.2") + refused, "FAILED likely bootstrap_connect: The process of the other rank is gone"},
		"retries, and no end":        {retry("10.7.0.2"), "UNKNOWN"},
		"cut behind the network":     {began("2.25.1"), "UNKNOWN: no failure so far: NCCL began over eth7"},
		"of an old release":          {began("2.10.3"), "UNKNOWN possible setup_stalls"},
		"a loop of the job itself":   {timeout("zzz:   7%|7  | 7/77 [05:50<3:17:42,  1.24s/it]\n"), "FAILED likely pytorch_watchdog_timeout: Ranks 0, 2 did not call"},
		"a loop as long as the wait": {timeout("zzz:   7%|7  | 7/77 [29:50<3:17:42,  1.24s/it]\n"), "FAILED likely pytorch_watchdog_timeout: Ranks 0, 2 did not come, while"},
		"another way":                {"Invalidate trace cache @ step 7: expected module 7, but got module 8\n" + timeout(""), "FAILED likely pytorch_watchdog_timeout: The ranks took different ways"},
		"an Xid of the program":      {xid("13") + illegal, "FAILED likely gpu_program_error: A kernel of the program accessed memory that is not its own, or failed an assertion, as Xid 13"},
		"an Xid of the GPU":          {xid("79") + illegal, "FAILED likely xid_fallen_off"},
	} {
		got := printed(read(t, tt.log))
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, expected %q\n%s", name, got, tt.want, tt.log)
		}
	}
}

// Launchers, runtimes and other libraries are named where they fail, and an errno of a program is not of devices.
func TestFrameworks(t *testing.T) {
	const step = "step 7: loss 0.7\nstep 8: loss 0.6\nstep 9: loss 0.5\n"
	const slots = "There are not enough slots available in the system to satisfy the 77\n"
	for name, tt := range map[string]struct{ log, want string }{
		"slots":              {slots, "FAILED certain launcher_refused: The launcher has fewer slots"},
		"slots, and work":    {slots + step, "UNKNOWN certain launcher_refused"},
		"a container":        {"docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].\n", "FAILED certain launcher_refused: The container runtime"},
		"a pod":              {"Warning  FailedScheduling  7s  0/7 nodes are available: 7 Insufficient nvidia.com/gpu.\n", "FAILED certain launcher_refused: No node has"},
		"a step of Slurm":    {"srun: error: Unable to create step for job 7: zzz\n", "FAILED certain launcher_refused: The launcher, the scheduler"},
		"gradients":          {"RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.\n", "FAILED certain ddp_misused: Parameters took no part"},
		"models that differ": {"RuntimeError: DDP expects same model across all ranks, but Rank 7 has 7 params\n", "FAILED certain ddp_misused: The ranks built different models"},
		"cuBLAS":             {"RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling zzz\n", "FAILED likely gpu_program_error: A library of CUDA"},
		"a library":          {"ImportError: libzzz.so.7: cannot open shared object file: No such file or directory\n", "FAILED likely library_missing: A library that the program needs"},
		"a file":             {"PermissionError: [Errno 13] Permission denied: '/zzz'\n", "FAILED likely program_error: A file or a model"},
		"NVSHMEM":            {"/zzz/init.cu:7: nvshmem initialization failed, exiting\n", "FAILED likely one_sided_library_failed: NVSHMEM could not"},
		"DeepEP":             {"RuntimeError: DeepEP error: CPU recv timeout\n", "FAILED likely one_sided_library_failed: GPUs wait for data"},
		"a path by ssh":      {"pdsh@gpu7: gpu8: ssh exited with exit code 127\n", "FAILED certain launcher_ssh_failed: ssh reached the host, and the command is not there"},
		"memory, by Slurm":   {"srun: error: gpu7: task 7: Out Of Memory\n", "FAILED certain host_out_of_memory"},
		"a signal of MPI":    {"[gpu7:77] Signal: Illegal instruction (4)\n", "FAILED possible process_crashed"},
		"an exit code":       {"command terminated with exit code 135\n", "FAILED likely process_crashed: /dev/shm is full"},
		"MPI, aborted":       {"MPI_ABORT was invoked on rank 7 in communicator MPI_COMM_WORLD\n", "FAILED possible store_closed"},
		"TCP in a host":      {says("NCCL_SHM_DISABLE set by environment to 1.") + says("NCCL_P2P_DISABLE set by environment to 1.") + says("Using network Socket") + ranks(2, "gpu1", "gpu1") + says("Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0"), "SLOW certain transport_tcp: NCCL_SHM_DISABLE=1 and NCCL_P2P_DISABLE=1 turn off"},
		"stopped by hand":    {says("Using network IB") + ranks(2, "gpu1", "gpu2") + "KeyboardInterrupt\n", "UNKNOWN possible first_collective_stalls"},
		"stopped at work":    {says("Using network IB") + ranks(2, "gpu1", "gpu2") + step + "KeyboardInterrupt\n", "OK"},
		"another thread":     {warn("misc/socket.cc:7", "Call to zzz failed : Too many open files") + "gpu1:41:99 [0] NCCL INFO bootstrap.cc:7 -> 2\n", "FAILED certain socket_call_failed: The limit of open files"},
		"a rank twice":       {warn("bootstrap.cc:7", "Bootstrap Root : rank 7 of 77 ranks has already checked in"), "FAILED certain bootstrap_mismatch: Two processes call themselves"},
		"a GID of NCCL":      {warn("misc/ibvwrap.cc:7", "Call to ibv_modify_qp failed with error Invalid argument errno 22"), "FAILED likely qp_modify: The GID that NCCL took"},
		"an engine waits":    {"No available shared memory broadcast block found in 77 seconds.\nRuntimeError: [zzz] Timed out waiting 77000ms for recv operation to complete\n", "FAILED likely gloo_timeout: Processes of the engine stand still"},
		"TensorFlow informs": {"[pod/zzz] 2026-01-02 03:04:05.077: I zzz.cc:7] Error zzz\n" + step + "zzz successfully\n", "OK"},
		"rights of memory":   {warnOnly("Call to shm_open failed : Permission denied") + warnOnly("Error while creating shared memory segment zzz (size 77)"), "FAILED certain shared_memory: /dev/shm may not be written"},
		"rights of others":   {warnOnly("Call to shm_open failed : Permission denied") + strings.Replace(warnOnly("Error while creating shared memory segment zzz (size 77)"), "gpu1:", "gpu2:", 1), "FAILED likely shared_memory: /dev/shm is full"},
		"as root":            {"mpirun has detected an attempt to run as root.\n", "FAILED certain launcher_refused: mpirun refuses"},
		"members":            {"Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/7\nInitializing distributed: GLOBAL_RANK: 1, MEMBER: 2/7\n", "UNKNOWN likely members_missing: Not all processes"},
		"all members":        {"Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/7\nAll distributed processes registered. Starting with 7 processes\n" + step, "OK"},
		"a wrapper":          {"zzz.RayActorError: The actor died\nValueError: zzz exceeds zzz\n", "FAILED likely program_error: The program itself failed"},
		"settings in prose":  {"NotImplementedError: zzz needs NCCL_P2P_DISABLE=1\n", "FAILED likely program_error: The program itself failed"},
		"a time-out alone":   {"[rank3]:[E110 10:00:00.0 ProcessGroupNCCL.cpp:7] [PG 0 Rank 3] Timeout at NCCL work: 77, last enqueued NCCL work: 77, last completed NCCL work: 76.\n", "FAILED likely pytorch_watchdog_exception: A collective did not end"},
		"a lost store":       {"torch.distributed.DistNetworkError: Connection was likely closed. Did the remote server shutdown or crash?\n", "FAILED possible store_closed"},
		"a shell":            {"Killed\n", "FAILED possible process_killed"},
		"a name of Python":   {"socket.gaierror: [Errno -2] Name or service not known\n", "FAILED certain name_lookup_failed"},
		"no driver":          {"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "FAILED likely gpu_none"},
		"CUDA starts not":    {"RuntimeError: Unexpected error from cudaGetDeviceCount(). zzz Error 304: OS call failed\n", "FAILED likely gpu_start_failed"},
		"NVSwitches":         {"RuntimeError: Unexpected error from cudaGetDeviceCount(). zzz Error 802: system not yet initialized\n", "FAILED likely gpu_fabric_manager"},
		"many peers":         {"RuntimeError: CUDA error: peer mapping resources exhausted\n", "FAILED certain gpu_program_error: A GPU has more peers"},
		"a backend":          {"ValueError: Unsupported nccl backend\n", "FAILED likely program_error: The program itself failed"},
		"no driver, failed":  {warnOnly("Failed to find CUDA library libcuda.so (NCCL_CUDA_PATH='')") + "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n", "FAILED possible driver_library_missing"},
		"a port, and failed": {warnOnly("NET/IB : Got async event : port error") + "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n", "FAILED likely port_error"},
		"counts of ranks":    {warn("bootstrap.cc:7", "Bootstrap Root : mismatch in rank count from procs 7 : 77"), "FAILED certain bootstrap_mismatch: Processes were started with different numbers"},
		"two drivers":        {warn("misc/nvmlwrap.cc:7", "nvmlInit_v2() failed: Driver/library version mismatch"), "FAILED certain cuda_library: The library of the driver and the kernel module"},
		"no such network":    {says("NCCL_NET set by environment to ZZZ.") + warn("init.cc:7", "Error: network ZZZ not found."), "FAILED likely net_plugin: NCCL_NET=ZZZ"},
		"an old driver":      {warn("init.cc:7", "Cuda failure 35 'CUDA driver version is insufficient for CUDA runtime version'"), "FAILED certain driver_mismatch: The driver of the GPU is too old"},
		"a stub":             {warn("init.cc:7", "Cuda failure 'CUDA driver is a stub library'"), "FAILED likely driver_mismatch: The loader finds the stub"},
		"compatibility":      {warn("init.cc:7", "Cuda failure 804 'zzz'"), "FAILED certain driver_mismatch: The image has a library of forward"},
		"an old driver, too": {"RuntimeError: The NVIDIA driver on your system is too old (found version 77).\n", "FAILED certain gpu_driver_mismatch: The driver of the GPU is too old"},
		"two, by nvidia-smi": {"Failed to initialize NVML: Driver/library version mismatch\n", "FAILED certain gpu_driver_mismatch: The library of the driver and the kernel module"},
		"a limit of time":    {"slurmstepd: error: *** JOB 7 ON gpu7 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***\n", "FAILED certain job_ended: The scheduler ended the job at its time limit"},
		"a cancelled job":    {"slurmstepd: error: *** STEP 7.0 ON gpu7 CANCELLED AT 2026-01-02T03:04:05 ***\n", "FAILED likely job_ended: The job was cancelled"},
		"a symbol of NCCL":   {"ImportError: /zzz/libzzz.so: undefined symbol: ncclZzz\n", "FAILED certain library_mismatch: The program runs with another NCCL"},
		"no GPU at all":      {"RuntimeError: No CUDA GPUs are available\n", "FAILED likely gpu_none: The process sees no GPU"},
		"progress":           {step, "UNKNOWN: no failure so far, and the program shows progress"},
		"progress, an end":   {step + "training finished\n", "OK"},
		"an abort":           {warn("misc/socket.cc:7", "socketStartConnect: Connect to 10.7.0.7<77> failed : Software caused connection abort"), "FAILED likely bootstrap_connect: The process of the other rank"},
	} {
		if got := printed(read(t, tt.log)); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, expected %q\n%s", name, got, tt.want, tt.log)
		}
	}
}

// A setting that chooses the way that failed is the first to doubt, unless the log shows the cause, or its value chooses
// nothing.
func TestChoices(t *testing.T) {
	ipc := warn("transport/p2p.cc:7", "failed to open CUDA IPC handle : 30 unknown error")
	nvls := warn("transport/nvls.cc:7", "Cuda failure 1 'invalid argument'")
	set := func(name, value string) string { return says(name + " set by environment to " + value + ".") }
	for name, tt := range map[string]struct{ log, want string }{
		"P2P":                   {set("NCCL_P2P_LEVEL", "SYS") + ipc, "FAILED likely p2p_failed: NCCL_P2P_LEVEL=SYS has NCCL use P2P"},
		"P2P as it would be":    {set("NCCL_P2P_LEVEL", "NVL") + ipc, "FAILED likely p2p_failed: The ranks of the host"},
		"P2P, by a file":        {ipc + "export NCCL_P2P_LEVEL=SYS\n", "FAILED likely p2p_failed: NCCL_P2P_LEVEL=SYS has NCCL use P2P"},
		"NVLS":                  {set("NCCL_NVLS_ENABLE", "1") + nvls, "FAILED likely nvls_failed: NCCL_NVLS_ENABLE=1 has NCCL use NVLS"},
		"NVLS, by P2P":          {set("NCCL_P2P_LEVEL", "SYS") + nvls, "FAILED likely nvls_failed: The fabric manager"},
		"an IPv6 that is asked": {set("NCCL_SOCKET_FAMILY", "AF_INET6") + set("NCCL_SOCKET_IFNAME", "zzz") + warn("bootstrap.cc:7", "Bootstrap : no socket interface found"), "FAILED certain bootstrap_no_interface: NCCL_SOCKET_IFNAME=zzz"},
	} {
		if got := printed(read(t, tt.log)); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, expected %q\n%s", name, got, tt.want, tt.log)
		}
	}
}

// A long line is shown around what it is known by, and all addresses of the other side are named.
func TestShown(t *testing.T) {
	long := strings.Repeat("zzz ", 77)
	r := read(t, "RuntimeError: "+long+"CUDA error: device-side assert triggered "+long+"\n")
	if f := r.First(); f == nil || !strings.Contains(f.Text, "device-side assert triggered") {
		t.Errorf("%+v", f)
	}
	refused := func(peer string) string {
		return warn("misc/socket.cc:7", "socketStartConnect: Connect to "+peer+"<77> failed : Connection refused")
	}
	if f := read(t, refused("10.7.0.7")+refused("10.7.0.8")).First(); f == nil || !strings.Contains(f.Seen(), "peers 10.7.0.7<77>, 10.7.0.8<77>") {
		t.Errorf("%+v", f)
	}
	plugin := says("NET/Plugin : dlerror=/zzz/libnccl-net.so: undefined symbol: fi_zzz, version ZZZ No plugin found (libnccl-net.so), using internal implementation")
	if got := printed(read(t, plugin+says("Using network Socket")+ranks(2, "gpu1", "gpu2"))); !strings.HasPrefix(got, "SLOW likely transport_tcp: The network plugin of the image cannot be loaded: it needs fi_zzz") {
		t.Error(got)
	}
}

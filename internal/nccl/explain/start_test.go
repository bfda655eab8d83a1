// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/nccl/signature"
)

const starts = "Bootstrap : Using [0]eth7:10.7.0.1<0>"

// TestLeftOpen: what may be a failure where a log has none is printed first, open, with the reasons that it may have.
func TestLeftOpen(t *testing.T) {
	plugin := says("NET/Plugin : No plugin found (libnccl-net.so).") + says("NET/IB : No device found.")
	harmless := "gpu1:41:77 [0] misc/nvmlwrap.cc:77 NCCL WARN nvmlDeviceGetZzz(0,1) failed: Not Supported\n"
	for name, tt := range map[string]struct {
		log, open string // open: empty, there is none
		reason    string
		undecided string // a part; empty: decided
	}{
		"a warning that no row has":       {"NCCL version 2.7.7+cuda77.7\ngpu1:41:77 [0] transport/zzz.cc:7 NCCL WARN zzz zzz zzz\n", "warning_unknown", "no row", "not known here"},
		"a warning of a file":             {"gpu1:41:77 [0] graph/zzz.cc:7 NCCL WARN zzz zzz zzz\n", "topology_failed", "", "not known here"},
		"it began, and nothing follows":   {says(starts) + plugin, "setup_stalls", "over eth7 (10.7.0.1)", "hangs before"},
		"steps of before":                 {"epochs: 7\n" + says(starts) + plugin, "setup_stalls", "over eth7 (10.7.0.1)", "hangs before"},
		"loopback of one host":            {says("Bootstrap : Using lo:127.0.0.1<0>"), "setup_stalls", "Not all ranks", "hangs before"},
		"loopback of several hosts":       {says("Bootstrap : Using lo:127.0.0.1<0>") + strings.ReplaceAll(says("Bootstrap : Using lo:127.0.0.1<0>"), "gpu1", "gpu2"), "setup_stalls", "loopback", "hangs before"},
		"harmless warnings, and it began": {says(starts) + harmless, "setup_stalls", "over eth7", "hangs before"},
		"a release and harmless warnings": {"NCCL version 2.7.7+cuda77.7\n" + harmless, "", "", "no communicator"},
		"harmless warnings alone":         {harmless, "", "", ""},
		"the program went on":             {says(starts) + harmless + "epoch 7: loss 0.77\n", "", "", ""},
	} {
		r := read(t, tt.log)
		open, reason := "", ""
		if f := r.Open(); f != nil {
			open, reason = f.Signature.ID, f.Reasons[0].Cause
			if f.Reasons[0].Certainty == Certain {
				t.Errorf("%s: it is certain", name)
			}
		}
		if r.Failed() || open != tt.open || !strings.Contains(reason, tt.reason) || !strings.Contains(r.Undecided(), tt.undecided) || (r.Undecided() == "") != (tt.undecided == "") {
			t.Errorf("%s: failed %t, open %s: %q; %q", name, r.Failed(), open, reason, r.Undecided())
		}
	}
}

// TestPlaces: the library in which a process crashed, the host that lacks GPUDirect RDMA, the GPU whose errors come again.
func TestPlaces(t *testing.T) {
	crash := "Thread 7 \"zzz\" received signal SIGSEGV, Segmentation fault.\n"
	gdb := func(frames ...string) string { return crash + strings.Join(frames, "\n") + "\n" }
	over := func(host, via string) string {
		return strings.ReplaceAll(says("Channel 07/0 : 0[7000] -> 8[7000] ["+via), "gpu1", host)
	}
	both := over("gpu7", "send] via NET/IB/7/GDRDMA") + over("gpu9", "receive] via NET/IB/7")
	xid := func(gpu, rest string) string { return "[ 77.7] NVRM: Xid (PCI:0000:" + gpu + ":00): " + rest + "\n" }
	for name, tt := range map[string]struct {
		log       string
		first     string
		certainty Certainty
		reason    string
	}{
		"a tool":                      {gdb("#0  0x0000 in ?? ()", "#1  0x7f in ?? () from /x/libToolsInjection64.so", "#2  0x7f in zzz () from /x/libToolsInjection64.so", "#3  0x7f in ncclZzz () at zzz.cc:7"), "process_crashed", Likely, "Nsight Systems) crashed, in libToolsInjection64.so (zzz)"},
		"verbs":                       {gdb("#0  0x7f in mlx5_zzz (x=7) from /x/libmlx5.so.1"), "process_crashed", Likely, "verbs crashed, in libmlx5.so.1 (mlx5_zzz)"},
		"the topology":                {"==== backtrace (tid: 77) ====\n 7 0x77 ncclTopoZzz()  /zzz/search.cc:7\n[gpu1:41] Signal: Segmentation fault (11)\n[gpu1:41] [ 0] /x/libc.so.6(+0x77)[0x7f]\n[gpu1:41] [ 1] /x/libnccl.so.2(+0x77)[0x7f]\n", "process_crashed", Likely, "in libnccl.so.2 (ncclTopoZzz)"},
		"any library":                 {"[gpu1:41] Signal: Segmentation fault (11)\n[gpu1:41] [ 0] /x/libc.so.6(+0x77)[0x7f]\n[gpu1:41] [ 1] /x/libzzz.so(zzz_zz+0x77)[0x7f]\n", "process_crashed", Likely, "in libzzz.so (zzz_zz)"},
		"PyTorch":                     {crash + "frame #7: zzz::zzz(int) + 0x77 (0x7f in /x/libtorch_zzz.so)\n", "process_crashed", Likely, "in libtorch_zzz.so"},
		"a bus error":                 {"[gpu1:41:0:77] Caught signal 7 (Bus error: zzz)\n 7 0x77 ???()  /x/libnccl.so.2:0\n", "process_crashed", Likely, "/dev/shm is full"},
		"GPUDirect of nobody's host":  {" [0] NCCL INFO Channel 07/0 : 0[7000] -> 8[7000] [send] via NET/IB/7/GDRDMA\n [0] NCCL INFO Channel 07/0 : 1[9000] -> 8[7000] [send] via NET/IB/7\n", "gpudirect_unused", Likely, "further from the GPU"},
		"the kernel":                  {"[ 77.7] zzz[77]: segfault at 7 ip 77 sp 77 error 4 in libzzz.so.7[7f+77]\n", "process_crashed", Likely, "in libzzz.so.7"},
		"nobody knows":                {crash, "process_crashed", Possible, "its stack says where"},
		"a stack of long before":      {"#1  0x7f in zzz () from /x/libToolsInjection64.so\n" + strings.Repeat("zzz zzz\n", 77) + crash, "process_crashed", Possible, "its stack says where"},
		"one host without GPUDirect":  {both, "gpudirect_unused", Likely, "nvidia_peermem is not loaded on gpu9"},
		"one host with and without":   {both + over("gpu9", "receive] via NET/IB/9/GDRDMA"), "gpudirect_unused", Likely, "further from the GPU"},
		"TCP of old releases":         {"gpu1:41:77 [0] misc/ibvwrap.cu:7 NCCL WARN Failed to open libibverbs.so[.1]\n" + says("7 -> 0 via NET/Socket/0") + strings.Replace(says("0 -> 7 via NET/Socket/0"), "gpu1", "gpu2", 1), "transport_tcp", Likely, "no libibverbs"},
		"all hosts without":           {strings.ReplaceAll(both, "/GDRDMA", ""), "gpudirect_unused", Possible, "peermem is not loaded, or"},
		"a GPU again":                 {xid("77", "43, pid=7, Ch 7") + xid("99", "31, pid=71, Ch 7") + xid("99", "31, pid=72, Ch 7"), "xid_application", Possible, "several processes failed on the same GPU"},
		"a GPU once":                  {xid("77", "13, pid=7, Ch 7") + xid("99", "31, pid=7, Ch 7"), "xid_application", Possible, "kernel of the job"},
		"NVML, and a call that fails": {"gpu1:41:77 [0] misc/nvmlwrap.cc:7 NCCL WARN nvmlDeviceGetZzz(0,1) failed: Not Supported\ngpu1:41:77 [0] NCCL INFO init.cc:7 -> 2\n", "nvml_refused", Likely, "part of a processor"},
		"Ray":                         {"#033[36m(raylet)#033[0m zzz: 7 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: 77, IP: 10.7.0.7)\n", "ray_memory_monitor", Certain, "memory of their host"},
		"Ray without its monitor":     {"(raylet) zzz: 0 Workers (tasks / actors) killed due to memory pressure (OOM), 7 Workers crashed due to other reasons at node (ID: 77, IP: 10.7.0.7)\n", "ray_workers_ended", Possible, "not for want of memory"},
		"a key of ssh":                {"Traceback (most recent call last):\n  File \"/x/deepspeed/launcher/runner.py\", line 7, in main\nsubprocess.CalledProcessError: Command 'ssh -o Zzz=7 gpu7 hostname' returned non-zero exit status 255.\n", "launcher_ssh_failed", Certain, "without a password"},
		"ssh by nobody's launcher":    {"subprocess.CalledProcessError: Command 'ssh store7 ls' returned non-zero exit status 255.\n", "launcher_ssh_failed", Likely, "need not be"},
		"ssh after a warning":         {warn("misc/socket.cc:7", "socketPollConnect: connect to 10.9.8.7<4711> returned Connection refused, exceeded error retry count after 34 attempts") + "subprocess.CalledProcessError: Command 'ssh store7 ls' returned non-zero exit status 255.\n", "bootstrap_connect", Likely, "gone"},
		"ssh, as pdsh says":           {"pdsh@gpu1: gpu7: ssh exited with exit code 255\n", "launcher_ssh_failed", Certain, "without a password"},
		"a heap, and its stack":       {"free(): invalid pointer\n[gpu1:41] Signal: Aborted (6)\n[gpu1:41] [ 0] /x/libc.so.6(+0x77)[0x7f]\n[gpu1:41] [ 1] /x/libzzz.so(zzz_zz+0x77)[0x7f]\n", "heap_corrupted", Likely, "in libzzz.so (zzz_zz)"},
		"a heap, and Python":          {"malloc(): corrupted top size\nFatal Python error: Aborted\n\nCurrent thread 0x77 (most recent call first):\n  File \"/x/zzz.py\", line 7 in backward\n  File \"/x/yyy.py\", line 9 in main\n", "heap_corrupted", Likely, "in zzz.py (backward)"},
		"a heap alone":                {"double free or corruption (!prev)\nAborted (core dumped)\n", "heap_corrupted", Likely, "does not show"},
		"a heap after a warning":      {warn("misc/socket.cc:7", "socketPollConnect: connect to 10.9.8.7<4711> returned Connection refused, exceeded error retry count after 34 attempts") + "free(): invalid pointer\n", "bootstrap_connect", Likely, "gone"},
		"guesses of Ray":              {"(raylet) zzz. Worker exit detail: zzz. There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called. (3) The worker is crashed unexpectedly due to SIGSEGV or other unexpected errors.\n", "causes_guessed", Possible, "saw none"},
		"guesses, and threads":        {"zzz. There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer\n(zzz pid=7) Unhandled exception: zzz. what(): thread: Resource temporarily unavailable [system:11]\n", "threads_exhausted", Certain, "threads"},
		"guesses, and what precedes":  {"RuntimeError: No CUDA GPUs are available\nRaylet is terminated. Termination is unexpected. Possible reasons include: (1) SIGKILL by the user or system OOM killer, (2) Invalid memory access from Raylet causing SIGSEGV or SIGBUS, (3) Other termination signals.\n", "gpu_none", Likely, "sees no GPU"},
		"guesses after words":         {"zzz: ERROR zzz of 7 failed\nThe node of the actor was terminated unexpectedly: zzz SIGSEGV or OOM killed by SIGKILL, possible causes: (1) zzz\n", "program_error", Possible, "The program itself"},
		"a command by ssh":            {"subprocess.CalledProcessError: Command 'ssh gpu7 zzz' returned non-zero exit status 7.\n", "launcher_ssh_failed", Possible, "command failed there"},
		"EFA and memory":              {"Libfabric EFA provider has encountered an internal error:\n\nLibfabric error: (-12) Cannot allocate memory\n", "efa_internal_error", Likely, "locked memory"},
		"EFA and rights":              {"Libfabric error: (-13) Permission denied\n", "efa_internal_error", Likely, "may not do this"},
		"an all-reduce of a program":  {"[Zzz][ERROR] peer access is not supported between these two devices in zzz::IpcMemory::zzz()\n", "peer_access_missing", Certain, "own all-reduce"},
		"peer access":                 {"zzz: CUDA error: peer access is not supported between these two devices\n", "peer_access_missing", Likely, "shares memory"},
		"P2P without peer access":     {warn("transport/p2p.cc:77", "failed to open CUDA IPC handle : 217 peer access is not supported between these two devices"), "p2p_failed", Likely, "no peer access"},
		"P2P of containers":           {warn("transport/p2p.cc:77", "failed to open CUDA IPC handle : 77 zzz"), "p2p_failed", Likely, "IPC namespace"},
		"a NIC on USB":                {says("Topology detection: network path /sys/zzz/usb7/7-7 is not a PCI device (usb). Attaching to first CPU") + warn("graph/xml.h:77", "Attribute busid of node nic not found"), "graph_file_wrong", Likely, "on USB"},
		"a NIC elsewhere":             {warn("graph/xml.h:77", "Attribute busid of node nic not found"), "graph_file_wrong", Possible, "topology file"},
		"completion status 1":         {warn("transport/net_ib.cc:77", "NET/IB : Got completion from peer 10.7.0.2<77> with status=1 opcode=0 len=0 vendor err 77 (Recv)"), "completion_local_length", Possible, "MTU"},
		"a kernel, and no Xid":        {warn("enqueue.cc:77", "Cuda failure 'unspecified launch failure'"), "gpu_kernel_failed", Possible, "kernel of the program"},
		"settings of another host":    {"(zzz) Overwriting environment variable NCCL_IB_HCA from 'zzz' to 'zz'\nRuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n", "nccl_error", Likely, "of another host"},
		"GIDs of other namespaces":    {says("NCCL version 2.24.7+cuda12.7") + warn("transport/net_ib.cc:77", "NET/IB: read failed in ncclIbRoceGetVersionNum: Invalid argument"), "roce_version_unreadable", Likely, "network namespaces"},
		"collectives":                 {"gpu1:41:77 [3] init.cc:77 NCCL WARN Mismatched collective detected, please check your collective calls at and around rank 77.\n", "collectives_mismatched", Certain, "same collectives"},
		"capture, an old CUDA":        {"NCCL version 2.7.7+cuda11.2\n" + warn("enqueue.cc:77", "NCCL cannot be captured in a graph if zzz"), "capture_unsupported", Certain, "before 11.3"},
		"capture, an old driver":      {"NCCL version 2.7.7+cuda11.7\n" + warn("enqueue.cc:77", "NCCL cannot be captured in a graph if zzz"), "capture_unsupported", Likely, "R465"},
		"capture, nothing known":      {warn("enqueue.cc:77", "NCCL cannot be captured in a graph if zzz"), "capture_unsupported", Possible, "before 11.3"},
	} {
		r := read(t, tt.log)
		first, reason := "", Stated{}
		if f := r.First(); f != nil {
			first, reason = f.Signature.ID, f.Reasons[0]
		}
		if first != tt.first || reason.Certainty != tt.certainty || !strings.Contains(reason.Cause, tt.reason) {
			t.Errorf("%s: %s %s: %q, expected %s %s: %q; %q", name, first, reason.Certainty, reason.Cause, tt.first, tt.certainty, tt.reason, r.Undecided())
		}
	}
}

// The monitor of Ray names the host.
func TestNodeOfRay(t *testing.T) {
	line := "zzz: 7 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: 77, IP: 10.7.0.7) over zzz\n"
	if f := read(t, line).First(); f == nil || f.Host != "10.7.0.7" {
		t.Errorf("%+v", f)
	}
}

// A query that NVML does not know is harmless where its thread goes on, or its process ends the set-up.
func TestIgnoredByNCCL(t *testing.T) {
	note := "gpu1:41:77 [0] misc/nvmlwrap.cc:7 NCCL WARN nvmlDeviceGetZzz(0,1) failed: Not Supported\n"
	back := "gpu1:41:77 [0] NCCL INFO init.cc:7 -> 2\n"
	register := "gpu1:41:77 [0] transport/p2p.cc:7 NCCL WARN rank 7 failed to IPC register userbuff 0x7f buffSize 77 nPeers 7 isLegacyIpc 0x7f\n"
	if r := read(t, ranks(1, "gpu1")+register); r.Failed() || r.Undecided() != "" {
		t.Errorf("registration: %q", r.Undecided())
	}
	for name, log := range map[string]string{
		"a line between": note + says("zzz") + back + ranks(1, "gpu1"),
		"another thread": note + strings.Replace(back, ":77 ", ":78 ", 1) + ranks(1, "gpu1"),
		"it went on":     note + back + ranks(1, "gpu1"),
	} {
		if r := read(t, log); r.Has(&signature.NVMLRefused) {
			t.Errorf("%s: %+v", name, r.First())
		}
	}
}

// Results without a line of NCCL are fine; information alone shows nothing of what came after it.
func TestInformation(t *testing.T) {
	options := "I0707 07:07:07.7 77 ProcessGroupNCCL.cpp:7] [Rank 7] ProcessGroupNCCL initialized with following options:\nNCCL_BLOCKING_WAIT: 0\nTIMEOUT(ms): 77\n"
	debugger := "   Rank  0 Pid  77 on gpu1 device  0 [0x7] Zzz\n[New Thread 0x7f (LWP 77)]\nwarning: Cuda API error detected: cudaDeviceEnablePeerAccess returned (0x2c0)\n"
	table := "# nThread 1 nGpus 1\n#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n  77 7 float none -1 7 7.7 7.7 0 7 7.7 7.7 0\n"
	for log, fine := range map[string]bool{
		options: false, debugger: false, table + "# Out of bounds values : 0 OK\n": true,
		"[rank7] Warning: Environment variable NCCL_ASYNC_ERROR_HANDLING is deprecated; use TORCH_NCCL_ASYNC_ERROR_HANDLING\nepoch 7\n": true,
		options + "zzz zzz zzz\n": false, table: false, "zzz zzz\n": false,
		debugger + "warning: Cuda API error detected: cudaLaunchKernel returned (0x2bc)\n": false,
	} {
		if r := read(t, log); (r.Undecided() == "" && !r.Failed()) != fine {
			t.Errorf("%q: failed %t, %q", log, r.Failed(), r.Undecided())
		}
	}
}

// A port that failed is what went wrong where a set-up never ends, unless it is back.
func TestPortInSetup(t *testing.T) {
	port := func(event string) string {
		return "gpu1:41:70 [0] transport/net_ib.cc:90 NCCL WARN NET/IB : mlx5_2:1 Got non-fatal async event: " + event + "\n"
	}
	begins := says("ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 7000 commId 0x77 - Init START")
	for log, first := range map[string]string{
		begins + port("port error(10)"):                          "port_failed",
		begins + port("port error(10)") + port("port active(9)"): "",
		port("port error(10)") + ranks(2, "gpu1", "gpu2"):        "",
		begins + port("port active(9)") + port("port error(10)"): "port_failed",
		begins + port("port error(10)") + "epoch 7, loss 7.7\n":  "",
		begins + port("client reregistration(17)"):               "",
	} {
		r := read(t, log)
		got := ""
		if f := r.First(); f != nil {
			got = f.Signature.ID
		}
		if got != first || !r.Failed() && r.Undecided() == "" && strings.HasPrefix(log, begins) {
			t.Errorf("%q: %q, expected %q; %q", log, got, first, r.Undecided())
		}
	}
}

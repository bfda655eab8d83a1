// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"
	"testing"
)

// warn is a warning with the calls that returned after it.
func warn(place, message string) string {
	return "[2026-03-04 05:06:07] gpu1:41:77 [0] " + place + " NCCL WARN " + message + "\n" +
		"gpu1:41:77 [0] NCCL INFO transport.cc:183 -> 2\ngpu1:41:77 [0] NCCL INFO init.cc:1263 -> 2\n"
}

// quoted is how PyTorch reports a failed call.
func quoted(before, result, last string) string {
	return before + "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.cpp:94, unhandled " + result +
		" error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3\n" + before + "ncclX: Call failed.\n" + before + "Last error:\n" + before + last + "\n"
}

func timeout(rank, seq int, op string) string {
	return fmt.Sprintf("[rank%d]:[E310 10:11:12.1 ProcessGroupNCCL.cpp:629] [Rank %d] Watchdog caught collective operation timeout: "+
		"WorkNCCL(SeqNum=%d, OpType=%s, NumelIn=77, NumelOut=77, Timeout(ms)=600000) ran for 600011 milliseconds before timing out.\n", rank, rank, seq, op)
}

// domain is a GPU in an NVLink domain.
const domain = "MNNVL busId 0x1000 fabric UUID 12ab.34cd cliqueId 0x1 state 3 healthMask 0x0"

// TestKinds has kinds of failures with values of its own: what is named, how sure it is, and a word of the reason.
func TestKinds(t *testing.T) {
	for name, tt := range map[string]struct {
		log       string
		first     string // empty: no failure
		certainty Certainty
		reason    string
	}{
		"P2P of containers":             {says("comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0") + ranks(2, "pod-a", "pod-b") + warn("transport/p2p.cc:290", "Cuda failure 101 'invalid device ordinal'"), "gpu_not_visible", Certain, "containers"},
		"P2P, quoted alone":             {quoted("[rank1]: ", "cuda", "Cuda failure 101 'invalid device ordinal'"), "cuda_failed", Possible, "set_device"},
		"pools of memory":               {warn("init.cc:416", "Cuda failure 'operation not supported'"), "cuda_failed", Likely, "does not support"},
		"IMEX":                          {says(domain) + says("comm 0x1 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 1") + warn("transport/p2p.cc:275", "Cuda failure 800 'operation not permitted'"), "nvlink_import_refused", Likely, "IMEX"},
		"IPC of containers":             {says("comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0") + warn("transport/p2p.cc:275", "Cuda failure 800 'operation not permitted'"), "nvlink_import_refused", Likely, "handles"},
		"MNNVL of NCCL 2.28":            {warn("mnnvl.cc:80", "MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX channel configuration (/dev/nvidia-caps-imex-channels). Set NCCL_MNNVL_ENABLE=0 to ignore this issue."), "mnnvl_unavailable", Certain, "IMEX"},
		"MNNVL by cuMem":                {says("NCCL_CUMEM_ENABLE set by environment to 0.") + says(domain) + says("comm 0x1 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 0") + ranks(8, "gpu1", "gpu2"), "mnnvl_unused", Certain, "NCCL_CUMEM_ENABLE=0"},
		"MNNVL by nothing":              {says(domain) + says("comm 0x1 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 0") + ranks(8, "gpu1", "gpu2"), "mnnvl_unused", Likely, "IMEX"},
		"fabric manager":                {warn("transport/nvls.cc:171", "Cuda failure 'invalid argument'"), "nvls_failed", Likely, "fabric manager"},
		"driver of NVLS":                {says("cudaDriverVersion 12010") + warn("transport/nvls.cc:171", "Cuda failure 1 'invalid argument'"), "nvls_failed", Likely, "driver is too old"},
		"system not yet initialized":    {quoted("", "cuda", "Cuda failure 802 'system not yet initialized'"), "fabric_not_ready", Likely, "fabric manager"},
		"memory of the GPU":             {warn("include/alloc.h:205", "Cuda failure 2 'out of memory'") + warn("include/alloc.h:212", "Failed to CUDA calloc async 4 bytes"), "gpu_memory_full", Likely, "memory of the GPU"},
		"driver and CUDA":               {warn("misc/cudawrap.cc:188", "Cuda failure 'forward compatibility was attempted on non supported HW'"), "driver_mismatch", Certain, "driver"},
		"no GPU":                        {warn("init.cc:1700", "Cuda failure 100 'no CUDA-capable device is detected'"), "gpu_missing", Likely, "CUDA_VISIBLE_DEVICES"},
		"ECC":                           {warn("enqueue.cc:1500", "Cuda failure 'uncorrectable ECC error encountered'"), "gpu_faulty", Certain, "hardware"},
		"an Xid before":                 {"[ 77.123456] NVRM: Xid (PCI:0000:5d:00): 79, pid=1, GPU has fallen off the bus.\n" + warn("enqueue.cc:1500", "Cuda failure 'unspecified launch failure'"), "xid_fallen_off", Likely, "bus"},
		"an Xid after":                  {"[rank1]: RuntimeError: CUDA error: unspecified launch failure\n" + "Mar  4 05:06:05 gpu1 kernel: NVRM: Xid (PCI:0000:5d:00): 119, pid=1, Timeout after 6s of waiting for RPC response from GPU3 GSP!\n", "xid_gsp", Likely, "firmware"},
		"an Xid of the end":             {warn("misc/socket.cc:560", "socketPollConnect: connect to 10.9.8.7<4711> returned Connection refused, exceeded error retry count after 34 attempts") + "[ 7.123456] NVRM: Xid (PCI:0000:5d:00): 45, pid=1, Ch 00000008\n", "bootstrap_connect", Likely, "gone"},
		"an illegal access":             {warn("enqueue.cc:1500", "Cuda failure 700 'an illegal memory access was encountered'"), "gpu_kernel_failed", Likely, "kernel of the program"},
		"link-local":                    {quoted("(Worker pid=7, ip=10.1.0.9) ", "system", "socketPollConnect: connect to 169.254.3.1<4711> returned Connection timed out, exceeded error retry count after 34 attempts"), "bootstrap_connect", Certain, "link-local"},
		"loopback":                      {ranks(4, "gpu1", "gpu2") + warn("misc/socket.cc:600", "socketStartConnect: Connect to 127.0.0.1<4711> failed : Connection refused"), "bootstrap_connect", Certain, "loopback"},
		"bridge":                        {warn("misc/socket.cc:600", "socketStartConnect: Connect to 172.17.0.3<4711> failed : Connection refused"), "bootstrap_connect", Likely, "docker0"},
		"rejected":                      {warn("misc/socket.cc:560", "socketPollConnect: Connect to 10.9.8.7<4711> returned 113(No route to host) errno 115(Operation now in progress)"), "bootstrap_connect", Likely, "firewall"},
		"dropped":                       {warn("misc/socket.cc:560", "socketPollConnect: connect to 10.9.8.7<4711> returned Connection timed out, exceeded error retry count after 34 attempts"), "bootstrap_connect", Likely, "security group"},
		"refused":                       {warn("misc/socket.cc:560", "socketPollConnect: connect to 10.9.8.7<4711> returned Connection refused, exceeded error retry count after 34 attempts"), "bootstrap_connect", Likely, "gone"},
		"open files":                    {warn("misc/socket.cc:820", "ncclSocketInit: Socket creation failed : Too many open files"), "ports_exhausted", Certain, "open files"},
		"subnets":                       {warn("misc/ibvwrap.cc:300", "Call to ibv_modify_qp failed with 113 No route to host, on dev mlx5_3:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.3.0.1, remote GID ::ffff:10.4.0.2"), "qp_modify", Likely, "subnets"},
		"no neighbour":                  {warn("misc/ibvwrap.cc:300", "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_3:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.3.0.1, remote GID ::ffff:10.3.0.2"), "qp_modify", Likely, "does not answer"},
		"index of the GID":              {says("NCCL_IB_GID_INDEX set by environment to 7.") + warn("misc/ibvwrap.cc:187", "Call to ibv_modify_qp failed with error Invalid argument errno 22"), "qp_modify", Likely, "NCCL_IB_GID_INDEX"},
		"memlock":                       {warn("misc/ibvwrap.cc:170", "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory errno 12"), "memory_registration", Likely, "locked memory"},
		"peermem":                       {warn("misc/ibvwrap.cc:170", "Call to ibv_reg_mr_iova2 failed with error Bad address errno 14"), "memory_registration", Likely, "nvidia_peermem"},
		"device nodes":                  {warn("misc/ibvwrap.cc:130", "Call to ibv_open_device failed with error Permission denied"), "ib_device_unusable", Likely, "no access"},
		"segment of PyTorch":            {quoted("(W pid=7) ERROR 02-12 19:57:26 worker.py:5] ", "system", "Error while creating shared memory segment /dev/shm/nccl-AbC (size 9637888)"), "shared_memory", Likely, "full"},
		"rails":                         {says("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0") + "gpu2:41:50 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [receive] via NET/IB/3\n" + warn("transport/net_ib.cc:1300", "NET/IB: Got completion from peer 10.0.7.7<4711> with status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_2"), "completion_retry_exceeded", Likely, "rail"},
		"only flushes":                  {says("Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA") + warn("transport/net_ib.cc:1300", "NET/IB: Got completion from peer 10.0.7.7<4711> with status=5 opcode=0 len=0 vendor err 249 (Recv) hca mlx5_0"), "completion_flushed", Likely, "ACS"},
		"flushes, and a reason":         {warn("transport/net_ib.cc:1300", "NET/IB: Got completion from peer 10.0.7.7<4711> with status=5 opcode=0 len=0 vendor err 249 (Recv) hca mlx5_0") + warn("transport/net_ib.cc:1300", "NET/IB: Got completion from peer 10.0.7.8<4711> with status=4 opcode=0 len=0 vendor err 81 (Send) hca mlx5_0"), "completion_local_protection", Possible, "redirects"},
		"a port before its requests":    {"gpu1:41:70 [0] transport/net_ib.cc:90 NCCL WARN NET/IB : mlx5_2:1 Got async error event: port error\n" + warn("transport/net_ib.cc:1300", "NET/IB: Got completion from peer 10.0.7.7<4711> with status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_2"), "port_error", Likely, "went down"},
		"an access of one host":         {warn("transport/net_ib.cc:1300", "NET/IB: Got completion from peer 10.0.7.7<4711> with status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_2") + "gpu2:52:90 [0] transport/net_ib.cc:90 NCCL WARN NET/IB : mlx5_4:1 async fatal event on QP (0x7f): local access violation work queue error\n", "async_fatal", Likely, "fatal event"},
		"NIC given up":                  {warn("transport/net_ib/p2p_resiliency.cc:600", "NET/IB: Fatal error. Detected 2 failed devices out of 2 devices on the send communicator (comm=0x1). No support for more than a single failed device."), "nic_failed", Likely, "gave up"},
		"NIC failed":                    {"gpu1:41:77 [0] transport/net_ib/p2p_resiliency.cc:500 NCCL WARN NET/IB: Device 1 marked as failed. Initiating recovery? Yes (send comm=0x1, outstandingRecovery=1)\n", "nic_failing", Likely, "slower"},
		"NIC failover by index":         {says("NET/IB: ncclIbRecvCommInit: Receive work requests will be pre-posted") + warn("transport/net_ib/p2p.cc:665", "NET/IB: ncclIbCompletionEventProcess: Recv comm could not retr"+"eive a request found for a successful completion (comm=0x7f93f004f000, wc.wr_id=-1, opcode=129, qp_num=43)"), "receive_unmatched", Likely, "by index"},
		"shared memory is full":         {warn("misc/shmutils.cc:87", "Error: failed to extend /dev/shm/nccl-Abc to 33030532 bytes, error: No space left on device (28)"), "shared_memory", Certain, "full"},
		"shared memory of containers":   {warn("misc/shmutils.cc:171", "Error while attaching to shared memory segment /dev/shm/nccl-Abc (size 9637888), error: No such file or directory (2)"), "shared_memory", Likely, "do not share"},
		"cuMem of the host":             {quoted("(EngineCore_DP0 pid=9) ", "system", "Error while attaching to shared memory segment /dev/shm/nccl- (size 0), error: No such file or directory (2)"), "shared_memory", Certain, "cuMem"},
		"an unknown plugin":             {warn("net_mrc.c:90", "NET/MRC: path group 7 has no plane"), "warning_unknown", Possible, "no row"},
		"an unknown warning of verbs":   {warn("transport/net_ib/connect.cc:90", "NET/IB : words of a release to come"), "verbs_call_failed", Possible, "The device, its port or its GID"},
		"an unknown one, and a result":  {"gpu1:41:77 [0] init.cc:9 NCCL WARN words of a release to come\n" + "RuntimeError: NCCL error in: x.cpp:7, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3\n", "setup_call_failed", Possible, "Another rank"},
		"an unknown one, and ranks":     {"gpu1:41:77 [0] init.cc:9 NCCL WARN words of a release to come\n" + timeout(0, 77, "ALLREDUCE") + timeout(1, 77, "BROADCAST"), "pytorch_watchdog_timeout", Certain, "different collectives"},
		"NIC given up, as NCCL says":    {says("NET/IB: ncclIbPortRecovery: Marking device 1 as permanently failed (send comm=0x1)"), "nic_failed", Likely, "gave up"},
		"a library of the plugin":       {says("NET/Plugin: Plugin load returned 2 : libfabric.so.1: cannot open shared object file: No such file or directory : when loading libnccl-net.so") + says("NET/IB : No device found.") + says("Using network Socket") + ranks(4, "gpu1", "gpu2"), "transport_tcp", Likely, "libfabric.so.1 is missing"},
		"memory of GB10":                {says("NET/IB : Using [0]rocep1s0f0:1/RoCE [1]roceP2p1s0f0:1/RoCE [RO]; OOB enp1:10.0.0.1<0>") + warn("misc/ibvwrap.cc:170", "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory errno 12"), "memory_registration", Likely, "CMA"},
		"EFA, security group":           {warn("nccl_net_ofi_rdma_connect:90", "NET/OFI Unable to insert remote address into address vector for device 3. RC: -22"), "ofi_address", Likely, "security group"},
		"EFA, no device":                {"gpu1:41:77 [0] nccl_net_ofi_create_plugin:90 NCCL WARN NET/OFI No eligible providers were found\ngpu1:41:77 [0] nccl_net_ofi_init:20 NCCL WARN NET/OFI aws-ofi-nccl initialization failed\n" + says("Using network Socket") + ranks(4, "gpu1", "gpu2"), "ofi_provider", Likely, "no EFA device"},
		"EFA, unreachable":              {warn("process_err_completion:90", "NET/OFI Request 0x7f completed with error. RC: 113. Error: unreachable remote"), "ofi_completion", Likely, "security group"},
		"no libibverbs":                 {says("Failed to open libibverbs.so[.1]") + says("Using network Socket") + ranks(4, "gpu1", "gpu2"), "transport_tcp", Likely, "no libibverbs"},
		"RDMA off":                      {says("NCCL_IB_DISABLE set by environment to 1.") + says("Using network Socket") + ranks(4, "gpu1", "gpu2"), "transport_tcp", Certain, "NCCL_IB_DISABLE=1"},
		"one host without":              {says("Using network IB") + "gpu2:9:9 [0] NCCL INFO Using network Socket\n" + ranks(4, "gpu1", "gpu2"), "transport_tcp", Likely, "Some hosts"},
		"ABI of rdma-core":              {"libibverbs: Warning: couldn't load driver 'libmlx5-rdmav34.so': libmlx5-rdmav34.so: cannot open shared object file: No such file or directory\n" + says("NET/IB : No device found.") + says("Using network Socket") + ranks(4, "gpu1", "gpu2"), "transport_tcp", Likely, "ABI"},
		"a network that is missing":     {says("NET/Plugin: Could not find: libnccl-net.so.") + warn("plugin/net.cc:230", "Failed to initialize any NET plugin"), "net_plugin", Likely, "LD_LIBRARY_PATH"},
		"graphs of another machine":     {says("NCCL_GRAPH_FILE set by environment to /etc/nccl/graph.xml") + warn("graph/search.cc:700", "XML Import Channel : dev 8 not found."), "graph_file_wrong", Certain, "another machine"},
		"HAMi":                          {"[HAMI-core ERROR (pid:9 thread=7 multiprocess_memory_limit.c:831)]: Illegal device id: 77\n!!!!!!! Segfault encountered !!!!!!!\n", "interceptor_failed", Certain, "HAMi"},
		"the stack":                     {says("NCCL version 2.26.5+cuda12.9") + says(domain) + "Fatal Python error: Segmentation fault\n", "process_crashed", Likely, "stack"},
		"a crash of another kind":       {complete + "Fatal Python error: Segmentation fault\n", "process_crashed", Possible, "crashed"},
		"an abort that follows":         {warn("misc/socket.cc:560", "socketPollConnect: connect to 10.9.8.7<4711> returned Connection refused, exceeded error retry count after 34 attempts") + "Fatal Python error: Aborted\n", "bootstrap_connect", Likely, "gone"},
		"memory of the host":            {"gpu1: socketProgress\nslurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.\n", "host_out_of_memory", Certain, "ran out of memory"},
		"an exception of one rank":      {"[rank3]: Traceback (most recent call last):\n[rank3]:   File \"train.py\", line 7, in <module>\n[rank0]: other words\n[rank3]:     main()\n[rank3]: ValueError: loss is not finite\n" + timeout(0, 77, "ALLREDUCE") + timeout(1, 77, "ALLREDUCE"), "program_exception", Likely, "configuration, data or code"},
		"an exception that NCCL made":   {"[rank3]: Traceback (most recent call last):\n[rank3]:   File \"train.py\", line 7, in <module>\n" + quoted("[rank3]: ", "system", "socketProgress: Connection closed by remote peer gpu9<4711>"), "peer_closed", Likely, "another rank"},
		"memory of a rank":              {"[rank2]: Traceback (most recent call last):\n[rank2]:   File \"t.py\", line 7, in f\n[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.00 GiB.\n" + timeout(0, 5, "ALLREDUCE"), "gpu_out_of_memory", Certain, "GPU"},
		"ranks apart":                   {timeout(0, 77, "ALLREDUCE") + timeout(1, 77, "ALLREDUCE") + timeout(2, 77, "BROADCAST"), "pytorch_watchdog_timeout", Certain, "different collectives"},
		"ranks behind":                  {timeout(0, 77, "ALLREDUCE") + timeout(1, 77, "ALLREDUCE") + timeout(2, 78, "BROADCAST"), "pytorch_watchdog_timeout", Likely, "behind"},
		"a rank is missing":             {timeout(0, 77, "ALLREDUCE") + timeout(1, 77, "ALLREDUCE") + timeout(3, 77, "ALLREDUCE"), "pytorch_watchdog_timeout", Likely, "Rank 2 did not call"},
		"none is missing":               {ranks(2, "gpu1", "gpu2") + timeout(0, 77, "ALLREDUCE") + timeout(1, 77, "ALLREDUCE"), "pytorch_watchdog_timeout", Likely, "none is missing"},
		"ranks that are not known":      {timeout(0, 77, "ALLREDUCE") + timeout(1, 77, "ALLREDUCE") + timeout(2, 77, "ALLREDUCE"), "pytorch_watchdog_timeout", Likely, "does not show"},
		"one rank alone":                {timeout(5, 77, "ALLREDUCE"), "pytorch_watchdog_timeout", Possible, "on some ranks only"},
		"a rank at work":                {"Saving shards of x:  41%|####  | 41/100 [12:01<17:00, 1.2it/s]\n" + timeout(1, 77, "ALLREDUCE") + timeout(2, 77, "ALLREDUCE") + timeout(3, 77, "ALLREDUCE"), "pytorch_watchdog_timeout", Likely, "Rank 0 did not come, while the log shows a loop that goes on: Saving shards of x 41 %"},
		"older status 12":               {warn("transport/net_ib.cc:820", "NET/IB : Got completion with error 12, opcode 7, len 0, vendor err 129"), "completion_retry_exceeded", Possible, "MTUs"},
		"older status 4":                {warn("transport/net_ib.cc:820", "NET/IB : Got completion with error 4, opcode 7, len 0, vendor err 81"), "completion_local_protection", Possible, "redirects"},
		"its status comes behind":       {"gpu1:41:77 [0] transport/net_ib/p2p.cc:7 NCCL WARN NET/IB: ncclIbTest: Got CQE with error (devIndex=0, req=0x1, comm=0x2 (send), wr_id=7, qp_num=7)\n" + warn("transport/net_ib/p2p.cc:9", "NET/IB: Got completion from peer 10.7.0.2<4711> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=0  hca mlx5_1"), "completion_retry_exceeded", Possible, "path"},
		"an empty address":              {says("NCCL_SOCKET_IFNAME set by environment to eth7") + quoted("[rank1]: ", "system", "ncclSocketInit: connecting to address  with family 7 is neither AF_INET(2) nor AF_INET6(10)"), "peer_address_empty", Likely, "NCCL_SOCKET_IFNAME=eth7 matches no interface"},
		"releases that differ":          {"NCCL version 2.18.3+cuda12.1\nNCCL version 2.21.5+cuda12.4\n" + warn("misc/socket.cc:400", "ncclSocketInit: connecting to address  with family 0 is neither AF_INET(2) nor AF_INET6(10)"), "peer_address_empty", Likely, "2.18.3, 2.21.5"},
		"veth":                          {warn("include/socket.h:400", "Connect to fe80::77:1%vethab12<4711> failed : Network is unreachable"), "bootstrap_connect", Certain, "link-local"},
		"networks of hosts":             {says("Using network IB") + "gpu2:9:9 [0] NCCL INFO Using network Socket\n" + warn("misc/socket.cc:337", "socketFinalizeAccept from 10.7.0.2<4711>: wrong type 3 != 4"), "bootstrap_mismatch", Certain, "IB, Socket"},
		"plugin on some hosts":          {says("Using network IBext_v9") + "gpu2:9:9 [0] NCCL INFO Using network IB\n" + says("ncclCommInitRank comm 0x1 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 7000 commId 0x77 - Init START"), "networks_differ", Likely, "IB, IBext_v9"},
		"quoted by XLA":                 {"E0704 1 x.cc:7] INTERNAL: NCCL operation ncclGroupEnd() failed: unhandled system error (run with NCCL_DEBUG=INFO for details). Last NCCL warning(error) log entry (may be unrelated) 'socketAccept: Accept failed: Too many open files'.\n", "ports_exhausted", Certain, "open files"},
		"quoted by nccl-tests":          {"gpu1: Test NCCL failure common.cu:77 'unhandled system error (run with NCCL_DEBUG=INFO for details) / Error: failed to extend /dev/shm/nccl-Xy to 7 bytes, error: No space left on device (28)'\n", "shared_memory", Certain, "full"},
		"NCCL 2.3":                      {"gpu1:7:7 [0] include/socket.h:7 WARN Socket creation failed : Address family not supported by protocol\n", "ports_exhausted", Likely, "no usable IP interface"},
		"older shared memory":           {warn("include/shm.h:20", "Call to posix_fallocate failed : No space left on device"), "shared_memory", Certain, "full"},
		"peer access":                   {warn("transport/shm.cc:580", "Cuda failure 217 'peer access is not supported between these two devices'"), "gpu_host_memory", Likely, "by cuMem"},
		"a C library":                   {says("NET/Plugin: Plugin load returned 2 : /lib/libc.so.6: version `GLIBC_2.77' not found (required by /opt/x/libnccl-net.so) : when loading libnccl-net.so") + warn("net.cc:500", "Error: network xIB not found."), "net_plugin", Certain, "GLIBC_2.77"},
		"a test without an end":         {complete + "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n", "", "", ""},
		"SHARP, and it goes on":         {"gpu1:41:77 [0] sharp_plugin.c:7 NCCL WARN NET/IB : SHARP coll init error: Cannot create SHARP job(-11)\ngpu1:41:77 [0] NCCL INFO transport.cc:7 -> 2\n" + complete, "", "", ""},
		"Jetson":                        {"gpu1:41:77 [0] misc/nvmlwrap.cc:7 NCCL WARN nvmlDeviceGetP2PStatus(0,0,NVML_P2P_CAPS_INDEX_READ) failed: Not Supported\n" + complete, "", "", ""},
		"EFA, handshake":                {warn("ofi_process_cq:7", "NET/OFI Request 0x7f completed with error. RC: 103. Error: 4126 (Unresponsive receiver (reachable by EFA device but handshake failed))"), "ofi_completion", Likely, "security group"},
		"libfabric over TCP":            {says("NET/OFI Selected provider is tcp, fabric is 10.7.0.0/16 (found 1 nics)"), "ofi_provider_tcp", Likely, "not visible"},
		"RxDM":                          {"[pod/p-1/tcpxo-daemon] E0708 14:02:11.381220       1 fastrak_gpumem_manager.cc:200] Number of GPUs detected in the PCI tree 3 is not equal to the actual number of GPUs reported by CUDA 4\n" + warn("external/x.cc:7", "NET/FasTrak : connect() error: 111: Connection refused"), "rxdm_failed", Likely, "RxDM"},
		"NVLink, as CUDA says":          {"[rank5]:[E518 04:11:52.3 ProcessGroupNCCL.cpp:2068] [PG ID 0 PG GUID 0(default_pg) Rank 5] Process group watchdog thread terminated with exception: CUDA error: uncorrectable NVLink error detected during the execution\n", "gpu_hardware", Certain, "hardware"},
		"NVLink, as the driver says":    {"RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution\n[ 7.123456] NVRM: Xid (PCI:0000:5d:00): 45, pid=1, Ch 00000008 caused by previous Xid 145\n", "xid_nvlink", Likely, "NVLink"},
		"capture":                       {"[rank7]:[E ProcessGroupNCCL.cpp:830] [Rank 7] NCCL watchdog thread terminated with exception: CUDA error: operation not permitted when stream is capturing\n", "gpu_capture", Likely, "graph"},
		"802 of a program":              {"gpu1: Test CUDA failure common.cu:7 'system not yet initialized'\n", "gpu_fabric_manager", Likely, "fabric manager"},
		"a GPU that is lost":            {"RuntimeError: CUDA error: unspecified launch failure\nUnable to determine the device handle for GPU0000:77:00.0: Unknown Error\n", "gpu_lost", Likely, "lost"},
		"loader of data":                {"RuntimeError: unable to write to file </torch_77_7>: No space left on device (28)\n" + timeout(1, 77, "BROADCAST"), "shm_exhausted", Certain, "/dev/shm"},
		"PyTorch without NCCL":          {"[W socket.cpp:601] [c10d] The client socket has failed to connect to [h]:7 (system error: 10049 - x).\nRuntimeError: Distributed package doesn't have NCCL built in\n", "nccl_not_built", Certain, "without NCCL"},
		"a name":                        {"[W socket.cpp:601] [c10d] The IPv4 network addresses of (head-7, 7777) cannot be retrieved (gai error: -2 - Name or service not known).\n[E socket.cpp:755] [c10d] The client socket has timed out after 60s while trying to connect to (head-7, 7777).\n", "rendezvous_failed", Certain, "not resolved"},
		"a name that came later":        {"[W socket.cpp:601] [c10d] The IPv6 network addresses of (head-7, 7777) cannot be retrieved (gai error: -2 - Name or service not known).\nepoch 7 loss 0.7\n", "", "", ""},
		"a port":                        {"[W socket.cpp:436] [c10d] The server socket has failed to bind to [::]:7777 (errno: 98 - Address already in use).\n[E socket.cpp:472] [c10d] The server socket has failed to listen on any local network address.\n", "rendezvous_failed", Likely, "has the port"},
		"a netmask":                     {"[W socket.cpp:663] [c10d] The client socket has failed to connect to 255.255.255.0:7777 (errno: 110 - Connection timed out).\n[E socket.cpp:719] [c10d] The client socket has failed to connect to any network address of (255.255.255.0, 7777).\n", "rendezvous_failed", Certain, "netmask"},
		"retries, and the job goes on":  {"[W socket.cpp:663] [c10d] The client socket has failed to connect to [head-7]:7777 (errno: 111 - Connection refused).\n" + complete, "", "", ""},
		"a name, in one line":           {"torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of (head-7, 7777). The IPv4 network addresses of (head-7, 7777) cannot be retrieved (gai error: -2 - Name or service not known).\n", "rendezvous_failed", Certain, "not resolved"},
		"GIDs that change":              {"gpu1:41:70 [0] transport/net_ib.cc:73 NCCL WARN NET/IB : Got async event : GID table change\n" + warn("transport/net_ib.cc:820", "NET/IB : Got completion with error 12, opcode 7, len 7, vendor err 129"), "gid_changed", Likely, "address"},
		"an errno of a plugin":          {warn("net_zzz.c:9", "NET/ZZZ: open of /dev/zzz7 failed: Permission denied"), "warning_unknown", Likely, "may not do this"},
		"an errno of shared memory":     {warn("include/shm.h:28", "Call to shm_open failed : No space left on device"), "host_memory_failed", Likely, "/dev/shm"},
		"capture of NCCL":               {warn("enqueue.cc:7", "Cuda failure 901 'operation failed due to a previous error during capture'"), "capture_failed", Likely, "captures a graph"},
		"Gloo, an interface":            {"RuntimeError: [enforce fail at gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find address for: eth7\n", "gloo_connect", Certain, "GLOO_SOCKET_IFNAME"},
		"Gloo, loopback":                {"RuntimeError: [gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:4711: Connection refused\n", "gloo_connect", Likely, "loopback"},
		"no GPU of a program":           {"RuntimeError: No CUDA GPUs are available\n", "gpu_none", Likely, "sees no GPU"},
		"an ordinal":                    {"RuntimeError: CUDA error: invalid device ordinal\n", "gpu_ordinal", Likely, "does not see"},
		"open files of a program":       {"OSError: [Errno 24] Too many open files\n", "files_exhausted", Certain, "open files"},
		"a store":                       {"[rank1]: torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /default_pg/0//cuda//0\n", "store_timeout", Likely, "Rank 0"},
		"UCX":                           {"[17.7] [h:7 :0] ib_mlx5_log.c:179 UCX  ERROR Transport retry count exceeded on mlx5_7:1/RoCE\n", "ucx_error", Likely, "acknowledge"},
		"HIP, memory":                   {warn("init.cc:7", "HIP failure 'out of memory'"), "hip_failed", Likely, "no memory left"},
		"a C library of a program":      {"ImportError: /lib/libc.so.6: version `GLIBC_2.77' not found (required by /x/libnccl.so.2)\n", "libc_too_old", Certain, "newer C"},
		"wrong results":                 {complete + "# Out of bounds values : 7 FAILED\n", "results_wrong", Certain, "wrong results"},
		"a host without, in set-up":     {says("Using network IB") + "gpu2:9:9 [0] NCCL INFO Using network Socket\n" + says("ncclCommInitRank comm 0x1 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 7000 commId 0x77 - Init START"), "networks_differ", Likely, "IB, Socket"},
		"an Xid long after":             {"[2026-01-02 03:04:05] RuntimeError: CUDA error: an illegal memory access was encountered\n[Fri Jan  2 03:17:05 2026] NVRM: Xid (PCI:0000:5d:00): 62, x\n", "gpu_program_error", Likely, "kernel of the program"},
		"an Xid just before":            {"[Fri Jan  2 03:04:01 2026] NVRM: Xid (PCI:0000:5d:00): 62, x\n[2026-01-02 03:04:05] RuntimeError: CUDA error: an illegal memory access was encountered\n", "xid", Likely, "driver"},
		"a barrier of the store":        {"RuntimeError: Timed out initializing process group in store based barrier on rank: 7, for key: store_based_barrier_key:1 (world_size=9, worker_count=7, timeout=0:30:00)\n", "rendezvous_failed", Likely, "Not all"},
		"a name, in older releases":     {"ValueError: host not found: Name or service not known\n", "rendezvous_failed", Certain, "not resolved"},
		"a GPU of AMD":                  {"HW Exception by GPU node-7 (Agent handle: 0x7) reason :GPU Hang\n", "gpu_program_error", Possible, "GPU, its link or the driver"},
		"an engine that waits":          {complete + says("comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0") + says("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM") + "TimeoutError: RPC call to sample_tokens timed out.\n", "watchdog_stuck", Possible, "ACS"},
		"an address of another host":    {"[W socket.cpp:436] [c10d] The server socket has failed to bind to 10.7.7.7:7777 (errno: 99 - Cannot assign requested address).\n[E socket.cpp:472] [c10d] The server socket has failed to listen on any local network address.\n", "rendezvous_failed", Likely, "not of this host"},
		"shapes":                        {"[rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=7, OpType=ALLREDUCE\n", "collectives_differ", Certain, "different sizes"},
		"reverse path":                  {quoted("", "system", "Failed to find reverse path from remNode 0/77000 nlinks 4 to node 0/78000"), "topology_unreadable", Possible, "one side"},
		"GIDs beyond the table":         {says("NCCL_IB_GID_INDEX set by environment to 777.") + warn("misc/ibvwrap.cc:165", "Call to ibv_query_gid failed with error Unknown error -1 errno -1"), "gid_query", Likely, "NCCL_IB_GID_INDEX"},
		"queues":                        {says("NCCL_IB_QPS_PER_CONNECTION set by environment to 777.") + warn("misc/ibvwrap.cc:165", "Call to ibv_create_cq failed with error Invalid argument"), "qp_create", Likely, "NCCL_IB_QPS_PER_CONNECTION=777"},
		"buffers":                       {says("NCCL_BUFFSIZE set by environment to 777777777.") + warn("misc/ibvwrap.cc:165", "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory"), "memory_registration", Likely, "NCCL_BUFFSIZE=777777777"},
		"warning before a refused call": {"gpu1:41:77 [0] NCCL WARN NET/OFI The sky plugin can not be loaded with NCCL_PROTO\nRuntimeError: NCCL Error 4: invalid argument (run with NCCL_DEBUG=WARN for details)\n", "warning_unknown", Likely, "A setting that the line names"},
		"allocation alone":              {"gpu1:41:77 [2] NCCL WARN Failed to CUDA calloc 7777777 bytes\ngpu1:41:77 [2] NCCL INFO init.cc:1263 -> 1\n", "gpu_allocation", Likely, "nearly all memory"},
		"peers of CUDA":                 {warn("allocator.cc:79", "Cuda failure 711 'peer mapping resources exhausted'"), "cuda_failed", Certain, "more peers"},
		"kernel that does not start":    {warn("enqueue.cc:1777", "Cuda failure 1 'invalid argument'"), "kernel_launch", Likely, "does not fit the GPU or the driver"},
		"no algorithm, 2.31":            {warn("enqueue.cc:77", "No algorithm/protocol nor symKernelId available for function Reduce with datatype ncclInt8. NCCL_ALGO was set to allreduce:ring."), "no_algorithm", Likely, "NCCL_ALGO or NCCL_PROTO"},
		"disk":                          {"Traceback (most recent call last):\n  File \"train.py\", line 77, in save\nOSError: [Errno 28] No space left on device\n", "disk_full", Certain, "file system"},
		"fork":                          {"[rank3]: RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method\n" + timeout(0, 7, "ALLREDUCE"), "forked_cuda", Certain, "forked"},
		"tensor of the CPU":             {"[rank1]: RuntimeError: No backend type associated with device type cpu\n", "tensor_not_on_gpu", Certain, "tensor of the CPU"},
		"shared memory of kernels":      {says("ncclMaxSharedMem 77777 exceeds device/fn maxSharedMem 70000") + warn("enqueue.cc:1500", "Cuda failure 1 'invalid argument'"), "kernel_launch", Likely, "more shared memory"},
		"an attribute of a file":        {says("NCCL_TOPO_FILE set by environment to /opt/x.xml") + warn("graph/xml.h:101", "Attribute sm of node gpu not found"), "graph_file_wrong", Likely, "topology file"},
		"a stranger":                    {says("NCCL version 2.24.3+cuda12.8") + warn("misc/socket.cc:70", "socketProgress: Connection closed by remote peer 10.7.0.2<4711>"), "peer_closed", Possible, "another rank"},
		"P2P that stalls":               {ranks(2, "gpu1", "gpu1") + says("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC") + timeout(0, 1, "BROADCAST") + timeout(1, 1, "BROADCAST"), "pytorch_watchdog_timeout", Likely, "ACS"},
		"an initializer":                {"RuntimeError: NCCL error in: /pytorch/x/symm_mem/nccl_devcomm_manager.hpp:9, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.29.3\n", "program_call_refused", Likely, "framework"},
		"a wrong argument":              {warn("misc/argcheck.cc:40", "AllReduce : invalid root 9 (root should be in the 0..8 range)"), "call_invalid", Likely, "program"},
		"rendezvous":                    {"torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 3/4 clients joined.\n", "rendezvous_failed", Likely, "Not all"},
		"memory of the driver":          {"[ 7.123456] NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from _memdescAllocInternal(pMemDesc) @ mem_desc.c:1359\n", "gpu_driver_memory", Likely, "CMA"},
		"RAS":                           {complete + "gpu1:41:41 [0] ras/client_support.cc:160 NCCL WARN Call to bind failed: Address already in use\n", "", "", ""},
		"kernel of RCCL":                {complete + "gpu1:41:41 [0] init.cc:90 NCCL WARN Missing \"iommu=pt\" from kernel command line which can lead to system instablity or hang!\n", "", "", ""},
		"RCCL ignores":                  {complete + says("NCCL_MIN_NCHANNELS set by environment is ignored due to less than 8 GPUs."), "", "", ""},
		"windows in a graph":            {"Capturing CUDA graphs: 0%\n  File \"x.py\", line 7, in register_comm_window\nRuntimeError: NCCL error: unhandled cuda error\n", "nccl_error", Likely, "captures a CUDA graph"},
		"a result of CUDA alone":        {"RuntimeError: NCCL error: unhandled cuda error\n", "nccl_error", Possible, "a call of CUDA failed, not which"},
		"a result of the system alone":  {"RuntimeError: NCCL error: unhandled system error\n", "nccl_error", Possible, "a call of the system failed, not which"},
		"a name of a result":            {"engine: ncclAllReduce returned ncclInvalidArgument\n", "program_call_refused", Possible, "Two ranks"},
		"a crash within windows":        {"Segfault encountered\n  File \"<unknown>\", line 0, in ncclCommWindowRegister\n", "process_crashed", Likely, "symmetric memory"},
		"a crash of a plugin":           {"Caught signal 11 (Segmentation fault)\n 7 /opt/x/lib/libnccl-net.so(+0x777) [0x7f]\n", "process_crashed", Likely, "plugin"},
		"killed, as DeepSpeed says":     {"[2026-01-02 03:04:05] [ERROR] [launch.py:7:sigkill_handler] ['python'] exits with return code = -9\n", "process_killed", Possible, "OOM killer"},
		"a message of another size":     {says("NCCL version 2.20.3+cuda12.3") + warn("bootstrap.cc:77", "Message truncated : received 777 bytes instead of 7"), "bootstrap_mismatch", Likely, "not in the same call"},
		"WSL":                           {"NCCL version 2.8.3+cuda11.0\n" + warn("graph/xml.cc:332", "Could not find real path of /sys/class/pci_bus/0000:07/../../0000:07:00.0"), "sysfs_missing", Likely, "WSL2"},
		"libfabric":                     {warn("reg:77", "NET/OFI Unable to register memory (type = 2) for device 7. RC: -22, Error: Invalid argument"), "ofi_memory", Likely, "do not fit"},
		"a connection that stood":       {complete + warn("misc/socket.cc:49", "socketProgress: Call to recv from 10.7.7.7<4711> failed : Connection timed out"), "socket_failed", Likely, "cut on its way"},
		"CUDA, by the place":            {warn("transport/coll_net.cc:777", "Cuda failure 1 'invalid argument'"), "cuda_failed", Possible, "SHARP"},
		"CUDA, a symbol":                {warn("init.cc:77", "Cuda failure 'named symbol not found'"), "cuda_failed", Likely, "no code for the GPU"},
		"a worker of an engine":         {"2026-01-02 03:04:05 ERROR core: Exception: WorkerProc initialization failed. See stack trace for root cause.\n", "program_error", Likely, "one of its workers"},
		"words of a list of CUDA":       {"AssertionError: Invalid device id\n", "gpu_ordinal", Likely, "does not see"},
		"a heap":                        {"double free or corruption (out)\n#7 0x77 in ncclZzz () from /x/libnccl.so.2\n", "heap_corrupted", Likely, "in libnccl.so.2 (ncclZzz)"},
		"the fabric manager":            {"[ERROR] [tid 7] failed to find the GPU handle 7 in the multicast team request setup 7.\n", "fabric_manager_error", Likely, "fabric manager"},
		"one address of all":            {"ValueError: Every node should have a unique IP address. Got 7 nodes\n", "addresses_not_unique", Likely, "same address"},
		"quoted, by its first words":    {quoted("", "internal", "Bootstrap Root : words of a release to come"), "bootstrap_failed", Possible, "Another rank"},
		"a watchdog that ends":          {"[rank3]:[E1104 20:00:00.0 ProcessGroupNCCL.cpp:1414] [PG 0 Rank 3] Terminating the process after attempting to dump debug info, due to collective timeout or exception.\n", "pytorch_watchdog_exception", Possible, "collective failed"},
		"a device of one host":          {"gpu2:9:9 [0] NCCL WARN NET/IB : Unable to open device zzz_1\ngpu2:9:9 [0] NCCL INFO NET/IB : Using [0]zzz_0:1/RoCE [RO]; OOB eth7:10.7.0.2<0>\n" + says("NET/IB : Using [0]zzz_0:1/RoCE [1]zzz_1:1/RoCE [RO]; OOB eth7:10.7.0.1<0>") + ranks(2, "gpu1", "gpu2"), "ib_device_unusable", Likely, "that others use"},
		"a fault of the IOMMU":          {"Sep 21 09:59:59 gpu1 kernel: nvidia 0000:07:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0007 address=0x77 flags=0x0020]\n" + timeout(0, 1, "ALLREDUCE") + timeout(1, 1, "ALLREDUCE"), "iommu_fault", Likely, "IOMMU refused"},
		"a result that nobody knows":    {"Failed, NCCL error /x/allreducePlugin.cpp:77 'unknown result code'\n", "nccl_error", Likely, "another NCCL"},
		"an engine without progress":    {"INFO 08-20 11:22:33 [shm_broadcast.py:77] No available shared memory broadcast block found in 60 seconds.\n", "engine_waits", Possible, "blocks"},
		"GB10":                          {says("NET/IB : Using [0]rocep1s0f0:1/RoCE [1]roceP2p1s0f0:1/RoCE [RO]; OOB enp1:10.0.0.1<0>") + says("Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0") + ranks(2, "gpu1", "gpu2"), "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := read(t, tt.log)
			first, reason := "", Stated{}
			if f := r.First(); f != nil {
				first, reason = f.Signature.ID, f.Reasons[0]
			}
			if first != tt.first || reason.Certainty != tt.certainty || !strings.Contains(reason.Cause, tt.reason) {
				t.Errorf("%s %s: %q, expected %s %s: %q; %q\n%s", first, reason.Certainty, reason.Cause, tt.first, tt.certainty, tt.reason, r.Undecided(), tt.log)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"
	"testing"
)

// gathers is a time-out of a gather whose ranks must give the same number of elements.
func gathers(rank, elements int) string {
	return fmt.Sprintf("[rank%d]:[E310 10:11:12.1 ProcessGroupNCCL.cpp:629] [Rank %d] Watchdog caught collective operation timeout: "+
		"WorkNCCL(SeqNum=77, OpType=_ALLGATHER_BASE, NumelIn=%d, NumelOut=777, Timeout(ms)=600000) ran for 600011 milliseconds before timing out.\n",
		rank, rank, elements)
}

// TestEvidence: where two reasons print one line, another line of the log tells them apart.
func TestEvidence(t *testing.T) {
	memory := "gpu1:41:77 [0] include/alloc.h:77 NCCL WARN Cuda failure 2 'out of memory'\n"
	through := "gpu1:41:77 [0] NCCL INFO transport/shm.cc:77 -> 1\n"
	refused := "gpu2:42:78 [0] include/socket.h:7 NCCL WARN Call to connect timeout : Connection refused\ngpu2:42:78 [0] NCCL INFO bootstrap.cc:7 -> 2\n"
	other := "gpu2:42:78 [0] NCCL INFO NET/Socket : Using [0]eth7:10.7.0.2<0>\n"
	qp := warn("misc/ibvwrap.cc:77", "Call to ibv_modify_qp failed with error Connection timed out")
	protection := warn("transport/net_ib/p2p.cc:77", "NET/IB: Got completion from peer 10.7.0.2<77> with status=IBV_WC_LOC_PROT_ERR(4) opcode=IBV_WC_SEND(0) vendor_err=77 hca mlx5_7")
	for name, tt := range map[string]struct {
		log       string
		first     string
		certainty Certainty
		reason    string
	}{
		"memory of the host":      {memory + through, "gpu_memory_full", Likely, "memory of the host"},
		"memory of the GPU":       {memory + "gpu1:41:77 [0] NCCL INFO transport/p2p.cc:77 -> 1\n", "gpu_memory_full", Likely, "uses nearly all memory of the GPU"},
		"of another process":      {memory + strings.Replace(through, "gpu1:41", "gpu1:99", 1), "gpu_memory_full", Likely, "uses nearly all memory of the GPU"},
		"loopback is first":       {says("NET/Socket : Using [0]lo:127.0.0.1<0> [1]eth7:10.7.0.1<0>") + other + refused, "socket_call_failed", Likely, "loopback"},
		"loopback is not first":   {says("NET/Socket : Using [0]eth7:10.7.0.1<0>") + other + refused, "socket_call_failed", Likely, "failed first"},
		"a GID that is set":       {says("NCCL_IB_GID_INDEX set by environment to 7.") + qp, "qp_modify", Likely, "NCCL_IB_GID_INDEX=7"},
		"a GID that NCCL chose":   {qp, "qp_modify", Likely, "does not answer"},
		"an old rdma-core":        {says("dlvsym failed on mlx5dv_reg_dmabuf_mr - /x/libmlx5.so: undefined symbol: mlx5dv_reg_dmabuf_mr, version MLX5_1.25") + protection, "completion_local_protection", Likely, "rdma-core"},
		"rdma-core is not named":  {protection, "completion_local_protection", Possible, "ACS"},
		"too many devices":        {warn("graph/xml.h:77", "Error : too many XML nodes (max 77)"), "topology_unreadable", Certain, "more devices"},
		"no multicast groups":     {quoted("", "cuda", "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 777 : CUDA error 2 'out of memory'."), "nvls_bind", Likely, "multicast groups"},
		"a segment of terabytes":  {warn("misc/shmutils.cc:77", "Error while attaching to shared memory segment /dev/shm/nccl- (size 77777777777777), error: No such file or directory (2)"), "shared_memory", Likely, "different transports"},
		"atomics of PCIe":         {warn("/x/hipify/src/enqueue.cc:77", "HIP failure 'the operation cannot be performed in the present state'"), "hip_failed", Possible, "atomics"},
		"shares that differ":      {gathers(0, 70) + gathers(1, 70) + gathers(2, 77), "pytorch_watchdog_timeout", Certain, "different collectives"},
		"a device of nccl-tests":  {"g7: Test CUDA failure common.cu:77 'invalid device ordinal'\n .. g7 pid 77: Test failure common.cu:78\n", "gpu_ordinal", Likely, "does not see"},
		"off the bus without Xid": {"[ 77.7] NVRM: The NVIDIA GPU 0000:77:00.0\n               NVRM: fallen off the bus and is not responding to commands.\n", "gpu_off_bus", Certain, "does not answer"},
		"an error left behind":    {"torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device\n", "gpu_build_unfit", Likely, "not built"},
		"ssh":                     {"ssh: connect to host gpu7 port 22: Connection refused\n", "launcher_failed", Likely, "did not begin"},
		"a share of memory":       {"gpu1 | (Worker pid=7) ERROR ValueError: Free memory on device cuda:0 (7.7/77.7 GiB) on startup is less than desired GPU memory utilization (0.77, 70 GiB).\ngpu2 | [rank1]:[W816 07:41:23.1 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=7): Broken pipe\n", "gpu_share_not_free", Certain, "less memory"},
		"the one that others lost": {
			"gpu1 | (Worker pid=7) ERROR zzz: cannot zzz the zzz\ngpu2 | [rank1]:[W816 07:41:23.1 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=7): Broken pipe\n",
			"program_error", Possible, "program itself",
		},
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
	r := read(t, says("ncclCommInitRank comm 0x7 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x77 - Init START")+says("NVLS Creating Multicast group nranks 7 size 77 on rank 0"))
	if f := r.Open(); f == nil || f.Signature.ID != "setup_stalls" || !strings.Contains(f.Reasons[0].Cause, "NVLS") {
		t.Errorf("a set-up that stalls in NVLS: %+v; %q", f, r.Undecided())
	}
}

// A host that ssh did not reach is no failure of a job that began, and names of NICs alone make nothing fine.
func TestNoFailureByNames(t *testing.T) {
	if r := read(t, "git@github.com: Permission denied (publickey).\nssh: connect to host github.com port 22: Connection timed out\n"+ranks(1, "gpu1")); r.Failed() {
		t.Errorf("%+v", r.First())
	}
	nics := says("NET/IB : Using [0]rocep1s0f0:1/RoCE [1]roceP2p1s0f0:1/RoCE [RO]; OOB enp1:10.0.0.1<0>") +
		says("Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0")
	if r := read(t, nics+ranks(2, "gpu1", "gpu2")); r.Undecided() == "" {
		t.Error("one GPU a host and NICs of two domains are taken for GB10")
	}
	if r := read(t, strings.ReplaceAll(nics, "gpu1", "spark-1")+ranks(2, "spark-1", "spark-2")); r.Undecided() != "" || r.Failed() {
		t.Errorf("%q", r.Undecided())
	}
}

// Tests of which each host ran its own are fine, and said to be several; results without a set-up are results.
func TestTestsApart(t *testing.T) {
	table := "# nThread 1 nGpus 1\n#   Rank  0 Pid  7 on  gpu1 device  0 [0x17] Zzz\n"
	results := "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n  77 7 float sum -1 7.7 7.7 7.7 0 7.7 7.7 7.7 0\n# Avg bus bandwidth    : 7.7\n"
	one := table + says("Bootstrap : Using eth7:10.7.0.1<0>") + results
	if r := read(t, one); r.Undecided() != "" || r.Failed() || strings.Contains(r.Unseen(), "of its own") {
		t.Errorf("%q %q", r.Undecided(), r.Unseen())
	}
	if r := read(t, one+strings.ReplaceAll(one, "gpu1", "gpu2")); r.Undecided() != "" || !strings.Contains(r.Unseen(), "gpu1, gpu2 ran a test of its own") {
		t.Errorf("%q %q", r.Undecided(), r.Unseen())
	}
	behind := strings.ReplaceAll("[1,0]<stdout>:"+strings.ReplaceAll(strings.TrimSuffix(table+results, "\n"), "\n", "\n[1,0]<stdout>:")+"\n", "0 7.7 7.7 7.7 0", "0 7.7 7.7 7.7 N/A")
	for _, log := range []string{behind, "  77 7 float sum -1 7.7 7.7 7.7 0 7.7 7.7 7.7 0\n# Avg bus bandwidth    : 7.7\n"} {
		if r := read(t, log); r.Undecided() != "" || r.Failed() {
			t.Errorf("%q: %q", log, r.Undecided())
		}
	}
	if r := read(t, "[1,0]<stdout>:"+table); r.Undecided() == "" {
		t.Error("a table without a result is fine")
	}
	if r := read(t, strings.ReplaceAll(one, "# Avg", "# Out of bounds values : 7 FAILED\n# Avg")); !r.Failed() {
		t.Error("results that are wrong are fine")
	}
}

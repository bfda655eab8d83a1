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
		text := "Traceback (most recent call last):\n"
		for _, f := range frames {
			text += "  File \"" + f + "\", line 7, in zzz\n    zzz()\n"
		}
		return text + "ValueError: zzz\n"
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

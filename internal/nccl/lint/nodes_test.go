// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"strings"
	"testing"
)

const overTCP = "wrong_here (warning): The job has several nodes"

// NCCL_IB_DISABLE=1 is harmful in a job of several nodes, wherever it says that it has them, unless it has
// another network.
func TestSeveralNodes(t *testing.T) {
	const off = "export NCCL_IB_DISABLE=1\n"
	pods := func(kind, spec string) string {
		return "kind: " + kind + "\nspec:\n  env:\n  - {name: NCCL_IB_DISABLE, value: \"1\"}\n  " + spec + "\n"
	}
	for _, c := range []struct {
		format Format
		text   string
		place  string // empty: one node, as far as is known
	}{
		{FormatShell, "#SBATCH --nodes=3\n" + off, "line 1: --nodes 3"},
		{FormatShell, "#SBATCH -N 2-4\n" + off, "line 1: -N 2-4"},
		{FormatShell, "#SBATCH -N1\n" + off, ""},
		{FormatShell, "#PBS -l select=3:ncpus=8\n" + off, "line 1: -l select=3:ncpus=8"},
		{FormatShell, "#PBS -l walltime=3\n" + off, ""},
		{FormatShell, "#BSUB -nnodes 2\n" + off, "line 1: -nnodes 2"},
		{FormatShell, off + "srun -N5 ./a\n", "line 2: -N 5"},
		{FormatShell, off + "torchrun --nnodes=2:4 a.py\n", "line 2: --nnodes 2:4"},
		{FormatShell, off + "torchrun --nnodes=1 a.py\n", ""},
		{FormatShell, off + "torchrun --nnodes=$N a.py\n", ""},
		{FormatShell, off + "# torchrun --nnodes=2 a.py\ntorchrun --standalone a.py\n", ""},
		{FormatShell, off + "accelerate launch --num_machines 2 a.py\n", "line 2: --num_machines 2"},
		{FormatShell, off + "docker run image sglang serve --nnodes 2\n", "line 2: --nnodes 2"},
		{FormatShell, off + "NNODES=2\nbash -c 'torchrun --nnodes=$NNODES'\n", "line 2: NNODES=2"},
		{FormatShell, off + "mpirun -H a:8,b:8 -np 16 ./a\n", "line 2: -H with several hosts"},
		{FormatShell, off + "/opt/mpi/bin/mpirun --host a,a -N 8 ./a\n", ""},
		{FormatShell, off + "curl -H 'Accept: a,b' http://a; gcloud clusters create --num-nodes 3\n", ""},
		{FormatPython, "os.environ['NCCL_IB_DISABLE'] = '1'\nTrainer(devices=8, num_nodes=4)\n", "line 2: num_nodes=4"},
		{FormatPython, "os.environ['NCCL_IB_DISABLE'] = '1'\n# Trainer(devices=8, num_nodes=4)\ndef f(num_nodes=2):\n  Trainer(num_nodes=1)\n", ""},
		{FormatManifest, "type: task\nnodes: 2\nenv: [NCCL_IB_DISABLE=1]\ncommands: [a]\n", "line 2: nodes 2"},
		{FormatEnv, "NNODES=4\nNCCL_IB_DISABLE=1\n", "line 1: NNODES=4"},
		{FormatManifest, pods("MPIJob", "mpiReplicaSpecs: {Launcher: {replicas: 1}, Worker: {replicas: 2}}"), "line 5: mpiReplicaSpecs with 2 replicas"},
		{FormatManifest, pods("MPIJob", "mpiReplicaSpecs: {Launcher: {replicas: 1}, Worker: {replicas: 1}}"), ""},
		{FormatManifest, pods("PyTorchJob", "pytorchReplicaSpecs: {Master: {a: b}, Worker: {replicas: 1}}"), "line 5: pytorchReplicaSpecs with 2 replicas"},
		{FormatManifest, pods("RayCluster", "workerGroupSpecs: [{replicas: 3}]"), "line 5: workerGroupSpecs with 3 replicas"},
		{FormatManifest, pods("Job", "tasks: [{replicas: 1}, {replicas: 3}]"), "line 5: tasks with 4 replicas"},
		{FormatManifest, pods("LeaderWorkerSet", "leaderWorkerTemplate: {size: 2}"), "line 5: size 2"},
		{FormatManifest, pods("Job", "parallelism: 4"), ""},
		{FormatManifest, pods("Job", "parallelism: 4\n  completionMode: Indexed"), "line 5: parallelism 4"},
		{FormatManifest, pods("Deployment", "replicas: 4"), ""},
		{FormatManifest, pods("TrainJob", "numNodes: 4"), "line 5: numNodes 4"},
		{FormatManifest, pods("Pod", "command: [torchrun, --nnodes, \"2\"]"), "line 5: --nnodes 2"},
		{FormatManifest, pods("Pod", "args: [\"torchrun --nnodes=2\"]"), "line 5: --nnodes 2"},
		{FormatManifest, pods("Pod", "x: {name: NNODES, value: \"2\"}"), "line 5: NNODES=2"},
		{
			FormatManifest, "kind: ConfigMap\nmetadata: {name: a}\ndata: {NCCL_IB_DISABLE: \"1\"}\n---\nnumNodes: 2\nspec: {containers: [{resources: {limits: {nvidia.com/gpu: 1}}, envFrom: [{configMapRef: {name: a}}]}]}\n",
			"line 5: numNodes 2",
		},
		{FormatManifest, "numNodes: 2\n---\n" + pods("Pod", "a: b"), ""},
	} {
		got := lintText(t, c.text, c.format, "2.30.7")
		if want := overTCP + " (" + c.place + ")"; c.place != "" && !strings.Contains(got, want) || c.place == "" && strings.Contains(got, overTCP) {
			t.Errorf("%s:\n%swant %q\n%s", c.format, c.text, c.place, got)
		}
	}
	for text, want := range map[string]string{
		"NCCL_NET=gIB":                             "ignored (info): It is for NCCL's own RDMA transport. The job has another network: NCCL_NET=gIB",
		"NCCL_NET_PLUGIN=ofi":                      "ignored (info)",
		"FI_PROVIDER=efa":                          "ignored (info)",
		"FI_PROVIDER=cxi":                          "ignored (info)",
		"NCCL_FASTRAK_IFNAME=eth1":                 "ignored (info)",
		"NCCL_MNNVL_ENABLE=1":                      "works (info): Traffic between nodes goes over NVLink alone",
		"NCCL_NET=Socket":                          "ignored (info): No effect, because NCCL_NET=Socket",
		"LD_LIBRARY_PATH=/usr/local/gib/lib64:/x":  "ignored (info)",
		"NCCL_NET_PLUGIN=none FI_PROVIDER=sockets": overTCP,
		"NCCL_NET=IB":                              overTCP,
	} {
		got := lintText(t, "#SBATCH --nodes=2\nexport NCCL_IB_DISABLE=1 "+text+"\n", FormatShell, "2.30.7")
		if !strings.Contains(got, "2 NCCL_IB_DISABLE=1: "+want) || want != overTCP && strings.Contains(got, "warning") {
			t.Errorf("%s: want %s\n%s", text, want, got)
		}
	}
}

// A setting without effect names the one that makes it void, and nothing else is said of it.
func TestVoidSettings(t *testing.T) {
	for text, want := range map[string]string{
		"NCCL_CUMEM_ENABLE=0 NCCL_MNNVL_ENABLE=1":          "1 NCCL_MNNVL_ENABLE=1: ignored (warning): No effect, because NCCL_CUMEM_ENABLE=0: NVLink between nodes needs memory of cuMem -> NCCL_CUMEM_ENABLE=1, or remove the line\n",
		"NCCL_IB_DISABLE=1 NCCL_IB_GID_INDEX=0":            "1 NCCL_IB_GID_INDEX=0: ignored (info): No effect, because NCCL_IB_DISABLE=1: NCCL does not use its RDMA transport -> remove the line\n",
		"NCCL_NET=Socket NCCL_NET_GDR_LEVEL=SYS":           "1 NCCL_NET_GDR_LEVEL=SYS: ignored (info): No effect, because NCCL_NET=Socket: NCCL uses TCP alone -> remove the line\n",
		"NCCL_IB_DISABLE=1 NCCL_NET=IB":                    "1 NCCL_NET=IB: refused (critical): NCCL_IB_DISABLE=1: NCCL has no network IB then, and fails when it starts -> remove one of the two lines\n",
		"NCCL_IB_DISABLE=1 NCCL_NET=gIB NCCL_IB_TC=5":      "1 NCCL_IB_TC=5: misread (warning)",
		"NCCL_IB_GID_INDEX=2 NCCL_IB_ADDR_FAMILY=AF_INET6": "1 NCCL_IB_ADDR_FAMILY=AF_INET6: ignored (info): No effect, because NCCL_IB_GID_INDEX=2",
	} {
		got := lintText(t, "export "+text+"\n", FormatShell, "2.30.7")
		_, line, _ := strings.Cut(got, want)
		if !strings.Contains(got, want) || strings.Contains(want, "No effect") && strings.Contains(line, want[:20]) {
			t.Errorf("%s: want %s\n%s", text, want, got)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/nccl/lint"
)

// recommendation is what a cloud recommends for one of its shapes: names and values of the page.
type recommendation struct {
	shape    string
	source   string
	scenario string // a simulated node like the shape; empty: there is none
	release  string // of NCCL that the page is about; empty: it names none
	settings string
}

const (
	ociPage    = "https://github.com/oracle-quickstart/oci-hpc-oke/blob/main/docs/recommended-nccl-rccl-parameters-by-shape.md"
	azureImage = "https://github.com/Azure/azhpc-images/blob/master/components/customizations/"
	azureTests = "https://github.com/Azure/azhpc-images/blob/master/tests/test-definitions.sh"
	awsEFA     = "https://github.com/aws/aws-ofi-nccl/blob/master/doc/efa-env-var.md"
	awsSamples = "https://github.com/awslabs/awsome-distributed-training/blob/main/"
	google     = "https://github.com/GoogleCloudPlatform/container-engine-accelerators/blob/master/"
	recipes    = "https://github.com/AI-Hypercomputer/gpu-recipes/blob/main/training/"
	coreweave  = "https://github.com/coreweave/nccl-tests/blob/master/"
)

const (
	ociH100 = `NCCL_DEBUG=WARN NCCL_CUMEM_ENABLE=0 NCCL_IB_SPLIT_DATA_ON_QPS=0 NCCL_IB_GID_INDEX=3
NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7,mlx5_8,mlx5_9,mlx5_10,mlx5_12,mlx5_13,mlx5_14,mlx5_15,mlx5_16,mlx5_17
NCCL_IB_TC=41 NCCL_IB_SL=0 NCCL_IB_TIMEOUT=22 NCCL_SOCKET_IFNAME=eth0 NCCL_IGNORE_CPU_AFFINITY=1`
	ociH200 = `NCCL_DEBUG=WARN NCCL_CUMEM_ENABLE=0 NCCL_IB_SPLIT_DATA_ON_QPS=0 NCCL_IB_GID_INDEX=3
NCCL_IB_HCA==mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11
NCCL_IB_TC=41 NCCL_IB_SL=0 NCCL_IB_TIMEOUT=22 NCCL_SOCKET_IFNAME=eth0 NCCL_IGNORE_CPU_AFFINITY=1`
	ociA100 = `NCCL_DEBUG=WARN NCCL_IB_SPLIT_DATA_ON_QPS=0 NCCL_IB_QPS_PER_CONNECTION=4 NCCL_IB_GID_INDEX=3
NCCL_IB_HCA==mlx5_0,mlx5_2,mlx5_6,mlx5_8,mlx5_10,mlx5_12,mlx5_14,mlx5_16,mlx5_1,mlx5_3,mlx5_7,mlx5_9,mlx5_11,mlx5_13,mlx5_15,mlx5_17
NCCL_IB_TC=41 NCCL_IB_SL=0 NCCL_IB_TIMEOUT=22`
)

var recommendations = []recommendation{
	{"OCI BM.GPU.H100.8", ociPage, "healthy-oci-h100", "", ociH100},
	{"OCI BM.GPU.H100.8, virtual functions", ociPage, "", "", strings.Replace(ociH100, "==mlx5_0,mlx5_1,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7,mlx5_8,mlx5_9,mlx5_10,mlx5_12,mlx5_13,mlx5_14,mlx5_15,mlx5_16,mlx5_17", "=mlx5", 1)},
	{"OCI BM.GPU4.8", ociPage, "", "", ociA100},
	{"OCI BM.GPU.H200.8 and B200.8", ociPage, "", "", ociH200},
	{"OCI BM.GPU.RTXPRO.8", ociPage, "", "", `NCCL_MIN_NCHANNELS=8 NCCL_ALGO=Tree NCCL_DEBUG=WARN NCCL_CUMEM_ENABLE=0 NCCL_IB_SPLIT_DATA_ON_QPS=0
NCCL_IB_QPS_PER_CONNECTION=1 NCCL_IB_GID_INDEX=3 NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_6,mlx5_7,mlx5_8,mlx5_9 NCCL_IB_TC=41
NCCL_IB_SL=0 NCCL_IB_TIMEOUT=22 NCCL_NET_PLUGIN=none NCCL_SOCKET_IFNAME=eth0 NCCL_IGNORE_CPU_AFFINITY=1`},
	{"OCI BM.GPU.GB200.4", ociPage, "", "", `NCCL_DEBUG=WARN NCCL_MNNVL_ENABLE=1 NCCL_CUMEM_ENABLE=1 NCCL_NET_PLUGIN=sys
NCCL_IB_HCA=mlx5_0,mlx5_1,mlx5_3,mlx5_4 NCCL_NVLS_ENABLE=1 NCCL_SOCKET_IFNAME=eth0`},
	{"OCI BM.GPU.GB300.4", ociPage, "", "", `NCCL_DEBUG=WARN NCCL_MNNVL_ENABLE=1 NCCL_CUMEM_ENABLE=1 NCCL_NET_PLUGIN=none
NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_5,mlx5_6,mlx5_7,mlx5_8 NCCL_NVLS_ENABLE=1 NCCL_SOCKET_IFNAME=eth0 NCCL_NET_GDR_C2C=1
NCCL_IB_GID_INDEX=3 NCCL_IB_TC=41 NCCL_IB_SL=0 NCCL_IB_TIMEOUT=22 NCCL_BUFFSIZE=16777216 NCCL_IB_QPS_PER_CONNECTION=4
NCCL_IB_SPLIT_DATA_ON_QPS=0 NCCL_DMABUF_ENABLE=1`},

	{"Azure NDv4, /etc/nccl.conf of the image", azureImage + "ndv4.sh", "healthy-ib", "", "NCCL_IB_PCI_RELAXED_ORDERING=1 NCCL_TOPO_FILE=/opt/microsoft/ndv4/topo.xml NCCL_IGNORE_CPU_AFFINITY=1"},
	{"Azure NDv5, /etc/nccl.conf of the image", azureImage + "ndv5.sh", "healthy-ib", "", "NCCL_IB_PCI_RELAXED_ORDERING=1 NCCL_TOPO_FILE=/opt/microsoft/ndv5/topo.xml NCCL_IGNORE_CPU_AFFINITY=1"},
	{"Azure NDv4 and GB200, tests of the image", azureTests, "", "", "UCX_TLS=tcp CUDA_DEVICE_ORDER=PCI_BUS_ID NCCL_SOCKET_IFNAME=eth0 NCCL_DEBUG=WARN NCCL_NET_GDR_LEVEL=5"},
	{"Azure NCv4, /etc/nccl.conf of the image", azureImage + "ncv4.sh", "healthy-mana", "", "NCCL_TOPO_FILE=/opt/microsoft/ncv4/topo.xml NCCL_GRAPH_FILE=/opt/microsoft/ncv4/graph.xml NCCL_IGNORE_CPU_AFFINITY=1"},

	{"AWS p4d and p5, aws-ofi-nccl before 1.6", awsEFA, "healthy-efa", "2.18.5", "FI_EFA_USE_HUGE_PAGE=0 FI_EFA_USE_DEVICE_RDMA=1 FI_PROVIDER=efa NCCL_PROTO=simple"},
	{"AWS p4d and p5, cheat sheet", awsSamples + "1.architectures/efa-cheatsheet.md", "", "", "NCCL_DEBUG=info FI_EFA_USE_HUGE_PAGE=0 FI_EFA_FORK_SAFE=1 NCCL_SOCKET_IFNAME=en NCCL_PROTO=simple"},
	{"AWS p5, FSDP with Slurm", awsSamples + "3.test_cases/pytorch/FSDP/slurm/llama2_70b-training.sbatch", "healthy-efa", "", "NCCL_DEBUG=INFO FI_PROVIDER=efa FI_EFA_USE_HUGE_PAGE=0 FI_EFA_SET_CUDA_SYNC_MEMOPS=0 NCCL_SOCKET_IFNAME=^docker,lo,veth,eth"},
	{"AWS p5, Megatron with Slurm", awsSamples + "3.test_cases/megatron/megatron-lm/slurm/gpt3/2.distributed-training.sbatch", "healthy-efa", "", "NCCL_ASYNC_ERROR_HANDLING=1 NCCL_DEBUG=INFO"},

	{"Google A3 High, GPUDirect-TCPX", google + "gpudirect-tcpx/nccl-config.yaml", "", "", `NCCL_SOCKET_IFNAME=eth0 NCCL_ALGO=Ring,Tree NCCL_PROTO=Simple NCCL_CROSS_NIC=0
NCCL_NET_GDR_LEVEL=PIX NCCL_P2P_PXN_LEVEL=0 NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=eth1,eth2,eth3,eth4 NCCL_GPUDIRECTTCPX_CTRL_DEV=eth0
NCCL_DYNAMIC_CHUNK_SIZE=524288 NCCL_P2P_NET_CHUNKSIZE=524288 NCCL_P2P_PCI_CHUNKSIZE=524288 NCCL_P2P_NVL_CHUNKSIZE=1048576
NCCL_BUFFSIZE=4194304 NCCL_NSOCKS_PERTHREAD=4 NCCL_SOCKET_NTHREADS=1
NCCL_GPUDIRECTTCPX_TX_BINDINGS='eth1:8-21,112-125;eth2:8-21,112-125;eth3:60-73,164-177;eth4:60-73,164-177'
NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS=500000`},
	{"Google A3 Mega, GPUDirect-TCPXO", google + "gpudirect-tcpxo/README.md", "", "2.28.7", `NCCL_FASTRAK_CTRL_DEV=eth0
NCCL_FASTRAK_IFNAME=eth1,eth2,eth3,eth4,eth5,eth6,eth7,eth8 NCCL_SOCKET_IFNAME=eth0 NCCL_CROSS_NIC=0 NCCL_PROTO=Simple,LL128
NCCL_MIN_NCHANNELS=4 NCCL_TUNER_PLUGIN=libnccl-tuner.so NCCL_TUNER_CONFIG_PATH=/usr/local/tcpxo/lib64/a3plus_tuner_config.textproto
NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE=/usr/local/tcpxo/lib64/a3plus_guest_config.textproto CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7
NCCL_NVLSTREE_MAX_CHUNKSIZE=131072 NCCL_P2P_NET_CHUNKSIZE=524288 NCCL_P2P_PCI_CHUNKSIZE=524288 NCCL_P2P_NVL_CHUNKSIZE=1048576
NCCL_FASTRAK_NUM_FLOWS=2 NCCL_FASTRAK_USE_SNAP=1 NCCL_FASTRAK_PLUGIN_ACCEPT_TIMEOUT_MS=600000 NCCL_FASTRAK_ENABLE_CONTROL_CHANNEL=0
NCCL_BUFFSIZE=8388608 NCCL_NET_GDR_LEVEL=PIX NCCL_FASTRAK_ENABLE_HOTPATH_LOGGING=0 NCCL_FASTRAK_USE_LLCM=1 NCCL_NVLS_ENABLE=1
NCCL_DEBUG=WARN NCCL_DEBUG_SUBSYS=INIT,NET,ENV,COLL,GRAPH`},
	{"Google A4X, gIB", recipes + "a4x/wan_14b/nemo-gke/nemo2511/32gpus-bf16-gbs64/recipe/launcher.sh", "", "", `NCCL_PLUGIN_PATH=/usr/local/gib/lib64 NCCL_NET=gIB
NCCL_IB_DISABLE=0 NCCL_P2P_DISABLE=0 NCCL_IB_GID_INDEX=3 NCCL_ALGO=Ring,Tree NCCL_CUMEM_ENABLE=0 NCCL_MIN_CTAS=32 NCCL_NCHANNELS_PER_NET_PEER=16`},
	{"Google A4X Max", recipes + "a4x-max/kimi-k2/megatron-bridge-gke/nemo2604/256gpus-fp8mx-seq4096-gbs4096/recipe/launcher.sh", "", "", "NCCL_IB_SPLIT_DATA_ON_QPS=1 NCCL_RAS_ENABLE=0"},
	{"Google A3 Ultra, gIB", recipes + "a3ultra/mixtral_8x7b/nemo-gke/nemo2407/recipe/README.md", "", "", "NCCL_SOCKET_IFNAME=eth0,eth1 NCCL_TUNER_CONFIG_PATH=/usr/local/gib/configs/tuner_config_a3u.txtpb NCCL_NVLS_ENABLE=1"},

	{"CoreWeave A100, GDRCopy", coreweave + "mpi-operator/nccl-test-distributed-a100-64-gdrcopy-mpijob.yaml", "", "", "NCCL_SOCKET_IFNAME=eth0 NCCL_IB_HCA=ibp NCCL_GDRCOPY_ENABLE=1 NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT NCCL_NET_PLUGIN=none"},
	{"CoreWeave H100", coreweave + "mpi-operator/nccl-test-distributed-h100-64-mpijob.yaml", "", "", "NCCL_SOCKET_IFNAME=eth0 NCCL_IB_HCA=ibp UCX_NET_DEVICES=ibp0:1,ibp1:1 SHARP_COLL_ENABLE_PCI_RELAXED_ORDERING=1 NCCL_COLLNET_ENABLE=0 NCCL_NET_PLUGIN=none"},
	{"CoreWeave H100, SHARP", coreweave + "slurm/nccl-test-distributed-h100-64-enroot-sharp.slurm", "", "", "NCCL_SOCKET_IFNAME=eth0 NCCL_IB_HCA=ibp NCCL_COLLNET_ENABLE=1 SHARP_COLL_ENABLE_PCI_RELAXED_ORDERING=1 UCX_TLS=tcp"},
	{"CoreWeave GB200", coreweave + "mpi-operator/nccl-test-distributed-gb200-nvl72-mpijob.yaml", "", "", "NCCL_SOCKET_IFNAME=eth0 NCCL_IB_HCA=ibp NCCL_NET_GDR_C2C=1 NCCL_MNNVL_ENABLE=1 NCCL_CUMEM_ENABLE=1 NCCL_SHM_DISABLE=0 NCCL_NET_PLUGIN=none"},
	{"CoreWeave GB300, RoCE", coreweave + "mpi-operator/nccl-test-distributed-gb300-roce-nvl72-mpijob.yaml", "", "", `NCCL_NET_PLUGIN=none NCCL_IB_NET_LATENCY=50 NCCL_IB_ADAPTIVE_ROUTING=1
NCCL_NVLS_NCHANNELS=24 NCCL_P2P_NET_CHUNKSIZE=524288 NCCL_NVLSTREE_MAX_CHUNKSIZE=262144 NCCL_NVLS_CHUNKSIZE=262144 NCCL_IB_ADDR_FAMILY=AF_INET6
NCCL_IB_ADDR_RANGE=fd02::/16 NCCL_IB_TC=96 NCCL_SOCKET_IFNAME=eth0 NCCL_IB_HCA=ibp`},
}

// What clouds recommend fails nowhere, neither by itself nor on a node like their shape, in each form that
// jobs have it in.
func TestClouds(t *testing.T) {
	commandtest.Memory(t)
	for _, r := range recommendations {
		settings := strings.Fields(r.settings)
		for _, form := range []struct{ name, text string }{
			{"nccl.conf", strings.Join(settings, "\n")},
			{"job.sbatch", "#!/bin/bash\n#SBATCH --nodes=4\nexport " + strings.Join(settings, " \\\n       ") + "\nsrun ./train\n"},
			{"mpirun.sh", "mpirun -np 16 -x " + strings.Join(settings, " -x ") + " ./all_reduce_perf -b 8 -e 8G\n"},
		} {
			if form.name == "nccl.conf" && strings.Contains(r.settings, "'") { // a shell's quotes
				continue
			}
			var args []string
			if r.scenario != "" {
				args = append(args, "--scenario="+r.scenario)
			}
			if r.release != "" {
				args = append(args, "--nccl-version="+r.release)
			}
			code, stdout, stderr := lintJob(t, form.name, form.text, args...)
			if code != exitFine && code != exitUndecided || stderr != "" {
				t.Errorf("%s (%s) as %s: exit code %d: %s%s", r.shape, r.source, form.name, code, stdout, stderr)
			}
			if form.name == "mpirun.sh" {
				_, summary, _ := strings.Cut(stdout, "NCCL "+release(r)+": ")
				t.Logf("%-45s %-17s exit code %d: %s", r.shape, r.scenario, code, strings.TrimSpace(summary))
			}
		}
	}
}

func release(r recommendation) string {
	if r.release == "" {
		return lint.Newest().String()
	}
	return r.release
}

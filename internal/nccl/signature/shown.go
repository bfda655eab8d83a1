// SPDX-License-Identifier: Apache-2.0

package signature

// Facts that other lines of the log decide, or files that are given with it.
const (
	TimeoutTiny     Fact = "a time-out below a second"
	TimeoutShort    Fact = "a time-out below five minutes"
	WorkSaved       Fact = "work is saved"               // and a loop that is at its end, the last that the program showed
	RendezvousFile  Fact = "ranks meet by a file"        // file://
	GPUsUnlike      Fact = "GPUs that are old or unlike" // by their names
	InterfacesOdd   Fact = "interfaces of containers"    // are among those of NCCL: bridges, veth
	InterfacesApart Fact = "interfaces of hosts differ"  // by name and network
	InHorovod       Fact = "Horovod"
	DeviceFar       Fact = "device is too far" // from the GPU, as NCCL says
	OfAMD           Fact = "RCCL"
	PeerMemoryNone  Fact = "no peer memory of amdgpu"   // as ls says
	GPUsExclusive   Fact = "GPUs are Exclusive_Process" // as nvidia-smi says
	PinsNot         Fact = "memory that cannot be pinned"
	ManyRanks       Fact = "many ranks"
)

// Reasons by what a log states: values, names, what came before.
var (
	timedOutAtOnce = Reason{
		Cause:  "The time-out of the process group is {timeout}: a first collective takes longer, and nothing else need be wrong.",
		Remedy: "Set a time-out of minutes (init_process_group(timeout=), ddp_timeout; the default is 10 min).",
		Test:   "the same with the default time-out",
		If:     []Fact{TimeoutTiny}, Certain: []Fact{TimeoutTiny},
	}
	timedOutSoon = Reason{
		Cause:  "The time-out of the process group is only {timeout} (the default is 10 min): a rank that is late, as by a checkpoint, an evaluation or data, ends the job.",
		Remedy: "Set a longer time-out (init_process_group(timeout=), ddp_timeout), or do such work on all ranks.",
		Test:   "the same with a time-out of 10 min or more",
		If:     []Fact{TimeoutShort, "!" + TimeoutTiny},
	}
	hangsAtEnd = Reason{
		Cause:  "The program had done its work and saved it, and hangs at its end: process groups that nothing destroys, or that ranks destroy in another order.",
		Remedy: "What was saved is likely whole. Call torch.distributed.destroy_process_group() at the end, on all ranks.",
		Test:   "py-spy dump of all ranks: are they in the exit of Python",
		If:     []Fact{WorkSaved}, Likely: []Fact{WorkSaved},
	}
	renamedTwice = Reason{
		Cause:   "A rank failed when it saved a checkpoint: the folder that it renames is gone, as where several processes or hosts rename the same one in a shared file system (transformers 4.36). The others wait for this rank.",
		Remedy:  "Use another release of the trainer, or let one process alone rename (save_on_each_node=False).",
		Test:    "the log of the other ranks: which renamed it first",
		If:      []Fact{"text:FileNotFound", "text:' -> '", "text:checkpoint"},
		Certain: []Fact{"text:checkpoint"},
	}
	noPeers = Reason{
		Cause:  "CUDA refuses peer access between two GPUs of the host: they have no P2P (L4, L40, GeForce and others), or a virtual machine, the driver or the topology does not allow it.",
		Remedy: "Set NCCL_P2P_DISABLE=1; from NCCL 2.24 on also NCCL_CUMEM_HOST_ENABLE=0, or NCCL_SHM_DISABLE=1.",
		Test:   "nvidia-smi topo -p2p r; NCCL_P2P_DISABLE=1 for one run",
		If:     []Fact{"code:217"}, Likely: []Fact{"code:217"},
	}
	noOrdinal = Reason{
		Cause:  "NCCL is to use a GPU whose number the process does not have: its device is not set before the first group is made (torch.cuda.set_device(LOCAL_RANK)), or there are more processes than visible GPUs.",
		Remedy: "Set the device of each rank before any group or communicator is made; start as many processes as GPUs are visible.",
		Test:   "nvidia-smi -L; LOCAL_RANK and CUDA_VISIBLE_DEVICES of each process",
		If:     []Fact{"code:101"},
	}
	oneSided = Reason{
		Cause:  "The driver shows NVLinks of two GPUs on one side only: a fault of the driver (535.161 is known for it), a link that is down or that a VM or container hides, or the fabric manager.",
		Remedy: "Use another driver; look at nvidia-smi nvlink -s of the two GPUs that the line names, the fabric manager and Xids.",
		Test:   "nvidia-smi nvlink -s; nvidia-smi topo -m; the release of the driver",
		If:     []Fact{"text:reverse path|rev link"},
	}
	oldAddress = Reason{
		Cause:  "The address is of an earlier job: ranks meet by a file here (file://), and one that is left over from a run before leads to an address where nobody listens.",
		Remedy: "Remove the file before each run, or use a new name for each.",
		Test:   "whether the address is of a host of this job; ls -l of the file",
		If:     []Fact{RendezvousFile, "errno:110,111,113"}, Likely: []Fact{RendezvousFile},
	}
	linkedStatic = Reason{
		Cause:  "Horovod has NCCL linked statically, with a CUDA runtime that does not fit, so that stand-ins answer for the driver: no stub need be in the path.",
		Remedy: "Build Horovod anew with HOROVOD_NCCL_LINK=SHARED.",
		Test:   "ldd of Horovod's library: has it libnccl.so.2; ldconfig -p | grep libcuda",
		If:     []Fact{"code:34", InHorovod}, Likely: []Fact{InHorovod},
	}
	builtForOthers = Reason{
		Cause:  "The test or NCCL is not built for one of the GPUs, whose kernels do not run then: releases of CUDA leave out old cards, and cards of several kinds need code each.",
		Remedy: "Build both for the cards (NVCC_GENCODE), with a CUDA that has them.",
		Test:   "the test on each GPU alone (-g 1, CUDA_VISIBLE_DEVICES); cuobjdump --list-elf of the test and of libnccl.so.2",
		If:     []Fact{GPUsUnlike},
	}
	efaWithoutMemory = Reason{
		Cause:  "EFA cannot register memory of the GPU, as libfabric warns before: driver, EFA module and kernel of the image do not fit for GPUDirect RDMA, and NCCL does not use it.",
		Remedy: "Install driver and EFA software of one release (efa_installer.sh), with DMA-BUF or efa_nv_peermem.",
		Test:   "FI_LOG_LEVEL=warn for one run; lsmod | grep -e efa -e peermem; modinfo nvidia: Dual MIT/GPL",
		If:     []Fact{"seen:efa_memory_refused"}, Likely: []Fact{"seen:efa_memory_refused"},
	}
	portsUsedUp = Reason{
		Cause:  "No local port is left: NCCL opens very many connections, as in an all-to-all of many ranks without PXN, or other programs do.",
		Remedy: "Widen net.ipv4.ip_local_port_range; unset NCCL_PXN_DISABLE.",
		Test:   "ss -s; sysctl net.ipv4.ip_local_port_range",
		If:     []Fact{"errno:98,99", "!set:NCCL_COMM_ID"}, Likely: []Fact{"errno:98,99", ManyRanks},
	}
	interfaceOdd = Reason{
		Cause:  "NCCL takes interfaces of containers or virtual machines beside the network ({odd}), over which ranks of other hosts or containers do not answer.",
		Remedy: "Set NCCL_SOCKET_IFNAME to the interface of the network, or exclude the others (^docker,br-,veth,virbr,lo).",
		Test:   "NCCL_SOCKET_IFNAME for one run; ip -br addr",
		If:     []Fact{InterfacesOdd, "text:system error|ncclSystemError|-> 2|ocket"}, Likely: []Fact{InterfacesOdd},
	}
	interfacesApart = Reason{
		Cause:  "The hosts chose interfaces of different networks ({interfaces}), which may not reach each other.",
		Remedy: "Set NCCL_SOCKET_IFNAME to an interface that all hosts have in one network.",
		Test:   "nc -vz between the two addresses; NCCL_SOCKET_IFNAME for one run",
		If:     []Fact{InterfacesApart}, Likely: []Fact{InterfacesApart},
	}
	hipUnseen = Reason{
		Cause:  "The process sees fewer GPUs than it asks for{asked}: the container has no /dev/kfd and /dev/dri, HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES leaves fewer, or the host has fewer.",
		Remedy: "Start the container with --device=/dev/kfd --device=/dev/dri, and ask for as many GPUs as rocm-smi lists.",
		Test:   "rocm-smi; ls -l /dev/kfd /dev/dri in the container; env | grep VISIBLE",
		If:     []Fact{"text:hip"}, Likely: []Fact{"text:hip"},
	}
	unpinned = Reason{
		Cause:  "The kernel has no contiguous memory to give, or gives memory that it cannot pin for the device (CMA): on DGX Spark and the like some kernels do (CmaTotal 0, or CmaFree above CmaTotal).",
		Remedy: "Use another kernel, or one with cma= (kho=off where 7.0 has the fault); look at its log.",
		Test:   "uname -r; grep Cma /proc/meminfo; dmesg; the same with another kernel",
		If:     []Fact{"errno:12", PinsNot}, Likely: []Fact{"errno:12"},
	}
	serialised = Reason{
		Cause:  "CUDA_LAUNCH_BLOCKING=1 is set: a launch waits for its kernel, and NCCL gives its network thread the work after the launch (older releases), so that collectives between hosts stand still.",
		Remedy: "Unset CUDA_LAUNCH_BLOCKING, also where a framework sets it (full_determinism).",
		Test:   "unset CUDA_LAUNCH_BLOCKING for one run",
		If:     []Fact{"set:CUDA_LAUNCH_BLOCKING=1", SeveralHosts}, Likely: []Fact{"set:CUDA_LAUNCH_BLOCKING=1"},
	}
	deviceFar = Reason{
		Cause:  "The device is further from the GPU than NCCL uses GPUDirect RDMA for, as it says: {far}. Data goes through the memory of the host.",
		Remedy: "None is needed; NCCL_NET_GDR_LEVEL=SYS for one run shows whether it is faster.",
		Test:   "NCCL_NET_GDR_LEVEL=SYS for one run; nvidia-smi topo -m",
		If:     []Fact{DeviceFar}, Certain: []Fact{DeviceFar},
	}
	peerMemoryOfAMD = Reason{
		Cause:  "The drivers have no peer memory for RDMA (amdkfd in /sys/kernel/mm/memory_peers): amdgpu or the driver of the NIC is that of the plain kernel. Data goes through the memory of the host, which is only slower.",
		Remedy: "Install amdgpu-dkms with the drivers of the NIC (OFED), or a kernel and RCCL with DMA-BUF.",
		Test:   "ls /sys/kernel/mm/memory_peers/amdkfd/version; dmesg | grep -i amdkfd",
		If:     []Fact{OfAMD, "!" + DeviceFar}, Likely: []Fact{OfAMD}, Certain: []Fact{OfAMD, PeerMemoryNone},
	}
)

// efaMemoryRefused is what libfabric warns of where data of GPUs cannot go over EFA.
var efaMemoryRefused = Signature{
	ID: "efa_memory_refused", Source: Program, Kind: Note,
	Forms:  []Form{{Text: "Failed to register CUDA buffer with the EFA device", File: "libfabric prov/efa/src/efa_hmem.c"}},
	Cause:  "EFA cannot register memory of the GPU, so that data goes through the memory of the host or over TCP.",
	Remedy: "Install driver and EFA software of one release (efa_installer.sh), with DMA-BUF or efa_nv_peermem.",
}

// Passed is a warning or failed call in the log of a test that passed.
var Passed = Signature{
	ID: "passed", Source: NCCL, Kind: Note, Harmless: true,
	Forms:  []Form{{Text: "--- PASS: ", File: "go testing/testing.go"}},
	Cause:  "NCCL or a plugin warned of something, and the test that the log is of passed after it.",
	Remedy: "None.",
}

// busyReasons are why a GPU cannot be used.
var busyReasons = []Reason{
	{
		Cause:  "The GPUs are in compute mode Exclusive_Process, and a second process wants one of them.",
		Remedy: "Set nvidia-smi -c DEFAULT on the host, or start one process for each GPU alone.",
		Test:   "nvidia-smi -q -d COMPUTE; nvidia-smi: which processes have the GPU",
		If:     []Fact{GPUsExclusive}, Certain: []Fact{GPUsExclusive},
	},
	{
		Cause:  "The GPU cannot be used: another process has it alone (Exclusive_Process), an old process holds it, or it needs a reset.",
		Remedy: "End old processes (nvidia-smi, fuser /dev/nvidia*), set nvidia-smi -c DEFAULT; look for Xids, and reset the GPU.",
		Test:   "nvidia-smi -q -d COMPUTE; nvidia-smi; dmesg | grep -i xid",
		Likely: []Fact{"!" + GPUsExclusive},
	},
}

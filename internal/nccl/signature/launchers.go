// SPDX-License-Identifier: Apache-2.0

package signature

const (
	c10dSocket   = "pytorch torch/csrc/distributed/c10d/socket.cpp"
	elasticAgent = "pytorch torch/distributed/elastic/multiprocessing/api.py"
)

// launchers are lines of how the processes of a job are started and find each other, before NCCL begins.
var launchers = []Signature{
	{
		ID: "nccl_not_built", Source: Program, Kind: Cause, Sure: true,
		Forms: []Form{
			{Text: "Distributed package doesn't have NCCL", File: "pytorch torch/distributed/distributed_c10d.py"},
			{Text: "PyTorch is not compiled with NCCL", File: "pytorch"},
			{Text: "Torch not compiled with CUDA enabled", File: "pytorch torch/cuda"},
		},
		Cause:  "This PyTorch is built without NCCL, as for Windows, macOS or the processor alone.",
		Remedy: "Use the backend gloo, or a PyTorch with CUDA on Linux or WSL.",
	},
	{
		ID: "launcher_unreachable", Source: Program, Kind: Note, Harmless: true,
		Forms: []Form{
			{Text: "ssh: connect to host ", File: "openssh sshconnect.c"},
			{Text: "ssh: Could not resolve hostname", File: "openssh ssh.c"},
			{Text: "Host key verification failed", File: "openssh sshconnect.c"},
			{Text: "Permission denied (publickey", File: "openssh sshconnect2.c"},
			{Text: "orted: command not found", File: "shells, of Open MPI's daemon"},
			{Text: "prted: command not found", File: "shells, of PRRTE's daemon"},
			{Text: ": command not found", File: "bash"},
			{Text: ": not found", File: "dash"},
			{Text: "was unable to reliably start one or more daemons", File: "openmpi orte help-errmgr-base.txt"},
		},
		Cause:  "A program, such as a launcher or git, did not reach another host by ssh, or a script misses a command.",
		Remedy: "None if the job began.",
	},
	{
		ID: "launcher_ssh_failed", Source: Program, Kind: Cause, Generic: true,
		Forms: []Form{
			{Text: "Command 'ssh ", File: "deepspeed launcher/runner.py, python subprocess"},
			{Text: "ssh exited with exit code 255", File: "pdsh"},
			{Text: "ssh exited with exit code 127", File: "pdsh"},
			{Text: "ssh exited with exit code 126", File: "pdsh"},
		},
		Cause:  "A command that a program, such as a launcher, runs on another host by ssh failed.",
		Remedy: "Run the command of the line by hand.",
		Reasons: []Reason{
			{
				Cause:  "The launcher cannot log in to the host by ssh without a password (255 is an error of ssh itself): its key, name, port or sshd. NCCL was not started.",
				Remedy: "Let ssh HOST hostname work without a password from the first host (ssh-copy-id, known_hosts, the hostfile); look at sshd and its port there.",
				Test:   "ssh -v HOST hostname",
				If:     []Fact{"text:status 255|code 255", ByLauncher}, Certain: []Fact{"text:status 255|code 255", ByLauncher},
			},
			{
				Cause:  "A program did not log in to another host by ssh (255 is an error of ssh itself, or of the command there). It need not be the launcher's ssh, nor what ended the job.",
				Remedy: "Run the command of the line by hand; look at the lines around it for what the program wants there.",
				Test:   "the command of the line, with ssh -v",
				If:     []Fact{"text:status 255|code 255", "!" + ByLauncher}, Likely: []Fact{"text:status 255|code 255"},
			},
			{
				Cause:   "ssh reached the host, and the command is not there (127), or cannot be run (126): the path of the program or of Python differs from the first host.",
				Remedy:  "Use the same paths and environment on all hosts (a shared file system, one image); name the Python of that host.",
				Test:    "ssh HOST ls -l PATH of the command",
				If:      []Fact{"text:code 127|code 126|status 127|status 126"},
				Certain: []Fact{"text:code 127|code 126|status 127|status 126"},
			},
			{
				Cause:  "ssh reached the host, and the command failed there: paths, environment or program differ from the first host.",
				Remedy: "Run the command of the line by hand; use the same paths and environment on all hosts.",
				Test:   "the command of the line, on that host",
				If:     []Fact{"!text:status 255|code 255|code 127|code 126|status 127|status 126"},
			},
		},
	},
	{
		ID: "launcher_signalled", Source: Program, Kind: Cause, Generic: true,
		Forms: []Form{
			{Text: "death signal, shutting down workers", File: elasticAgent},
			{Text: "SignalException: Process ", File: elasticAgent},
		},
		Cause:  "The launcher got a signal, and ended its workers: something else stopped the job.",
		Remedy: "Look at who sent it: the scheduler, a user, or the end of the session that it was started from.",
		Reasons: []Reason{
			{
				Cause:  "The launcher got SIGHUP (1): the terminal or the ssh session that it was started from was closed, which nohup does not keep from torchrun.",
				Remedy: "Start it in tmux or screen, with setsid, or by the batch system.",
				Test:   "the same within tmux",
				If:     []Fact{"text:received 1 |signal: 1$|sighup"}, Certain: []Fact{"text:received 1 |signal: 1$|sighup"},
			},
			{
				Cause:  "The launcher got SIGINT (2): Ctrl-C, or who runs it stopped it.",
				Remedy: "None, if it was meant.",
				Test:   "who or what runs the launcher",
				If:     []Fact{"text:received 2 |signal: 2$|sigint"}, Certain: []Fact{"text:received 2 |signal: 2$|sigint"},
			},
			{
				Cause:  "The launcher got SIGTERM (15): the scheduler ended the job (time limit, preemption, an end of the pod), or a user did.",
				Remedy: "Look at the scheduler's log of the job.",
				Test:   "sacct, kubectl describe pod",
				If:     []Fact{"text:received 15 |signal: 15$|sigterm"}, Likely: []Fact{"text:received 15 |signal: 15$|sigterm"},
			},
		},
	},
	{
		ID: "cxi_no_vni", Source: Program, Kind: Note, Harmless: true,
		Forms:  []Form{{Text: "Failed to find valid default rgroup and vni", File: "libfabric prov/cxi"}},
		Cause:  "libfabric finds no VNI of the job for a device of Slingshot.",
		Remedy: "None if the job goes on; else ask the scheduler for one (srun --network=single_node_vni, job_vni).",
	},
	{
		ID: "ipv6_missing", Source: Program, Kind: Note, Harmless: true,
		Forms:  []Form{{Text: "errno: 97 - Address family not supported", File: c10dSocket}},
		Cause:  "The host has no IPv6, and PyTorch uses IPv4.",
		Remedy: "None.",
	},
	{
		ID: "rendezvous_failed", Source: Program, Kind: Cause, Remote: true,
		Forms: []Form{
			{Text: "clients joined", File: checkC10d},
			{Text: "The client socket has timed out after", File: c10dSocket},
			{Text: "failed to connect to any network address", File: c10dSocket},
			{Text: "The server socket has failed to listen", File: c10dSocket},
			{Text: "Error: Address already in use", File: "pytorch, python"},
			{Text: "Error: [Errno 98]", File: "python"},
			{Text: "RendezvousTimeoutError", File: "pytorch torch/distributed/elastic/rendezvous"},
			{Text: "RendezvousConnectionError", File: "pytorch torch/distributed/elastic/rendezvous"},
			{Text: "Timed out waiting for clients", File: checkC10d},
			{Text: "imed out initializing process group in store based barrier", File: "pytorch torch/distributed/distributed_c10d.py"},
			{Text: "connect() timed out", File: "pytorch before 1.13 c10d"},
			{Text: "host not found: ", File: "pytorch before 1.13 c10d"},
		},
		Cause:   "The processes of the job did not find each other over TCP, before NCCL began.",
		Remedy:  "Check MASTER_ADDR and MASTER_PORT on all hosts, that all started, and that the port is open between them.",
		Reasons: rendezvousReasons,
	},
	{
		ID: "rendezvous_retried", Source: Program, Kind: Note,
		Forms:   []Form{{Text: "The client socket has failed to connect to", File: c10dSocket}},
		Cause:   "A process did not reach the first host of the job, and tries again, as is normal while processes start.",
		Remedy:  "If the job does not go on, look at the address that the line names.",
		Reasons: rendezvousReasons,
	},
	{
		ID: "addresses_not_unique", Source: Program, Kind: Cause,
		Forms: []Form{
			{Text: "Every node should have a unique IP address", File: "vllm executor/ray_distributed_executor.py"},
		},
		Cause:  "Hosts of the engine announce the same address: an interface of a container or a tunnel that all have, or one setting for all.",
		Remedy: "Set VLLM_HOST_IP (and NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME) on each host to its own address on the network that they share.",
	},
	{
		ID: "name_unresolved", Source: Program, Kind: Note, Harmless: true,
		Forms: []Form{
			{Text: "cannot be retrieved (gai error", File: c10dSocket},
			{Text: "Temporary failure in name resolution", File: "glibc resolv"},
			{Text: "Name or service not known", File: "glibc resolv"},
			{Text: "getaddrinfo failed", File: "python, libuv"},
		},
		Cause:  "The name of a host was not resolved, at least at that time or for that kind of address.",
		Remedy: "None if the job goes on: names of pods resolve once these run.",
	},
	{
		ID: "port_taken", Source: Program, Kind: Note,
		Forms: []Form{
			{Text: "server socket has failed to bind", File: c10dSocket},
		},
		Cause:  "A process could not listen at a port, for one kind of address at least: another has it, it is below 1024, or the address is not of this host.",
		Remedy: "End the old process (ss -ltnp), or use another port; look at the error that the line names.",
	},
	{
		ID: "device_unnamed", Source: Program, Kind: Note, Harmless: true, Quiet: true,
		Forms: []Form{
			{Text: "device used by this process is currently unknown", File: processGroupNCCL},
			{Text: "devices used by this process are currently unknown", File: processGroupNCCL},
			{Text: "Guessing device ID based on global rank", File: processGroupNCCL},
			{Text: "No device id is provided via `init_process_group`", File: processGroupNCCL},
		},
		Cause:  "The ranks do not name their GPU, and PyTorch guesses it from the rank, which is right where rank n of a host uses GPU n.",
		Remedy: "None if it is right; init_process_group(device_id=...) names it and ends the warning.",
	},
	{
		ID: "group_not_destroyed", Source: Program, Kind: Note, Harmless: true, Quiet: true,
		Forms: []Form{
			{Text: "process group has NOT been destroyed", File: processGroupNCCL},
			{Text: "destroy_process_group() was not called", File: processGroupNCCL},
		},
		Cause:  "The program ended without destroy_process_group, which is harmless most often.",
		Remedy: "None if the job ended as it should.",
	},
}

// rendezvousReasons are why processes do not find each other.
var rendezvousReasons = []Reason{
	{
		Cause:  "The launcher's own agent listens at the port that the program opens again: both have the same address.",
		Remedy: "Let the program take what the launcher gives it (init_method=env://), or give one of the two another port.",
		Test:   "ss -ltnp on the first host: which process has the port",
		If:     []Fact{AgentListens, "bind:98"}, Likely: []Fact{AgentListens},
	},
	{
		Cause:  "Another process of this host has the port: another job, one of an earlier run, or the launcher's own agent.",
		Remedy: "End it if it is an old one, or use another port (--master-port, --rdzv-endpoint, --standalone).",
		Test:   "ss -ltnp on the first host: which process has the port",
		If:     []Fact{"bind:98"}, Likely: []Fact{"bind:98", "!" + AgentListens},
	},
	{
		Cause:  "The process may not listen at this port: those below 1024 are for root.",
		Remedy: "Use a port from 1024 on (MASTER_PORT, --master-port, --main_process_port).",
		Test:   "sysctl net.ipv4.ip_unprivileged_port_start",
		If:     []Fact{"bind:13", PortLow}, Certain: []Fact{PortLow},
	},
	{
		Cause:  "The process may not listen at this port: a rule of the host (SELinux, seccomp) forbids it.",
		Remedy: "Use another port; look at the audit log of the host.",
		Test:   "ausearch -m avc -ts recent; the same with another port",
		If:     []Fact{"bind:1,13", "!" + PortLow}, Likely: []Fact{"bind:1,13"},
	},
	{
		Cause:  "The address is not of this host, so that its process cannot listen there.",
		Remedy: "Start the process of rank 0 on the host of MASTER_ADDR, or set MASTER_ADDR to its address.",
		Test:   "ip -br addr; getent hosts MASTER_ADDR",
		If:     []Fact{"bind:99"}, Likely: []Fact{"bind:99"},
	},
	{
		Cause:  "The address is no address of a host but a netmask or the broadcast address: MASTER_ADDR, or what it is made from, is wrong.",
		Remedy: "Set MASTER_ADDR to the address or name of the first host.",
		Test:   "echo $MASTER_ADDR on all hosts",
		If:     []Fact{"text:255.255.|[0.0.0.0]"}, Certain: []Fact{"text:255.255."},
	},
	{
		Cause:  "The name of the first host is not resolved on this host: MASTER_ADDR, the DNS of the container, or with --standalone the own name of the host in /etc/hosts.",
		Remedy: "Use an address as MASTER_ADDR (127.0.0.1 on one host), or make the name resolve: /etc/hosts, DNS, a headless service.",
		Test:   "getent hosts NAME in the job",
		If:     []Fact{NameUnresolved}, Likely: []Fact{NameUnresolved}, Certain: []Fact{NameUnknown},
	},
	{
		Cause:  "Not all processes started, or not with the same number of processes and address.",
		Remedy: "Compare the command lines of all hosts (--nnodes, --node-rank, MASTER_ADDR); look at those that did not come.",
		Test:   "the processes of each host",
		If:     []Fact{"text:joined|waiting for clients|store based barrier"}, Likely: []Fact{"text:joined|store based barrier"},
	},
	{
		Cause:  "The process of the first host does not listen there: it is not started yet, ended, or has another port.",
		Remedy: "Look at the log of the first host: it may have failed first.",
		Test:   "ss -ltn on the first host",
		If:     []Fact{"errno:111"}, Likely: []Fact{"errno:111"},
	},
	{
		Cause:  "The address or port of the first host cannot be reached: a name that leads elsewhere, a firewall, or its process ended.",
		Remedy: "Use the address of the network that the hosts share, and open the port.",
		Test:   "nc -vz MASTER_ADDR MASTER_PORT from the other hosts",
		If:     []Fact{"!bind:1,13,98,99"},
	},
}

// gloo are lines of Gloo, over which PyTorch's ranks exchange what is not on GPUs.
var gloo = []Signature{
	{
		ID: "gloo_connect", Source: Gloo, Kind: Cause, Remote: true, Forms: []Form{
			{Text: "Gloo connectFullMesh failed with", File: processGroupGloo},
			{Text: "ifa != nullptr. Unable to", File: "gloo gloo/transport/tcp/device.cc"},
			{Text: "Unable to find address for:", File: "gloo gloo/transport/tcp/device.cc"},
			{Text: "] connect [", File: "gloo gloo/transport/tcp/pair.cc"},
		},
		Cause:  "Ranks could not reach each other over TCP. Typical: the name of the host leads to 127.0.1.1, or to an interface that other hosts cannot reach.",
		Remedy: "Set GLOO_SOCKET_IFNAME to the network that the hosts share.", Runbook: "check-nccl.md",
		Reasons: []Reason{
			{
				Cause:  "The name of a host leads to a loopback address (127.0.1.1 in /etc/hosts), which Gloo announces to others.",
				Remedy: "Set GLOO_SOCKET_IFNAME to the interface that the hosts share, or correct /etc/hosts.",
				Test:   "getent hosts $(hostname) on each host",
				If:     []Fact{"text:[127.0|127.0.1.1"}, Likely: []Fact{"text:127.0"},
			},
			{
				Cause:  "GLOO_SOCKET_IFNAME names an interface that this host does not have, or its own name has no address.",
				Remedy: "Set GLOO_SOCKET_IFNAME to an interface of each host, or unset it.",
				Test:   "ip -br addr in the job",
				If:     []Fact{"text:ifa != nullptr|unable to find address|unable to resolve"}, Certain: []Fact{"text:unable to find address"},
			},
			{
				Cause:  "Gloo chose an interface that other hosts cannot reach, a firewall is between them, or a rank ended.",
				Remedy: "Set GLOO_SOCKET_IFNAME to the network that the hosts share, and open its ports.",
				Test:   "nc -vz to the address of the line; the logs of the other ranks",
				If:     []Fact{"!text:127.0|ifa != nullptr|unable to find address"}, Likely: []Fact{"!text:unable to resolve"},
			},
		},
	},
	{
		ID: "gloo_timeout", Source: Gloo, Kind: Consequence,
		Forms: []Form{
			{Text: "ms for recv operation to complete", File: "gloo gloo/transport/tcp/unbound_buffer.cc"},
			{Text: "ms for send operation to complete", File: "gloo gloo/transport/tcp/unbound_buffer.cc"},
		},
		Cause:  "Another rank did not answer in time: it crashed, hangs, or is busy with something else, such as a checkpoint.",
		Remedy: "Look at the log of the rank that did not arrive.",
		Reasons: []Reason{
			{
				Cause:  "Processes of the engine stand still or are busy since before, as its own lines say: one waits for another that does not come. It is Gloo that waits here, not NCCL.",
				Remedy: "Look at the stacks of all its processes on all hosts; try another executor or release of the engine.",
				Test:   "py-spy dump --native of all workers on all hosts; the logs of the other hosts, by time",
				If:     []Fact{"seen:engine_waits"}, Likely: []Fact{"seen:engine_waits"},
			},
			{
				Cause:  "Another rank did not answer in time: it crashed, hangs, or is busy with something else, such as a checkpoint.",
				Remedy: "Look at the log of the rank that did not arrive.",
				Test:   "the logs of all ranks, by time; py-spy dump of those that still run",
				Likely: []Fact{"!seen:engine_waits"},
			},
		},
	},
	{
		ID: "gloo_closed", Source: Gloo, Kind: Consequence,
		Forms:  []Form{{Text: "Connection closed by peer [", File: "gloo gloo/transport/tcp/pair.cc"}},
		Cause:  "The process of another rank ended.",
		Remedy: "Look at the log of the rank at the address that the line names.",
	},
}

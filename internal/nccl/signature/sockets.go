// SPDX-License-Identifier: Apache-2.0

package signature

// ConnectFailed is that a rank does not reach another one over TCP.
var ConnectFailed = Signature{
	ID: "bootstrap_connect", Source: NCCL, Kind: Cause, Remote: true,
	Forms: []Form{
		{Text: "socketStartConnect: exceeded retries"},
		{Text: "socketStartConnect: exceeded timeouts"},
		{Text: "socketPollConnect: exceeded retries"},
		{Text: "socketPollConnect: exceeded timeouts"},
		{Text: "socketStartConnect: Connect to"},
		{Text: "socketPollConnect: Connect to"},
		{Text: "socketPollConnect to ", In: "ocketPollConnect to %s failed"},
		{Text: "SocketPollConnect to ", In: "ocketPollConnect to %s failed"},
		{Text: "socketPollConnect poll() "},
		{Text: "exceeded error retry count"},
		{Text: ": connect to ", In: `: connect to %s failed`},
		{Text: "Connect to ", File: "NCCL 2.4 to 2.12 src/include/socket.h"},
		{Text: "No interface found in the same subnet as remote address"},
	},
	Cause:   "A rank could not reach another one over TCP.",
	Remedy:  "Set NCCL_SOCKET_IFNAME to the network that the hosts share, and open its ports between them.",
	Runbook: "check-nccl.md",
	Reasons: []Reason{
		loopbackChosen,
		interfacesApart,
		oldAddress,
		portsUsedUp,
		{
			Cause:   "NCCL chose an interface{peered} with a link-local address (169.254.0.0/16, fe80::/10; veth and bridges of containers have these), which other hosts cannot reach.",
			Remedy:  "Set NCCL_SOCKET_IFNAME on all hosts to the interface of the network that they share (=name is exact), or exclude the others: ^veth,docker,br-,lo.",
			Test:    "ip -br addr: which interface has the address of the line",
			If:      []Fact{PeerLinkLocal},
			Likely:  []Fact{PeerLinkLocal},
			Certain: []Fact{PeerLinkLocal, "text:169.254.|%veth|%docker|%br-|%cni|%cali|%flannel"},
		},
		{
			Cause:   "A rank announced a loopback address, which other hosts cannot reach: its only interface, or NCCL_SOCKET_IFNAME=lo.",
			Remedy:  "Set NCCL_SOCKET_IFNAME on all hosts to the interface of the network that they share; mind the line 127.0.1.1 of /etc/hosts.",
			Test:    "the line Bootstrap: Using of the other rank",
			If:      []Fact{PeerLoopback, "!one host"},
			Likely:  []Fact{PeerLoopback},
			Certain: []Fact{PeerLoopback, SeveralHosts},
		},
		{
			Cause:  "NCCL chose the bridge of containers (docker0, 172.17.0.0/16), which other hosts cannot reach.",
			Remedy: "Set NCCL_SOCKET_IFNAME=^docker,lo or the interface of the network that the hosts share; run containers in the network of the host.",
			Test:   "ip -br addr: which interface has the address of the line",
			If:     []Fact{PeerBridge}, Likely: []Fact{PeerBridge},
		},
		{
			Cause:  "NCCL chose the interface of a tunnel or VPN (100.64.0.0/10).",
			Remedy: "Set NCCL_SOCKET_IFNAME to the interface of the network that the hosts share.",
			Test:   "ip -br addr: which interface has the address of the line",
			If:     []Fact{PeerTunnel}, Likely: []Fact{PeerTunnel},
		},
		{
			Cause:  "The host of the peer, or a firewall before it, rejects connections (no route to host, although others work).",
			Remedy: "Open all TCP ports between the hosts of a job (firewalld, ufw, iptables REJECT, security groups); NCCL uses ports of ip_local_port_range.",
			Test:   "nc -vz PEER PORT of the line, and ping PEER: if ping works, it is a firewall; else a route or an address is wrong",
			If:     []Fact{"errno:113"}, Likely: []Fact{"errno:113"},
		},
		{
			Cause:  "The process of the other rank is gone, or not there yet: its host refuses the connection, or ended it.",
			Remedy: "Look at the log of the rank at that address: it may have failed first.",
			Test:   "the log of the rank at that address",
			If:     []Fact{"errno:103,104,111"}, Likely: []Fact{"errno:103,111", "!" + ChoseLoopback},
		},
		{
			Cause:  "The host of the peer dropped the connection: the queue of what listens there is full, as where many ranks connect to one at once, or the host is overloaded.",
			Remedy: "Raise net.core.somaxconn and net.ipv4.tcp_max_syn_backlog; use a newer NCCL, which tries again and prints the error.",
			Test:   "nstat -az TcpExtListenDrops TcpExtListenOverflows on the host of the peer; nc -vz PEER PORT",
			If:     []Fact{"text:POLLOUT|poll()"},
		},
		{
			Cause:  "The program or the container may not connect: a policy of the network or a rule of the firewall of this host rejects it.",
			Remedy: "Look at the network policies of the namespace, and at iptables or nftables of this host (OUTPUT).",
			Test:   "nc -vz PEER PORT in the job and on the host",
			If:     []Fact{"errno:1,13"}, Likely: []Fact{"errno:1,13"},
		},
		{
			Cause:  "A firewall or a security group drops the packets, or the address is of a network that this host cannot reach.",
			Remedy: "Open all TCP ports between the hosts of a job; set NCCL_SOCKET_IFNAME to the network that they share.",
			Test:   "nc -vz PEER PORT of the line",
			If:     []Fact{"errno:0,110,115"}, Likely: []Fact{"errno:110"},
		},
		{
			Cause:  "This host has no route to the address.",
			Remedy: "Set NCCL_SOCKET_IFNAME to the network that the hosts share (NCCL_SOCKET_FAMILY=AF_INET where IPv6 is not routed).",
			Test:   "ip route get PEER",
			If:     []Fact{"errno:101"}, Likely: []Fact{"errno:101"},
		},
	},
}

// sockets are lines of NCCL about TCP, over which ranks find each other.
var sockets = []Signature{
	{
		ID: "peer_closed", Source: NCCL, Kind: Consequence, Forms: []Form{{Text: "Connection closed by remote peer"}},
		Cause:  "The process of another rank ended or closed its connection.",
		Remedy: "Look at the log of the rank at the address that the line names: it failed first, unless it says the same of another one.",
		Reasons: []Reason{
			{
				Cause:  "The process of another rank ended or closed its connection.",
				Remedy: "Look at the log of the rank at the address that the line names: it failed first, unless it says the same of another one.",
				Test:   "the log of the rank at that address: does a host of the job have it",
				Likely: []Fact{"!" + InSetup},
			},
			{
				Cause:  "What connected is no rank: a scanner of ports or a monitor came to the port of the set-up, which ends NCCL before 2.27.3.",
				Remedy: "Use NCCL 2.27.3 or later, and keep scanners away from the hosts of jobs.",
				Test:   "whether the address is of a host of the job",
				If:     []Fact{InSetup, "release<2.27.3"},
			},
		},
	},
	{
		ID: "peer_address_empty", Source: NCCL, Kind: Cause,
		Forms:   []Form{{Text: "is neither AF_INET", In: "is neither AF_INET(%d) nor AF_INET6(%d)"}},
		Cause:   "Another rank gave no usable address: it found no interface, or its NCCL has another format.",
		Remedy:  "Compare NCCL_SOCKET_IFNAME, the interfaces and the release of NCCL on all hosts.",
		Runbook: "check-nccl.md",
		Reasons: []Reason{
			{
				Cause:  "The ranks run different releases of NCCL ({versions}), which cannot be mixed.",
				Remedy: "Use one release everywhere: the same image; look for another libnccl.so.2 in LD_LIBRARY_PATH, LD_PRELOAD and pip list.",
				Test:   "NCCL_DEBUG=VERSION on all hosts",
				If:     []Fact{VersionsDiffer}, Likely: []Fact{VersionsDiffer},
			},
			{
				Cause:  "{NCCL_SOCKET_IFNAME} matches no interface of the host whose rank shows it, so that its peers got no address.",
				Remedy: "Set NCCL_SOCKET_IFNAME to an interface that each host has, or unset it where hosts differ.",
				Test:   "ip -br addr on that host, in the container",
				If:     []Fact{"set:NCCL_SOCKET_IFNAME"}, Likely: []Fact{"!" + VersionsDiffer},
			},
			{
				Cause:  "Another rank has no interface with an address, as NCCL_SOCKET_IFNAME or its container leave none.",
				Remedy: "Set NCCL_SOCKET_IFNAME to an interface that each host has; use the network of the host.",
				Test:   "ip -br addr and env | grep NCCL in the job on each host",
				If:     []Fact{"!set:NCCL_SOCKET_IFNAME"},
			},
			{
				Cause:  "The ranks run different releases of NCCL.",
				Remedy: "Use one release everywhere: the same image; look for another libnccl.so.2 in LD_LIBRARY_PATH, LD_PRELOAD and pip list.",
				Test:   "NCCL_DEBUG=VERSION on all hosts",
				If:     []Fact{"!" + VersionsDiffer},
			},
		},
	},
	{
		ID: "communicator_in_error", Source: NCCL, Kind: Consequence,
		Forms:  []Form{{Text: "Attempt to use communicator before the previous operation returned ncclSuccess"}},
		Cause:  "The communicator has an asynchronous error, and the program goes on to use it.",
		Remedy: "Look for the first failure, here or in the logs of other ranks.",
	},
	{
		ID: "bootstrap_no_interface", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "no socket interface found"},
			{Text: "NET/Socket : No usable listening interface found"},
			{Text: "NET/Socket : no interface found"},
		},
		Cause:   "No interface fits NCCL_SOCKET_IFNAME, or the container has only a loopback interface.",
		Remedy:  "Set NCCL_SOCKET_IFNAME to a prefix that an interface of each host has; =name is exact.",
		Runbook: "check-nccl.md",
		Sure:    true,
		Reasons: []Reason{{
			Cause:  "{NCCL_SOCKET_IFNAME} fits no interface that is up on this host or in this container.",
			Remedy: "Unset NCCL_SOCKET_IFNAME (also in the image and nccl.conf), or set a prefix that an interface of each host has (ip -br addr); =name is exact.",
			Test:   "ip -br addr in the job",
			If:     []Fact{"set:NCCL_SOCKET_IFNAME"}, Certain: []Fact{"set:NCCL_SOCKET_IFNAME"},
		}},
	},
	{
		ID: "comm_id_wrong", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "Invalid NCCL_COMM_ID"},
			{Text: "error encountered when getting address info"},
		},
		Cause:  "NCCL_COMM_ID is not an address and port, or its name does not resolve.",
		Remedy: "Unset NCCL_COMM_ID where a framework makes it; else set address:port of the host of rank 0.",
	},
	ConnectFailed,
	{
		ID: "ras_port_in_use", Source: NCCL, Kind: Note, Harmless: true, Files: []string{"ras/"},
		Forms:  []Form{{Text: "Call to bind failed", In: `"bind"`}},
		Cause:  "The port of RAS (28028) is taken by another job of the host: RAS cannot be asked about this one.",
		Remedy: "None is needed; NCCL_RAS_ADDR gives each job another port.",
	},
	{
		ID: "ports_exhausted", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "Call to bind failed", In: `"bind"`},
			{Text: "Socket creation failed"},
			{Text: "Accept failed: Too many open files", In: "Accept failed: %s"},
		},
		Cause:  "The process could not open or bind a socket: ports or file descriptors are used up, or the address is not of this host.",
		Remedy: "Raise ulimit -n to 65536 or more; widen net.ipv4.ip_local_port_range; end old processes of the job.",
		Reasons: []Reason{
			{
				Cause:  "The limit of open files is too small for the connections of this rank.",
				Remedy: "Raise ulimit -n to 65536 or more, in the unit of the scheduler or of the container runtime too.",
				Test:   "ulimit -n in the job",
				If:     []Fact{"errno:24"}, Certain: []Fact{"errno:24"},
			},
			{
				Cause:  "The container or host has no usable IP interface (or no IPv6), which NCCL needs for its set-up even on one host.",
				Remedy: "Run the container in a network (--network host), with NCCL_SOCKET_IFNAME of an interface that has an IPv4 address; NCCL_SOCKET_FAMILY=AF_INET.",
				Test:   "ip -br addr in the container",
				If:     []Fact{"errno:97"}, Likely: []Fact{"errno:97"},
			},
			portsUsedUp,
			{
				Cause:  "Another process has the port, where it is a fixed one (NCCL_COMM_ID): NCCL takes any free port for all others.",
				Remedy: "End the old process, or use another port.",
				Test:   "ss -ltnp",
				If:     []Fact{"errno:98"}, Likely: []Fact{"set:NCCL_COMM_ID"},
			},
			{
				Cause:  "The address is not of this host: NCCL_COMM_ID or the master address is of another one, or the interface lost it.",
				Remedy: "Correct NCCL_COMM_ID, NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY.",
				Test:   "ip -br addr",
				If:     []Fact{"errno:99"}, Likely: []Fact{"errno:99"},
			},
		},
	},
	{
		ID: "connect_retried", Source: NCCL, Kind: Note,
		Forms: []Form{
			{Text: "Call to connect returned"},
			{Text: ", retrying (", In: "retrying (%d/%ld) after sleep"},
			{Text: "msec of sleep", In: "retrying %d/%d after %u msec of sleep"},
		},
		Cause:    "A connection to another rank did not succeed at once, and is tried again. Some retries are normal while ranks start.",
		Remedy:   "If the job does not go on, look at the address that the line names.",
		Harmless: true,
	},
	{
		ID: "bootstrap_mismatch", Source: NCCL, Kind: Cause,
		Forms: []Form{
			{Text: "Bootstrap Root : mismatch in"},
			{Text: "ranks has already checked in"},
			{Text: "Message truncated : received"},
			{Text: "wrong magic"},
			{Text: ": wrong type "},
		},
		Cause:  "Ranks do not agree on the communicator: two processes have the same rank, the numbers of ranks differ, or an old process of another run answers at the address.",
		Remedy: "Check rank and world size of each process; end processes of earlier runs; use another NCCL_COMM_ID or master port.",
		Reasons: []Reason{
			{
				Cause:  "The ranks chose different networks ({networks}), which cannot talk to each other: a host or container lacks RDMA devices, a plugin or a setting.",
				Remedy: "Give all hosts the same network: /dev/infiniband, libibverbs, plugin and NCCL_* settings; or NCCL_NET=Socket on all, slower.",
				Test:   "grep 'Using network' in the logs of all ranks",
				If:     []Fact{NetworksDiffer}, Certain: []Fact{NetworksDiffer, "text:wrong type"},
			},
			{
				Cause:  "The ranks run different releases of NCCL ({versions}).",
				Remedy: "Use one release everywhere.",
				Test:   "NCCL_DEBUG=VERSION on all hosts",
				If:     []Fact{VersionsDiffer}, Likely: []Fact{VersionsDiffer},
			},
			{
				Cause:  "The ranks chose different networks, as where one container lacks RDMA devices or a plugin.",
				Remedy: "Give all hosts the same network, plugin and NCCL_* settings.",
				Test:   "grep 'Using network' in the logs of all ranks (NCCL_DEBUG=INFO)",
				If:     []Fact{"text:wrong type", "!" + NetworksDiffer},
				Likely: []Fact{"text:wrong type 3|wrong type 4"},
			},
			{
				Cause:  "The ranks are not in the same call: releases or settings of NCCL differ between hosts, or this release has an error (2.19 and 2.20 are known for it).",
				Remedy: "Use one release, image and environment on all hosts, then a newer NCCL.",
				Test:   "NCCL_DEBUG=VERSION and env | grep NCCL on all hosts; the same with another release of NCCL",
				If:     []Fact{"text:truncated", "!" + VersionsDiffer}, Likely: []Fact{"release<2.21", "!release<2.19"},
			},
			{
				Cause:  "Two processes call themselves the rank that the line names: the launcher gives ranks out twice (number of tasks, srun, RANK of each process), or two runs share one address or ID.",
				Remedy: "Start as many tasks as ranks with one launcher (srun --ntasks-per-node, torchrun), and give each a rank of its own; end processes of earlier runs.",
				Test:   "RANK, LOCAL_RANK, SLURM_PROCID and WORLD_SIZE of each process; ps on the hosts for old ones",
				If:     []Fact{"text:already checked in"}, Certain: []Fact{"text:already checked in"},
			},
			{
				Cause:  "Processes were started with different numbers of ranks, as the line says: WORLD_SIZE differs between them, or they are of two runs.",
				Remedy: "Start all with the same number of hosts and processes; end processes of earlier runs.",
				Test:   "WORLD_SIZE of each process; ps on the hosts for old ones",
				If:     []Fact{"text:mismatch in rank count"}, Certain: []Fact{"text:mismatch in rank count"},
			},
			{
				Cause:  "Two processes have the same rank, the numbers of ranks differ, or an old process of another run or a foreign program answers at the address.",
				Remedy: "Check rank and world size of each process; end processes of earlier runs; use another NCCL_COMM_ID or master port.",
				Test:   "RANK and WORLD_SIZE of each process; ps on the hosts for old ones",
				If:     []Fact{"!text:already checked in"}, Likely: []Fact{"!text:wrong type"},
			},
		},
	},
	{
		ID: "socket_failed", Source: NCCL, Kind: Consequence,
		Forms: []Form{
			{Text: "socketProgressOpt: Call to"},
			{Text: "Call to recv ", File: "NCCL 2.4 to 2.17 src/include/socket.h"},
			{Text: "Call to send ", File: "NCCL 2.4 to 2.17 src/include/socket.h"},
			{Text: "ncclOsSocketProgressOpt: Call to"},
			{Text: "NET/Socket : socket progress error"},
		},
		Cause:  "A TCP connection to another rank broke: the other process ended, or the network between the hosts failed.",
		Remedy: "Look at the log of the rank at the address that the line names.",
		Reasons: []Reason{
			{
				Cause:  "A connection that stood was cut on its way: a firewall or NAT that drops idle connections, a link or route that failed, or the host of the peer went down.",
				Remedy: "Look whether the host of the peer is up, and at idle time-outs of firewalls between the hosts (conntrack); NCCL sends nothing on idle connections.",
				Test:   "the log and uptime of the peer; net.netfilter.nf_conntrack_tcp_timeout_established and the firewall's own",
				If:     []Fact{"errno:110,113,100,101"}, Likely: []Fact{"errno:110"},
			},
			{
				Cause:  "The process of the other side ended: it may have failed first.",
				Remedy: "Look at the log of the rank at the address that the line names.",
				Test:   "the log of the rank at that address",
				Likely: []Fact{"errno:32,104"},
			},
			{
				Cause:  "The network between the hosts failed.",
				Remedy: "Look at links and routes between the two.",
				Test:   "ping and nc -vz between the two addresses",
				If:     []Fact{"!errno:110,113,100,101"},
			},
		},
	},
}

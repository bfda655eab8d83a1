// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strconv"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/rdmaping"
)

// key describes a key of the configuration file: a row of docs/CONFIGURATION.md and a line of
// packaging/reference.yml. Tests compare it with what Parse takes.
type key struct {
	path    string // from the top, with dots; [] stands for the entries of a list
	takes   string // type of the value, without its range; empty: keys with values
	low     string // the least and the greatest value; empty: no limits
	high    string
	beyond  []string // values just outside of the range, or of another type
	initial string   // the default as a value; empty: there is none, and otherwise says what then holds
	without string   // what holds without the key
	meaning string   // a sentence, without the full stop
	example string   // a value; empty: none of its own
}

const notCompared = "not compared"

// keys are all keys, in the order of the file.
func keys() []key {
	d := probes.DefaultConfig()
	all := []key{
		{
			path: "roles", takes: "list", without: "as in [ROLES.md](ROLES.md)", meaning: "Roles of ports. The first entry that matches a device applies",
			example: `[{device: "mlx5_[89]", role: storage}]`,
		},
		{path: "roles[].device", takes: "regular expression", without: "required", beyond: []string{`"("`, `""`, "1"}, meaning: "Matches the whole name of an RDMA device", example: `"mlx5_[89]"`},
		{path: "roles[].role", takes: spelling.List(spelling.Names(fabric.Roles())), without: "required", beyond: []string{"rail"}, meaning: "Role of all ports of the device", example: "storage"},
		{
			path: "restricted", takes: "list of regular expressions", without: "no device", beyond: []string{"mlx5_9", `["("]`},
			meaning: "RDMA devices of which only the identity is read, by their whole names. Management bridges of NVSwitch are always restricted", example: `["mlx5_1[0-3]"]`,
		},

		{path: "expected", meaning: "Properties of a good node. What differs is reported by checks and alerts"},
		{path: "expected.compute_ports", takes: "whole number", low: "0", high: "1024", beyond: []string{"-1", "1025", "1.5", "many"}, without: notCompared, meaning: "Number of active ports of role `compute`", example: "8"},
		{path: "expected.gpus", takes: "whole number", low: "0", high: "1024", beyond: []string{"-1", "1025"}, without: notCompared, meaning: "Number of GPUs. 0: a node without GPUs", example: "8"},
		{path: "expected.port_rate_gigabits_per_second", meaning: "Rate of each port of a role"},
	}
	for _, r := range fabric.Roles() {
		all = append(all, key{
			path: "expected.port_rate_gigabits_per_second." + string(r), takes: "number of Gb/s", low: "0.1", high: "100000", beyond: []string{"0", "100001", "fast"},
			without: "as in [ROLES.md](ROLES.md)", meaning: "Rate of each port of role `" + string(r) + "`", example: "400",
		})
	}
	all = append(all,
		key{path: "expected.nccl_minimum_version", takes: "release of NCCL", beyond: []string{"2", "v2.21", "latest"}, without: "any", meaning: "Oldest release of NCCL for the library of the host and of probes", example: "2.21.5"},
		key{path: "expected.roce", meaning: "How the network carries RoCE, for ports of role `compute`"},
		key{path: "expected.roce.dscp", takes: "whole number", low: "0", high: "63", beyond: []string{"-1", "64"}, without: notCompared, meaning: "DSCP of RDMA traffic", example: "26"},
		key{path: "expected.roce.traffic_class", takes: "whole number", low: "0", high: "255", beyond: []string{"-1", "256"}, without: "as `dscp`", meaning: "The same as a traffic class, the value of NCCL_IB_TC: four times the DSCP. Set one of the two keys", example: "104"},
		key{path: "expected.roce.priority", takes: "whole number", low: "0", high: "7", beyond: []string{"-1", "8"}, without: notCompared, meaning: "Priority of RDMA traffic", example: "3"},
		key{path: "expected.roce.lossless", takes: "true or false", beyond: []string{"1", "on", `"true"`}, without: notCompared, meaning: "PFC is enabled on that priority", example: "true"},
		key{path: "expected.roce.ecn", takes: "true or false", beyond: []string{"1", `"yes"`}, without: notCompared, meaning: "Congestion control (ECN) is enabled on that priority", example: "true"},
		key{path: "expected.manifest", takes: "absolute path", beyond: []string{"manifest.yml"}, without: notCompared, meaning: "State of the node when it was good: a file that `check --write-manifest=FILE` wrote, or its content", example: "/etc/gpufabric_exporter/manifest.yml"},
		key{path: "expected.manifest.version", takes: "whole number", low: "1", high: "1", beyond: []string{"0", "2"}, without: "required", meaning: "Layout of the manifest"},
		key{path: "expected.manifest.node", takes: "names with values", beyond: []string{"[a]"}, without: notCompared, meaning: "Values of the node"},
		key{path: "expected.manifest.devices", takes: "devices, each with names and values", beyond: []string{"[a]"}, without: notCompared, meaning: "Values of each RDMA device"},
		key{path: "expected.manifest.gpus", takes: "GPUs, each with names and values", beyond: []string{"[a]"}, without: notCompared, meaning: "Values of each GPU"},

		key{path: "profiles", takes: "absolute path", beyond: []string{"profiles.d"}, without: "only those that are compiled in", meaning: "Folder with profiles of the site's own platforms, see [PROFILES.md](PROFILES.md). It and its files belong to root, and no other user may write to them", example: "/etc/gpufabric_exporter/profiles.d"},

		key{path: "nccl", meaning: "Sources of the NCCL settings that jobs on the node get"},
		key{path: "nccl.environment_file", takes: "absolute path", beyond: []string{"nccl.env"}, without: "none", meaning: "File of `NAME=value` lines that jobs get as environment variables", example: "/etc/site/nccl.env"},
		key{path: "nccl.home", takes: "absolute path", beyond: []string{"root"}, without: "none", meaning: "Home folder of the user whose `.nccl.conf` counts", example: "/root"},
		key{path: "nccl.inspector_folder", takes: "absolute path", beyond: []string{"inspector"}, without: "none", meaning: "Folder to which NCCL Inspector writes in jobs; its subfolders are read, too, see [JOBS.md](JOBS.md#bandwidth-of-running-jobs)", example: "/run/nccl_inspector"},
		key{
			path: "nccl.log_files", takes: "list of absolute paths with wildcards", beyond: []string{"/var/log/nccl.log", "[nccl.log]", `["/*/nccl.log"]`, `["/var/log/["]`}, without: "none",
			meaning: "Logs of jobs to read for failures and the transport, see [JOBS.md](JOBS.md#logs-of-jobs-and-messages-of-the-kernel)", example: `["/var/log/jobs/*/nccl*.log"]`,
		},
		key{path: "nccl.ask_ras", takes: "true or false", beyond: []string{"1", "maybe"}, without: "no queries", meaning: "Whether the exporter queries NCCL RAS about jobs that are suspected to hang. **Queries have crashed jobs**, see [JOBS.md](JOBS.md#ask-nccl)", example: "true"},

		key{path: "kernel", meaning: "Messages of the kernel"},
		key{path: "kernel.messages", takes: "absolute path", beyond: []string{"kmsg"}, without: "not read", meaning: "File with the messages of the kernel, to read for failures of devices, see [JOBS.md](JOBS.md#logs-of-jobs-and-messages-of-the-kernel)", example: "/dev/kmsg"},
	)
	all = append(all, probeKeys(d)...)
	return append(all,
		key{path: "rdma_ping", meaning: "Small RDMA messages between nodes, see [PING.md](PING.md)"},
		key{path: "rdma_ping.enabled", takes: "true or false", beyond: []string{"1", "maybe"}, initial: "false", meaning: "Whether rails answer those of other nodes, and ping them"},
		key{path: "rdma_ping.target_files", takes: "list of absolute paths", without: "none", meaning: "Files with the exporters of all nodes, in the format of Prometheus' file_sd (JSON, or YAML of at most 1 MiB). Without targets the node only answers", example: "[/etc/gpufabric_exporter/targets.json]"},
		key{path: "rdma_ping.target_names", takes: "list of host:port", without: "none", meaning: "Names that resolve to the addresses of all nodes, such as a headless service, with the port of the exporters", example: "[\"gpufabric-nodes.monitoring.svc:10791\"]"},
		key{path: "rdma_ping.leaf_label", takes: "name", beyond: []string{"1", `"a b"`, "rail", "9a"}, initial: rdmaping.DefaultConfig().LeafLabel, meaning: "Label of a target with the switch of its rail. A label rail is the number of the only rail that a target is about"},
		key{path: "rdma_ping.self", takes: "host:port", beyond: []string{"node7", ":1", "1"}, without: "the target with the name of the host or an address of it", meaning: "The target that is this node", example: "node7:10791"},
		key{path: "rdma_ping.peers", takes: "whole number", low: "1", high: strconv.Itoa(rdmaping.MaxPeers), beyond: []string{"0", "9"}, initial: strconv.Itoa(rdmaping.DefaultConfig().Peers), meaning: "How many peers each rail asks"},
		key{path: "rdma_ping.interval", takes: "time", low: rdmaping.LeastInterval.String(), high: short(rdmaping.MostInterval), beyond: []string{"499ms", "61s", "1"}, initial: rdmaping.DefaultConfig().Interval.String(), meaning: "Time between two messages to a peer"},
		key{path: "rdma_ping.size", takes: "whole number", low: strconv.Itoa(rdmaping.Least), high: strconv.Itoa(rdmaping.Longest), beyond: []string{"63", "4097"}, initial: strconv.Itoa(rdmaping.DefaultConfig().Size), meaning: "Bytes of a message. One of the path MTU is sent each minute"},
		key{path: "rdma_ping.scheme", takes: "http or https", beyond: []string{"ftp"}, initial: "http", meaning: "How exporters of other nodes are asked where their rails answer"},
		key{path: "rdma_ping.client_file", takes: "absolute path", beyond: []string{"client.yml"}, without: "no credentials", meaning: "File with TLS settings and credentials for that, in the format of `http_config` of Prometheus", example: "/etc/gpufabric_exporter/client.yml"},
		key{path: "rdma_ping.plain", takes: "true or false", beyond: []string{"1", "maybe"}, initial: "false", meaning: "Whether others are told where rails answer although `--web.config.file` sets neither TLS nor passwords, and credentials of client_file may be sent with `scheme: http`"},
		key{path: "rdma_ping.library", takes: "absolute path or name", beyond: []string{"1", "lib/x.so", "./x.so"}, initial: "libibverbs.so.1", meaning: "The verbs library"},
		key{path: "links", meaning: "Targets of links in findings, alerts and dashboards"},
		key{path: "links.runbooks", takes: "address or absolute path", beyond: []string{"wiki", "https://wiki.example/?a=b"}, initial: DefaultLinks().Runbooks, meaning: "Folder of the runbooks", example: "https://wiki.example/gpufabric"},
		key{path: "links.grafana", takes: "address", beyond: []string{"/grafana", "grafana.example"}, without: "no links to dashboards", meaning: "Grafana with the dashboards of the exporter", example: "https://grafana.example"},
	)
}

func probeKeys(d probes.Config) []key {
	all := []key{
		{path: "probes", takes: "true or false, or settings", beyond: []string{"1", "on"}, initial: "false", meaning: "NCCL collectives on idle GPUs, see [PROBES.md](PROBES.md). A setting without `enabled` switches them on, too"},
		{path: "probes.enabled", takes: "true or false", beyond: []string{"1"}, without: "true with any other setting, else false", meaning: "Whether the exporter probes by itself. Manual probes use the settings either way", example: "true"},
		{path: "probes.every", meaning: "How often each kind of probe runs. If it is set, only the kinds in it are scheduled; `{}`: none"},
	}
	for kind, what := range map[probes.Kind]string{
		probes.Transport: "which network NCCL chooses", probes.Node: "all GPUs of the node", probes.Rail: "one HCA port", probes.Socket: "TCP between GPUs",
	} {
		all = append(all, key{
			path: "probes.every." + string(kind), takes: "time", low: "1m", high: "744h", beyond: []string{"59s", "745h", "1", "0s"},
			initial: short(d.Every[kind]), meaning: "Interval of probes of kind `" + string(kind) + "`: " + what, example: short(d.Every[kind]),
		})
	}
	sortByPath(all[3:])
	return append(all,
		key{path: "probes.duty", takes: "number", low: "0.000001", high: "1", beyond: []string{"0", "1.1"}, initial: "0.001", meaning: "Maximum share of a GPU's time for probes. Probes run less often than `every` if necessary"},
		key{path: "probes.op", takes: spelling.List(spelling.Names(probes.Ops())), beyond: []string{"allreduce"}, initial: string(d.Op), meaning: "Collective of probes of kind `node`"},
		key{path: "probes.type", takes: spelling.List(spelling.Names(probes.DTypes())), beyond: []string{"float64"}, initial: string(d.Type), meaning: "Type of its elements"},
		key{path: "probes.bytes", takes: "bytes", low: "1K", high: "4G", beyond: []string{"1023", "5G", "64 MB"}, initial: "64M", meaning: "Size of the message. It is halved where it takes longer than `collective`"},
		key{path: "probes.max_ctas", takes: "whole number", low: "0", high: "64", beyond: []string{"-1", "65"}, initial: "4", meaning: "Maximum number of channels. 0: NCCL chooses"},
		key{path: "probes.collective", takes: "time", low: "1ms", high: "10s", beyond: []string{"999us", "11s"}, initial: short(d.Collective), meaning: "Longest time of the timed iterations of a run, together"},
		key{path: "probes.wall", takes: "time", low: "1s", high: "5m", beyond: []string{"999ms", "301s"}, initial: short(d.Wall), meaning: "Longest time of a run, from its start to the end of its last rank"},
		key{path: "probes.warn", takes: "number", low: "0.01", high: "0.99", beyond: []string{"0", "1"}, initial: "0.95", meaning: "Share of the baseline below which a second run must confirm a regression"},
		key{path: "probes.idle_memory", takes: "bytes", low: "0", high: "16G", beyond: []string{"17G", "-1"}, initial: "0", meaning: "Memory that NVML reports as used on a GPU that no process uses. Drivers before 510 and Grace need more than 0"},
		key{path: "probes.idle_command", takes: "list: an absolute path and its arguments, 32 words and 4 KiB at most", beyond: []string{"[is-free]", "/bin/true"}, without: "none", meaning: "Program of the site whose exit status 0 means that the scheduler has no job on the node", example: "[/usr/local/sbin/node-is-free]"},
		key{path: "probes.user", takes: "whole number", low: "0", high: "4294967294", beyond: []string{"-1", "4294967295", "nobody"}, initial: "65534", meaning: "User and group ID of the ranks of an exporter that is root. 0: root, without capabilities"},
		key{path: "probes.nccl", takes: "path or name", beyond: []string{"2"}, without: "searched in LD_LIBRARY_PATH of `env_file`, the cache of the loader and Python packages", meaning: "The NCCL library", example: "/opt/nccl/lib/libnccl.so.2"},
		key{path: "probes.cuda", takes: "path or name", beyond: []string{"1"}, initial: d.CUDA, meaning: "The library of the CUDA driver"},
		key{path: "probes.env_file", takes: "absolute path", beyond: []string{"probes.env"}, without: "none", meaning: "File of `NAME=value` lines, the environment of the ranks", example: "/etc/gpufabric_exporter/probes.env"},
		key{path: "probes.state_file", takes: "absolute path", beyond: []string{"probes.json"}, initial: d.StateFile, meaning: "Baselines, and the time that each GPU has spent"},
		key{path: "probes.lock_file", takes: "absolute path", beyond: []string{"probe.lock"}, initial: d.LockFile, meaning: "Locked while a probe of the node runs, so that there is only one"},
	)
}

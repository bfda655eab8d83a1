// SPDX-License-Identifier: Apache-2.0

package main

// drift compares the settings of nodes with those of the other nodes of their cluster. Alert rules record
// what it shows.
func drift() row {
	const none = "nothing differs, or the recording rules are not loaded"
	return row{"Settings that differ", []line{{
		grid(about{
			"Unlike nine tenths",
			"Nodes with ports for training unlike those of at least nine tenths of ten or more nodes with the same profile or boards. It fires an alert after half an hour.", none, 24, 6,
		},
			[]string{
				`max by (cluster, instance, what, detail) (instance:gpufabric_fleet_fact:odd{@node})`,
				`max by (cluster, instance, what, detail) (instance:gpufabric_fleet_fact:odd{@node} * 0 + on (cluster, job, instance, what, detail) group_left () max by (cluster, job, instance, what, detail) (
  instance:gpufabric_fleet_fact:value{@node} * 0 + on (cluster, kind, what, detail) group_left () max by (cluster, kind, what, detail) (cluster:gpufabric_fleet_fact:majority{@cluster})))`,
			}, "What",
			column{field: "what", title: "What", words: facts()},
			column{field: "detail", title: "Priority", none: "-"},
			column{field: "instance", title: "Node", link: toNode()},
			column{field: "A", title: "Has", unit: "short"},
			column{field: "B", title: "Nine tenths have", unit: "short", none: "unknown"},
			column{field: "cluster", title: "Cluster"}),
	}, {
		grid(about{
			"Nodes that differ",
			"Nodes with a setting that more than half of the nodes with the same board and role do not have. It fires an alert after six hours.", none, 24, 7,
		},
			[]string{`max by (cluster, instance, board, role, setting, value, majority) (instance:gpufabric_setting:drift{@node})`}, "Setting",
			column{field: "setting", title: "Setting", words: settings(), width: 140},
			column{field: "instance", title: "Node", link: toNode(), width: 150},
			column{field: "value", title: "Has", width: 120},
			column{field: "majority", title: "Most have", width: 120},
			column{field: "A", title: "Share", unit: "percentunit", width: 79},
			column{field: "role", title: "Role", width: 80},
			column{field: "board", title: "Board"},
			column{field: "cluster", title: "Cluster", width: 80}),
	}, {
		grid(about{
			"Values of settings that differ",
			"How many nodes have each value of a setting, where there is more than one. Without a value that most nodes have no alert fires.", none, 24, 7,
		},
			[]string{`max by (cluster, board, role, setting, value) (cluster:gpufabric_setting:nodes{@cluster})
and on (cluster, board, role, setting) count by (cluster, board, role, setting) (cluster:gpufabric_setting:nodes{@cluster}) > 1`}, "Setting",
			column{field: "setting", title: "Setting", words: settings(), width: 140},
			column{field: "value", title: "Value", width: 120},
			column{field: "A", title: "Nodes", width: 79},
			column{field: "role", title: "Role", width: 80},
			column{field: "board", title: "Board"},
			column{field: "cluster", title: "Cluster", width: 80}),
	}}}
}

// settings are those that alerts/drift.rules.yml records.
func settings() words {
	return words{
		"nic_firmware": {"NIC firmware", ""},
		"gpu_driver":   {"GPU driver", ""},
		"nccl":         {"NCCL", ""},
		"pfc":          {"PFC priorities", ""},
		"dscp_map":     {"DSCP map", ""},
		"buffers":      {"Receive buffers", ""},
		"mtu":          {"MTU", ""},
		"nvlinks":      {"NVLinks per GPU", ""},
		"ports":        {"Training ports", ""},
	}
}

// facts are those that alerts/fleet.rules.yml compares.
func facts() words {
	return words{
		"links": {"Active ports", ""},
		"rate":  {"Rate, bytes/s", ""},
		"gid":   {"GIDs: 2 IPv4, 1 IPv6", ""},
		"pfc":   {"Share with PFC", ""},
	}
}

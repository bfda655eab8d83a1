// SPDX-License-Identifier: Apache-2.0

package main

func gids(w, h uint32) panel {
	const addresses = `(gpufabric_gid_info{@port} and on (cluster, job, instance, device, port, index) count_values by (cluster, job, instance, device, port) ("index", gpufabric_gid_selected_index{@port}))`
	rank := `0 * gpufabric_gid_selected_index{reason="fallback",@port}
  or 0 * (gpufabric_gid_selected_index{@port} unless on (cluster, job, instance, device, port) ` + addresses + `)
  or 1 + 0 * gpufabric_gid_table_entries{@port}`
	return grid(about{
		"RoCE address (GID)",
		"The GID is the address of a port in RDMA packets; a port has a table of them. Shown is the entry that NCCL 2.21 or later selects under the host's configuration, and how: NCCL finds one of the right type, NCCL_IB_GID_INDEX names one, or nothing fits. RoCE needs type v2. Ports without a fitting one come first.", "no RDMA device, or the collector gid is off", w, h,
	},
		[]string{
			orSilent(worstFirst("device, port", "device", rank)),
			`max by (device, port, reason) (gpufabric_gid_selected_index{@port})`,
			`max by (device, port, gid, type, family) (` + addresses + `
  or label_replace(gpufabric_hca_port_info{link_layer="unspecified",@port}, "type", "no RoCE", "", ""))`,
			`max by (device, port) (gpufabric_gid_changes_total{@port})`,
		}, "",
		column{field: "device", title: "Device", link: toPort(), width: 130},
		column{field: "port", title: "Port", width: 50},
		column{field: "B", title: "Index", none: "-", width: 70},
		column{
			field: "reason", title: "Selected by", none: "the driver",
			words: words{
				"matched": {"NCCL, by type", ""}, "configured": {"NCCL_IB_GID_INDEX", ""},
				"fallback": {"nothing fits", bad},
			}, width: 155,
		},
		column{field: "type", title: "Type", none: "no such entry", width: 110},
		column{field: "family", title: "Family", none: "-", width: 90},
		column{field: "gid", title: "GID", none: "-"},
		column{field: "D", title: "Changes", width: 80})
}

func gidTables() panel {
	return over(about{
		"Entries of the GID table",
		"Occupied entries by type and address family, all ports together. A line that falls is an address that was removed.", "no RDMA device, or the collector gid is off", 9, 13,
	}, "short", nil,
		curve{`sum by (type, family) (gpufabric_gid_entries{@port})`, "{{type}} {{family}}"})
}

func portHistory() line {
	const (
		symbols = `rate(gpufabric_ethernet_symbol_errors_total{@port}[$__rate_interval]) or rate(gpufabric_hca_port_symbol_errors_total{@port}[$__rate_interval])`
		blocks  = `rate(gpufabric_ethernet_fec_uncorrectable_blocks_total{@port}[$__rate_interval])`
	)
	return line{
		history(about{
			"Ports up and down", "Whether each port was active, of those that the node uses.",
			"no state of a port in use is known", 12, 8,
		}, words{
			"1": {"active", good}, "0": {"not active", bad},
			isSpare: {"spare", unneeded},
		},
			curve{
				`max by (device, port) (` + activeOrSpare +
					` unless on (cluster, job, instance, device, port) gpufabric_hca_port_info{role="unused",@port})`,
				"{{device}}/{{port}}",
			}),
		over(about{
			"Link errors", "What the physical link could not repair: symbol errors and blocks that FEC gave up.",
			"no such counters are known", 12, 8,
		}, events, nil,
			curve{`sum by (device) (` + symbols + `) > 0`, "{{device}} symbols"},
			curve{`sum by (device) (` + blocks + `) > 0`, "{{device}} blocks beyond FEC"},
			curve{`sum(` + symbols + `)`, "symbols, all ports"},
			curve{`sum(` + blocks + `)`, "blocks beyond FEC, all ports"}),
	}
}

func gpuTrends() line {
	return line{
		over(about{
			"GPU utilisation",
			"Share of time in which something ran on each GPU. All GPUs of a training job move together.",
			"no GPU driver answers, or the collector gpu is off", 12, 8,
		}, "percentunit", nil,
			curve{`max by (index) ` + withIndex(`gpufabric_gpu_utilization_ratio{@node}`), "GPU {{index}}"}),
		over(about{
			"NVLink errors",
			"Errors and recoveries by kind, all links of a GPU together. A few CRC errors and replays are normal.",
			"no NVLink, or the collector nvlink is off", 12, 8,
		}, events, nil,
			curve{
				`max by (index, kind) ` + withIndex(`rate(gpufabric_nvlink_errors_total{@node}[$__rate_interval])`) + ` > 0`,
				"GPU {{index}}: {{kind}}",
			},
			curve{`sum by (kind) (rate(gpufabric_nvlink_errors_total{@node}[$__rate_interval]))`, "all GPUs: {{kind}}"}),
	}
}

func gpuErrors() line {
	return line{
		history(about{
			"Clocks held down",
			"Why the clocks of a GPU are held down. A power cap under full load is usual; heat and the power brake are not. One slow GPU makes all of its job slow.", "no GPU is throttled, or none is known", 12, 7,
		}, words{"1": {"throttled", warning}},
			curve{`max by (index, reason) ` + withIndex(`gpufabric_gpu_throttled{@node}`), "GPU {{index}}: {{reason}}"}),
		over(about{
			"PCIe errors",
			"Errors of the PCIe links of training NICs (AER), and replays of GPUs. Correctable ones cost time, fatal ones the device.", "no PCIe error counters are known", 12, 7,
		}, events, nil,
			curve{
				`sum by (device, severity) (rate(gpufabric_pcie_aer_errors_total{@port}[$__rate_interval])) > 0`,
				"{{device}} {{severity}}",
			},
			curve{`sum by (severity) (rate(gpufabric_pcie_aer_errors_total{@port}[$__rate_interval]))`, "all NICs {{severity}}"},
			curve{`sum(rate(gpufabric_gpu_pcie_replays_total{@node}[$__rate_interval]))`, "all GPUs replays"}),
	}
}

func exporterNow() line {
	return line{
		grid(about{
			"Sources that cannot be read",
			"Kernel interfaces and files that gave no answer, and why. What hangs on them is unknown.", "none is known", 10, 8,
		},
			[]string{orSilent(`max by (source, device, netdev, reason) (
  gpufabric_exporter_source_unknown{@node} == 1
  or gpufabric_exporter_source_up{@node} == 0 unless on (cluster, job, instance, source, device, netdev) gpufabric_exporter_source_unknown{@node}
)`)}, "Source",
			column{field: "source", title: "Source"}, column{field: "device", title: "Device", link: toPort()},
			column{field: "netdev", title: "Interface"}, column{field: "reason", title: "Reason"}),
		grid(about{
			"Facts that are unknown", "How many facts are unknown, by device (or GPU) and reason.", "none is known",
			7, 8,
		},
			[]string{orSilent(`max by (device, index, reason) (` + withIndex(`(gpufabric_exporter_facts_unknown{uuid!="",@node} > 0)`) + `
  or gpufabric_exporter_facts_unknown{uuid="",@node} > 0)`)}, "-Facts",
			column{field: "device", title: "Device", link: toPort()}, column{field: "index", title: "GPU", width: 55},
			column{field: "reason", title: "Reason"}, column{field: "A", title: "Facts", none: "-", width: 70}),
		grid(about{
			"Collectors",
			"Whether each part of the exporter could read what it needs, and whether the node has what it is for.",
			"the exporter does not answer", 7, 8,
		},
			[]string{
				orSilent(`min by (collector) (gpufabric_scrape_collector_success{@node})`),
				`min by (collector) (gpufabric_scrape_collector_supported{@node})`,
				`max by (collector) (gpufabric_scrape_collector_duration_seconds{@node})`,
			}, "Collector",
			column{field: "collector", title: "Collector"},
			column{field: "A", title: "Reads all", none: "-", words: yesNo(good, bad), width: 85},
			column{field: "B", title: "On this node", words: yesNo(plainly, plainly), width: 100},
			column{field: "C", title: "Took", unit: "s", width: 80}),
	}
}

func exporterTrends() line {
	return line{
		over(about{
			"Commands to drivers",
			"Questions the kernel passed on to drivers for the exporter. They do not grow with the number of scrapers.",
			"the exporter does not answer", 12, 7,
		}, events, nil,
			curve{`sum by (kind) (rate(gpufabric_exporter_driver_commands_total{@node}[$__rate_interval]))`, "{{kind}}"}),
		over(about{
			"Time to read",
			"How long the last reads of each collector took, added up over devices that are read side by side.",
			"the exporter does not answer", 12, 7,
		}, "s", nil,
			curve{`max by (collector) (gpufabric_scrape_collector_duration_seconds{@node})`, "{{collector}}"}),
	}
}

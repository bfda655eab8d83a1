// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"slices"
	"sync"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/gpu"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/verdict"
)

// condition is what a label of the simulator says is wrong, and how that shows in the catalogue of checks. Rows were
// written from the condition and from what checks say they are for, before any of them was run on the corpus.
type condition struct {
	mode string // the mode of failure, as diagnose.Modes counts them
	// shows are checks of which one that fails on the subject finds it. Where alert is set and the catalogue has none of
	// them, the condition is left to that alert: it shows in rates over minutes only.
	shows []string
	alert bool
	// follows are checks that may fail on the same subject because of it, anywhere those that may fail wherever it is.
	// Neither finds it, and neither is false.
	follows, anywhere []string
}

// Checks that judge what a port makes of its packets: none of them is right about a port that uses RoCE v1.
var classes = []string{"roce_dscp", "roce_priority", "roce_pfc", "roce_buffer", "roce_ets", "roce_ecn", "roce_cnp", "roce_traffic_priority"}

// conditions by the identifier of simulator.Finding and simulator.GPUFinding: that of a mode, which the
// checks of the mode show, or one with a row.
var conditions = sync.OnceValue(func() map[string]condition {
	all := rows()
	for _, c := range diagnose.Catalogue() {
		for _, mode := range c.ModeIDs() {
			if _, has := rows()[mode]; !has {
				all[mode] = condition{mode: mode, shows: append(all[mode].shows, c.ID)}
			}
		}
	}
	return all
})

// rows are the conditions of which more is to be said, or less than their mode has.
func rows() map[string]condition {
	return map[string]condition{
		// links
		"link_flapping": {mode: "link_flapping", shows: []string{"link_flapping"}, alert: true, follows: []string{"port_active"}},
		// What NCCL is configured to use is gone, too, and GPUs look for another NIC.
		"compute_ports_missing": {mode: "device_gone", shows: []string{"compute_ports"}, anywhere: []string{"nccl_configuration", "nccl_devices", "nic_shared", "gpudirect_usable"}},
		"compute_ports_surplus": {mode: "surplus_port", shows: []string{"compute_ports_surplus"}, anywhere: []string{"pfc_uniform"}},
		"rate_below_expected":   {mode: "rate_degraded", shows: []string{"port_rate"}},
		"rate_mismatch":         {mode: "rate_misreported", shows: []string{"port_rate_agrees"}, follows: []string{"port_rate"}},
		"post_fec_errors":       {mode: "post_fec_errors", shows: []string{"post_fec_errors"}, alert: true},

		// addresses
		"no_routable_gid": {mode: "gid_missing", shows: []string{"gid_usable"}, follows: classes},
		"gid_index_wrong": {mode: "gid_pinned", shows: []string{"gid_usable"}, follows: classes, anywhere: []string{"nccl_gid_index"}}, // of the file
		"gid_not_matched": {mode: "gid_missing", shows: []string{"gid_usable"}, follows: classes},
		"gid_index_set":   {mode: "gid_pinned", shows: []string{"nccl_gid_index"}},
		"gid_index_mixed": {mode: "gid_pinned", shows: []string{"gid_pinned_uniform"}, anywhere: []string{"nccl_gid_index"}},

		// classes of traffic
		// Without expectations of the site, the difference from the other ports shows.
		"pfc_off_on_used_priority":    {mode: "pfc_wrong", shows: []string{"roce_pfc", "pfc_uniform"}},
		"trust_not_dscp":              {mode: "dscp_map_wrong", shows: []string{"roce_priority"}, follows: []string{"roce_pfc", "roce_traffic_priority"}},
		"dscp_maps_to_other_priority": {mode: "dscp_map_wrong", shows: []string{"roce_priority"}, follows: []string{"roce_pfc", "roce_traffic_priority"}},
		// A traffic class that was meant as a priority also shows in the file itself.
		"traffic_class_wrong": {mode: "traffic_class_wrong", shows: []string{"roce_dscp"}, follows: classes, anywhere: []string{"nccl_configuration"}},
		// Without expectations of the site, the contradiction shows: PFC is on for a priority that RoCE does not use.
		"traffic_class_overridden": {mode: "traffic_class_wrong", shows: []string{"roce_dscp", "roce_pfc"}, follows: classes},
		"service_level_wrong":      {mode: "traffic_class_wrong", shows: []string{"roce_priority", "roce_pfc"}, follows: classes},
		"ecn_off_on_used_priority": {mode: "ecn_wrong", shows: []string{"roce_ecn"}, follows: []string{"roce_congestion_answered"}},
		// The site wants PFC; that 802.3x pause is on is how it comes to be off.
		"global_pause_on":         {mode: "global_pause", shows: []string{"roce_global_pause", "roce_pfc"}, follows: []string{"roce_pfc"}},
		"lossless_buffer_missing": {mode: "buffer_missing", shows: []string{"roce_buffer"}},
		"notifications_with_data": {mode: "cnp_delayed", shows: []string{"roce_cnp"}},

		// traffic
		"marked_without_cnp":         {mode: "ecn_wrong", shows: []string{"roce_congestion_answered"}},
		"lossless_priority_drops":    {mode: "lossless_drops", shows: []string{"roce_lossless"}},
		"retransmissions":            {mode: "retransmissions", shows: []string{"retransmissions"}, alert: true},
		"transport_retries_exceeded": {mode: "queue_pair_death", shows: []string{"qp_death"}, alert: true},

		// PCI Express
		"pcie_link_degraded": {mode: "pcie_link_degraded", shows: []string{"pcie_link", "gpu_pcie_link"}, follows: []string{"gpu_pcie_link"}},
		"pcie_errors":        {mode: "pcie_errors", shows: []string{"pcie_errors"}, alert: true},
		"acs_redirect":       {mode: "acs_redirects", shows: []string{"pcie_acs"}, anywhere: []string{"gpudirect_usable"}},
		"numa_mismatch":      {mode: "numa_wrong", shows: []string{"pcie_numa"}},

		// GPUs
		"gpu_driver_missing": {mode: "gpu_driver", shows: []string{"gpu_driver"}, anywhere: []string{"gpudirect_usable", "gpu_listed", "manifest"}},
		"gpu_lost":           {mode: "gpu_lost", shows: []string{"gpu_lost", "gpu_listed"}, follows: []string{"gpudirect_usable"}, anywhere: []string{"nvlink_active"}},
		"mig_on":             {mode: "gpu_divided", shows: []string{"gpu_divided"}},
		"nvlink_errors":      {mode: "nvlink_errors", shows: []string{"nvlink_errors"}, alert: true},
		"fabric_not_ready":   {mode: "fabric_manager", shows: []string{"nvlink_fabric"}},
		"gpudirect_blocked":  {mode: "gpudirect_module", shows: []string{"gpudirect_usable", "peermem_bound"}}, // or what gdrMode says

		// NCCL
		"nccl_line_ignored":        {mode: "nccl_configuration", shows: []string{"nccl_configuration"}},
		"nccl_value_refused":       {mode: "nccl_configuration", shows: []string{"nccl_refused"}},
		"nccl_note":                {mode: "nccl_configuration", shows: []string{"nccl_notes"}},
		"nccl_device_missing":      {mode: "nccl_devices", shows: []string{"nccl_devices"}, anywhere: []string{"nccl_configuration"}},
		"nccl_device_unnamed":      {mode: "nccl_devices", shows: []string{"nccl_devices_prefix"}},
		"nccl_device_left_out":     {mode: "nccl_devices", shows: []string{"nccl_devices_left_out"}},
		"socket_interface_missing": {mode: "socket_interface", shows: []string{"nccl_socket_interface"}},
		"socket_interface_down":    {mode: "socket_interface", shows: []string{"nccl_socket_interface"}},

		// the host
		"memlock_low": {mode: "memlock", shows: []string{"memlock"}},
	}
}

// finding is one thing that is wrong, and where: on a port, on a GPU, or, without either, somewhere on the node.
type finding struct {
	what, device string
	port         int
	gpu          string // PCI address
	mode         string // the mode of failure, where the condition has several
	at           place  // of the mutation: what hides it there
	// optional says that something else that is wrong hides it: who does not find it is right too.
	optional bool
}

func (f finding) String() string {
	switch {
	case f.device != "":
		return f.what + " of " + f.device
	case f.gpu != "":
		return f.what + " of GPU " + f.gpu
	}
	return f.what + " of the node"
}

// labelled returns the labels of a scenario.
func labelled(s simulator.Scenario) []finding {
	var all []finding
	for _, f := range s.Expect {
		all = append(all, finding{what: f.What, device: f.Device, port: f.Port})
	}
	for _, f := range s.GPUs {
		mine := finding{what: f.What, gpu: f.GPU}
		if label, ok := s.GDROf(f.GPU); ok && f.What == "gpudirect_blocked" {
			mine.mode = gdrMode(label.Block)
		}
		all = append(all, mine)
	}
	return all
}

// gdrMode is the mode of failure of what is in the way of GPUDirect RDMA.
func gdrMode(b fabric.GDRBlock) string {
	switch b {
	case fabric.GDRDistance:
		return gpu.ModeGDRDistance.ID
	case fabric.GDRLevel, fabric.GDROverride:
		return gpu.ModeGDRConfig.ID
	case fabric.GDRIOMMU:
		return gpu.ModeIOMMU.ID
	}
	return gpu.ModeGDRModule.ID
}

// about reports whether a verdict is about the subject of the finding.
func (f finding) about(v claim) bool {
	if f.device == "" && f.gpu == "" {
		return true
	}
	return f.device != "" && v.device == f.device && (f.port == 0 || v.port == 0 || v.port == f.port) || f.gpu != "" && v.gpu == f.gpu
}

// shownBy reports whether a failed verdict finds it, explains whether the verdict is no more than what comes of it.
func (f finding) shownBy(v claim) bool {
	return slices.Contains(conditions()[f.what].shows, v.check.ID) && f.about(v)
}

func (f finding) explains(v claim) bool {
	c := conditions()[f.what]
	return slices.Contains(c.follows, v.check.ID) && f.about(v) || slices.Contains(c.anywhere, v.check.ID)
}

// leftToAlerts reports whether no check is for it: only rates over minutes show it.
func (f finding) leftToAlerts() bool {
	c := conditions()[f.what]
	return c.alert && !slices.ContainsFunc(c.shows, func(id string) bool { return diagnose.Find(id) != nil })
}

// verdict is one that failed, with its GPU by PCI address.
type claim struct {
	check    *verdict.Check
	device   string
	port     int
	gpu      string
	file     string
	evidence string
}

func (v claim) String() string {
	switch {
	case v.device != "":
		return v.check.ID + " on " + v.device
	case v.gpu != "":
		return v.check.ID + " on GPU " + v.gpu
	case v.file != "":
		return v.check.ID + " on " + v.file
	}
	return v.check.ID + " on the node"
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"

	ncclsettings "gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/probes"
)

// measured are figures and causes of open findings, as the rules record them. More than one of a node are all there.
func measured() string {
	const by = `cluster, instance, problem, name, of, unit`
	figures := `label_replace(count_values by (` + by + `) ("figure", round(finding:gpufabric_finding:figure{@node}, 0.1)), "of", " of $1", "of", "(.+)")`
	causes := `label_replace(count by (cluster, instance, problem, name, cause) (finding:gpufabric_finding:cause{@node}), "text", "$1", "cause", "(.*)")`
	words := findingCauses()
	for _, id := range slices.Sorted(maps.Keys(words)) {
		causes = `label_replace(` + causes + `,"text","` + words[id].text + `","cause","` + id + `")`
	}
	for range 3 { // the most underscores of a word without a sentence
		causes = `label_replace(` + causes + `,"text","$1 $2","text","([a-z_ ]+)_([a-z ]+)")`
	}
	return `count by (cluster, instance, problem, measured) (
label_join(` + figures + `, "measured", "", "name", "figure", "of", "unit")
or label_join(` + causes + `, "measured", "", "name", "text")
)
and on (cluster, instance, problem) ` + open("") + `
or label_replace(label_replace(count_values("measured", count(` + unchecked + `) > 5), "measured", "nodes: $1", "measured", "(.*)"), "problem", "` + checksOff + `", "", "")`
}

// findingCauses are sentences for the causes of findings. Keys are patterns.
func findingCauses() words {
	all := causes()
	maps.Copy(all, jobRulesWords())
	maps.Copy(all, shortCauses())
	all[ncclsettings.RuleTCLikePriority] = word{"NCCL_IB_TC is a priority", ""}
	all["polling"] = physicalStates()["polling"]
	for id, to := range map[string]string{"gid_usable": "no RoCE v2 address for NCCL", "port_active": "a port is not active", "nccl_configuration": "NCCL settings"} {
		all[id] = word{to, ""}
	}
	return all
}

// shortCauses are what explains a fault of probes, for a narrow column. Keys of findings are patterns of checks.
func shortCauses() words {
	w := probeCauses()
	w[string(probes.CauseNoDevice)] = word{"no device found", ""}
	w[string(probes.CauseDisabled)] = word{"NCCL_IB_DISABLE", ""}
	w[string(probes.CauseSocketSelected)] = word{"NCCL_NET=Socket", ""}
	w[string(probes.CauseNotLogged)] = word{"not logged", ""}
	w[string(probes.CauseNoDifference)] = word{"no setting changed", ""}
	w[string(probes.CauseGPUDirect)] = word{"GPUDirect changed", ""}
	w[string(probes.CauseChannels)] = word{"channels changed", ""}
	w[string(probes.CauseSettings)] = word{"settings changed", ""}
	w[string(probes.CauseVersions)] = word{"versions changed", ""}
	w[string(probes.CauseSwitchSums)] = word{"NVLS changed", ""}
	for pattern, text := range map[string]string{
		"port_rate": "port is slow", "port_rate_.+": "rate of port",
		"nvlink_.+": "NVLinks", "gpu_.+": "GPU", "pcie_.+": "PCIe", "roce_.+": "RoCE settings",
		stormAlert: "sends a PFC storm", "GpuFabricDeviceGone": "gone device", "compute_ports": "training ports",
	} {
		w[pattern] = word{text, ""}
	}
	return w
}

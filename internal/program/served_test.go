// SPDX-License-Identifier: Apache-2.0

package program

import (
	"os"
	"testing"

	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/simulator/simulatortest"
)

// Of network interfaces only what has a meaning is read, and no parameter of congestion control, unless a
// flag asks for more: statistics come by the thousand, and parameters may lie in debugfs, which is root's.
func TestInterfacesShowMoreOnRequest(t *testing.T) {
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm") // thousands of small files
	}
	const parameter = `gpufabric_roce_congestion_control_parameter{device="mlx5_0",`
	const statistic = `gpufabric_ethernet_statistic_total{device="mlx5_0",netdev="enp24s0np0",port="1",statistic="rx_bytes_phy"}`
	metrics := func(flags ...string) string {
		p := start(t, Options{}, append([]string{"demo"}, flags...)...)
		defer p.Stop()
		p.Ready()
		_, body, _ := p.Get("/metrics")
		return body
	}
	body := metrics()
	commandtest.Contains(t, body, `gpufabric_roce_pfc_enabled{device="mlx5_0",`)
	commandtest.Lacks(t, body, "gpufabric_roce_congestion_control_parameter", "gpufabric_ethernet_statistic_total")
	body = metrics("--collector.dcqcn", "--collector.netdev.stats-include=rx_bytes_.*")
	commandtest.Contains(t, body, parameter, statistic)
	commandtest.Lacks(t, body, `statistic="tx_bytes_phy"`)
}

// Red is for what keeps jobs from the node: the page is as bad as the worst of its findings.
func TestVerdictIsAsBadAsItsFindings(t *testing.T) {
	for scenario, want := range map[string]string{
		"port-down":         `class="verdict bad"`,
		"counter-saturated": `class="verdict unsure"`, // info, for which check ends with 0
	} {
		p := start(t, Options{}, append(simulatortest.Host(t, scenario), "--config.file=none")...)
		_, page, _ := p.Get("/")
		commandtest.Contains(t, page, want)
	}
}

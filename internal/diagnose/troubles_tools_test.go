// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"regexp"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/verdict"
)

// A remedy names only tools that work with the driver of the port.
func TestRemediesNameToolsOfTheDriver(t *testing.T) {
	faults := map[string]struct {
		edit func(*fabric.Node, *fabric.QoS)
		want map[string]string // by driver
	}{
		"PFC off": {func(_ *fabric.Node, q *fabric.QoS) { q.PFC.Value.Enabled = 0 }, map[string]string{
			"mlx5_core": "mlnx_qos -i eth1 --pfc 0,0,0,1,0,0,0,0 or dcb pfc set dev eth1 prio-pfc 3:on, and the same at the switch port.",
			"bnxt_en":   "dcb pfc set dev eth1 prio-pfc 3:on or niccli -dev 0000:18:00.0 pfc -enable 3, and the same at the switch port.",
			"ice":       "dcb pfc set dev eth1 prio-pfc 3:on, and the same at the switch port.",
		}},
		"PFC on": {func(n *fabric.Node, _ *fabric.QoS) { n.Policy.RoCE.Lossless = new(false) }, map[string]string{
			"mlx5_core": "mlnx_qos -i eth1 --pfc 0,0,0,0,0,0,0,0 or dcb pfc set dev eth1 prio-pfc all:off, and the same at the switch port.",
			"bnxt_en":   "dcb pfc set dev eth1 prio-pfc all:off or niccli -dev 0000:18:00.0 pfc -enable 0xFF, and the same at the switch port.",
			"ice":       "dcb pfc set dev eth1 prio-pfc all:off, and the same at the switch port.",
		}},
		"map": {func(_ *fabric.Node, q *fabric.QoS) { q.DSCPPriority.Value[26] = 1 }, map[string]string{
			"mlx5_core": "mlnx_qos -i eth1 --dscp2prio set,26,3 or dcb app replace dev eth1 dscp-prio 26:3",
			"bnxt_en":   "dcb app replace dev eth1 dscp-prio 26:3 or niccli -dev 0000:18:00.0 apptlv -add -app 3,5,26",
			"ice":       "dcb app replace dev eth1 dscp-prio 26:3",
		}},
		"trust": {func(_ *fabric.Node, q *fabric.QoS) { q.Trust.Value = fabric.TrustPCP }, map[string]string{
			"mlx5_core": "mlnx_qos -i eth1 --trust dscp, or correct expected.roce.",
			"bnxt_en":   "dcb app replace dev eth1 dscp-prio 26:3 or niccli -dev 0000:18:00.0 apptlv -add -app 3,5,26, or correct expected.roce.",
			"ice":       "dcb app replace dev eth1 dscp-prio 26:3, or correct expected.roce.",
		}},
		"trust without a policy": {func(n *fabric.Node, q *fabric.QoS) {
			q.Trust.Value, n.Policy.RoCE = fabric.TrustPCP, fabric.RoCEPolicy{}
		}, map[string]string{
			"mlx5_core": "Make the interface trust DSCP: mlnx_qos -i eth1 --trust dscp. Or use a VLAN, and NCCL_IB_SL.",
			"bnxt_en":   "Make the interface trust DSCP: dcb app replace dev eth1 dscp-prio 26:<lossless priority> or niccli -dev 0000:18:00.0 apptlv -add -app <lossless priority>,5,26. Or use a VLAN, and NCCL_IB_SL.",
			"ice":       "Make the interface trust DSCP: dcb app replace dev eth1 dscp-prio 26:<lossless priority>. Or use a VLAN, and NCCL_IB_SL.",
		}},
		"buffer": {func(_ *fabric.Node, q *fabric.QoS) { q.Buffers.Value.Bytes[1] = 0 }, map[string]string{
			"mlx5_core": "Give priority 3 a buffer: mlnx_qos -i eth1 --prio2buffer 0,0,0,1,0,0,0,0",
			"bnxt_en":   "Give priority 3 a buffer: dcb buffer set dev eth1", "ice": "Give priority 3 a buffer: dcb buffer set dev eth1",
		}},
		"ETS": {func(_ *fabric.Node, q *fabric.QoS) { q.ETS.Value.Algorithm[0] = fabric.TSAETS }, map[string]string{
			"mlx5_core": "Give its class a share: mlnx_qos -i eth1 --tcbw <eight shares> or dcb ets set",
			"bnxt_en":   "Give its class a share: dcb ets set dev eth1 tc-bw", "ice": "Give its class a share: dcb ets set dev eth1 tc-bw",
		}},
		"rate": {func(n *fabric.Node, _ *fabric.QoS) {
			n.Policy.PortRates = map[fabric.Role]float64{fabric.RoleCompute: 50e9}
			n.HCAs[1].Ports[0].Rate.Value.BytesPerSecond, n.NetDevs[1].Speed.Value = 25e9, 25e9
		}, map[string]string{
			"mlx5_core": "Check the speeds that both ends advertise (ethtool eth1, mlxlink -d mlx5_1 -m) and",
			"bnxt_en":   "Check the speeds that both ends advertise (ethtool eth1, ethtool -m eth1) and", "ice": "Check the speeds that both ends advertise (ethtool eth1, ethtool -m eth1) and",
		}},
	}
	changes := regexp.MustCompile(`mlnx_qos -i|dcb \w|niccli`) // such a command may interrupt what uses the port
	for name, f := range faults {
		for driver, want := range f.want {
			n := fabrictest.Lossless()
			for i := range n.HCAs {
				n.HCAs[i].Driver.Value, n.HCAs[i].PCI = driver, fabric.Known([]string{"0000:17:00.0", "0000:18:00.0"}[i], "device", n.At)
			}
			f.edit(n, &n.NetDevs[1].QoS)
			n.Derive()
			var got []string
			for _, v := range verdict.Failures(diagnose.Run(n, nil)) {
				if v.Subject.Device == "mlx5_1" {
					got = append(got, verdict.FilledRemedy(n, &v))
				}
			}
			const drain = "Drain the node first, and use no connection through the interface. "
			if len(got) != 1 || !strings.HasPrefix(strings.TrimPrefix(got[0], drain), want) || strings.HasPrefix(got[0], drain) != changes.MatchString(want) {
				t.Errorf("%s of %s: %q, expected %q", name, driver, got, want)
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package document

import (
	"strings"
	"testing"
)

// A command can be copied from Markdown as it is, not rendered and rendered: it is code, in which nothing is escaped.
func TestProse(t *testing.T) {
	for in, want := range map[string]string{
		`Disable ACS, or at each boot: for b in 0000:17:03.0 0000:17:00.0; do setpci -s "$b" ECAP_ACS+0x6.w=0000; done.`: "Disable ACS, or at each boot: `for b in 0000:17:03.0 0000:17:00.0; do setpci -s \"$b\" ECAP_ACS+0x6.w=0000; done`.",
		`Check rdma link, lspci -nn and dmesg -T | grep -iE 'pcie|mlx5'. A device may return after echo 1 > /sys/bus/pci/rescan or a cold restart.`: "Check `rdma link`, `lspci -nn` and `dmesg -T | grep -iE 'pcie|mlx5'`. A device may return after " +
			"`echo 1 > /sys/bus/pci/rescan` or a cold restart.",
		`mlnx_qos -i x --pfc 0,0,0,1 or dcb pfc set dev x prio-pfc 3:on, and the same at the switch port.`:       "`mlnx_qos -i x --pfc 0,0,0,1` or `dcb pfc set dev x prio-pfc 3:on`, and the same at the switch port.",
		`Install one version (grep . /sys/class/infiniband/*/fw_ver): then a cold restart.`:                      "Install one version (`grep . /sys/class/infiniband/*/fw_ver`): then a cold restart.",
		`Give it a buffer: mlnx_qos -i x --buffer_size <bytes>,<bytes>,0; dcb buffer show dev x shows the size.`: "Give it a buffer: `mlnx_qos -i x --buffer_size <bytes>,<bytes>,0`; `dcb buffer show dev x` shows the size.",
		`Read it: gpufabric_exporter explain FILE shows why.`:                                                    "Read it: `gpufabric_exporter explain FILE` shows why.",
		`ip link set dev 'a;<b>' down ends the storm.`:                                                           "`ip link set dev 'a;<b>' down` ends the storm.",
		`ip link set dev 'a, b; c or d. e' mtu 4200, and the same at the switch port.`:                           "`ip link set dev 'a, b; c or d. e' mtu 4200`, and the same at the switch port.",
		`mlnx_qos -i 'it'\''s; x' --pfc 0,1 or dcb pfc set dev "y) z" prio-pfc 3:on.`:                            "`mlnx_qos -i 'it'\\''s; x' --pfc 0,1` or `dcb pfc set dev \"y) z\" prio-pfc 3:on`.",
		`for d in 'x; done' y; do mlxfwreset -d "$d" reset; done.`:                                               "`for d in 'x; done' y; do mlxfwreset -d \"$d\" reset; done`.",
		`Replace the cable of 'x grep y' and run dmesg -T with the job's log and NCCL's, too.`:                   "Replace the cable of 'x grep y' and run `dmesg -T with the job's log` and NCCL's, too.",
		`Run ip addr show 'x, and more.`:                                                                         "Run `ip addr show 'x`, and more.",
		`Not known: gpufabric_exporter check --interval=10s does that.`:                                          "Not known: `gpufabric_exporter check --interval=10s` does that.",
		`A <b> of $x.`: `A \<b> of \$x.`,
		``:             "",
	} {
		var b strings.Builder
		if err := WriteMarkdown(&b, &Document{Sections: []Section{{Blocks: []Block{{List: []Text{Prose(in)}}}}}}); err != nil {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(b.String(), "- ")
		if got = strings.TrimSuffix(got, "\n"); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/probes"
)

// following are the series that say what follows from what.
func following(collect func(emit)) (lines []string) {
	for _, f := range families(collect) {
		if strings.HasSuffix(f.Name, "_follows") {
			for _, s := range f.Series {
				lines = append(lines, strings.TrimPrefix(f.Name, Prefix)+" "+strings.Join(s.Labels, "|"))
			}
		}
	}
	return lines
}

// A failed check says what it follows from, unless it fails for a second reason, too.
func TestCheckFollows(t *testing.T) {
	pinned := func(n *fabric.Node) {
		n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_GID_INDEX", Value: "0", IsNumber: true, Source: "/etc/nccl.conf:1"}}
	}
	for _, c := range []struct {
		name string
		edit func(*fabric.Node)
		want []string
	}{
		{"nothing fails", func(*fabric.Node) {}, nil},
		{"an index is pinned", pinned, []string{
			"check_follows gid_usable|critical|mlx5_0|1||||nccl_gid_index", "check_follows gid_usable|critical|mlx5_1|1||||nccl_gid_index",
		}},
		{"an index is pinned, and one port has no IPv4 address", func(n *fabric.Node) {
			pinned(n)
			gids := &n.HCAs[0].Ports[0].GIDs.Entries
			gids.Value = slices.DeleteFunc(slices.Clone(gids.Value), func(g fabric.GID) bool { return g.Family == fabric.FamilyIPv4 })
			gids.Value = append(gids.Value, fabric.GID{Index: 5, Type: fabric.GIDRoCEv2, Family: fabric.FamilyIPv6, Addr: netip.MustParseAddr("fd00::1")})
		}, []string{"check_follows gid_usable|critical|mlx5_1|1||||nccl_gid_index"}},
	} {
		n := fabrictest.Healthy()
		c.edit(n)
		n.Derive()
		if got := following(func(emit emit) { emitChecks(diagnose.Run(n, nil), emit) }); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A probe says what it follows from, if that explains all of it.
func TestProbeFollows(t *testing.T) {
	n := fabrictest.WithGPUs()
	n.Policy.PortRates = map[fabric.Role]float64{fabric.RoleCompute: 50e9}
	n.HCAs[0].Ports[0].Rate.Value.BytesPerSecond = 25e9
	n.NetDevs[0].Speed.Value = 25e9
	fabrictest.Verdicts(n, fabrictest.Usable)
	slow := func(device string, share float64) probes.ProbeStatus {
		p := probed(rail(device), 12*hour)
		p.Last.Comparison.Ratio, p.Last.Comparison.Collapsed = measured(share), 3
		return p
	}
	s := probes.Status{Enabled: true, Probes: []probes.ProbeStatus{slow("mlx5_0", 0.5), slow("mlx5_1", 0.5), probed(node, hour)}}
	want := []string{"probe_follows rail|mlx5_0|1|port_rate"}
	if got := following(func(emit emit) { collectProbes(n, s, emit) }); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A check that fails says in words what is wrong with each subject, and what was measured.
func TestCheckInfo(t *testing.T) {
	var lines []string
	n := fabrictest.Healthy()
	n.Policy.PortRates = map[fabric.Role]float64{fabric.RoleCompute: 100e9}
	n.Derive()
	for _, f := range families(func(emit emit) { emitChecks(diagnose.Run(n, nil), emit) }) {
		if f.Name == Prefix+"check_info" {
			for _, s := range f.Series {
				lines = append(lines, strings.Join(s.Labels, "|"))
			}
		}
	}
	const what = "|1|||The port runs at 400 Gb/s, but 800 Gb/s is expected"
	if want := []string{"port_rate|ports|mlx5_0" + what, "port_rate|ports|mlx5_1" + what}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}

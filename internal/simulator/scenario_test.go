// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	s, err := Find("port-down")
	if err != nil || s.Name != "port-down" || s.Build() == nil {
		t.Fatalf("%v, %v", s, err)
	}
	for asked, want := range map[string]string{
		"port-donw":    `unknown scenario "port-donw", did you mean "port-down"? (valid: device-gone, gid-index-pinned, `,
		"flapping":     `unknown scenario "flapping", did you mean "link-flapping"? (valid: `,
		"Healthy":      `unknown scenario "Healthy", did you mean "healthy"? (valid: `,
		"":             `unknown scenario "" (valid: `,
		"quux-quux-ax": `unknown scenario "quux-quux-ax" (valid: `,
	} {
		if _, err := Find(asked); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Find(%q): %v", asked, err)
		}
	}
}

func TestScenariosAreDescribed(t *testing.T) {
	all := Scenarios()
	if !slices.IsSortedFunc(all, func(a, b Scenario) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted")
	}
	unique(t, "scenario", all, func(s Scenario) string { return s.Name })
	name, what := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`), regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	for _, s := range all {
		if !name.MatchString(s.Name) || s.Summary == "" || strings.ContainsAny(s.Summary, "\n.") || s.Truth == "" {
			t.Errorf("%s: name, summary or truth", s.Name)
		}
		if !strings.Contains(s.Config(), "compute_ports: 8") {
			t.Errorf("%s: config %q", s.Name, s.Config())
		}
		healthy := s.platform.build()
		for _, f := range s.Expect {
			if !what.MatchString(f.What) || (f.Device != "" && healthy.HCA(f.Device) == nil) || (f.Device == "") != (f.Port == 0) {
				t.Errorf("%s: finding %+v", s.Name, f)
			}
		}
	}
	all[0].Expect, all[0].Name = append(all[0].Expect[:0], Finding{What: "scribble"}), "scribble"
	if fresh := Scenarios()[0]; fresh.Name == "scribble" || (len(fresh.Expect) > 0 && fresh.Expect[0].What == "scribble") {
		t.Error("Scenarios does not return copies")
	}
}

// TestScenariosDifferWhereTheySay holds every scenario against the healthy node of its platform: each path
// that differs must match one of the patterns, and each pattern must match some path.
func TestScenariosDifferWhereTheySay(t *testing.T) {
	const (
		port   = `sys/devices/.*/infiniband/%s/ports/1/`
		netdev = `sys/devices/.*/net/%s/`
		nccl   = `root/etc/nccl\.conf`
		v4     = `proc/(1/)?net/route`
		v6     = `proc/(1/)?net/ipv6_route`
	)
	down := func(device, name string) []string {
		return []string{
			fmt.Sprintf(port+`(state|phys_state|rate)`, device), fmt.Sprintf(netdev+`(carrier|operstate|speed)`, name),
		}
	}
	differences := map[string][]string{
		"healthy":                nil,
		"healthy-ib":             nil,
		"port-down":              down("mlx5_3", "enp94s0np0"),
		"link-flapping":          down("mlx5_4", "enp154s0np0"),
		"device-gone":            {`sys/devices/pci0000:bd/.*/0000:c0:00.0(/.*)?`, `sys/class/infiniband/mlx5_5`, `sys/class/net/enp192s0np0`, `sys/bus/pci/.*/0000:c0:00\.0`, v4},
		"no-rdma":                {`sys/class/infiniband(/.*)?`, `sys/devices/.*/infiniband(/.*)?`},
		"rate-degraded":          {fmt.Sprintf(port+`rate`, "mlx5_6"), fmt.Sprintf(netdev+`speed`, "enp206s0np0")},
		"rate-mismatch":          {fmt.Sprintf(port+`rate`, "mlx5_1")},
		"gid-missing":            {fmt.Sprintf(port+`(gids|gid_attrs/types|gid_attrs/ndevs)/[23]`, "mlx5_2"), v4},
		"gid-roce-v1-only":       {fmt.Sprintf(port+`gids/[123]`, "mlx5_7"), fmt.Sprintf(port+`gid_attrs/types/[123]`, "mlx5_7"), fmt.Sprintf(port+`gid_attrs/ndevs/[23]`, "mlx5_7")},
		"gid-index-pinned":       {fmt.Sprintf(port+`gids/[24]`, "mlx5_2"), fmt.Sprintf(port+`gid_attrs/types/[234]`, "mlx5_2"), fmt.Sprintf(port+`gid_attrs/ndevs/[24]`, "mlx5_2"), nccl},
		"ipv6-only":              {fmt.Sprintf(port+`gids/[23]`, `mlx5_(\d|bond_0)`), v4, v6, nccl},
		"ipv6-only-family-unset": {fmt.Sprintf(port+`gids/[23]`, `mlx5_(\d|bond_0)`), v4, v6},
	}
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			want, ok := differences[s.Name]
			if !ok {
				t.Fatal("this test does not know how the scenario differs")
			}
			const step = 45 // a flapping link is down
			base, node := s.platform.build().at(step), s.Build().at(step)
			ch := base.layout().to(node.layout())
			unused := slices.Clone(want)
			for _, name := range slices.Concat(ch.removed, ch.added, ch.changed) {
				match := func(pattern string) bool { return regexp.MustCompile("^" + pattern + "$").MatchString(name) }
				// The counters of an interface stop with its link.
				if !slices.ContainsFunc(want, match) && path.Base(path.Dir(name)) != "statistics" {
					t.Errorf("differs at %s", name)
				}
				unused = slices.DeleteFunc(unused, match)
			}
			if len(unused) > 0 {
				t.Errorf("does not differ at %q", unused)
			}
			t.Log(summary(ch))
		})
	}
}

func summary(ch changes) string {
	b := strings.Builder{}
	fmt.Fprintf(&b, "%d removed, %d added, %d changed\n", len(ch.removed), len(ch.added), len(ch.changed))
	for _, part := range []struct {
		sign  string
		names []string
	}{{"-", ch.removed}, {"+", ch.added}, {"~", ch.changed}} {
		for i, name := range part.names {
			if i == 8 {
				fmt.Fprintf(&b, "%s … %d more\n", part.sign, len(part.names)-i)
				break
			}
			fmt.Fprintln(&b, part.sign, name)
		}
	}
	return b.String()
}

// SPDX-License-Identifier: Apache-2.0

package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	scenarios := []string{"healthy", "port-down", "pfc-off", "pfc-storm", "link-flapping", "pcie-link-flapping"}
	flags := []string{"--collector.hca", "--collector.gid", "--collector.counters", "--web.listen-address", "--log.level", "--help"}
	commands := []string{"serve", "demo", "capture", "topology", "check", "probe", "help"}
	for _, c := range []struct {
		word  string
		names []string
		want  string
	}{
		{"port-donw", scenarios, "port-down"},    // two letters are swapped
		{"prot-down", scenarios, "port-down"},    //
		{"port_down", scenarios, "port-down"},    // another separator
		{"PFC-Storm", scenarios, "pfc-storm"},    // another case
		{"pfc-of", scenarios, "pfc-off"},         // the nearest, not the first
		{"flapping", scenarios, "link-flapping"}, // a part of the name: the shortest
		{"pfc", scenarios, "pfc-off"},
		{"chek", commands, "check"},
		{"tpology", commands, "topology"},
		{"proble", commands, "probe"},
		{"scan", commands, ""},   // as far from serve as from anything
		{"run", commands, ""},    //
		{"nosuch", commands, ""}, //
		{"--web.lisen-address", flags, "--web.listen-address"},
		{"--loglevel", flags, "--log.level"},
		{"--collector.hcaa", flags, "--collector.hca"},
		{"--colector.gid", flags, "--collector.gid"},
		{"--collector.cm", flags, ""}, // what stands before the dot makes no collector alike
		{"--collector.xyz", flags, ""},
		{"", scenarios, ""},
		{"q", scenarios, ""},
		{strings.Repeat("pfc-off", 10), scenarios, ""},
		{strings.Repeat("x", 1<<20), scenarios, ""},
		{"pfc\x00off", scenarios, "pfc-off"},
		{"healthy", nil, ""},
	} {
		if got := nearest(c.word, c.names); got != c.want {
			t.Errorf("nearest(%.40q) = %q, want %q", c.word, got, c.want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b        string
		limit, want int
	}{
		{"", "", 3, 0},
		{"ab", "ab", 3, 0},
		{"ab", "ba", 3, 1},
		{"abc", "ab", 3, 1},
		{"ab", "axb", 3, 1},
		{"abcd", "wxyz", 9, 4},
		{"abcd", "wxyz", 2, 2},
		{"a", strings.Repeat("a", 64), 99, 63},
		{"a", strings.Repeat("a", 65), 99, 99},
	} {
		if got, back := Distance(c.a, c.b, c.limit), Distance(c.b, c.a, c.limit); got != c.want || back != got {
			t.Errorf("Distance(%q, %q, %d) = %d and %d, want %d", c.a, c.b, c.limit, got, back, c.want)
		}
	}
}

func TestHint(t *testing.T) {
	if got := Hint("jsn", []string{"text", "json"}); got != "; did you mean json?" {
		t.Errorf("%q", got)
	}
	if got := Hint("yaml", []string{"text", "json"}); got != "" {
		t.Errorf("%q", got)
	}
}

// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestVariables(t *testing.T) {
	table := Variables()
	if len(table) != 305 {
		t.Errorf("%d variables, want 305", len(table))
	}
	var (
		name     = regexp.MustCompile(`^(NCCL_[A-Z0-9_]*([A-Z0-9]|_\*)|(OFI_NCCL|RCCL|TORCH_NCCL)_\*)$`)
		release  = regexp.MustCompile(`^(<=?|>)?2(\.\d+){1,2}$`)
		statuses = []Status{StatusCurrent, StatusRemoved, StatusPlugin, StatusTool, StatusFramework, StatusMistaken}
		parsers  = []Parser{ParserNumber, ParserBoolean, ParserOne, ParserKeyword, ParserKeywordFold, ParserLevel, ParserTuning, ParserCIDR, ParserPattern, ParserText}
		places   = regexp.MustCompile(`^(src|docs)/[a-z0-9_/]+\.(cc|cu|h|rst)$`)
		outsides = []Outside{OutsideCut, OutsideDevice, OutsideClamp, OutsideCap, OutsideDefault, OutsideLate, OutsideOn, OutsideOff, OutsideUnlisted, OutsideUnchecked, OutsideRefused}
		types    = []string{"bool", "cidr", "cpulist", "enum", "hcalist", "hostport", "iflist", "int", "level", "list", "path", "string", "uint64"}
		current  = 0
	)
	for i, v := range table {
		expect := func(ok bool, what string) {
			if !ok {
				t.Errorf("%s: %s: %+v", v.Name, what, v)
			}
		}
		expect(i == 0 || table[i-1].Name < v.Name, "not sorted or not unique")
		expect(name.MatchString(v.Name) && len(v.Name) <= maxSimilar, "name")
		expect(slices.Contains(statuses, v.Status), "status")
		expect(v.Type == "" || slices.Contains(types, v.Type), "type")
		for _, r := range []string{v.Since, v.Deprecated, v.Removed} {
			expect(r == "" || release.MatchString(r), "release")
		}
		expect((v.Removed != "") == (v.Status == StatusRemoved), "removed")
		expect(v.Deprecated == "" || v.Status == StatusCurrent && v.Instead != "", "deprecated")
		expect(len(v.Note) <= 72 && len(v.Valid) <= 160 && len(v.Default) <= 60, "too much prose")
		if v.Status == StatusCurrent {
			current++
			expect(slices.Contains(parsers, v.Parser), "parser")
			expect(v.Since != "" && v.Type != "" && v.Default != "", "incomplete")
		} else {
			expect(v.Parser == ParserNone, "parser")
		}
		switch v.Parser {
		case ParserKeyword, ParserKeywordFold, ParserLevel, ParserBoolean, ParserTuning:
			for word := range strings.SplitSeq(v.Valid, "|") {
				expect(word != "" && !strings.ContainsAny(word, " ,;"), "vocabulary")
			}
		}
		expect(places.MatchString(v.Source) || v.Status != StatusCurrent && v.Status != StatusRemoved, "source")
		for _, what := range []Outside{v.Below, v.Above} {
			expect((len(v.Ranges) > 0 || v.Pattern != nil) == (what != "") && (what == "" || slices.Contains(outsides, what)), "what becomes of numbers outside the ranges")
		}
		expect(len(v.Ranges) == 0 || v.Parser == ParserNumber && v.Valid != "", "ranges")
		if def, ok := ParseNumber(v.Default); ok && strings.Trim(v.Default, "-0123456789") == "" {
			expect(v.Accepts(def), "the default is outside the ranges")
		}
		for word := range strings.FieldsSeq(v.Instead) {
			instead, _, _ := strings.Cut(word, "=")
			if strings.HasPrefix(instead, prefix) {
				d, ok := Describe(instead)
				expect(ok && d.Status == StatusCurrent && d.Deprecated == "", "successor "+instead)
			}
		}
	}
	if current != 245 {
		t.Errorf("%d current variables, want 245", current)
	}

	table[0].Name = "changed"
	if Variables()[0].Name == "changed" {
		t.Error("Variables returns the table itself")
	}
}

func TestParseVariables(t *testing.T) {
	row := func(ranges string) string {
		return variableColumns + "\nNCCL_A\tcurrent\tnumber\tint\t0\t\t" + ranges + "\tcut\t2.5\t\t\t\t\t\tsrc/a.cc\t\n"
	}
	if table, err := parseVariables(row("-1..7 ..-9 64..512/32")); err != nil || len(table) != 1 ||
		!slices.Equal(table[0].Ranges, []Range{{-1, 7, 0, false}, {math.MinInt64, -9, 0, false}, {64, 512, 32, false}}) {
		t.Errorf("ranges are %+v, %v", table, err)
	}
	for _, tsv := range []string{"", "name\n", variableColumns + "\nNCCL_DEBUG\tcurrent\n", row("7"), row("a..b"), row("1..2/"), row("1..2/x")} {
		if _, err := parseVariables(tsv); err == nil {
			t.Errorf("parseVariables(%q) succeeds", tsv)
		}
	}
}

func TestDescribe(t *testing.T) {
	for name, want := range map[string]string{
		"NCCL_IB_TC":                  "NCCL_IB_TC",
		"NCCL_SHARP_DISABLE":          "NCCL_SHARP_*",
		"NCCL_INSPECTOR_DUMP_VERBOSE": "NCCL_INSPECTOR_*",
		"NCCL_PROFILER_PLUGIN":        "NCCL_PROFILER_PLUGIN",
		"NCCL_IB_TCP":                 "",
		"NCCL_SHARP":                  "",
		"NCCL_SHARP_":                 "NCCL_SHARP_*",
		"NCCL_":                       "",
		"_":                           "",
		"NCCL_A_B_C_D":                "",
		"nccl_ib_tc":                  "",
		"":                            "",
	} {
		if v, ok := Describe(name); v.Name != want || ok != (want != "") {
			t.Errorf("Describe(%q) = %q, %v, want %q", name, v.Name, ok, want)
		}
	}
}

func TestSimilar(t *testing.T) {
	for name, want := range map[string]string{
		"NCCL_IB_GIDINDEX":                    "NCCL_IB_GID_INDEX",
		"NCCL_IB_GID_IDX":                     "NCCL_IB_GID_INDEX",
		"NCCL_SOCKET_IFNAMES":                 "NCCL_SOCKET_IFNAME",
		"NCCL_SOCKET_INFAME":                  "NCCL_SOCKET_IFNAME",
		"NCCL_DEBGU":                          "NCCL_DEBUG",
		"nccl_debug":                          "NCCL_DEBUG",
		"NCCL_IB_TX":                          "NCCL_IB_TC",
		"NCCL_GDR_LEVEL":                      "",
		"NCCL_XYZ":                            "",
		"NCCL_":                               "",
		"NCCL_IB_TRAFFIC_CLASS":               "",
		"NCCL_" + strings.Repeat("A", 100000): "",
	} {
		if got := similar(name); got != want {
			t.Errorf("similar(%.40q) = %q, want %q", name, got, want)
		}
	}
}

func TestRules(t *testing.T) {
	id := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	seen := map[string]bool{}
	for _, r := range Rules() {
		if !id.MatchString(r.ID) || seen[r.ID] || strings.HasSuffix(r.Summary, ".") || strings.Contains(r.Summary, ". ") {
			t.Errorf("rule %+v: want a unique snake_case id and one sentence", r)
		}
		seen[r.ID] = true
	}
}

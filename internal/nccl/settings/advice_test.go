// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fileOfNCCL is a file of NCCL and a release.
var fileOfNCCL = regexp.MustCompile(`^(src|docs)/[a-z0-9_/]+\.(cc|rst) 2\.\d+\.\d+$`)

// Each row is about a variable that NCCL reads and about a value that it takes.
func TestAdvice(t *testing.T) {
	table := adviceTable()
	if len(table) < 40 {
		t.Errorf("%d rows", len(table))
	}
	for i, a := range table {
		v, known := Describe(a.Name)
		if !known || v.Status != StatusCurrent || i > 0 && table[i-1].Name > a.Name {
			t.Errorf("%+v: not a current variable, or not sorted", a)
		}
		if !slices.Contains([]string{"default", "works", "not_recommended", "deprecated", "ignored", "refused"}, a.Verdict) || !slices.Contains([]string{"info", "warning", "critical"}, a.Severity) || (a.Verdict == "refused") != (a.Severity == "critical") ||
			(a.Text == "") != (a.Verdict == "default") {
			t.Errorf("%+v: verdict, severity or text", a)
		}
		// Where it was read: a file of a release that the row is about, or of the first one that is otherwise.
		_, last, _ := strings.Cut(a.Releases, "..")
		if !fileOfNCCL.MatchString(a.File+" "+a.Release) || last == "" && a.Release != NewestNCCL || last != "" && a.Release == NewestNCCL {
			t.Errorf("%+v: source", a)
		}
	}
	for _, bad := range []string{"", "name\n", adviceColumns + "\nNCCL_DEBUG\n"} {
		if _, err := parseAdvice(bad); err == nil {
			t.Errorf("parseAdvice(%q) succeeds", bad)
		}
	}
}

func TestAdviceOn(t *testing.T) {
	for _, c := range []struct {
		name, value string
		rows        int
	}{
		{"NCCL_IB_TIMEOUT", "22", 1},
		{"NCCL_IB_TIMEOUT", "0x16", 1},
		{"NCCL_IB_TIMEOUT", "20", 1},
		{"NCCL_IB_TIMEOUT", "15", 0},
		{"NCCL_NET_GDR_LEVEL", "5", 1},
		{"NCCL_NET_GDR_LEVEL", "LOC", 1},
		{"NCCL_NET_GDR_LEVEL", "", 0},
		{"NCCL_ALGO", "Ring", 2},
		{"NCCL_ALGO", "^NVLS", 1},
		{"NCCL_ALGO", "allreduce:tree;broadcast:^ring", 4},
		{"NCCL_PROTO", "Simple", 1},
		{"NCCL_PROTO", "LL128", 2},
		{"NCCL_PROTO", "^LL128", 1},
		{"NCCL_PROTO", "^LL", 2},     // LL128 is one of the others
		{"NCCL_SHM_DISABLE", "2", 0}, // only 1 acts
		{"NCCL_IB_DISABLE", "-1", 1},
		{"NCCL_NOSUCH", "1", 0},
		{"NCCL_NET", "", 1},
		{"NCCL_TOPO_FILE", "", 0},
		{"NCCL_MAX_CTAS", "0", 1},
		{"NCCL_MAX_CTAS", "1", 0},
	} {
		if got := AdviceOn(c.name, c.value); len(got) != c.rows {
			t.Errorf("%s=%s: %+v, want %d rows", c.name, c.value, got, c.rows)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"slices"
	"strings"
	"testing"
)

// Each row is about variables that NCCL reads, and says where it was read.
func TestVoid(t *testing.T) {
	for _, v := range voidTable() {
		by, known := Describe(v.By.Name)
		if !known || by.Status != StatusCurrent || v.By.Text == "" || v.By.Better == "" ||
			!fileOfNCCL.MatchString(v.By.File+" "+v.By.Release) || !slices.Contains([]string{"ignored", "refused"}, v.By.Verdict) {
			t.Errorf("%+v", v)
		}
		for _, pattern := range v.patterns {
			if !slices.ContainsFunc(Variables(), func(o Variable) bool {
				_, value, _ := strings.Cut(pattern, "=")
				return o.Status == StatusCurrent && v.Concerns(o.Name, value)
			}) {
				t.Errorf("%s: nothing is %s", v.By.Name, pattern)
			}
		}
	}
	for _, bad := range []string{"", "name\n", voidColumns + "\nNCCL_DEBUG\n"} {
		if _, err := parseVoid(bad); err == nil {
			t.Errorf("parseVoid(%q) succeeds", bad)
		}
	}
	for _, c := range []struct {
		by, value, name, of string
		verdicts            string
	}{
		{"NCCL_CUMEM_ENABLE", "0", "NCCL_MNNVL_ENABLE", "1", "ignored"},
		{"NCCL_CUMEM_ENABLE", "0", "NCCL_MNNVL_ENABLE", "0", ""},
		{"NCCL_CUMEM_ENABLE", "1", "NCCL_MNNVL_ENABLE", "1", ""},
		{"NCCL_IB_DISABLE", "2", "NCCL_NET_GDR_READ", "1", "ignored"},
		{"NCCL_IB_DISABLE", "1", "NCCL_NET", "ib", "refused"},
		{"NCCL_IB_DISABLE", "1", "NCCL_IB_DISABLE", "1", ""},
		{"NCCL_IB_DISABLE", "", "NCCL_IB_HCA", "x", ""},
		{"NCCL_NET", "socket", "NCCL_IB_HCA", "x", "ignored"},
		{"NCCL_NET", "socket", "NCCL_NET_PLUGIN", "x", ""},
		{"NCCL_MINE", "1", "NCCL_IB_HCA", "x", ""},
	} {
		var got []string
		for _, v := range VoidBy(c.by, c.value) {
			if v.Concerns(c.name, c.of) {
				got = append(got, v.By.Verdict)
			}
		}
		if strings.Join(got, " ") != c.verdicts {
			t.Errorf("%s=%s and %s=%s: %q, want %q", c.by, c.value, c.name, c.of, got, c.verdicts)
		}
	}
}

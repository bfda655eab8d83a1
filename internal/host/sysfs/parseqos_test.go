// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"fmt"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// dscpTable is dscp2prio as the driver fills it.
func dscpTable(priority func(dscp int) int) string {
	var b strings.Builder
	b.WriteString("dscp\tprio\n")
	for dscp := range fabric.NumDSCP {
		fmt.Fprintf(&b, "%d\t%d\n", dscp, priority(dscp))
	}
	return b.String()
}

func firmwareDefault(dscp int) int { return dscp >> 3 }

func TestParseTrust(t *testing.T) {
	check(t, parseTrust, map[string]fabric.Trust{"pcp": fabric.TrustPCP, "dscp": fabric.TrustDSCP},
		"", "none", "both", "DSCP", "dscp ", "pcp\ndscp")
}

func TestParseDSCPPriority(t *testing.T) {
	good := dscpTable(firmwareDefault)
	table, ok := parseDSCPPriority([]byte(good))
	if !ok || table[26] != 3 || table[48] != 6 || table[63] != 7 {
		t.Errorf("table %v, %v", table, ok)
	}
	for what, s := range map[string]string{
		"nothing": "", "the first line only": "dscp\tprio\n", "no first line": strings.TrimPrefix(good, "dscp\tprio\n"),
		"one less": strings.TrimSuffix(good, "63\t7\n"), "one more": good + "64\t0\n", "one twice": strings.Replace(good, "\n63\t", "\n62\t", 1),
		"priority 8": strings.Replace(good, "63\t7", "63\t8", 1), "a third column": strings.Replace(good, "63\t7", "63\t7\t1", 1),
		"an empty line": good + "\n", "words": strings.Replace(good, "63\t7", "63\tseven", 1),
	} {
		if table, ok := parseDSCPPriority([]byte(s)); ok || table != [fabric.NumDSCP]int{} {
			t.Errorf("%s: %v, %v", what, table, ok)
		}
	}
}

func TestParseSwitch(t *testing.T) {
	check(t, parseSwitch, map[string]bool{"0": false, "1": true}, "", "2", "-1", "on", "1 1")
}

func TestParseParameter(t *testing.T) {
	check(t, parseParameter, map[string]uint64{"0": 0, "32767": 32767, "4294967295": 1<<32 - 1, "-1": 1<<32 - 1, "-2147483648": 1 << 31},
		"", "4294967296", "-2147483649", "1.5", "fast", "1 2", "12345678901234567890123")
}

func TestParseTrafficClass(t *testing.T) {
	const v4, v6 = "src_ip=10.0.0.1,dst_ip=10.0.1.0/24,tclass=96\n", "dst_ip6=fd00:0000:0000:0000:0000:0000:0000:0001,tclass=0\n"
	for s, want := range map[string]fabric.TrafficClass{
		"Global tclass=106\n":           {Global: 106},
		"Global tclass=0\n":             {Global: 0},
		"Global tclass=255\n" + v4 + v6: {Global: 255, Rules: 2},
		v6:                              {Global: -1, Rules: 1},
		v4 + v4 + v6:                    {Global: -1, Rules: 3},
	} {
		if got, ok := parseTrafficClass([]byte(s)); !ok || got != want {
			t.Errorf("parsing %q = %+v, %v", s, got, ok)
		}
	}
	for _, s := range []string{
		"", "\n", "106\n", "Global tclass=\n", "Global tclass=256\n", "Global tclass=-1\n", "Global tclass=106 \n", "global tclass=106\n",
		"Global tclass=106\n\n", "Global tclass=106\nGlobal tclass=106\n", v4 + "Global tclass=106\n", "tclass=106\n",
		"Global src_ip=10.0.0.1,tclass=1\n", "src_ip=10.0.0.1\n", "src_ip=,tclass=1\n", "port=1,tclass=1\n", "src_ip=10.0.0.1,tclass=300\n",
		"src_ip=10.0.0.1,,tclass=1\n", "src_ip=\x00,tclass=1\n", strings.Repeat(v4, 1000),
	} {
		if got, ok := parseTrafficClass([]byte(s)); ok || got != (fabric.TrafficClass{}) {
			t.Errorf("parsing %.60q = %+v, %v", s, got, ok)
		}
	}
}

func FuzzParseQoS(f *testing.F) {
	for _, s := range []string{"pcp\n", "dscp", "0\n", "1", "-1", "4294967295", "", dscpTable(firmwareDefault), "dscp prio\n0 0\n1 9\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, ok := parseTrust(b); ok != (v == fabric.TrustPCP || v == fabric.TrustDSCP) {
			t.Errorf("parseTrust(%q) = %q, %v", b, v, ok)
		}
		if v, ok := parseParameter(b); ok && v > 1<<32-1 {
			t.Errorf("parseParameter(%q) = %d", b, v)
		}
		if on, ok := parseSwitch(b); on && !ok {
			t.Errorf("parseSwitch(%q) = %v, %v", b, on, ok)
		}
		table, ok := parseDSCPPriority(b)
		if ok && strings.Count(string(b), "\n") < fabric.NumDSCP || !ok && table != [fabric.NumDSCP]int{} {
			t.Errorf("parseDSCPPriority(%q) = %v, %v", b, table, ok)
		}
		for dscp, priority := range table {
			if priority < 0 || priority >= fabric.NumPriorities {
				t.Errorf("parseDSCPPriority(%q) maps %d to %d", b, dscp, priority)
			}
		}
	})
}

func FuzzParseTrafficClass(f *testing.F) {
	for _, s := range []string{"Global tclass=106\n", "Global tclass=-1\n", "src_ip=10.0.0.1,dst_ip=10.0.1.0/24,tclass=96\n", "dst_ip6=fd00::1,tclass=0x10\n", "\n", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, ok := parseTrafficClass(b)
		switch {
		case !ok && c != (fabric.TrafficClass{}):
			t.Errorf("refused %q but returned %+v", b, c)
		case ok && (c.Global < -1 || c.Global > 255 || c.Rules < 0 || c.Rules > strings.Count(string(b), "\n")+1 || c.Global < 0 && c.Rules == 0):
			t.Errorf("parseTrafficClass(%q) = %+v", b, c)
		case ok && c.Global >= 0 && !strings.HasPrefix(string(b), "Global tclass="):
			t.Errorf("parseTrafficClass(%q) = %+v without the word", b, c)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"gpufabric_exporter/internal/fabric"
)

// checkConfig tests what holds for every configuration, whatever is in the files.
func checkConfig(t *testing.T, c fabric.NCCLConfig) {
	t.Helper()
	if !slices.IsSortedFunc(c.Variables, func(a, b fabric.NCCLVariable) int {
		if a.Name >= b.Name {
			return 1 // also where they are equal
		}
		return -1
	}) {
		t.Error("variables are not sorted or not unique")
	}
	if n := len(c.Variables); n > maxUnknown+len(Variables()) {
		t.Errorf("%d variables", n)
	}
	for _, v := range c.Variables {
		if !strings.HasPrefix(v.Name, prefix) || !identifier(v.Name) || strings.ContainsAny(v.Value, "\x00\n") || len(v.Value) > maxEnvironmentString {
			t.Errorf("variable %.200q", fmt.Sprintf("%+v", v))
		}
	}
	rules := map[string]bool{}
	for _, r := range Rules() {
		rules[r.ID] = true
	}
	if n := len(c.Findings); n > 64 {
		t.Errorf("%d findings", n)
	}
	for _, f := range c.Findings {
		unprintable := strings.ContainsFunc(f.Text+f.Source+f.Name, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) })
		if !rules[f.Rule] || unprintable || f.Source == "" || f.Text == "" || len(f.Text) > 1024 || len(f.Name) > maxQuoted {
			t.Errorf("finding %+q", fmt.Sprintf("%+v", f))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "NCCL_DEBUG=WARN\nNCCL_IB_HCA==mlx5_0:1\n", "#NCCL_DEBUG=INFO\n # x=y\n", "export NCCL_IB_TC=106\n", "NCCL_IB_TC = 5 # x\r\n",
		"NCCL_NET='I'\"B\"C\\ D\\\nE\n", "NCCL_NET=\"IB\nNCCL_DEBUG=\"INFO\"\n", "NCCL_CONF_FILE=/etc/nccl.conf\n", "NCCL_CONF_FILE=/srv/../etc/./x\n",
		"NCCL_BUFFSIZE=8M\nNCCL_BUFFSIZE=9\nNCCL_IB_TIMEOUT=022\n", "\xef\xbb\xbfNCCL_A=1\nNCCL_\xff=\x00\n=\n", "nccl_debug=info\nNCCL_DEBGU=DEBUG\n",
		"NCCL_ALGO=^ring,;allreduce:tree:x;:\nNCCL_PROTO=;LL\nNCCL_IB_TC=-300\nNCCL_NTHREADS=0x64\n", "NCCL_IB_ADDR_RANGE=::ffff:10.0.0.1/129\nNCCL_IB_ADDR_FAMILY=AF_INET6\n",
		"#" + strings.Repeat("x", maxConfLine) + "NCCL_A=1\n", "NCCL_A=" + strings.Repeat("y", maxConfValue+1), "\x00\n\x00=", "; c\\\nA=1",
	} {
		f.Add([]byte(seed), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, environment, conf []byte) {
		for st := range parseConf(conf) {
			if st.line < 1 || len(st.name) > maxConfName || len(st.value) > maxConfValue || strings.ContainsAny(st.name, "=\x00\n") || strings.ContainsAny(st.value, "\x00\n") {
				t.Fatalf("statement of an nccl.conf %+q", fmt.Sprintf("%+v", st))
			}
		}
		for st := range parseEnvironment(environment) {
			if st.line < 1 || st.name != "" && !identifier(st.name) || strings.Contains(st.value, "\x00") || strings.Contains(st.value, "\n") && ours(st.name) && st.flaw != RuleUnclosedQuote {
				t.Fatalf("statement of an environment file %+q", fmt.Sprintf("%+v", st))
			}
		}

		c, err := New("", "/environment", "/home/train").assemble(time.Unix(1, 0), func(name string) (content, error) {
			if name == "/environment" {
				return content{data: environment, whole: true}, nil
			}
			return content{data: conf, whole: true}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		checkConfig(t, c)
	})
}

func FuzzParseNumber(f *testing.F) {
	for _, seed := range []string{"", "0", "106", "-1", "0x10", "-0X1f", "010", "08", "0x", "1M", "true", " \t+5", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "07777777777777777777777", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n := scanNumber(s)
		number, ok := ParseNumber(s)
		if ok != (s != "" && !n.overflow) || ok && number != n.value || !ok && number != 0 {
			t.Fatalf("ParseNumber(%q) = %d, %v of %+v", s, number, ok, n)
		}
		if !strings.HasSuffix(s, n.rest) || !n.digits && (n.value != 0 || n.rest != s || n.overflow) {
			t.Fatalf("scanNumber(%q) = %+v", s, n)
		}
		// What is read can be written and read again, whatever the base; what follows the digits changes nothing.
		for _, again := range []string{strconv.FormatInt(n.value, 10), fmt.Sprintf("%#x", n.value), fmt.Sprintf("%#o", n.value), fmt.Sprintf("%d ", n.value), fmt.Sprintf("\v%dM", n.value)} {
			if m, ok := ParseNumber(again); m != n.value || !ok {
				t.Fatalf("ParseNumber(%q) = %d, %v, want %d as of %q", again, m, ok, n.value, s)
			}
		}
	})
}

// FuzzValues gives every variable of the table any value.
func FuzzValues(f *testing.F) {
	for _, seed := range []string{"", "300", "-1", "0x64", "9223372036854775807", "Ring,Tree", "^LL128", "allreduce:tree;broadcast:ring", ";ring", ":", "a:b:c", "^", "10.0.0.0/33", "fd00::/-1", "PIX", "1 # x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		r := report{file: "/etc/nccl.conf"}
		for _, v := range Variables() {
			r.findings = r.findings[:0] // else all but the first twenty would be dropped
			if value == "" || v.Status != StatusCurrent {
				continue
			}
			r.checkValue(statement{line: 1, name: v.Name, value: value}, v)
			if len(r.findings) > 2 {
				t.Errorf("%s=%q has %d findings", v.Name, value, len(r.findings))
			}
			checkConfig(t, fabric.NCCLConfig{Findings: r.findings})
			// What NCCL takes as it is written has no finding that says otherwise, and the other way round.
			n, ok := v.Number(value)
			if out := slices.ContainsFunc(r.findings, func(f fabric.NCCLFinding) bool { return f.Rule == RuleOutOfRange }); out && ok && v.Accepts(n) {
				t.Errorf("%s=%q is in range", v.Name, value)
			}
			if v.Parser != ParserTuning {
				continue
			}
			if bad, refused := v.refused(value); refused && !strings.Contains(value, bad.word) {
				t.Errorf("%q is not in %s=%q", bad.word, v.Name, value)
			}
			first, _, _ := strings.Cut(v.Valid, "|")
			if bad, refused := v.refused(value); refused && !strings.Contains(value, "^") && !strings.ContainsAny(value, ";:") {
				if again, still := v.refused("allreduce:" + first + "," + value); !still || again.word != bad.word {
					t.Errorf("%q is refused alone and not behind %s", value, first)
				}
			}
		}
		for _, v6 := range []bool{false, true} {
			if what := cidrProblem(value, v6); strings.ContainsAny(what, "\n\x00") {
				t.Errorf("%q", what)
			}
		}
	})
}

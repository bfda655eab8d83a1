// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// render makes statements comparable: line, assignment, flaw.
func render(statements iter.Seq[statement]) []string {
	var out []string
	for st := range statements {
		s := strconv.Itoa(st.line)
		if st.name != "" {
			s += " " + st.name + "=" + st.value
		}
		if st.flaw != "" {
			s += " !" + st.flaw
		}
		out = append(out, s)
	}
	return out
}

func TestParseConf(t *testing.T) {
	long := strings.Repeat("x", maxConfLine)
	tests := map[string]struct {
		data string
		want []string
	}{
		"empty":                    {"", nil},
		"plain":                    {"NCCL_DEBUG=WARN\nNCCL_IB_TC=106\n", []string{"1 NCCL_DEBUG=WARN", "2 NCCL_IB_TC=106"}},
		"no line end":              {"NCCL_DEBUG=WARN", []string{"1 NCCL_DEBUG=WARN"}},
		"any name":                 {"FOO=1\nfoo bar=2\n", []string{"1 FOO=1", "2 foo bar=2"}},
		"first = separates":        {"NCCL_SOCKET_IFNAME==eth0\nA=b=c\n", []string{"1 NCCL_SOCKET_IFNAME==eth0", "2 A=b=c"}},
		"empty value":              {"NCCL_IB_HCA=\n", []string{"1 NCCL_IB_HCA="}},
		"comment":                  {"#NCCL_DEBUG=INFO\n# =\nA=1\n", []string{"3 A=1"}},
		"comment not in column 0":  {" # no setting\n #A=1\n", []string{"2  #A=1"}},
		"no trimming":              {" A = 1 \n\tB=\t2\n", []string{"1  A = 1 ", "2 \tB=\t2"}},
		"no quotes":                {"A=\"1\"\nB='2'\n", []string{"1 A=\"1\"", "2 B='2'"}},
		"no export":                {"export A=1\n", []string{"1 export A=1"}},
		"no inline comment":        {"A=1 # one\n", []string{"1 A=1 # one"}},
		"no escapes":               {"A=1\\\nB=$A\n", []string{"1 A=1\\", "2 B=$A"}},
		"no =":                     {"NCCL_DEBUG\n\n \t\nA=1\n", []string{"1 !not_a_setting", "4 A=1"}},
		"no name":                  {"=1\n", []string{"1 !not_a_setting"}},
		"carriage return":          {"A=1\r\n\r\n#\r\nB=2\r", []string{"1 A=1 !carriage_return", "4 B=2 !carriage_return"}},
		"one carriage return only": {"A=1\r\r\nB=\r2\n", []string{"1 A=1\r !carriage_return", "2 B=\r2"}},
		"NUL ends the line":        {"A=1\x00B=2\nC\x00=1\nD=3\n\x00E=1\n", []string{"1 A=1", "2 !not_a_setting", "3 D=3"}},
		"not UTF-8":                {"A=\xff\n", []string{"1 A=\xff"}},
		"longest name": {
			long[:1023] + "=1\n" + long[:1024] + "=2\n",
			[]string{"1 " + long[:1023] + "=1", "2 " + long[:1023] + "=2"},
		},
		"longest value": {
			"A=" + long[:1023] + "\nB=" + long[:1024] + "\n",
			[]string{"1 A=" + long[:1023], "2 B=" + long[:1023] + " !value_too_long"},
		},
		"longest line": {"A=1\x00" + long[:4091] + "\nB=2\n", []string{"1 A=1", "2 B=2"}},
		"long line goes on as another": {
			"A=1\x00" + long[:4091] + "B=2\nC=3\n",
			[]string{"1 A=1 !line_too_long", "1 B=2", "2 C=3"},
		},
		"long comment too":         {"#" + long[:4094] + "B=2\n", []string{"1 !line_too_long", "1 B=2"}},
		"reported once":            {long + long + long + "\nA=1\n", []string{"1 !line_too_long", "2 A=1"}},
		"cut before =":             {long + "=1\n", []string{"1 !line_too_long"}},
		"long line without an end": {"#" + long[:4094], nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := render(parseConf([]byte(test.data))); !slices.Equal(got, test.want) {
				t.Errorf("got  %.200q\nwant %.200q", got, test.want)
			}
		})
	}
}

func TestParseEnvironment(t *testing.T) {
	tests := map[string]struct {
		data string
		want []string
	}{
		"empty":                   {"", nil},
		"plain":                   {"A=1\nB=2", []string{"1 A=1", "2 B=2"}},
		"comments":                {"# c\n; c\n  # A=0\nA=1\n", []string{"4 A=1"}},
		"comment goes not on":     {"# c\\\nA=1\n", []string{"2 A=1"}},
		"export":                  {"export A=1\nexport\tB=2\n  export C=3\nexport A B\n", []string{"1 A=1", "2 B=2", "3 C=3"}},
		"a name like export":      {"exporter=1\nexport=2\n", []string{"1 exporter=1", "2 export=2"}},
		"blanks":                  {"  A  =  1 2  \n\tB=\t\n", []string{"1 A=1 2 !shell_syntax", "2 B="}},
		"single quotes":           {`A='1 "$x\'` + "\n", []string{`1 A=1 "$x\`}},
		"double quotes":           {`A="1 ' \" \\ \$ \x" # c` + "\n", []string{`1 A=1 ' " \ $ \x# c !shell_syntax`}},
		"quoted ends":             {`A=" 1 "` + "\n" + `B='2' ` + "\n", []string{"1 A= 1 ", "2 B=2"}},
		"joined":                  {`A='1'"2"3` + "\n" + `B='1' '2'` + "\n", []string{"1 A=123", "2 B=12 !shell_syntax"}},
		"quote inside":            {`A=1"2"` + "\n", []string{`1 A=1"2" !shell_syntax`}},
		"escapes":                 {`A=1\ 2\\\#` + "\n", []string{`1 A=1 2\#`}},
		"continued":               {"A=1,\\\n2\nB=\"1,\\\n2\"\nC=3\n", []string{"1 A=1,2", "3 B=1,2", "5 C=3"}},
		"nothing is expanded":     {"A=$HOME\nB=\"`id`\"\nC=~/x\n", []string{"1 A=$HOME !shell_syntax", "2 B=`id` !shell_syntax", "3 C=~/x !shell_syntax"}},
		"inline comment":          {"A=1 # one\n", []string{"1 A=1 # one"}},
		"carriage return":         {"A=1\r\nB=2\r\n", []string{"1 A=1", "2 B=2"}},
		"shell code":              {"set -a\nif [ x = y ]; then\n. /etc/x\n1A=1\nA B=1\nfi\n", []string{"1 !not_a_setting", "2 !not_a_setting", "3 !not_a_setting", "4 !not_a_setting", "5 !not_a_setting", "6 !not_a_setting"}},
		"unclosed":                {"A='1\nB=2\n", []string{"1 A=1\nB=2\n !unclosed_quote"}},
		"unclosed, double":        {"A=\"1", []string{"1 A=1 !unclosed_quote"}},
		"several lines":           {"A=\"1\n2\"\nC=3\n", []string{"1 A=1\n2", "3 C=3"}},
		"closed lines below":      {"A=\"1\nNCCL_B=\"2\"\nC=3\n", []string{"1 A=1\nNCCL_B=2\" !unclosed_quote", "3 C=3"}},
		"NCCL on several lines":   {"NCCL_A='1\n2'\n", []string{"1 NCCL_A=1\n2 !unclosed_quote"}},
		"NUL ends it":             {"A=1\n\x00B=2\n", []string{"1 A=1", "2 !not_a_setting"}},
		"too long for execve":     {"A=" + strings.Repeat("x", maxEnvironmentString-3) + "\nB=" + strings.Repeat("x", maxEnvironmentString-2), []string{"1 A=" + strings.Repeat("x", maxEnvironmentString-3), "2 B=" + strings.Repeat("x", maxEnvironmentString-2) + " !value_too_long"}},
		"not UTF-8":               {"A=\xff\n\xffB=1\n", []string{"1 A=\xff", "2 !not_a_setting"}},
		"backslash ends the file": {"A=1\\", []string{"1 A=1"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := render(parseEnvironment([]byte(test.data))); !slices.Equal(got, test.want) {
				t.Errorf("got  %.200q\nwant %.200q", got, test.want)
			}
		})
	}
}

// A credential goes no further than the statement, and it is known that the value lacks one.
func TestStatementsLackCredentials(t *testing.T) {
	for st := range parseConf([]byte("NCCL_X=https://alice:hunter2@h\n")) {
		if st.value != "https://***@h" || !st.masked {
			t.Errorf("%+v", st)
		}
	}
	for st := range parseEnvironment([]byte("NCCL_ACME_TOKEN='hunter2'\n")) {
		if st.value != "***" || !st.masked {
			t.Errorf("%+v", st)
		}
	}
	for st := range parseConf([]byte("NCCL_IB_TC=106\n")) {
		if st.value != "106" || st.masked {
			t.Errorf("%+v", st)
		}
	}
}

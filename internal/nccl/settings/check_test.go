// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// findings makes findings comparable: rule, variable, source.
func findings(c fabric.NCCLConfig) []string {
	var out []string
	for _, f := range c.Findings {
		out = append(out, strings.Join(strings.Fields(f.Rule+" "+f.Name+" "+f.Source), " "))
	}
	return out
}

func TestFindings(t *testing.T) {
	const conf, env = "/etc/nccl.conf", "/etc/environment.d/nccl"
	long := strings.Repeat("x", 5000)
	tests := []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"nothing wrong", map[string]string{
			env: "# for jobs\nexport NCCL_IB_HCA='=mlx5_0:1,mlx5_1:1'\nPATH=$PATH:/opt/bin\n",
			conf: "NCCL_DEBUG=warn\nNCCL_IB_TC=106 # DSCP 26\nNCCL_IB_GID_INDEX= 3\nNCCL_P2P_DISABLE=1\nNCCL_NET_GDR_LEVEL=5\nNCCL_IB_DISABLE=\n" +
				"NCCL_SET_THREAD_NAME=true\nNCCL_SOCKET_IFNAME=^docker0,lo\nNCCL_IB_TIMEOUT=07\nNCCL_SHARP_DISABLE=yes\nNCCL_FASTRAK_NUM_FLOWS=2\n",
		}, nil},
		// What OCI, Azure, GCP, AWS and CoreWeave advise their users to set, and the defaults of NCCL.
		{"settings of clouds", map[string]string{
			conf: "NCCL_IB_TC=41\nNCCL_IB_FIFO_TC=-1\nNCCL_IB_SL=0\nNCCL_IB_TIMEOUT=22\nNCCL_IB_RETRY_CNT=7\nNCCL_IB_QPS_PER_CONNECTION=4\nNCCL_IB_GID_INDEX=3\n" +
				"NCCL_ALGO=Ring,Tree\nNCCL_PROTO=Simple\nNCCL_NTHREADS=-2\nNCCL_LL128_NTHREADS=640\nNCCL_MAX_CTAS=128\nNCCL_SOCKET_NTHREADS=4\nNCCL_CGA_CLUSTER_SIZE=0\n" +
				"NCCL_IB_ADDR_RANGE=10.0.0.0/8\n",
		}, nil},
		{"lists", map[string]string{conf: "NCCL_ALGO=^Tree\nNCCL_PROTO=^LL128\n"}, nil},
		{"lists for functions", map[string]string{conf: "NCCL_ALGO=ring,collnetdirect;allreduce:tree,collnetdirect;broadcast:ring\nNCCL_PROTO=^ll128;AllReduce:ll128\n"}, nil},
		{"lists for one function", map[string]string{conf: "NCCL_ALGO=allreduce:tree;\nNCCL_PROTO=allgather:^LL\n"}, nil},
		{"empty lists", map[string]string{conf: "NCCL_ALGO=\nNCCL_PROTO=^\nNCCL_IB_TC=\nNCCL_IB_ADDR_RANGE=\n"}, nil},
		{"a range of the other family, set after it", map[string]string{conf: "NCCL_IB_ADDR_RANGE=fd00::/8\nNCCL_IB_ADDR_FAMILY=AF_INET6\n"}, nil},

		{
			"not a setting",
			map[string]string{env: "NCCL_DEBUG INFO\n", conf: "NCCL_DEBUG INFO\n"},
			[]string{"not_a_setting " + env + ":1", "not_a_setting " + conf + ":1"},
		},
		{"long line", map[string]string{conf: "#" + long + "\n"}, []string{"line_too_long " + conf + ":1"}},
		{
			"long value",
			map[string]string{conf: "NCCL_IB_HCA=" + long[:1024] + "\n", env: "NCCL_NET=" + strings.Repeat("x", maxEnvironmentString) + "\n"},
			[]string{"value_too_long NCCL_NET " + env + ":1", "value_too_long NCCL_IB_HCA " + conf + ":1"},
		},
		{"DOS file", map[string]string{conf: "NCCL_IB_TC=106\r\nNCCL_IB_HCA=mlx5_0\r\nNCCL_NET=IB\r\n"}, []string{"carriage_return NCCL_IB_HCA " + conf + ":2"}},
		{"unclosed quote", map[string]string{env: "A=1\nNCCL_NET='IB\nNCCL_DEBUG=INFO\n"}, []string{"unclosed_quote " + env + ":2"}},
		{"shell syntax", map[string]string{env: "NCCL_TOPO_FILE=$HOME/topo.xml\nX=$HOME\n"}, []string{"shell_syntax NCCL_TOPO_FILE " + env + ":1"}},
		{"export", map[string]string{conf: "export NCCL_DEBUG=INFO\n"}, []string{"export_keyword NCCL_DEBUG " + conf + ":1"}},
		{
			"blanks in the name",
			map[string]string{conf: "\ufeffNCCL_NET=IB\n NCCL_DEBUG=INFO\nNCCL_IB_TC = 106\n"},
			[]string{"blank_in_name NCCL_NET " + conf + ":1", "blank_in_name NCCL_DEBUG " + conf + ":2", "blank_in_name NCCL_IB_TC " + conf + ":3"},
		},

		{"NCCL_CONF_FILE in a file", map[string]string{conf: "NCCL_CONF_FILE=/etc/other.conf\n"}, []string{"conf_file_ignored NCCL_CONF_FILE " + conf + ":1"}},
		{"NCCL_CONF_FILE is missing", map[string]string{env: "NCCL_CONF_FILE=/etc/other.conf\n"}, []string{"conf_file_missing NCCL_CONF_FILE " + env + ":1"}},
		{"NCCL_CONF_FILE is relative", map[string]string{env: "NCCL_CONF_FILE='~/nccl.conf'\n"}, []string{"conf_file_relative NCCL_CONF_FILE " + env + ":1"}},

		{
			"unknown",
			map[string]string{conf: "NCCL_IB_GIDINDEX=3\nnccl_debug=INFO\nNCCL_IB-TC=1\nNCCL_NVLINK_DISABLE=1\n"},
			[]string{"unknown_variable NCCL_IB_GIDINDEX " + conf + ":1", "unknown_variable nccl_debug " + conf + ":2", "unknown_variable NCCL_IB " + conf + ":3", "unknown_variable NCCL_NVLINK_DISABLE " + conf + ":4"},
		},
		{"removed", map[string]string{conf: "NCCL_IB_CUDA_SUPPORT=1\n"}, []string{"removed_variable NCCL_IB_CUDA_SUPPORT " + conf + ":1"}},
		{"deprecated", map[string]string{conf: "NCCL_MIN_NCHANNELS=4\n"}, []string{"deprecated_variable NCCL_MIN_NCHANNELS " + conf + ":1"}},
		{
			"of other software",
			map[string]string{conf: "NCCL_BLOCKING_WAIT=1\nNCCL_TESTS_DEVICE=0\n"},
			[]string{"not_an_nccl_variable NCCL_BLOCKING_WAIT " + conf + ":1", "not_an_nccl_variable NCCL_TESTS_DEVICE " + conf + ":2"},
		},
		{
			"overridden",
			map[string]string{env: "NCCL_NET=A\nNCCL_NET=IB\n", conf: "NCCL_NET=Socket\nNCCL_NET=IB\nNCCL_DEBUG=INFO\nNCCL_DEBUG=WARN\nNCCL_DEBUG=INFO\n"},
			[]string{"overridden NCCL_NET " + env + ":1", "overridden NCCL_NET " + conf + ":1", "overridden NCCL_DEBUG " + conf + ":4"},
		},

		{"quotes", map[string]string{conf: "NCCL_IB_HCA=\"mlx5_0\"\nNCCL_IB_TC='106'\nNCCL_NET=\"\n"}, []string{"quoted_value NCCL_IB_HCA " + conf + ":1", "quoted_value NCCL_IB_TC " + conf + ":2"}},
		{"inline comment", map[string]string{conf: "NCCL_DEBUG=INFO # x\nNCCL_IB_HCA=mlx5_0\t#x\nNCCL_NET=a#b\n"}, []string{"inline_comment NCCL_DEBUG " + conf + ":1", "inline_comment NCCL_IB_HCA " + conf + ":2"}},
		{"blanks around the value", map[string]string{conf: "NCCL_SOCKET_IFNAME=eth0 \nNCCL_IB_HCA= mlx5\n"}, []string{"blank_around_value NCCL_SOCKET_IFNAME " + conf + ":1", "blank_around_value NCCL_IB_HCA " + conf + ":2"}},
		{
			"not a number",
			map[string]string{conf: "NCCL_IB_DISABLE=true\nNCCL_P2P_DISABLE=yes\nNCCL_SHM_DISABLE= \n"},
			[]string{"not_a_number NCCL_IB_DISABLE " + conf + ":1", "not_a_number NCCL_P2P_DISABLE " + conf + ":2", "not_a_number NCCL_SHM_DISABLE " + conf + ":3"},
		},
		{
			"trailing garbage",
			map[string]string{conf: "NCCL_BUFFSIZE=8M\nNCCL_IB_TC=106#c\nNCCL_IB_TIMEOUT=08\n"},
			[]string{"trailing_garbage NCCL_BUFFSIZE " + conf + ":1", "trailing_garbage NCCL_IB_TC " + conf + ":2", "trailing_garbage NCCL_IB_TIMEOUT " + conf + ":3"},
		},
		{"octal", map[string]string{conf: "NCCL_IB_TIMEOUT=022\n"}, []string{"octal_number NCCL_IB_TIMEOUT " + conf + ":1"}},
		{"overflow", map[string]string{conf: "NCCL_BUFFSIZE=99999999999999999999\n"}, []string{"overflow NCCL_BUFFSIZE " + conf + ":1"}},
		{
			"unknown value",
			map[string]string{conf: "NCCL_DEBUG=DEBUG\nNCCL_P2P_LEVEL=PCI\nNCCL_NET_GDR_LEVEL=pix\nNCCL_IB_ADDR_FAMILY=inet6\nNCCL_P2P_DISABLE=2\nNCCL_SET_THREAD_NAME=yes\n"},
			[]string{
				"unknown_value NCCL_DEBUG " + conf + ":1", "unknown_value NCCL_P2P_LEVEL " + conf + ":2", "unknown_value NCCL_NET_GDR_LEVEL " + conf + ":3",
				"unknown_value NCCL_IB_ADDR_FAMILY " + conf + ":4", "unknown_value NCCL_P2P_DISABLE " + conf + ":5", "unknown_value NCCL_SET_THREAD_NAME " + conf + ":6",
			},
		},
		{
			"traffic class",
			map[string]string{conf: "NCCL_IB_TC=3\nNCCL_IB_FIFO_TC=7\nNCCL_GIN_IB_TC=8\n"},
			[]string{"ib_tc_looks_like_a_priority NCCL_IB_TC " + conf + ":1", "ib_tc_looks_like_a_priority NCCL_IB_FIFO_TC " + conf + ":2"},
		},

		{
			"numbers that NCCL or verbs cannot take",
			map[string]string{conf: "NCCL_IB_TC=300\nNCCL_IB_SL=99\nNCCL_IB_TIMEOUT=99\nNCCL_IB_RETRY_CNT=100\nNCCL_NTHREADS=100\nNCCL_IB_FIFO_TC=-2\nNCCL_MIN_CTAS=0\nNCCL_IB_QPS_PER_CONNECTION=256\n"},
			[]string{
				"out_of_range NCCL_IB_TC " + conf + ":1", "out_of_range NCCL_IB_SL " + conf + ":2", "out_of_range NCCL_IB_TIMEOUT " + conf + ":3",
				"out_of_range NCCL_IB_RETRY_CNT " + conf + ":4", "out_of_range NCCL_NTHREADS " + conf + ":5", "out_of_range NCCL_IB_FIFO_TC " + conf + ":6",
				"out_of_range NCCL_MIN_CTAS " + conf + ":7", "out_of_range NCCL_IB_QPS_PER_CONNECTION " + conf + ":8",
			},
		},
		{
			"words that stop NCCL",
			map[string]string{conf: "NCCL_ALGO=Rings\nNCCL_PROTO=LL129\n"},
			[]string{"rejected_value NCCL_ALGO " + conf + ":1", "rejected_value NCCL_PROTO " + conf + ":2"},
		},
		{"a word of old releases", map[string]string{conf: "NCCL_ALGO=Ring,CollNet\n"}, []string{"withdrawn_value NCCL_ALGO " + conf + ":1"}},
		{
			"ranges of addresses",
			map[string]string{conf: "NCCL_IB_ADDR_RANGE=10.0.0.0/33\n", env: "NCCL_IB_ADDR_FAMILY=AF_INET6\n"},
			[]string{"unknown_value NCCL_IB_ADDR_RANGE " + conf + ":1"},
		},

		{"a value is not checked where it has no effect", map[string]string{env: "NCCL_IB_TC=106\n", conf: "NCCL_IB_TC=3\n"}, []string{"overridden NCCL_IB_TC " + conf + ":1"}},
		{"an empty value hides others", map[string]string{env: "NCCL_IB_TC=\n", conf: "NCCL_IB_TC=106\n"}, []string{"overridden NCCL_IB_TC " + conf + ":1"}},
		{
			"in order of occurrence",
			map[string]string{conf: "NCCL_IB_TC=3\nxxx\nNCCL_DEBUG=DEBUG\n"},
			[]string{"ib_tc_looks_like_a_priority NCCL_IB_TC " + conf + ":1", "not_a_setting " + conf + ":2", "unknown_value NCCL_DEBUG " + conf + ":3"},
		},
		{"large file", map[string]string{conf: "NCCL_DEBUG=DEBUG\n" + strings.Repeat("#\n", maxFile/2)}, []string{"file_too_large " + conf + ":1", "unknown_value NCCL_DEBUG " + conf + ":1"}},
		{"more", map[string]string{conf: strings.Repeat("x\n", maxFindingsPerFile+5)}, append(slices.Collect(func(yield func(string) bool) {
			for i := range maxFindingsPerFile {
				if !yield(fmt.Sprintf("not_a_setting %s:%d", conf, i+1)) {
					return
				}
			}
		}), "more_findings "+conf)},
	}
	covered := map[string]bool{}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, err := New(tree(t, test.files), env, "").Read(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if got := findings(c); !slices.Equal(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			for _, f := range c.Findings {
				covered[f.Rule] = true
				if len(f.Text) == 0 || len(f.Text) > 512 {
					t.Errorf("text of %d bytes: %q", len(f.Text), f.Text)
				}
			}
		})
	}
	for _, r := range Rules() {
		if !covered[r.ID] {
			t.Errorf("no case for rule %s", r.ID)
		}
		delete(covered, r.ID)
	}
	if len(covered) > 0 {
		t.Errorf("rules without documentation: %v", covered)
	}
}

func TestFindingTexts(t *testing.T) {
	tests := map[string]string{
		"NCCL_BUFFSIZE=8M":                       `NCCL_BUFFSIZE="8M": NCCL reads 8 and ignores the rest, which is out of range (bytes, >= 4096): NCCL does not check it, and jobs fail or hang`,
		"NCCL_BUFFSIZE=true":                     `NCCL_BUFFSIZE="true" is not a number: NCCL reads 0, which is out of range (bytes, >= 4096): NCCL does not check it, and jobs fail or hang`,
		"NCCL_MAX_CTAS=0":                        `NCCL_MAX_CTAS="0" is out of range (1..64; 1..32 before 2.25): NCCL from 2.25 on ignores it, older releases crash`,
		"NCCL_ALGO=\"Ring\"":                     `"\"Ring\"" in NCCL_ALGO="\"Ring\"" is none of Tree|Ring|CollNetDirect|CollNetChain|NVLS|NVLSTree|PAT: NCCL from 2.24 on refuses to start, older releases ignore the word`,
		"NCCL_ALGO=Ring, Tree":                   `" Tree" in NCCL_ALGO="Ring, Tree" is none of Tree|Ring|CollNetDirect|CollNetChain|NVLS|NVLSTree|PAT: NCCL from 2.24 on refuses to start, older releases ignore the word`,
		"NCCL_IB_DISABLE=true":                   `NCCL_IB_DISABLE="true" is not a number: NCCL reads 0`,
		"NCCL_IB_TC=5":                           `NCCL_IB_TC=5 is DSCP 1 with ECN bits 1, not priority 5; a DSCP is given times 4, 26 as 104`,
		"NCCL_IB_GIDINDEX=3":                     `NCCL_IB_GIDINDEX is unknown to NCCL up to 2.30.7: did you mean NCCL_IB_GID_INDEX?`,
		"NCCL_FOO=3":                             `NCCL_FOO is unknown to NCCL up to 2.30.7: a typo, or a variable of a plugin?`,
		"NCCL_NVLINK_DISABLE=1":                  `NCCL_NVLINK_DISABLE is no variable of NCCL; use NCCL_P2P_DISABLE=1 or NCCL_P2P_LEVEL`,
		"NCCL_TREE_THRESHOLD=0":                  `NCCL_TREE_THRESHOLD is not read by NCCL since the release after 2.4.8; use NCCL_ALGO`,
		"NCCL_CHECKS_DISABLE=0":                  `NCCL_CHECKS_DISABLE is not read by NCCL since 2.2.12; use NCCL_CHECK_MODE`,
		"NCCL_MAX_NCHANNELS=4":                   `NCCL reads NCCL_MAX_NCHANNELS, which is deprecated since 2.17; NCCL_MAX_CTAS takes its place`,
		"NCCL_IB_TC=300":                         `NCCL_IB_TC="300" is out of range (0..255): only the low 8 bits count, 44`,
		"NCCL_IB_TIMEOUT=99":                     `NCCL_IB_TIMEOUT="99" is out of range (0..31): a queue pair has 5 bits for it; mlx5 takes 3, other drivers may refuse it, and jobs fail`,
		"NCCL_IB_RETRY_CNT=100":                  `NCCL_IB_RETRY_CNT="100" is out of range (0..7): a queue pair has 3 bits for it; mlx5 takes 4, other drivers may refuse it, and jobs fail`,
		"NCCL_NTHREADS=100":                      `NCCL_NTHREADS="100" is out of range (64..512, a multiple of 32): NCCL takes 512`,
		"NCCL_NTHREADS=1024":                     `NCCL_NTHREADS="1024" is out of range (64..512, a multiple of 32): NCCL takes 512`,
		"NCCL_NTHREADS=32":                       `NCCL_NTHREADS="32" is out of range (64..512, a multiple of 32): NCCL takes 64`,
		"NCCL_MIN_CTAS=65":                       `NCCL_MIN_CTAS="65" is out of range (1..64; 1..32 before 2.25): NCCL takes 64`,
		"NCCL_MIN_CTAS=-1":                       `NCCL_MIN_CTAS="-1" is out of range (1..64; 1..32 before 2.25): NCCL ignores it`,
		"NCCL_IB_QPS_PER_CONNECTION=256":         `NCCL_IB_QPS_PER_CONNECTION="256" is out of range (1..128): NCCL does not check it, and jobs fail or hang`,
		"NCCL_ALGO=Ring,Trees":                   `"Trees" in NCCL_ALGO="Ring,Trees" is none of Tree|Ring|CollNetDirect|CollNetChain|NVLS|NVLSTree|PAT: NCCL from 2.24 on refuses to start, older releases ignore the word`,
		"NCCL_PROTO=LL;gather:Simple":            `"gather" in NCCL_PROTO="LL;gather:Simple" is none of Broadcast|Reduce|AllGather|ReduceScatter|AllReduce: NCCL from 2.24 on refuses to start, older releases ignore the word, and fail in the first collective where no other is left`,
		"NCCL_ALGO=CollNet":                      `"CollNet" in NCCL_ALGO="CollNet" is a word of NCCL before 2.14: NCCL from 2.24 on refuses to start, releases in between ignore the word`,
		"NCCL_IB_ADDR_RANGE=10.0.0.0/33":         `NCCL_IB_ADDR_RANGE="10.0.0.0/33" is no range of IPv4 addresses (NCCL_IB_ADDR_FAMILY): NCCL takes any address`,
		"NCCL_IB_ADDR_RANGE=10.0.0.0/-1":         `NCCL_IB_ADDR_RANGE="10.0.0.0/-1" has a negative length: NCCL finds no address in it`,
		"NCCL_BLOCKING_WAIT=1":                   `NCCL_BLOCKING_WAIT is not read by NCCL (PyTorch; renamed in 2.2); use TORCH_NCCL_BLOCKING_WAIT`,
		"NCCL_DEBUG=DEBUG":                       `NCCL_DEBUG="DEBUG" is ignored by NCCL, which knows VERSION|WARN|INFO|ABORT|TRACE`,
		"NCCL_DEBUG=\x1b[31m\xff":                `NCCL_DEBUG="\x1b[31m\xff" is ignored by NCCL, which knows VERSION|WARN|INFO|ABORT|TRACE`,
		"NCCL_DEBUG=\u202eOFNI":                  `NCCL_DEBUG="\u202eOFNI" is ignored by NCCL, which knows VERSION|WARN|INFO|ABORT|TRACE`,
		"NCCL_IB_HCA=mlx5_0 # one":               `the comment in NCCL_IB_HCA="mlx5_0 # one" is a part of the value; "mlx5_0" is meant`,
		"export NCCL_IB_TC=106":                  `the name is "export NCCL_IB_TC" to NCCL: "NCCL_IB_TC" is not set`,
		"NCCL_DEBUG=" + strings.Repeat("é", 500): `NCCL_DEBUG="` + strings.Repeat("é", 32) + `"... is ignored by NCCL, which knows VERSION|WARN|INFO|ABORT|TRACE`,
	}
	for line, want := range tests {
		c, err := New(tree(t, map[string]string{systemFile: line + "\n"}), "", "").Read(time.Now())
		if err != nil || len(c.Findings) != 1 || c.Findings[0].Text != want {
			t.Errorf("%.60q:\ngot  %v, %+v\nwant %s", line, err, c.Findings, want)
		}
	}
}

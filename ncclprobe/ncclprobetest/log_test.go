// SPDX-License-Identifier: Apache-2.0

package ncclprobetest

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The lines of each version: what it has, and what it has not yet or no longer.
func TestLogOfVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string][]string{
		"2.14.3": {
			`Bootstrap : Using`,
			`Channel 00/0 : 0\[1b000\] -> 1\[1c000\] via P2P/IPC`,
			`comm 0x\w+ rank 0 nranks 2 cudaDev 0 busId 1b000 - Init COMPLETE`,
			`Connected all rings$`,
		},
		"2.18.3": {
			`Bootstrap : Using`,
			`Channel 00/0 : 0\[0\] -> 1\[1\] via P2P/CUMEM`,
			`comm 0x\w+ rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x\w+ - Init COMPLETE`,
		},
		"2.21.5": {
			`NET/Plugin: Using internal network plugin`,
			`ncclCommInitRank comm 0x\w+ rank 0 .* - Init COMPLETE`,
			`nNodes 1 localRanks 2`,
			`Connected all trees`,
		},
		"2.27.3": {
			`Bootstrap: Using`,
			`Initialized NET plugin IB`,
			`ncclCommInitRankConfig comm`,
			`Connected all rings, use ring PXN 0 GDR 1`,
			`NVLS_NCHANNELS`,
			`Init timings - ncclCommInitRankConfig`,
		},
		"2.30.7": {
			`\[Rank 0\] ncclCommInitRankConfig comm 0x\w+ .* - Init START`,
			`NVLS multicast support is not available on dev 0$`,
		},
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			answers := job{ranks: 2}.run(t, Place(t, build(t, version)))
			allOK(t, answers)
			want = append(want, `NCCL version `+regexp.QuoteMeta(version)+`\+cuda12\.9`, `Using network IB$`)
			for _, w := range want {
				if !regexp.MustCompile(`(?m)NCCL INFO .*` + w).MatchString(answers[0].log) {
					t.Errorf("no line %s in\n%s", w, answers[0].log)
				}
			}
		})
	}
}

func TestTransports(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lines []string
		job   job
		want  string
		not   string
	}{
		"p2p":       {want: `via P2P/CUMEM`, not: `via NET`},
		"shm":       {lines: []string{"transport SHM"}, want: `via SHM/direct/direct`, not: `via P2P`},
		"no p2p":    {job: job{env: []string{"NCCL_P2P_DISABLE=1"}}, want: `via SHM/`, not: `via P2P`},
		"net":       {job: job{env: []string{"NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1"}}, want: `\[send\] via NET/IB/0/GDRDMA`},
		"no gdr":    {lines: []string{"transport IB", "gdr 0"}, want: `\[receive\] via NET/IB/0$`, not: `GDRDMA`},
		"gdr level": {lines: []string{"transport IB"}, job: job{env: []string{"NCCL_NET_GDR_LEVEL=LOC"}}, want: `PXN 0 GDR 0`},
		"sockets":   {lines: []string{"transport Socket"}, want: `via NET/Socket/0$`, not: `GDRDMA`},
		"no ib":     {lines: []string{"transport IB"}, job: job{env: []string{"NCCL_IB_DISABLE=1"}}, want: `via NET/Socket/0$`, not: `NET/IB/`},
		"wanted":    {lines: []string{"transport IB"}, job: job{env: []string{"NCCL_NET=Socket"}}, want: `Using network Socket`, not: `NET/IB`},
		"hca":       {job: job{env: []string{"NCCL_IB_HCA==mlx5_3:1"}}, want: `Using \[0\]mlx5_3:1/RoCE \[RO\]`, not: `mlx5_2`},
		"hca prefix": {
			lines: []string{"hcas 12", "link IB"}, job: job{env: []string{"NCCL_IB_HCA=mlx5_1"}},
			want: `Using \[0\]mlx5_1:1/IB \[1\]mlx5_10:1/IB \[2\]mlx5_11:1/IB \[RO\]`,
		},
		"not hca":     {job: job{env: []string{"NCCL_IB_HCA=^mlx5"}}, want: `NET/IB : No device found`},
		"collnet":     {lines: []string{"collnet 1", "nvls 1"}, want: `COLLNET/SHARP/0/GDRDMA`},
		"one channel": {lines: []string{"channels 1"}, want: `Channel 00/0`, not: `Channel 01/0`},
		"hosts": {
			job:  job{gpus: []int{0, 0}, rankEnv: func(rank int) []string { return []string{fmt.Sprint("NCCL_HOSTID=", rank)} }},
			want: `nNodes 2(?s:.*)via NET/IB/0/GDRDMA`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.job.ranks = 2
			answers := test.job.run(t, place(t, test.lines...))
			allOK(t, answers)
			if !regexp.MustCompile(`(?m)` + test.want).MatchString(answers[0].log) {
				t.Errorf("no line %s in\n%s", test.want, answers[0].log)
			}
			if test.not != "" && regexp.MustCompile(test.not).MatchString(answers[0].log) {
				t.Errorf("a line %s in\n%s", test.not, answers[0].log)
			}
		})
	}
}

func TestFlood(t *testing.T) {
	t.Parallel()
	answers := job{ranks: 1}.run(t, place(t, "log 3e6", "lie log"))
	allOK(t, answers)
	if n := len(answers[0].log); n < 3e6+1<<16 {
		t.Errorf("only %d bytes of log", n)
	}
}

func TestLevels(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]string{
		"": `^$`, "VERSION": `^$`, "WARN": `^NCCL version 2\.27\.3\+cuda12\.9\n$`, "info": `Init COMPLETE`,
	} {
		answers := job{ranks: 1, env: []string{"NCCL_DEBUG=" + level}}.run(t, place(t))
		allOK(t, answers)
		if !regexp.MustCompile(want).MatchString(answers[0].log) {
			t.Errorf("%s: log %q, want %q", level, answers[0].log, want)
		}
	}
}

func TestSubsystems(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][]bool{"INIT": {true, false}, "NET": {false, true}, "^INIT": {false, true}, "ALL": {true, true}} {
		answers := job{ranks: 1, env: []string{"NCCL_DEBUG_SUBSYS=" + value}}.run(t, place(t))
		allOK(t, answers)
		for i, line := range []string{"Init COMPLETE", "GPU Direct RDMA Enabled for HCA"} {
			if got := strings.Contains(answers[0].log, line); got != want[i] {
				t.Errorf("%s: %s %v, want %v", value, line, got, want[i])
			}
		}
	}
}

func TestNameOfLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	allOK(t, job{ranks: 2, env: []string{"NCCL_DEBUG_FILE=" + dir + "/log.%h.%p"}}.run(t, place(t)))
	if logs, _ := filepath.Glob(dir + "/log.[a-z]*.[0-9]*"); len(logs) != 2 {
		t.Errorf("%v, want two", logs)
	}
}

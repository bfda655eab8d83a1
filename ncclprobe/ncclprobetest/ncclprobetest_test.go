// SPDX-License-Identifier: Apache-2.0

package ncclprobetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// build makes the stand-ins of a version and the clients, once for the whole package.
func build(t *testing.T, version string) string {
	t.Helper()
	dir := filepath.Join(shared, version)
	built.Lock()
	defer built.Unlock()
	if _, err := os.Stat(filepath.Join(dir, "done")); err == nil {
		return dir
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(shared, "objects"), filepath.Join(dir, "objects")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(shared, "objects"), 0o700); err != nil {
		t.Fatal(err)
	}
	Build(t, dir, version)
	for _, name := range []string{"client", "misuse"} {
		gcc(t, dir, "-O1", "-Wall", "-Wextra", "-Werror", "-o", name, Source(name+".c"), "-ldl")
	}
	write(t, filepath.Join(dir, "done"), "")
	return dir
}

var (
	built  sync.Mutex
	shared string
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "ncclprobetest")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	shared = dir
	m.Run()
}

const newest = "2.27.3"

// job is ranks of the client that run at the same time.
type job struct {
	ranks      int
	operations string
	types      string
	reductions string
	counts     string
	init       float64 // seconds of patience with init, and then with each collective; 60 without
	seconds    float64
	gpus       []int    // of each rank; without, that of its number
	env        []string // of all ranks
	rankEnv    func(rank int) []string
}

type answer struct {
	said string // its last line
	log  string // what else it wrote
	code int    // its exit status, -1 for a signal
}

// run starts all ranks, and returns what each said.
func (j job) run(t *testing.T, dir string) []answer {
	t.Helper()
	defaults(&j)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	id := filepath.Join(t.TempDir(), "id")
	answers := make([]answer, j.ranks)
	var ranks sync.WaitGroup
	for r := range j.ranks {
		gpu := r
		if j.gpus != nil {
			gpu = j.gpus[r]
		}
		log := filepath.Join(t.TempDir(), "log")
		cmd := exec.CommandContext(ctx, filepath.Join(builtOf(t, dir), "client"), dir, strconv.Itoa(r), strconv.Itoa(j.ranks), strconv.Itoa(gpu), id,
			j.operations, j.types, j.reductions, j.counts, fmt.Sprint(j.seconds), fmt.Sprint(j.init))
		cmd.Env = append([]string{"NCCL_DEBUG=INFO", "NCCL_DEBUG_FILE=" + log, "NCCL_DEBUG_SUBSYS=INIT,NET,ENV,GRAPH,BOOTSTRAP"}, j.env...)
		if j.rankEnv != nil {
			cmd.Env = append(cmd.Env, j.rankEnv(r)...)
		}
		ranks.Go(func() {
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			err := cmd.Run()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Errorf("rank %d: %v", r, err)
			}
			text, _ := os.ReadFile(log) // there is none if it came to no log
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			answers[r] = answer{lines[len(lines)-1], string(text), cmd.ProcessState.ExitCode()}
		})
	}
	ranks.Wait()
	return answers
}

func defaults(j *job) {
	for _, d := range []struct {
		to    *string
		value string
	}{{&j.operations, "allreduce"}, {&j.types, "7"}, {&j.reductions, "0"}, {&j.counts, "1000"}} {
		if *d.to == "" {
			*d.to = d.value
		}
	}
	if j.seconds == 0 {
		j.seconds = 60
	}
	if j.init == 0 {
		j.init = 60
	}
}

// builtOf is the directory that Place made links to.
func builtOf(t *testing.T, dir string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(filepath.Join(dir, NCCL))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(real)
}

func place(t *testing.T, lines ...string) string {
	t.Helper()
	dir := Place(t, build(t, newest))
	Describe(t, dir, lines...)
	return dir
}

func allOK(t *testing.T, answers []answer) {
	t.Helper()
	for r, a := range answers {
		if !strings.HasPrefix(a.said, "ok ") || a.code != 0 {
			t.Errorf("rank %d: %d %q", r, a.code, a.said)
		}
	}
}

const everyOperation = "allreduce,inplace,broadcast,reduce,allgather,reducescatter,sendrecv"

func TestResults(t *testing.T) {
	t.Parallel()
	for _, j := range []job{
		{ranks: 1, operations: everyOperation, types: "2,6,7,9", reductions: "0,1,2,3,4", counts: "1,1000"},
		{ranks: 2, operations: everyOperation, types: "2,6,7,8,9", reductions: "0,1,2,3,4", counts: "0,1,7,1000"},
		{ranks: 3, operations: everyOperation, types: "7", reductions: "0,2", counts: "1,2,300000"},
		{ranks: 8, operations: everyOperation, types: "6,7", reductions: "0,4", counts: "1,9,1000"},
	} {
		t.Run(strconv.Itoa(j.ranks), func(t *testing.T) {
			t.Parallel()
			allOK(t, j.run(t, place(t)))
		})
	}
}

// The lines of each version: what it has, and what it has not yet or no longer.
func TestLogOfVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string][]string{
		"2.14.3": {`Bootstrap : Using`, `Channel 00/0 : 0\[1b000\] -> 1\[1c000\] via P2P/IPC`, `comm 0x\w+ rank 0 nranks 2 cudaDev 0 busId 1b000 - Init COMPLETE`, `Connected all rings$`},
		"2.18.3": {`Bootstrap : Using`, `Channel 00/0 : 0\[0\] -> 1\[1\] via P2P/CUMEM`, `comm 0x\w+ rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x\w+ - Init COMPLETE`},
		"2.21.5": {`NET/Plugin: Using internal network plugin`, `ncclCommInitRank comm 0x\w+ rank 0 .* - Init COMPLETE`, `nNodes 1 localRanks 2`, `Connected all trees`},
		"2.27.3": {`Bootstrap: Using`, `Initialized NET plugin IB`, `ncclCommInitRankConfig comm`, `Connected all rings, use ring PXN 0 GDR 1`, `NVLS_NCHANNELS`, `Init timings - ncclCommInitRankConfig`},
		"2.30.7": {`\[Rank 0\] ncclCommInitRankConfig comm 0x\w+ .* - Init START`, `NVLS multicast support is not available on dev 0$`},
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
		"p2p":         {want: `via P2P/CUMEM`, not: `via NET`},
		"shm":         {lines: []string{"transport SHM"}, want: `via SHM/direct/direct`, not: `via P2P`},
		"no p2p":      {job: job{env: []string{"NCCL_P2P_DISABLE=1"}}, want: `via SHM/`, not: `via P2P`},
		"net":         {job: job{env: []string{"NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1"}}, want: `\[send\] via NET/IB/0/GDRDMA`},
		"no gdr":      {lines: []string{"transport IB", "gdr 0"}, want: `\[receive\] via NET/IB/0$`, not: `GDRDMA`},
		"gdr level":   {lines: []string{"transport IB"}, job: job{env: []string{"NCCL_NET_GDR_LEVEL=LOC"}}, want: `PXN 0 GDR 0`},
		"sockets":     {lines: []string{"transport Socket"}, want: `via NET/Socket/0$`, not: `GDRDMA`},
		"no ib":       {lines: []string{"transport IB"}, job: job{env: []string{"NCCL_IB_DISABLE=1"}}, want: `Using network Socket`, not: `NET/IB/`},
		"wanted":      {lines: []string{"transport IB"}, job: job{env: []string{"NCCL_NET=Socket"}}, want: `Using network Socket`, not: `NET/IB`},
		"hca":         {job: job{env: []string{"NCCL_IB_HCA==mlx5_3:1"}}, want: `Using \[0\]mlx5_3:1/RoCE \[RO\]`, not: `mlx5_2`},
		"hca prefix":  {lines: []string{"hcas 12", "link IB"}, job: job{env: []string{"NCCL_IB_HCA=mlx5_1"}}, want: `Using \[0\]mlx5_1:1/IB \[1\]mlx5_10:1/IB \[2\]mlx5_11:1/IB \[RO\]`},
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

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lines []string
		job   job
		want  []string // what the ranks say
	}{
		"hang in init":        {[]string{"rank 1 hang init"}, job{init: 0.5}, []string{`^timeout, abort 0$`, `^timeout, abort 0$`}},
		"hang in collective":  {[]string{"rank 0 hang collective"}, job{seconds: 0.5}, []string{`^timeout 0, abort 0, stream 0$`, `^timeout 0, abort 0, stream 0$`}},
		"crash in init":       {[]string{"rank 1 crash init"}, job{init: 0.5}, []string{`timeout`, `^signal$`}},
		"crash in collective": {[]string{"rank 1 crash collective"}, job{seconds: 0.5}, []string{`timeout 0`, `^signal$`}},
		"crash over network":  {[]string{"transport IB", "rank 1 crash collective"}, job{}, []string{`^async 6, abort 0, stream 0$`, `^signal$`}},
		"exit":                {[]string{"transport IB", "rank 1 exit collective 9"}, job{}, []string{`^async 6`, `^exit 9$`}},
		"wrong":               {[]string{"rank 0 lie sum"}, job{}, []string{`^wrong 1 of 1000`, `^ok`}},
		"error of init":       {[]string{"error init 3"}, job{}, []string{`settle.*: 3`, `settle.*: 3`}},
		"async error":         {[]string{"error collective 6"}, job{}, []string{`^async 6, abort 0, stream 0$`, `^async 6`}},
		"fault":               {[]string{"fault collective 700"}, job{}, []string{`: 700`, `: 700`}},
		"memory":              {[]string{"used 81559"}, job{}, []string{`cuMemAlloc_v2.*: 2`, `cuMemAlloc_v2.*: 2`}},
		"prohibited":          {[]string{"mode 2"}, job{}, []string{`Retain.*: 46`, `Retain.*: 46`}},
		"no driver":           {[]string{"error cuInit 100"}, job{}, []string{`cuInit.*: 100`, `cuInit.*: 100`}},
		"same GPU":            {nil, job{gpus: []int{3, 3}}, []string{`: 5 Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1e000`, `: 5 Dup`}},
		"versions":            {[]string{"rank 1 version 2.26.2"}, job{}, []string{`: 5 Mismatched NCCL version detected : rank 1 version 22602 rank 0 version 22703`, `: 5 Mismatched`}},
		"other network":       {[]string{"transport IB", "rank 1 hcas 0"}, job{init: 0.5}, []string{`^timeout`, `^timeout`}},
		"no such network":     {[]string{"transport Socket"}, job{env: []string{"NCCL_NET=IB"}}, []string{`: 5 Failed to initialize any NET plugin`, `: 5`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.job.ranks = 2
			for r, a := range test.job.run(t, place(t, test.lines...)) {
				switch {
				case a.code < 0:
					a.said = "signal"
				case a.said == "":
					a.said = fmt.Sprint("exit ", a.code)
				}
				if !regexp.MustCompile(test.want[r]).MatchString(a.said) {
					t.Errorf("rank %d: %q, want %s\n%s", r, a.said, test.want[r], a.log)
				}
			}
		})
	}
}

// lonely starts a client that is to hang in init, and returns when it got there; a moment later it tries to abort.
func lonely(t *testing.T, dir string) (client *exec.Cmd, ended <-chan error) {
	t.Helper()
	id := filepath.Join(t.TempDir(), "id")
	client = exec.CommandContext(t.Context(), filepath.Join(builtOf(t, dir), "client"), dir, "0", "1", "0", id, "allreduce", "7", "0", "1", "60", "0.1")
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() { end <- client.Wait() }()
	for _, err := os.Stat(id); err != nil; _, err = os.Stat(id) {
		select {
		case err := <-end:
			t.Fatalf("it ended: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	return client, end
}

// An abort that hangs leaves a process that only a signal ends, and that has the GPU to itself with compute mode 3.
func TestAbortHangs(t *testing.T) {
	t.Parallel()
	dir := place(t, "mode 3", "rank 0 hang init", "rank 0 hang ncclCommAbort")
	client, ended := lonely(t, dir)
	other := job{ranks: 1}.run(t, dir)[0]
	if !strings.Contains(other.said, "Retain") || !strings.Contains(other.said, ": 46") {
		t.Errorf("another process: %q, want CUDA_ERROR_DEVICE_UNAVAILABLE", other.said)
	}
	select {
	case err := <-ended:
		t.Errorf("it ended by itself: %v", err)
	case <-time.After(time.Second):
		if err := client.Process.Kill(); err != nil {
			t.Error(err)
		}
		<-ended
	}
	Describe(t, dir, "mode 3")
	allOK(t, job{ranks: 1}.run(t, dir))
}

func TestTakesItsTime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lines []string
		least float64 // microseconds
	}{
		"bandwidth": {[]string{"busbw 100e6", "latency 0.01"}, 10e3 + 4e6/100e6*1e6},
		"slow":      {[]string{"latency 0.01", "slow 5"}, 50e3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, a := range (job{ranks: 2, counts: "1000000"}).run(t, place(t, test.lines...)) {
				took, err := strconv.ParseFloat(strings.TrimPrefix(a.said, "ok "), 64)
				if err != nil || took < test.least*0.999 {
					t.Errorf("%q, want at least %v", a.said, test.least)
				}
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
	for level, want := range map[string]string{"": `^$`, "VERSION": `^$`, "WARN": `^NCCL version 2\.27\.3\+cuda12\.9\n$`, "info": `Init COMPLETE`} {
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

// A version without a check of versions waits for ever.
func TestOldMismatch(t *testing.T) {
	t.Parallel()
	dir := Place(t, build(t, "2.18.3"))
	Describe(t, dir, "rank 1 version 2.18.5")
	for r, a := range (job{ranks: 2, init: 0.5}).run(t, dir) {
		if a.said != "timeout, abort 0" {
			t.Errorf("rank %d: %q", r, a.said)
		}
	}
}

// Calls in the wrong order, with wrong arguments, or on the wrong thread are answered like the driver and each version do.
func TestMisuse(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2.14.3", "2.18.3", "2.21.5", "2.27.3", "2.30.7"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			dir := Place(t, build(t, version))
			for _, driver := range []string{"driver", "no-driver"} {
				out, err := exec.CommandContext(t.Context(), filepath.Join(builtOf(t, dir), "misuse"), dir, version, driver).CombinedOutput()
				if err != nil {
					t.Errorf("%s: %v\n%s", driver, err, out)
				}
			}
		})
	}
}

func TestMissingSymbols(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	Build(t, dir, "2.21.5", "ncclCommFinalize", "cuEventElapsedTime")
	for library, want := range map[string]map[string]bool{
		NCCL: {"ncclCommFinalize": false, "ncclCommInitRankScalable": false, "ncclCommDestroy": true},
		CUDA: {"cuEventElapsedTime": false, "cuEventRecord": true},
	} {
		out, err := exec.CommandContext(t.Context(), "nm", "-D", filepath.Join(dir, library)).Output()
		if err != nil {
			t.Fatal(err)
		}
		for name, has := range want {
			if got := strings.Contains(string(out), " T "+name+"\n"); got != has {
				t.Errorf("%s in %s: %v, want %v", name, library, got, has)
			}
		}
	}
}

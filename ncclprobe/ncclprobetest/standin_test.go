// SPDX-License-Identifier: Apache-2.0

package ncclprobetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

const everyOperation = "allreduce,inplace,broadcast,reduce,allgather,reducescatter,sendrecv"

func TestResults(t *testing.T) {
	t.Parallel()
	for _, j := range []job{
		{ranks: 1, operations: everyOperation, types: "2,6,7,9", reductions: "0,1,2,3,4", counts: "1,1000"},
		{ranks: 2, operations: everyOperation, types: "2,6,7,8,9", reductions: "0,1,2,3,4", counts: "0,7,1000"},
		{ranks: 3, operations: everyOperation, types: "7", reductions: "0,2", counts: "1,2,300000"},
		{ranks: 8, operations: everyOperation, types: "6,7", reductions: "0,4", counts: "1,9,1000"},
	} {
		t.Run(strconv.Itoa(j.ranks), func(t *testing.T) {
			t.Parallel()
			allOK(t, j.run(t, place(t)))
		})
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lines []string
		job   job
		want  [2]string // what the ranks say; the second one the same where it is empty
	}{
		"hang in init":        {[]string{"rank 1 hang init"}, job{init: 0.5}, [2]string{`^timeout, abort 0$`}},
		"hang in collective":  {[]string{"rank 0 hang collective"}, job{seconds: 0.5}, [2]string{`^timeout 0, abort 0, stream 0$`}},
		"crash in init":       {[]string{"rank 1 crash init"}, job{init: 0.5}, [2]string{`timeout`, `^signal$`}},
		"crash in collective": {[]string{"rank 1 crash collective"}, job{seconds: 0.5}, [2]string{`timeout 0`, `^signal$`}},
		"crash over network":  {[]string{"transport IB", "rank 1 crash collective"}, job{}, [2]string{`^async 6, abort 0, `, `^signal$`}},
		"exit":                {[]string{"transport IB", "rank 1 exit collective 9"}, job{}, [2]string{`^async 6`, `^exit 9$`}},
		"root gone":           {[]string{"rank 0 exit ncclCommInitRankConfig 9"}, job{init: 0.5}, [2]string{`^exit 9$`, `^timeout, abort 0$|settle.*: 6 .*Connection closed by remote peer`}}, // before it connects or after
		"wrong":               {[]string{"rank 0 lie sum"}, job{}, [2]string{`^wrong 1 of 1000`, `^ok`}},
		"error of init":       {[]string{"error init 3"}, job{}, [2]string{`settle.*: 3`}},
		"async error":         {[]string{"error collective 6"}, job{}, [2]string{`^async 6, abort 0, stream 0$`}},
		"fault":               {[]string{"fault collective 700"}, job{}, [2]string{`: 700`}},
		"memory":              {[]string{"used 81559"}, job{}, [2]string{`cuMemAlloc_v2.*: 2`}},
		"prohibited":          {[]string{"mode 2"}, job{}, [2]string{`Retain.*: 46`}},
		"no driver":           {[]string{"error cuInit 100"}, job{}, [2]string{`cuInit.*: 100`}},
		"one GPU":             {[]string{"gpu 1 error cuDevicePrimaryCtxRetain 999"}, job{init: 0.5}, [2]string{`timeout`, `Retain.*: 999`}},
		"same GPU":            {nil, job{gpus: []int{3, 3}}, [2]string{`: 5 Duplicate GPU detected .* on CUDA device 1e000`}},
		"versions":            {[]string{"rank 1 version 2.26.2"}, job{}, [2]string{`: 5 Mismatched NCCL version detected : rank \d version 22`}},
		"other network":       {[]string{"transport IB", "rank 1 hcas 0"}, job{init: 0.5}, [2]string{`^timeout`}},
		"no such network":     {[]string{"transport Socket"}, job{env: []string{"NCCL_NET=IB"}}, [2]string{`: 5 Failed to initialize any NET`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.want[1] == "" {
				test.want[1] = test.want[0]
			}
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
	client = exec.CommandContext(t.Context(), filepath.Join(builtOf(t, dir), "client"), dir, "0", "1", "0", id,
		"allreduce", "7", "0", "1", "60", "0.1")
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

// Calls in the wrong order, with wrong arguments, or on the wrong thread are answered like the driver and
// each version do.
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
	build(t, newest)
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(shared, "objects"), filepath.Join(dir, "objects")); err != nil {
		t.Fatal(err)
	}
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

func TestCalls(t *testing.T) {
	t.Parallel()
	dir := place(t)
	Record(t, dir)
	allOK(t, job{ranks: 2}.run(t, dir))
	calls := Calls(t, dir)
	for name, want := range map[string]int{
		"cuInit": 4, "ncclGetUniqueId": 1, "ncclCommInitRankConfig": 2, "ncclAllReduce": 4, "ncclCommAbort": 0, "collective": 4,
	} {
		if calls[name] != want {
			t.Errorf("%s: %d times, want %d", name, calls[name], want)
		}
	}
}

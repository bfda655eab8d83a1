// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/probes"
)

// What makes no sense is refused before anything is touched.
func TestProbeFlagErrors(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"nodes", `"nodes": expected transport, node, rail, socket, calibrate, scaling, nvlink, tcp or cluster; did you mean node?`},
		{"node rail", "unexpected rail"},
		{"node --kind=rail", `node and --kind="rail": expected at most one of them`},
		{"scaling --kind=rail", `--kind="rail": scaling compares runs of kind node or calibrate`},
		{"tcp --kind=socket", `--kind="socket": tcp compares runs of kind node or calibrate, or of rail`},
		{"nvlink --device=mlx5_0", `--device="mlx5_0": expected it with rail, or with tcp, only`},
		{"node --device=mlx5_0", `--device="mlx5_0": expected it with rail`},
		{"rail --device=", "expected a device such as mlx5_0"},
		{"rail --device=../../dev/null", "expected a device such as mlx5_0"},
		{"rail --device=mlx5_0:0", "expected a port of 1 to 255"},
		{"rail --device=mlx5_0:1:2", "expected a port of 1 to 255"},
		{"rail --ranks=4", "--ranks=4: rail has a number of ranks of its own"},
		{"tcp --kind=rail --ranks=4", "rail has a number of ranks of its own"},
		{"transport --bytes=8", "transport measures nothing"},
		{"--op=allreduce", `--op="allreduce": expected all_reduce, broadcast`},
		{"--dtype=float64", `--dtype="float64": expected float32`},
		{"--ranks=1", `--ranks="1": expected a whole number from 2 to 128`},
		{"--ranks=-1", "expected a whole number from 2 to 128"},
		{"--ranks=1000000000000000000000", "expected a whole number"},
		{"--iterations=0", "expected a whole number from 1 to 10000"},
		{"--iterations=10001", "expected a whole number from 1 to 10000"},
		{"--bytes=", "expected SIZE, MIN:MAX or MIN:MAX:FACTOR"},
		{"--bytes=-8", "expected SIZE"},
		{"--bytes=0", "expected sizes of 1 byte to 4G"},
		{"--bytes=5G", "expected sizes of 1 byte to 4G, not 5G"},
		{"--bytes=18446744073709551616", "expected SIZE"},
		{"--bytes=8:4", "expected 4 to be the larger size"},
		{"--bytes=8:", "expected SIZE"},
		{"--bytes=8:16:1", "expected a FACTOR of 2 to 65535"},
		{"--bytes=8:16:0", "expected a FACTOR"},
		{"--bytes=8:16:1.5", "expected a FACTOR"},
		{"--bytes=8:16:2:2", "expected SIZE, MIN:MAX or MIN:MAX:FACTOR"},
		{"--library=", "expected a path"},
		{"--path.netlink=/tmp", "--path.netlink: probe does not take this flag"},
	} {
		var stdout, stderr commandtest.Output
		code := runTo(t, &stdout, &stderr, new(site.Site), nil, strings.Fields(c.args)...)
		if code != command.Usage || !strings.Contains(stderr.String(), c.want) || stdout.String() != "" {
			t.Errorf("%s: exit code %d, %s; want %q", c.args, code, stderr.String(), c.want)
		}
	}
	var stderr commandtest.Output
	if code := runTo(t, &stderr, &stderr, new(site.Site), nil); code != exitUnprobed {
		t.Errorf("without what runs NCCL: exit code %d, %s", code, stderr.String())
	}
}

func TestParseSizes(t *testing.T) {
	for s, want := range map[string][]uint64{
		"8": {8}, "64M": {64 << 20}, "8:64:2": {8, 16, 32, 64}, "8:64": {8, 16, 32, 64}, "8:63:2": {8, 16, 32}, "3:100:10": {3, 30}, "8:8:2": {8},
		"1K:1M:32": {1 << 10, 32 << 10, 1 << 20}, "4G": {4 << 30}, "2G:4G:65535": {2 << 30},
	} {
		if got, err := parseSizes(s); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
}

func FuzzParseSizes(f *testing.F) {
	for _, s := range []string{"8:256M:2", "1:4G:2", "8", "8:4", "4294967296:4294967296:65535", "::", "1:4G:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sizes, err := parseSizes(s)
		if err != nil {
			return
		}
		if len(sizes) == 0 || len(sizes) > 64 { // which is what a plan takes
			t.Fatalf("%q: %d sizes", s, len(sizes))
		}
		for i, v := range sizes {
			if v < 1 || v > maxProbeBytes || i > 0 && v <= sizes[i-1] {
				t.Errorf("%q: %v", s, sizes)
			}
		}
	})
}

// The line is there while something is done, counts seconds, and is gone before anything else is printed.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out commandtest.Output
		p := &progress{w: &out}
		b := newProbeBench(t, 2)
		start := p.watch(b.Start, "node")
		first, err := start(t.Context(), probes.Rank{})
		if err != nil {
			t.Fatal(err)
		}
		second, err := start(t.Context(), probes.Rank{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		for _, r := range []probes.RankProcess{first, second} {
			if _, err := r.Call(t.Context(), []byte(`{"measure": {"op": "all_reduce", "type": "float32", "bytes": 3145728, "iterations": 20}}`)); err != nil {
				t.Fatal(err)
			}
		}
		_, err = first.Call(context.Background(), []byte("garbage"))
		if err == nil {
			t.Error("garbage is answered")
		}
		p.end()
		p.end()
		at := len(out.String())
		time.Sleep(10 * time.Second)
		want := "\r\x1b[Knode: starting, 0 s\r\x1b[Knode: starting, 1 s\r\x1b[Knode: all_reduce of 3 MiB, 20 iterations, 0 s\r\x1b[K"
		if out.String() != want || len(out.String()) != at {
			t.Errorf("%q, want %q", out.String(), want)
		}
		_, _ = first.Close(), second.Close()
	})
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if newProgress(file) != nil || newProgress(&commandtest.Output{}) != nil {
		t.Error("there is a progress line on what is no terminal")
	}
	var none *progress
	none.say("nothing")
	none.end()
}

// The exit code is that of the worst outcome of all runs.
func TestProbeExitCodes(t *testing.T) {
	result := func(o probes.Outcome, f probes.Failure) oneRun {
		return oneRun{result: &probes.Result{Outcome: o, Failure: f}}
	}
	ok, wrong := result(probes.OK, ""), result(probes.Failed, probes.FailureWrong)
	for name, c := range map[string]struct {
		report report
		want   int
	}{
		"ok":                {report{runs: []oneRun{ok, ok}}, exitProbed},
		"wrong":             {report{runs: []oneRun{ok, wrong}}, exitUnsound},
		"wrong and aborted": {report{runs: []oneRun{result(probes.Aborted, probes.FailureIntruder), wrong}}, exitUnsound},
		"aborted":           {report{runs: []oneRun{ok, result(probes.Aborted, probes.FailureStopped)}}, exitUnprobed},
		"no library":        {report{runs: []oneRun{result(probes.Failed, probes.FailureLibrary), {}}}, exitUnprobed},
		"not reached":       {report{runs: []oneRun{ok, {}}}, exitUnprobed},
		"skipped":           {report{skipped: &probes.Skipped{Why: probes.SkipProcess}}, exitUnprobed},
		"error":             {report{err: errors.New("no")}, exitUnprobed},
		"wrong and error":   {report{err: errors.New("no"), runs: []oneRun{wrong}}, exitUnsound},
	} {
		if got := c.report.code(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

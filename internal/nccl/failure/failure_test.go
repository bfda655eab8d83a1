// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/signature"
)

// ids are the signatures of the failures that lines show; "?" is a warning of which it is not known.
func ids(lines ...string) []string {
	r, list := New(8, true), []string(nil)
	for _, line := range lines {
		if _, f, found := r.Add(line); found {
			id := "?"
			if f.Signature != nil {
				id = f.Signature.ID
			}
			list = append(list, fmt.Sprintf("%s %d", id, f.Line))
		}
	}
	return list
}

// A warning that no row has is a failure once a call of its thread fails, and its own words are what counts.
func TestUnknownWarnings(t *testing.T) {
	const a, b = "gpu1:7:70 [0] ", "gpu1:7:71 [0] "
	for name, tt := range map[string]struct {
		lines []string
		want  []string
	}{
		"no call fails":       {[]string{a + "x.cc:1 NCCL WARN of a plugin"}, []string{"? 1"}},
		"its thread unwinds":  {[]string{a + "x.cc:1 NCCL WARN of a plugin", a + "NCCL INFO init.cc:7 -> 2", a + "NCCL INFO group.cc:7 -> 2"}, []string{"? 1", "warning_unknown 1"}},
		"another one does":    {[]string{a + "x.cc:1 NCCL WARN of a plugin", b + "NCCL INFO init.cc:7 -> 2"}, []string{"? 1"}},
		"a call in progress":  {[]string{a + "x.cc:1 NCCL WARN of a plugin", a + "NCCL INFO init.cc:7 -> 7"}, []string{"? 1"}},
		"the next network":    {[]string{a + "x.cc:1 NCCL WARN of a plugin", a + "NCCL INFO transport/net_ib/init.cc:7 -> 3"}, []string{"? 1"}},
		"the inner comes":     {[]string{a + "graph/x.cc:1 NCCL WARN inner", a + "init.cc:1 NCCL WARN outer", a + "NCCL INFO init.cc:7 -> 2"}, []string{"? 1", "? 2", "topology_failed 1"}},
		"a row explains it":   {[]string{a + "x.cc:1 NCCL WARN of a plugin", a + "init.cc:1 NCCL WARN Duplicate GPU detected : rank 1", a + "NCCL INFO init.cc:7 -> 2"}, []string{"? 1", "duplicate_gpu 2"}},
		"quoted":              {[]string{"Last error:", "words of a release to come"}, []string{"warning_unknown 2"}},
		"quoted, two streams": {[]string{"[rank1]: Last error:", "[rank2]: Last error:", "[rank2]: Duplicate GPU detected : rank 1", "", "[rank1]: Cuda failure 2 'out of memory'"}, []string{"duplicate_gpu 3", "gpu_memory_full 5"}},
		"quoted in one line":  {[]string{`x.DistBackendError: y\nLast error:\nDuplicate GPU detected : rank 1\n`}, []string{"duplicate_gpu 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ids(tt.lines...); !slices.Equal(got, tt.want) {
				t.Errorf("%q, expected %q", got, tt.want)
			}
		})
	}
}

// An exception counts if it is not one that NCCL or another process caused.
func TestExceptions(t *testing.T) {
	const trace, frame = "Traceback (most recent call last):", `  File "train.py", line 7, in <module>`
	for name, tt := range map[string]struct {
		lines []string
		want  []string
	}{
		"of the program":  {[]string{trace, frame, "    f()", "KeyError: 'loss'"}, []string{"program_exception 4"}},
		"two ranks mixed": {[]string{"[rank0]: " + trace, "[rank1]: " + trace, "[rank0]: " + frame, "[rank1]: ValueError: x", "[rank0]: TypeError: y"}, []string{"program_exception 4", "program_exception 5"}},
		"of a peer":       {[]string{trace, frame, "ConnectionResetError: x"}, nil},
		"no exception":    {[]string{trace, frame, "went on"}, nil},
		"of a row":        {[]string{trace, frame, "torch.OutOfMemoryError: CUDA out of memory. Tried"}, []string{"gpu_out_of_memory 3"}},
		"without a stack": {[]string{"KeyError: 'loss'"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ids(tt.lines...); !slices.Equal(got, tt.want) {
				t.Errorf("%q, expected %q", got, tt.want)
			}
		})
	}
}

// The collector for logs has a reader for each of its files: what a hostile log makes one remember fits in 64 KiB.
func TestMemoryIsBounded(t *testing.T) {
	const most, threads, allowed = 256, 4096, 64 << 10
	words := strings.Repeat("w", 3000)
	held := func() (*Reader, uint64) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		r := New(most, false)
		for i := range threads {
			r.Add(fmt.Sprintf("host%d%s:%d:%d [0] x.cc:1 NCCL WARN %s", i, words[:200], i, i, words))
			r.Add(fmt.Sprintf("[rank%d]: Last error:", i))
			r.Add(fmt.Sprintf("(W pid=%d) Traceback (most recent call last):", i))
		}
		r.Log = *log.New()
		runtime.GC()
		runtime.ReadMemStats(&after)
		return r, after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc)
	}
	if r, bytes := held(); bytes > allowed || len(r.warnings) != most || len(r.stacks) != most {
		t.Errorf("%d bytes, %d threads, %d streams", bytes, len(r.warnings), len(r.stacks))
	}
}

// FuzzEvents: whatever lines are, failures have a signature of the table or none, lines that were read, and bounds.
func FuzzEvents(f *testing.F) {
	f.Add("gpu1:7:70 [0] x.cc:1 NCCL WARN w\ngpu1:7:70 [0] NCCL INFO init.cc:7 -> 2\n[rank1]: Last error:\n[rank1]: x")
	f.Add("(W pid=1, ip=::1) Traceback (most recent call last):\n(W pid=1, ip=::1) KeyError: x\n\x1b[36m(W pid=1)\x1b[0m Last error:\\nx")
	f.Add("12: [1,3]<stderr>:[pod/a/b] c-1 | 2026-01-02T03:04:05Z stdout F [rank0]:[E1 x:1] y\n[ 1.123456] NVRM: Xid (PCI:0): 79, x")
	f.Fuzz(func(t *testing.T, text string) {
		r := New(4, true)
		var known []string
		for _, s := range signature.All() {
			known = append(known, s.ID)
		}
		for line := range strings.Lines(text) {
			e, found, is := r.Add(strings.TrimRight(line, "\n"))
			if is && found.Signature != nil && !slices.Contains(known, found.Signature.ID) || is && (found.Line < 1 || found.Line > r.Lines) {
				t.Errorf("%+v", found)
			}
			if len(e.Host) > log.MaxText || len(r.warnings) > 4 || len(r.stacks) > 4 {
				t.Errorf("not bounded: %+v", e)
			}
			if o := log.Strip(line); !strings.HasSuffix(line, o.Rest) && !strings.Contains(line, "\x1b[") || o.Rank < log.Unknown {
				t.Errorf("%q: %+v", line, o)
			}
		}
	})
}

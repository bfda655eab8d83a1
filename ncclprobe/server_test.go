// SPDX-License-Identifier: Apache-2.0

package ncclprobe

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/ncclprobe/ncclprobetest"
	"gpufabric_exporter/probes"
)

// TestCollectives runs every operation and type with libraries of all releases, and with as many ranks as a
// node has GPUs.
func TestCollectives(t *testing.T) {
	for _, tt := range []struct {
		version string
		ranks   int
	}{
		{"2.14.3", 2},
		{"2.18.3", 2},
		{"2.21.5", 2},
		{"2.27.3", 2},
		{"2.30.7", 1},
		{"2.30.7", 8},
	} {
		t.Run(fmt.Sprint(tt.version, " ", tt.ranks), func(t *testing.T) {
			t.Parallel()
			dir := standin(t, []string{"version " + tt.version})
			g := connected(t, tt.ranks, dir)
			for _, op := range probes.Ops() {
				for _, dtype := range probes.DTypes() {
					for _, size := range []uint64{32, 333_338} { // a few elements; and many, no multiple of anything
						outcomes := g.each(measure(op, dtype, size))
						succeed(t, outcomes)
						l := layoutOf(measure(op, dtype, size).Measure, tt.ranks)
						for i, o := range outcomes {
							m := o.Measure
							if m == nil || m.Wrong != 0 || m.Bytes != l.message || m.Time <= 0 || m.DeviceTime <= 0 || m.DeviceTime > m.Time {
								t.Errorf("%s of %d bytes of %s: rank %d: %+v", op, size, dtype, i, m)
							}
						}
					}
				}
			}
			succeed(t, g.each(closeRank))
			for _, c := range g {
				if err := c.end(); err != nil {
					t.Errorf("%v: %s", err, c.stderr.String())
				}
			}
		})
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	dir := standin(t, []string{"version 2.27.3", "cuda 12080", "memory 81559", "used 559"})
	o := start(t, dir).must(start(t, dir).open(3)).Open
	want := probes.OpenReply{
		NCCLPath: filepath.Join(builds(), "all", ncclprobetest.NCCL), NCCL: 22703, CUDA: 12080,
		GPU: "GPU-00000003-1111-2222-3333-444444444444", Memory: 81000 << 20,
	}
	if *o != want {
		t.Errorf("%+v, expected %+v", *o, want)
	}

	// Without a GPU neither a driver is needed, nor is one initialised.
	c := start(t, standin(t, []string{"error cuInit 100"}))
	if o := c.must(c.open(-1)).Open; o.CUDA != 13000 || o.GPU != "" || o.Memory != 0 {
		t.Errorf("without a GPU: %+v", o)
	}
	if id := c.must(newID).ID; len(id) != probes.IDSize {
		t.Errorf("an id of %d bytes", len(id))
	}
	c = start(t, dir)
	q := c.open(-1)
	q.Open.CUDA = filepath.Join(dir, "none")
	if o := c.must(q).Open; o.CUDA != 0 || o.NCCL != 22703 {
		t.Errorf("without a driver: %+v", o)
	}
}

// TestOpenFails compares failures before there is a communicator with their reasons.
func TestOpenFails(t *testing.T) {
	for _, tt := range []struct {
		name    string
		machine string
		without string
		nccl    string // instead of the library's path
		cuda    string
		want    probes.Failure
		says    string
	}{
		{name: "no driver", cuda: "/nowhere/libcuda.so.1", want: probes.FailureLibrary, says: "no driver: /nowhere/libcuda.so.1"},
		{name: "no NCCL", nccl: "/nowhere/libnccl.so.2", want: probes.FailureLibrary, says: "no NCCL: /nowhere/libnccl.so.2"},
		{name: "no library", nccl: "/proc/self/status", want: probes.FailureLibrary, says: "no NCCL: /proc/self/status"},
		{name: "old", machine: "version 2.12.12", want: probes.FailureLibrary, says: "is version 21212, expected 21400 at least"},
		{name: "NCCL lacks", without: "ncclCommAbort", want: probes.FailureLibrary, says: "libnccl.so.2 has no ncclCommAbort"},
		{name: "NCCL lacks its version", without: "ncclGetVersion", want: probes.FailureLibrary, says: "libnccl.so.2 has no ncclGetVersion"},
		{name: "CUDA lacks", without: "cuMemsetD32_v2", want: probes.FailureLibrary, says: "libcuda.so.1 has no cuMemsetD32_v2"},
		{name: "no GPU", machine: "gpus 0", want: probes.FailureCUDA, says: "GPU 0000:1b:00.0: cuInit: CUDA_ERROR_NO_DEVICE (100)"},
		{name: "lost", machine: "error cuInit 999", want: probes.FailureCUDA, says: "(999)"},
		{name: "exclusive", machine: "mode 3", want: probes.FailureCUDA, says: "compute mode 3, expected 0"},
		{name: "prohibited", machine: "mode 2", want: probes.FailureCUDA, says: "compute mode 2, expected 0"},
		{name: "no context", machine: "error cuDevicePrimaryCtxRetain 2", want: probes.FailureCUDA, says: "cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY (2)"},
		{name: "no version", machine: "error ncclGetVersion 3", want: probes.FailureNCCL, says: "ncclGetVersion: internal error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var without []string
			if tt.without != "" {
				without = append(without, tt.without)
			}
			c := start(t, standin(t, []string{tt.machine}, without...))
			q := c.open(0)
			if tt.nccl != "" {
				q.Open.NCCL = tt.nccl
			}
			if tt.cuda != "" {
				q.Open.CUDA = tt.cuda
			}
			expect(t, c, q, tt.want, tt.says)
			// The rank is good for being closed only, and says why.
			expect(t, c, newID, tt.want, tt.says)
			c.must(closeRank)
		})
	}
}

func expect(t *testing.T, c *child, q probes.Request, want probes.Failure, says string) {
	t.Helper()
	r, err := c.ask(q)
	if err != nil || r.Failure != want || !strings.Contains(r.Error, says) {
		t.Errorf("%v, %s: %q, expected %s: %q", err, r.Failure, r.Error, want, says)
	}
}

// TestFaults has one thing go wrong in rank 1 of 2, and looks at what that rank says.
func TestFaults(t *testing.T) {
	const short = 10 * time.Second // long enough to get as far as where it hangs
	for _, tt := range []struct {
		name    string
		machine []string
		connect time.Duration // timeout; 0: patient
		measure time.Duration
		want    probes.Failure
		says    string // one of these, between bars
		crashes bool
		stuck   bool // nothing but the end of the process helps
	}{
		{name: "hang in init", machine: []string{"rank 1 hang init"}, connect: short, want: probes.FailureHang, says: "ncclCommInitRankConfig is not done after"},
		{name: "hang in init, blocking", machine: []string{"hang ncclCommInitRankConfig"}, connect: short, want: probes.FailureHang, says: "ncclCommInitRankConfig does not return", stuck: true},
		{name: "hang in collective", machine: []string{"rank 1 hang collective"}, measure: short, want: probes.FailureHang, says: "all_reduce of 65536 bytes is not done after"},
		{name: "hang in collective and abort", machine: []string{"rank 1 hang collective", "hang ncclCommAbort"}, measure: short, want: probes.FailureHang, says: "all_reduce", stuck: true},
		{name: "hang in a call", machine: []string{"hang ncclAllReduce"}, measure: short, want: probes.FailureHang, says: "ncclAllReduce does not return", stuck: true},
		{name: "hang in the driver", machine: []string{"hang cuMemcpyDtoH_v2"}, measure: short, want: probes.FailureHang, says: "cuMemcpyDtoH_v2 does not return", stuck: true},
		{name: "crash in init", machine: []string{"rank 1 crash init"}, crashes: true},
		{name: "crash in collective", machine: []string{"rank 1 crash collective"}, crashes: true},
		{name: "exit in collective", machine: []string{"rank 1 exit collective 7"}, crashes: true},
		{name: "error of init", machine: []string{"rank 1 error init 2"}, want: probes.FailureInit, says: "ncclCommInitRankConfig: unhandled system error"},
		{name: "error of making", machine: []string{"error ncclCommInitRankConfig 4"}, want: probes.FailureInit, says: "ncclCommInitRankConfig: invalid argument"},
		{name: "other version", machine: []string{"version 2.27.3", "rank 1 version 2.26.2"}, want: probes.FailureInit, says: "ncclCommInitRankConfig"},
		{name: "other version, unchecked", machine: []string{"version 2.21.5", "rank 1 version 2.20.3"}, connect: short, want: probes.FailureHang, says: "ncclCommInitRankConfig"},
		{name: "asynchronous error", machine: []string{"rank 1 error collective 6"}, want: probes.FailureNCCL, says: "remote process exited"},
		{name: "error of a call", machine: []string{"error ncclAllReduce 5"}, want: probes.FailureNCCL, says: "ncclAllReduce: invalid usage"},
		{name: "broken context", machine: []string{"rank 1 fault collective 700"}, want: probes.FailureCUDA, says: "unhandled cuda error|CUDA_ERROR_ILLEGAL_ADDRESS (700)"}, // as NCCL's word or the stream's comes first
		{name: "no memory", machine: []string{"error cuMemAlloc_v2 2"}, want: probes.FailureCUDA, says: "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)"},
		{name: "little memory", machine: []string{"memory 2648", "used 600"}, want: probes.FailureCUDA, says: "a buffer of 65536 bytes, but only 2147483648 are free"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, connect := opened(t, 2, standin(t, tt.machine))
			request := func(rank int) probes.Request {
				q := connect(rank)
				if tt.connect != 0 {
					q.Connect.Timeout = tt.connect
				}
				return q
			}
			q := measure(probes.AllReduce, probes.Float32, 65536)
			if tt.measure != 0 {
				q.Measure.Timeout = tt.measure
			}
			begin := time.Now()
			go func() { // it may wait for the other one until that has ended
				if _, err := g[0].ask(request(0)); err == nil {
					_, _ = g[0].ask(q)
				}
			}()
			var o outcome
			o.Reply, o.err = g[1].ask(request(1))
			if o.err == nil && o.Failure == "" {
				o.Reply, o.err = g[1].ask(q)
			}
			if took := time.Since(begin); took > patient/2 {
				t.Errorf("it took %v", took)
			}
			if tt.crashes {
				if !errors.Is(o.err, errEnded) {
					t.Errorf("%v, %+v, expected a crash", o.err, o.Reply)
				}
				return
			}
			says := func(words string) bool { return strings.Contains(o.Error, words) }
			if o.err != nil || o.Failure != tt.want || !slices.ContainsFunc(strings.Split(tt.says, "|"), says) {
				t.Errorf("%v, %s: %q, expected %s: %q", o.err, o.Failure, o.Error, tt.want, tt.says)
			}
			if tt.stuck {
				expect(t, g[1], closeRank, probes.FailureHang, "does not return")
				g[1].cmd.Process.Kill()
				return
			}
			g[1].must(closeRank)
			if err := g[1].end(); err != nil {
				t.Errorf("%v: %s", err, g[1].stderr.String())
			}
		})
	}
}

// TestWrong has one element of the result be wrong.
func TestWrong(t *testing.T) {
	t.Parallel()
	g := connected(t, 2, standin(t, []string{"lie sum"}))
	for _, op := range probes.Ops() {
		var wrong uint64
		outcomes := g.each(measure(op, probes.BFloat16, 65536))
		succeed(t, outcomes)
		for _, o := range outcomes {
			wrong += o.Measure.Wrong
		}
		if wrong == 0 || wrong > 2 {
			t.Errorf("%s: %d wrong elements, expected one for each rank that receives", op, wrong)
		}
	}
}

// TestMissingOperation lets a library be used that lacks an operation, but not for that.
func TestMissingOperation(t *testing.T) {
	t.Parallel()
	dir := standin(t, nil, "ncclBroadcast", "ncclGroupEnd", "ncclGetLastError", "ncclCommFinalize")
	c := connected(t, 1, dir)[0]
	c.must(measure(probes.AllReduce, probes.Int32, 1024))
	expect(t, c, measure(probes.Broadcast, probes.Int32, 1024), probes.FailureLibrary, "has no ncclBroadcast")
	expect(t, c, measure(probes.AllReduce, probes.Int32, 1024), probes.FailureLibrary, "has no ncclBroadcast")
	c.must(closeRank)
	c = connected(t, 1, dir)[0]
	expect(t, c, measure(probes.SendRecv, probes.Int32, 1024), probes.FailureLibrary, "ncclGroupEnd")
	c = connected(t, 1, dir)[0]
	expect(t, c, closeRank, probes.FailureLibrary, "has no ncclCommFinalize")
}

// TestTime has collectives take a time that is known.
func TestTime(t *testing.T) {
	t.Parallel()
	const latency, iterations = 20 * time.Millisecond, 3
	g := connected(t, 2, standin(t, []string{"latency 0.02"}))
	q := measure(probes.AllReduce, probes.Float32, 1<<20)
	q.Measure.Iterations = iterations
	outcomes := g.each(q)
	succeed(t, outcomes)
	for i, o := range outcomes {
		if m := o.Measure; m.DeviceTime < iterations*latency || m.Time < m.DeviceTime {
			t.Errorf("rank %d: %v, on the device %v, expected %v at least", i, m.Time, m.DeviceTime, iterations*latency)
		}
	}
}

// TestTwoRanksOnOneGPU is refused by NCCL, unless the ranks say that they are on different hosts.
func TestTwoRanksOnOneGPU(t *testing.T) {
	t.Parallel()
	dir := standin(t, nil)
	for _, same := range []bool{true, false} {
		g := make(group, 2)
		for i := range g {
			host := "a"
			if !same && i == 1 {
				host = "b"
			}
			g[i] = start(t, dir, "NCCL_HOSTID="+host)
			g[i].must(g[i].open(0))
		}
		id := g[0].must(newID).ID
		outcomes := g.all(func(rank int) probes.Request {
			return probes.Request{Connect: &probes.ConnectRequest{ID: id, Rank: rank, Ranks: 2, Timeout: patient}}
		})
		for _, o := range outcomes {
			if same && o.Failure != probes.FailureInit || !same && o.Failure != "" || o.err != nil {
				t.Errorf("same host %v: %v, %s, %s", same, o.err, o.Failure, o.Error)
			}
		}
	}
}

// TestGarbageID gives a rank an address at which no process listens.
func TestGarbageID(t *testing.T) {
	t.Parallel()
	g, connect := opened(t, 1, standin(t, nil))
	q := connect(0)
	q.Connect.Ranks, q.Connect.Timeout = 2, 300*time.Millisecond
	_, _ = rand.Read(q.Connect.ID)
	if r, err := g[0].ask(q); err != nil || r.Failure != probes.FailureInit && r.Failure != probes.FailureHang {
		t.Errorf("%+v, %v", r, err)
	}
	g[0].must(closeRank)
}

// TestPeerDies kills a rank during a collective.
func TestPeerDies(t *testing.T) {
	t.Parallel()
	g := connected(t, 2, standin(t, []string{"rank 1 hang collective"}))
	q := measure(probes.AllGather, probes.Int32, 1<<20)
	q.Measure.Timeout = time.Second
	go func() { _, _ = g[1].ask(q) }()
	time.AfterFunc(100*time.Millisecond, func() { g[1].cmd.Process.Kill() }) // or before it measures, on a loaded machine
	// Whether NCCL notices depends on what connects the ranks.
	if r, err := g[0].ask(q); err != nil || r.Failure != probes.FailureNCCL && r.Failure != probes.FailureHang {
		t.Errorf("%v, %s: %s", err, r.Failure, r.Error)
	}
	g[0].must(closeRank)
}

// TestLarge has a message that goes to and from the GPU in several pieces, and grows.
func TestLarge(t *testing.T) {
	t.Parallel()
	g := connected(t, 2, standin(t, nil))
	for _, size := range []uint64{1 << 10, 2*chunkSize + 12, 1 << 20} {
		for _, op := range []probes.Op{probes.AllGather, probes.ReduceScatter, probes.AllReduce} {
			outcomes := g.each(measure(op, probes.Float16, size))
			succeed(t, outcomes)
			for i, o := range outcomes {
				if o.Measure.Wrong != 0 {
					t.Errorf("%s of %d bytes: rank %d: %d wrong elements", op, size, i, o.Measure.Wrong)
				}
			}
		}
	}
}

// TestOrder asks for steps at the wrong time. The rank is as good as before.
func TestOrder(t *testing.T) {
	t.Parallel()
	dir := standin(t, nil)
	c := start(t, dir)
	refuse := func(q probes.Request, says string) {
		t.Helper()
		if r, err := c.ask(q); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v, %v, expected %q", r, err, says)
		}
	}
	m := measure(probes.AllReduce, probes.Int32, 1024)
	connect := probes.Request{Connect: &probes.ConnectRequest{ID: make([]byte, probes.IDSize), Ranks: 1, Timeout: patient}}
	refuse(newID, "nothing is opened")
	refuse(connect, "nothing is opened")
	c.must(c.open(-1))
	refuse(c.open(0), "opened before")
	refuse(connect, "no GPU")

	c = start(t, dir)
	c.must(c.open(0))
	refuse(m, "nothing is connected")
	connect.Connect.ID = c.must(newID).ID
	c.must(connect)
	refuse(connect, "connected before")
	c.must(m)
	refuse(measure(probes.SendRecv, probes.Int32, 3), "has no int32 for each of 1 ranks")
	c.must(m)
	c.must(closeRank)
	c.must(closeRank)
	refuse(m, "no GPU")
}

// TestRawRequests sends bytes that are not a request.
func TestRawRequests(t *testing.T) {
	t.Parallel()
	c := start(t, standin(t, nil))
	for _, raw := range []string{"", "{", "null", "[]", `{"close":{},"new_id":{}}`, `{"measure":{"bytes":-1}}`, `{"x":` + strings.Repeat("[", 1<<16)} {
		if r, err := c.askRaw([]byte(raw)); err == nil || errors.Is(err, errEnded) {
			t.Errorf("%.40q: %+v, %v", raw, r, err)
		}
	}
	c.must(closeRank)
}

// TestEndsWithoutClose has the process end while it holds everything.
func TestEndsWithoutClose(t *testing.T) {
	t.Parallel()
	g := connected(t, 2, standin(t, nil))
	for _, c := range g {
		if err := c.end(); err != nil {
			t.Errorf("%v: %s", err, c.stderr.String())
		}
	}
	c := start(t, standin(t, []string{"crash cuInit"}))
	_, err := c.ask(c.open(0))
	var status *exec.ExitError
	if !errors.Is(err, errEnded) || errors.As(err, &status) && status.Sys().(syscall.WaitStatus).ExitStatus() == 0 {
		t.Errorf("%v", err)
	}
}

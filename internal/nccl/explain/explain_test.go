// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

func read(t testing.TB, log string) *Result {
	t.Helper()
	r, err := Read(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRefusesWhatIsNoText(t *testing.T) {
	for name, tt := range map[string]struct{ head, want string }{
		"gzip":   {"\x1f\x8b\x08\x00", "gzip: expected a log (zcat FILE"},
		"zstd":   {"\x28\xb5\x2f\xfd", "zstdcat"},
		"xz":     {"\xfd7zXZ\x00", "xzcat"},
		"UTF-16": {"\xff\xfeg\x00p\x00", "UTF-16"},
		"binary": {"\x7fELF" + strings.Repeat("\x01\x02\x03"+strings.Repeat("\xf0", 30), 100), "control characters"},
	} {
		if _, err := Read(strings.NewReader(tt.head)); !errors.Is(err, ErrNotText) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, expected %q", name, err, tt.want)
		}
	}
}

// A log that was truncated while its process wrote begins with zeros.
func TestTruncatedLog(t *testing.T) {
	r := read(t, strings.Repeat("\x00", 100)+"gpu1:1:1 [0] NCCL INFO NCCL version 2.27.3+cuda12.9\n")
	if len(r.Versions) != 1 || r.Versions[0] != "2.27.3" || r.NCCLLines != 1 {
		t.Errorf("%+v", r)
	}
}

const complete = "gpu1:41:50 [0] NCCL INFO ncclCommInitRank comm 0x55d0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x7d - Init COMPLETE\n"

// What the log does not show is never ok.
func TestUndecided(t *testing.T) {
	start := strings.ReplaceAll(complete, "COMPLETE", "START")
	for name, tt := range map[string]struct{ log, want string }{
		"nothing":          {"", "no line is of NCCL"},
		"another program":  {"loss 0.1\nloss 0.2\n", "no line is of NCCL"},
		"no communicator":  {"gpu1:41:50 [0] NCCL INFO Using network IB\n", "no communicator is set up"},
		"set-up hangs":     {start, "did not end on all ranks"},
		"one of two hangs": {complete + strings.ReplaceAll(start, "rank 0", "rank 1"), "did not end on all ranks"},
		"unknown warning":  {complete + "gpu1:41:50 [0] x.cc:1 NCCL WARN of a release to come\n", "warned of something"},
		"a failed call":    {complete + "gpu1:41:50 [0] NCCL INFO init.cc:1785 -> 2\n", "init.cc:1785 -> 2"},
		"complete":         {complete, ""},
		"in progress":      {complete + "gpu1:41:50 [0] NCCL INFO init.cc:1785 -> 7\n", ""},
		"retried":          {complete + "gpu1:41:50 [0] NCCL INFO Call to connect returned Connection refused, retrying\n", ""},
	} {
		r := read(t, tt.log)
		if why := r.Undecided(); r.Failed() || (why == "") != (tt.want == "") || !strings.Contains(why, tt.want) {
			t.Errorf("%s: failed %v, undecided %q, expected %q", name, r.Failed(), why, tt.want)
		}
	}
}

// The first failure is the first cause, though its consequences were logged before it.
// TestGroupsWithoutID has two groups that NCCL 2.24 split from a communicator, without commId (from 2.23 on):
// one rank of the second never ends its set-up.
func TestGroupsWithoutID(t *testing.T) {
	var log strings.Builder
	say := func(process, color, rank int, rest string) {
		fmt.Fprintf(&log, "gpu1:%d:1 [0] NCCL INFO ncclCommSplit comm 0x1 rank %d nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 parent 0x2 splitCount 1 color %d key %d%s\n", process, rank, color, rank, rest)
	}
	for p := range 4 {
		say(100+p, p/2, p%2, "- Init START")
	}
	for p := range 3 {
		say(100+p, p/2, p%2, " - Init COMPLETE")
	}
	r, err := Read(strings.NewReader(log.String()))
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Communicators; len(c) != 1 || c[0].Started != 2 || c[0].Complete != 1 || !slices.Equal(c[0].Missing, []int{1}) {
		t.Errorf("%+v", c)
	}
	if u := r.Undecided(); !strings.Contains(u, "did not end on all ranks") {
		t.Errorf("undecided: %q", u)
	}
}

func TestFirst(t *testing.T) {
	r := read(t, complete+`gpu2:9:9 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer gpu1<4000>
[rank0]:[E ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)
gpu1:41:50 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<40123> with error 12, opcode 0, len 0, vendor err 129 (Recv)
gpu1:41:50 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<40123> with error 5, opcode 0, len 0, vendor err 244 (Recv)
`)
	f := r.First()
	if f == nil || f.Signature.ID != "completion_retry_exceeded" || f.Code != 12 || f.Peer != "10.0.0.2<40123>" || f.Host != "gpu1" || f.Rank != 0 || f.Line != 4 {
		t.Errorf("%+v", f)
	}
	if len(r.Findings) != 4 || r.Findings[1].Rank != 0 {
		t.Errorf("%+v", r.Findings)
	}
}

// Whatever a log has, little is kept of it: Lines that all differ take no more than a few MB of memory.
func TestMemoryIsBounded(t *testing.T) {
	const lines = 100_000
	at := 0
	long := strings.Repeat("x", 1<<20) + "\n"
	from := readerFunc(func(p []byte) (int, error) {
		if at == lines {
			return 0, io.EOF
		}
		at++
		if at%4000 == 0 {
			return copy(p, long), nil
		}
		return copy(p, fmt.Sprintf("h%d:%d:%d [0] x.cc:1 NCCL WARN w%d\nh%d:%d:1 [0] NCCL INFO comm 0x1 rank %d nranks %d cudaDev 0 busId 1 commId 0x%d - Init START\n", at, at, at, at, at, at, at%1000, 1000+at%300, at%300)), nil
	})
	r, err := Read(from)
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if len(r.Hosts) > maxHosts || r.Processes > maxProcesses || len(r.Communicators) > maxCommunicators || !r.Full || m.HeapAlloc > 64<<20 {
		t.Errorf("%d hosts, %d processes, %d communicators, full %v, %d MB", len(r.Hosts), r.Processes, len(r.Communicators), r.Full, m.HeapAlloc>>20)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestLongLines(t *testing.T) {
	r := read(t, complete+strings.Repeat("y", 1<<20)+" NCCL WARN Cuda failure\n"+complete)
	if r.Lines != 3 || r.Long != 1 || r.NCCLLines != 2 || r.Failed() {
		t.Errorf("%d lines, %d long, %d of NCCL, failed %v", r.Lines, r.Long, r.NCCLLines, r.Failed())
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(complete))
	f.Add([]byte("gpu1:41:50 [0] x.cc:1 NCCL WARN Got completion from peer \x1b[31m<1> with status=IBV(12) \xff\n"))
	f.Add([]byte("[1.0] NVRM: Xid (PCI:0000:3b:00): 79, pid=1\nnvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal\n"))
	f.Add([]byte("gpu1:1:1 [0] NCCL INFO Init timings - x: rank 0 nranks 2 total 1e309 (kernels NaN)\n\x00\x00a\r\n"))
	f.Fuzz(func(t *testing.T, log []byte) {
		r, err := Read(bytes.NewReader(log))
		if err != nil {
			if !errors.Is(err, ErrNotText) {
				t.Fatal(err)
			}
			return
		}
		texts := append(append([]string{r.Undecided()}, r.Hosts...), r.Versions...)
		for _, f := range r.Findings {
			texts = append(append(texts, f.Text, f.Peer, f.Host), f.Hosts...)
		}
		for _, w := range r.Warnings {
			texts = append(texts, w.Text)
		}
		for _, c := range r.Communicators {
			texts = append(texts, c.ID)
			if c.Complete > c.Started || c.Started > c.Ranks {
				t.Errorf("%+v", c)
			}
		}
		for _, s := range texts {
			if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q is not fit to be printed", s)
			}
		}
	})
}

// BenchmarkRead reads lines as NCCL logs them at the level INFO.
func BenchmarkRead(b *testing.B) {
	var log strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&log, "gpu%d:%d:%d [%d] NCCL INFO Channel %02d/0 : %d[%d] -> %d[%d] [send] via NET/IB/%d/GDRDMA\n", i%16, 4000+i%128, 5000+i, i%8, i%16, i%128, i%8, (i+1)%128, i%8, i%8)
		if i%4 == 0 {
			fmt.Fprintf(&log, "[rank%d]: step %d loss 2.71828 tokens per second 123456 memory 71.3 GiB learning rate 0.0003\n", i%128, i)
		}
	}
	readAgain(b, log.String())
}

// BenchmarkReadWarnings reads the lines that cost most: warnings, all without a signature.
func BenchmarkReadWarnings(b *testing.B) {
	readAgain(b, strings.Repeat("gpu1:41:50 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : something that no release prints, and that no signature is of\n", 4000))
}

// readAgain prints the speed by processor time, too: other processes slow down the clock alone.
func readAgain(b *testing.B, text string) {
	b.SetBytes(int64(len(text)))
	before := processorTime(b)
	for b.Loop() {
		if _, err := Read(strings.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(text))*float64(b.N)/1e6/(processorTime(b)-before), "MB/core-s")
}

// processorTime is that of this process, in seconds.
func processorTime(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// No line takes many times as long as one of NCCL with as many bytes: empty ones did, and the set-up of many
// communicators.
func TestHostileLines(t *testing.T) {
	took := func(log string) float64 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		least := time.Hour
		for range 5 {
			begun := processor()
			read(t, log)
			least = min(least, processor()-begun)
		}
		return float64(least) / float64(len(log))
	}
	setups := func(communicators int) string {
		var b strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&b, "h:1:1 NCCL INFO rank 0 nranks 2 commId %d Init START\n", 1000+i%communicators)
		}
		return b.String()
	}
	if one, many := took(setups(1)), took(setups(300)); many > 4*one {
		t.Errorf("300 communicators take %.1f times as long as one, expected at most 4", many/one)
	}
	failed := warn("misc/socket.cc:7", "socketPollConnect: connect to 10.9.8.7<4711> returned Connection refused, exceeded error retry count after 34 attempts")
	usual := took(strings.Repeat("gpu1:41:50 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n", 4000))
	for name, log := range map[string]string{"empty": strings.Repeat("\n", 1<<18), "short": strings.Repeat("x\r\n", 1<<17), "failed": strings.Repeat(failed, 1000)} {
		if cost := took(log) / usual; cost > 10 {
			t.Errorf("%s: %.1f times as long as lines of NCCL, expected at most 10", name, cost)
		}
	}
}

// processor is the processor time of the calling thread, which other processes do not increase.
func processor() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

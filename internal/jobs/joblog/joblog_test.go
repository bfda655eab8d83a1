// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/owned"
)

const (
	retryExceeded = "gpu1:41:50 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<40123> with error 12, opcode 0, len 0, vendor err 129 (Recv)\n"
	watchdog      = "[rank0]:[E ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)\n"
	overGDR       = "gpu1:41:50 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
	overTCP       = "gpu1:41:50 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0\n"
)

// site is a folder with logs, and a reader of them.
type site struct {
	t      *testing.T
	folder string
	files  []Pattern
	owners owned.Owners
	reader *Reader
	now    time.Time
}

func start(t *testing.T, pattern string) *site {
	t.Helper()
	s := &site{t: t, folder: t.TempDir(), now: time.Now()}
	p, err := ParsePattern(filepath.Join(s.folder, pattern))
	if err != nil {
		t.Fatal(err)
	}
	s.files = []Pattern{p}
	s.reader = s.another()
	return s
}

// another is a reader of the same files, as after a reload.
func (s *site) another() *Reader { return New(s.files, &s.owners) }

func (s *site) path(name string) string { return filepath.Join(s.folder, name) }

func (s *site) append(name, text string) {
	s.t.Helper()
	f, err := os.OpenFile(s.path(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) do(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) read() fabric.LogReading {
	s.t.Helper()
	v, err := s.reader.Read(s.now)
	s.do(err)
	return v
}

// expect reads, and compares the numbers of lines by signature: "id 1, other 2".
func (s *site) expect(what string, want map[string]uint64) fabric.LogReading {
	s.t.Helper()
	v := s.read()
	got := map[string]uint64{}
	for _, f := range v.Failures {
		got[f.ID] = f.Count
		if !f.Last.Equal(s.now) {
			s.t.Errorf("%s: %s was seen at %v", what, f.ID, f.Last)
		}
	}
	if !maps.Equal(got, want) {
		s.t.Errorf("%s: %v, expected %v", what, got, want)
	}
	return v
}

func count(id string, n uint64) map[string]uint64 { return map[string]uint64{id: n} }

const (
	retries = "completion_retry_exceeded"
	timeout = "pytorch_watchdog_timeout"
)

// What is written while the exporter looks counts once, whole lines only; what was there before does not.
func TestFollows(t *testing.T) {
	s := start(t, "*.log")
	s.append("old.log", overGDR+retryExceeded)
	if v := s.expect("the past", map[string]uint64{}); len(v.Files) != 1 || v.Files[0].Transport != fabric.LogGDR {
		t.Errorf("%+v", v.Files)
	}
	s.append("old.log", retryExceeded)
	s.expect("appended", count(retries, 1))
	s.expect("unchanged", count(retries, 1))
	s.append("old.log", retryExceeded[:60])
	s.expect("half a line", count(retries, 1))
	s.append("old.log", retryExceeded[60:])
	s.expect("the other half", count(retries, 2))
	s.append("new.log", overTCP+retryExceeded+watchdog)
	v := s.expect("a new file from its beginning", map[string]uint64{retries: 3, timeout: 1})
	if len(v.Files) != 2 || !strings.Contains(fmt.Sprint(v.Files), "tcp") {
		t.Errorf("%+v", v.Files)
	}
	s.do(os.Remove(s.path("new.log")))
	if v := s.expect("removed", map[string]uint64{retries: 3, timeout: 1}); len(v.Files) != 1 || len(s.reader.files) != 1 {
		t.Errorf("%+v", v.Files)
	}
}

// NCCL logs its network in jobs of one host, too: it is the transport between nodes only where there are several.
func TestNetworkWithoutConnections(t *testing.T) {
	const info = "gpu1:41:50 [0] NCCL INFO "
	shape := func(nodes, mnnvl int) string {
		return fmt.Sprintf(info+"comm 0x55d0 rank 0 nRanks 16 nNodes %d localRanks 8 localRank 0 MNNVL %d\n", nodes, mnnvl)
	}
	const socket, verbs = info + "Using network Socket\n", info + "Using network IB\n"
	const local = info + "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
	const done = info + "ncclCommInitRank comm 0x55d0 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1 - Init COMPLETE\n"
	for name, c := range map[string]struct {
		log  string
		want fabric.LogTransport
	}{
		"one host, sockets":             {socket + shape(1, 0) + local + done, fabric.LogUnknown},
		"one host, verbs":               {verbs + shape(1, 0) + local + done, fabric.LogUnknown},
		"two hosts, sockets":            {socket + shape(2, 0) + local + done, fabric.LogTCP},
		"two hosts, verbs":              {verbs + shape(2, 0) + done, fabric.LogRDMA},
		"two hosts, a plugin":           {info + "Using network AWS Libfabric\n" + shape(2, 0), fabric.LogOther},
		"NVLink between hosts":          {socket + shape(2, 1) + local + done, fabric.LogUnknown},
		"hosts not logged":              {socket + local + done, fabric.LogUnknown},
		"hosts not logged, connections": {socket + overTCP + done, fabric.LogTCP},
		"a part of the job":             {socket + shape(2, 0) + shape(1, 0) + done, fabric.LogTCP},
	} {
		s := start(t, "*.log")
		s.append("a.log", c.log)
		if v := s.read(); len(v.Files) != 1 || v.Files[0].Transport != c.want {
			t.Errorf("%s: %+v, expected %s", name, v.Files, c.want)
		}
	}
}

// A warning that no row has counts when its thread fails, what PyTorch quotes of NCCL as NCCL's, and an exception
// as one of the program, wherever reads begin and end.
func TestEvents(t *testing.T) {
	s := start(t, "*.log")
	s.read()
	s.append("a.log", "gpu1:7:70 [0] x.cc:1 NCCL WARN of a plugin\n")
	s.expect("a warning", map[string]uint64{})
	s.append("a.log", "gpu1:7:71 [0] NCCL INFO init.cc:7 -> 2\n[rank3]: Last error:\n")
	s.expect("another thread", map[string]uint64{})
	s.append("a.log", "gpu1:7:70 [0] NCCL INFO init.cc:7 -> 2\n[rank3]: Duplicate GPU detected : rank 1\n")
	s.expect("its thread", map[string]uint64{"warning_unknown": 1, "duplicate_gpu": 1})
	s.append("a.log", "Traceback (most recent call last):\n  File x\nKeyError: y\n")
	s.expect("an exception", map[string]uint64{"warning_unknown": 1, "duplicate_gpu": 1, "program_exception": 1})
}

// A log that is rotated goes on under its new name and begins again under the old one; one that is truncated
// begins again.
func TestRotation(t *testing.T) {
	s := start(t, "*.log*")
	s.append("a.log", retryExceeded)
	s.expect("the past", map[string]uint64{})
	s.append("a.log", retryExceeded)
	s.do(os.Rename(s.path("a.log"), s.path("a.log.1")))
	s.append("a.log", watchdog)
	s.expect("rotated", map[string]uint64{retries: 1, timeout: 1})
	s.do(os.Truncate(s.path("a.log"), 0))
	s.expect("truncated", map[string]uint64{retries: 1, timeout: 1})
	s.append("a.log", retryExceeded)
	s.expect("and written again", map[string]uint64{retries: 2, timeout: 1})
	s.append("b.log", strings.Repeat("x", 1000)+"\n")
	s.expect("other text", map[string]uint64{retries: 2, timeout: 1})
	s.do(os.Truncate(s.path("b.log"), 0))
	s.append("b.log", retryExceeded)
	s.expect("truncated and written before it was looked at", map[string]uint64{retries: 3, timeout: 1})
}

// Files that are no logs of this node are left alone, and counted.
func TestRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(s *site)
		want  fabric.Refusal
	}{
		"link": {func(s *site) {
			s.append("target", retryExceeded)
			s.do(os.Symlink(s.path("target"), s.path("job/a.log")))
		}, fabric.RefusedNotRegular},
		"FIFO":          {func(s *site) { s.do(syscall.Mkfifo(s.path("job/a.log"), 0o600)) }, fabric.RefusedNotRegular},
		"several names": {func(s *site) { s.append("target", retryExceeded); s.do(os.Link(s.path("target"), s.path("job/a.log"))) }, fabric.RefusedNotRegular},
		"folder":        {func(s *site) { s.do(os.Mkdir(s.path("job/a.log"), 0o700)) }, ""},
		"linked folder": {func(s *site) { s.do(os.Symlink("/etc", s.path("job2"))) }, ""},
		"too many names": {func(s *site) {
			for i := range 2048 {
				s.append(fmt.Sprintf("job/%d", i), "")
			}
		}, fabric.RefusedTooMany},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, "job*/*.log")
			s.do(os.Mkdir(s.path("job"), 0o700))
			s.expect("nothing", map[string]uint64{})
			c.plant(s)
			want := map[fabric.Refusal]int{}
			if c.want != "" {
				want[c.want] = 1
			}
			if v := s.expect("planted", map[string]uint64{}); len(v.Files) > 0 || !maps.Equal(v.Refused, want) {
				t.Errorf("%+v, refused %v, expected %v", v.Files, v.Refused, want)
			}
		})
	}
}

// Of many files those that were written last are read, and old ones not at all.
func TestManyFiles(t *testing.T) {
	s := start(t, "*.log")
	old := s.now.Add(-staleAfter - time.Second)
	for i := range maxFiles + 3 {
		s.append(fmt.Sprintf("new%d.log", i), "")
		s.append(fmt.Sprintf("old%d.log", i), retryExceeded)
		s.do(os.Chtimes(s.path(fmt.Sprintf("old%d.log", i)), old, old))
	}
	if v := s.expect("many", map[string]uint64{}); len(v.Files) != maxFiles || v.Refused[fabric.RefusedTooMany] != 3 {
		t.Errorf("%d files, refused %v", len(v.Files), v.Refused)
	}
	s.append("old1.log", watchdog)
	s.expect("an old one that is written again, of which the past does not count", count(timeout, 1))
}

// Lines of any length, with any bytes, cost no more than their beginning; a failure in what follows is found.
func TestOddLines(t *testing.T) {
	s := start(t, "*.log")
	s.expect("nothing", map[string]uint64{})
	s.append("a.log", strings.Repeat("x", 1<<20)+retryExceeded+retryExceeded)
	s.expect("a line of 1 MiB hides what is at its end", count(retries, 1))
	s.append("a.log", strings.Repeat("\x00", 5000)+"\n\x1b[31m"+retryExceeded+"\xff\xfe\x00\n")
	s.expect("control characters", count(retries, 2))
	s.append("a.log", strings.Repeat("y", 3*piece))
	s.expect("a line without an end", count(retries, 2))
	s.append("a.log", "\n"+retryExceeded)
	s.expect("which ends", count(retries, 3))
	s.append("a.log", "[1.5] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n")
	s.expect("anyone can write messages of the kernel into a log", count(retries, 3))
}

// A file that grows by gigabytes is skipped, all but its end, and one call reads no more than it may.
func TestGrowsFast(t *testing.T) {
	s := start(t, "*.log")
	s.expect("nothing", map[string]uint64{})
	const size = 4 << 30
	s.append("a.log", retryExceeded)
	s.do(os.Truncate(s.path("a.log"), size)) // sparse
	s.append("a.log", "\n"+retryExceeded)
	v := s.expect("the end only", count(retries, 1))
	if v.Skipped < size-2*keepBytes {
		t.Errorf("skipped %d of %d bytes", v.Skipped, size)
	}
	line := strings.Repeat("x", 1023) + "\n"
	s.append("b.log", strings.Repeat(line, 3*maxRead/len(line))+retryExceeded)
	for i := range 8 {
		v = s.read()
		if v.Failures.Of(retries).Count == 2 {
			if i == 0 {
				t.Error("read all at once")
			}
			return
		}
	}
	t.Errorf("did not come to the end: %+v", v.Failures)
}

func TestPatterns(t *testing.T) {
	for s, ok := range map[string]bool{
		"/var/log/nccl.log": true, "/var/log/jobs/*/nccl*.log": true, "/var/log/[a-z]/x?": true, "/scratch/*": true,
		"": false, "/": false, "nccl.log": false, "/*/nccl.log": false, "/var/log/../x": false, "/var/log/[": false, "/var/**/x": false, "/v" + strings.Repeat("/*", maxDepth+1): false,
	} {
		if _, err := ParsePattern(s); (err == nil) != ok {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// What is said to be unused was logged so.
func TestOffloads(t *testing.T) {
	const (
		can     = "NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)"
		none    = "24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 4 p2p channels per peer"
		some    = "24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels, 4 p2p channels per peer"
		net     = "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA"
		proxied = "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0(3)/GDRDMA(PCI)"
		direct  = "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA(PCI)"
		asked   = "NCCL_COLLNET_ENABLE set by environment to 1."
		made    = "ncclCommInitRank comm 0x1 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x7d - Init COMPLETE"
	)
	for name, c := range map[string]struct {
		lines []string
		want  fabric.Offloads
	}{
		"nothing said":       {nil, fabric.Offloads{}},
		"NVLS used":          {[]string{can, none, some}, fabric.Offloads{NVLS: fabric.OffloadUsed}},
		"NVLS unused":        {[]string{can, none}, fabric.Offloads{NVLS: fabric.OffloadUnused}},
		"NVLS not available": {[]string{strings.Replace(can, "is available", "is not available", 1), none}, fabric.Offloads{}},
		"NVLS not said":      {[]string{none}, fabric.Offloads{}},
		"NVLS of 2.20":       {[]string{"NCCL version 2.20.5+cuda12.4", can, some}, fabric.Offloads{}},
		"NVLS not wanted":    {[]string{"NCCL_ALGO set by environment to Ring", can, some}, fabric.Offloads{}},
		"NVLS off":           {[]string{"NCCL_NVLS_ENABLE set by environment to 0.", none}, fabric.Offloads{NVLS: fabric.OffloadOff}},
		"SHARP used":         {[]string{asked, net, made, "rank 0 Connected CollNet"}, fabric.Offloads{SHARP: fabric.OffloadUsed}},
		"SHARP unused":       {[]string{asked, net, made}, fabric.Offloads{SHARP: fabric.OffloadUnused}},
		"SHARP, few nodes":   {[]string{asked, "NCCL_COLLNET_NODE_THRESHOLD set by environment to 64.", net, made}, fabric.Offloads{}},
		"SHARP, one node":    {[]string{asked, made}, fabric.Offloads{}},
		"SHARP not asked":    {[]string{net, made}, fabric.Offloads{}},
		"PXN used":           {[]string{proxied}, fabric.Offloads{PXN: fabric.OffloadUsed}},
		"PXN not needed":     {[]string{direct}, fabric.Offloads{}},
		"PXN in rings":       {[]string{"Connected all rings, use ring PXN 1 GDR 1"}, fabric.Offloads{PXN: fabric.OffloadUsed}},
		"PXN off":            {[]string{"NCCL_PXN_DISABLE set by environment to 1.", net}, fabric.Offloads{PXN: fabric.OffloadOff}},
		"PXN off, one node":  {[]string{"NCCL_PXN_DISABLE set by environment to 1.", made}, fabric.Offloads{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, "*.log")
			s.expect("nothing", map[string]uint64{})
			for _, l := range c.lines {
				s.append("a.log", "gpu1:41:50 [0] NCCL INFO "+l+"\n")
				s.read()
			}
			s.append("a.log", "x\n")
			if v := s.read(); len(v.Files) != 1 || v.Files[0].Offloads != c.want {
				t.Errorf("%+v, expected %+v", v.Files, c.want)
			}
		})
	}
}

func never() bool { return false }

func partOf(text []byte, share int64, buffer []byte, failed func(string)) *part {
	return &part{in: strings.NewReader(string(text)), share: share, buffer: buffer, enough: never, failed: failed}
}

// Whatever is in a file, in whatever pieces it comes: bounded state, only known failures.
func FuzzFollow(f *testing.F) {
	f.Add([]byte(overGDR+retryExceeded), []byte(watchdog))
	f.Add([]byte("\x00\n\n"), []byte(strings.Repeat("NCCL WARN ", 600)))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		s := file{}
		all := append(append([]byte{}, one...), two...)
		whole, pieces := 0, 0
		buffer := make([]byte, piece)
		if _, err := s.read(partOf(one, maxRead, buffer, func(string) { pieces++ }), int64(len(one))); err != nil {
			t.Fatal(err)
		}
		if _, err := s.read(partOf(all, maxRead, buffer, func(string) { pieces++ }), int64(len(all))); err != nil {
			t.Fatal(err)
		}
		other := file{}
		if _, err := other.read(partOf(all, maxRead, buffer, func(string) { whole++ }), int64(len(all))); err != nil {
			t.Fatal(err)
		}
		if whole != pieces || s.from != other.from || s.from > int64(len(all)) {
			t.Errorf("%d failures in pieces, %d as a whole; at %d and %d of %d", pieces, whole, s.from, other.from, len(all))
		}
	})
}

// BenchmarkFollow reads a log as NCCL writes it with NCCL_DEBUG=INFO, with other output between.
func BenchmarkFollow(b *testing.B) {
	text := []byte(strings.Repeat(strings.Repeat(overGDR, 20)+"step 100 loss 2.31 tokens/s 123456 grad_norm 0.41\n"+watchdog+retryExceeded, 500))
	in := strings.NewReader(string(text))
	buffer := make([]byte, piece)
	b.SetBytes(int64(len(text)))
	before := processorTime(b)
	for b.Loop() {
		s := file{}
		n := 0
		if _, err := s.read(&part{in: in, share: int64(len(text)), buffer: buffer, enough: never, failed: func(string) { n++ }}, int64(len(text))); err != nil || n != 1000 {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(len(text))*float64(b.N)/1e6/(processorTime(b)-before), "MB/core-s")
}

// processorTime is that of this process, in seconds. Other processes slow down the clock alone.
func processorTime(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// The longest set-up of any communicator is kept, also when it was before the exporter started.
func TestSetup(t *testing.T) {
	const timings = "gpu1:41:50 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 16 total %s (kernels 0.20, bootstrap 1.00, rest 0.30)\n"
	s := start(t, "*.log")
	s.append("a.log", fmt.Sprintf(timings, "90.50"))
	s.append("b.log", overGDR)
	took := func(what string, want ...time.Duration) {
		t.Helper()
		var got []time.Duration
		for _, f := range s.read().Files {
			got = append(got, f.Setup)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %v, expected %v", what, got, want)
		}
	}
	took("the past", 0, 90*time.Second+500*time.Millisecond)
	s.append("a.log", fmt.Sprintf(timings, "2.00"))
	s.append("b.log", fmt.Sprintf(timings, "1e300"))
	took("a shorter one, and one that cannot be", 0, 90*time.Second+500*time.Millisecond)
	s.append("b.log", fmt.Sprintf(timings, "1047.00"))
	took("a longer one", 90*time.Second+500*time.Millisecond, 1047*time.Second)
}

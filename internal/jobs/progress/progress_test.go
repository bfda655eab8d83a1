// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
)

// answer is what RAS reports about one communicator whose ranks have launched this many collectives.
func answer(launched ...uint64) fabric.RASAnswer {
	c := fabric.RASCommunicator{ID: "1f-2-3", Size: len(launched), Complete: true}
	for i, n := range launched {
		c.Ranks = append(c.Ranks, fabric.RASRank{RASPlace: fabric.RASPlace{Rank: i, PID: 4000 + i}, Operations: n, Counted: true})
		c.Spread.Add(n)
	}
	return fabric.RASAnswer{Version: "2.30.7", Communicators: []fabric.RASCommunicator{c}}
}

func with(a fabric.RASAnswer, change func(c *fabric.RASCommunicator)) fabric.RASAnswer {
	a.Communicators = slices.Clone(a.Communicators)
	c := &a.Communicators[0]
	c.Ranks = slices.Clone(c.Ranks)
	change(c)
	return a
}

// lose makes a rank missing.
func lose(a fabric.RASAnswer, rank int, dead bool) fabric.RASAnswer {
	return with(a, func(c *fabric.RASCommunicator) {
		c.Ranks = slices.DeleteFunc(c.Ranks, func(r fabric.RASRank) bool { return r.Rank == rank })
		c.Missing = append(c.Missing, fabric.RASMissing{RASPlace: fabric.RASPlace{Rank: rank}, Unresponsive: true, Dead: dead})
		c.MissingCount++
	})
}

// together is a job of communicators, each with the answers of one.
func together(of ...fabric.RASAnswer) fabric.RASAnswer {
	a := fabric.RASAnswer{}
	for i, o := range of {
		c := o.Communicators[0]
		c.ID = fmt.Sprintf("%x-2-3", i+1)
		a.Communicators = append(a.Communicators, c)
	}
	return a
}

// The verdict on planted states, and after how many answers it is given.
func TestVerdicts(t *testing.T) {
	fail := func(c *fabric.RASCommunicator) { c.Ranks[2].AsyncError, c.FailedCount = 6, 1 }
	begin := func(c *fabric.RASCommunicator) { c.Ranks[1].InitState = 7 }
	end := func(c *fabric.RASCommunicator) { c.Ranks[1].Ending = true }
	moving := func(n uint64) fabric.RASAnswer { return answer(n, n, n+3, n) }
	for _, c := range []struct {
		planted   string
		answers   []fabric.RASAnswer
		gpus      Activity
		want      State
		confirmed bool
		ranks     []int // named
		polls     int   // after which it is the verdict
	}{
		{"healthy", []fabric.RASAnswer{moving(10), moving(40), moving(70)}, GPUsBusy, Moving, true, nil, 3},
		{"one launch ahead", []fabric.RASAnswer{answer(9, 9, 9, 10), answer(19, 19, 20, 19), answer(30, 29, 29, 29)}, GPUsBusy, Moving, true, nil, 3},
		{"ahead in turns", []fabric.RASAnswer{answer(5, 9, 9, 9), answer(20, 15, 20, 20), answer(30, 30, 25, 30)}, GPUsBusy, Moving, true, nil, 3},
		{"straggler", []fabric.RASAnswer{answer(10, 10, 5, 10), answer(40, 40, 35, 40), answer(70, 70, 62, 70)}, GPUsBusy, Straggler, true, []int{2}, 3},
		{"straggler of two", []fabric.RASAnswer{answer(10, 5), answer(40, 35), answer(70, 62)}, GPUsBusy, Straggler, true, []int{1}, 3},
		{"recovered", []fabric.RASAnswer{answer(10, 10, 5, 10), answer(40, 40, 35, 40), answer(70, 70, 70, 70)}, GPUsBusy, Moving, true, nil, 3},
		{"stuck while others run ahead", []fabric.RASAnswer{answer(10, 10, 5, 10), answer(20, 20, 5, 20), answer(30, 30, 5, 30)}, GPUsBusy, Stalled, true, []int{2}, 3},
		{"hang, one rank behind", []fabric.RASAnswer{answer(10, 10, 9, 10), answer(10, 10, 9, 10), answer(10, 10, 9, 10)}, ActivityUnknown, Hang, true, []int{2}, 3},
		{"hang in a collective", []fabric.RASAnswer{answer(10, 10), answer(10, 10), answer(10, 10)}, GPUsBusy, Hang, false, nil, 3},
		{"idle", []fabric.RASAnswer{answer(10, 10), answer(10, 10), answer(10, 10)}, GPUsIdle, Idle, true, nil, 3},
		{"still, GPUs unknown", []fabric.RASAnswer{answer(10, 10), answer(10, 10), answer(10, 10)}, ActivityUnknown, Unknown, true, nil, 1},
		{"slow step", []fabric.RASAnswer{answer(10, 10), answer(10, 10), answer(11, 11)}, GPUsBusy, Moving, true, nil, 3},
		{"one communicator unused", []fabric.RASAnswer{together(moving(1), answer(3, 3)), together(moving(9), answer(3, 3)), together(moving(20), answer(3, 3))}, GPUsBusy, Moving, true, nil, 3},
		{"one communicator apart", []fabric.RASAnswer{together(moving(1), answer(3, 2)), together(moving(9), answer(3, 2)), together(moving(20), answer(3, 2))}, GPUsBusy, Stalled, true, []int{1}, 3},
		{"new communicator", []fabric.RASAnswer{moving(1), moving(9), together(moving(20), answer(1, 1))}, GPUsBusy, Unknown, true, nil, 1},
		{"rank missing", []fabric.RASAnswer{lose(moving(1), 3, false), lose(moving(9), 3, false), lose(moving(20), 3, false)}, GPUsBusy, Missing, true, []int{3}, 3},
		{"rank missing once", []fabric.RASAnswer{lose(moving(1), 3, false), moving(9), moving(20)}, GPUsBusy, Unknown, true, nil, 1},
		{"rank missing since now", []fabric.RASAnswer{moving(1), moving(9), lose(moving(20), 3, false)}, GPUsBusy, Unknown, true, nil, 1},
		{"rank dead", []fabric.RASAnswer{lose(moving(1), 3, true)}, GPUsBusy, Dead, true, []int{3}, 1},
		{"asynchronous error", []fabric.RASAnswer{with(moving(1), fail)}, GPUsBusy, Failed, true, []int{2}, 1},
		{"initialising", []fabric.RASAnswer{with(moving(1), begin)}, GPUsBusy, Starting, true, nil, 1},
		{"ending", []fabric.RASAnswer{moving(1), moving(9), with(moving(9), end)}, GPUsBusy, Ending, true, nil, 3},
		{"counts restarted", []fabric.RASAnswer{answer(50, 50), answer(60, 60), answer(1, 1)}, GPUsBusy, Unknown, true, nil, 1},
		{"text report", []fabric.RASAnswer{{Communicators: []fabric.RASCommunicator{{Size: 8}}}}, GPUsBusy, Unknown, true, nil, 1},
		{"no communicator", []fabric.RASAnswer{{}}, GPUsBusy, Unknown, true, nil, 1},
		{"nothing", nil, GPUsBusy, Unknown, false, nil, 0},
	} {
		r := Judge(c.answers, c.gpus)
		if r.State != c.want || r.Confirmed != c.confirmed && c.answers != nil {
			t.Errorf("%s: %+v, expected %s", c.planted, r, c.want)
		}
		var named []int
		if len(r.Bad) > 0 {
			for _, p := range r.Bad[0].Ranks {
				named = append(named, p.Rank)
			}
		}
		if !slices.Equal(named, c.ranks) {
			t.Errorf("%s: ranks %v, expected %v", c.planted, named, c.ranks)
		}
		for n := 1; n < c.polls; n++ {
			if early := Judge(c.answers[:n], c.gpus); early.State == c.want {
				t.Errorf("%s: %s after %d answers already", c.planted, c.want, n)
			}
		}
	}
}

// A text report has no ranks where all is well, and says little where it is not; what it says counts.
func TestVerdictsOnText(t *testing.T) {
	text := fabric.RASAnswer{Communicators: []fabric.RASCommunicator{{ID: "1f", Size: 8, MissingCount: 3}}}
	if r := Judge([]fabric.RASAnswer{text, text, text}, GPUsBusy); r.State != Missing || r.Bad[0].Count != 3 {
		t.Errorf("missing: %+v", r)
	}
	dead := fabric.RASAnswer{DeadProcesses: 1, Communicators: []fabric.RASCommunicator{{Size: 8}}}
	if r := Judge([]fabric.RASAnswer{dead}, GPUsBusy); r.State != Dead {
		t.Errorf("dead: %+v", r)
	}
}

func TestRefusedReleases(t *testing.T) {
	for v, want := range map[string]string{
		"2.22.3": "no RAS", "2.24.3": "1669", "2.26.2": "1669", "2.27.3": "1762", "2.27.7": "1762", "2.28.9": "1762", "2.29.2": "", "2.29.3": "", "2.29.7": "2346",
		"2.29": "not known in full", "2.30.3": "", "2.30.7": "", "2.31.1": "",
	} {
		parsed, err := fabric.ParseNCCLVersion(v)
		if err != nil {
			t.Fatal(err)
		}
		if why := Refused(parsed, true); (why == "") != (want == "") || !strings.Contains(why, want) {
			t.Errorf("%s: %q, expected %q", v, why, want)
		}
	}
}

// The table in the documentation has the releases that are refused, with their issues.
func TestRefusedDocument(t *testing.T) {
	document, err := os.ReadFile("../../../docs/JOBS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range refused() {
		i := strings.Index(string(document), "| "+r.why+" | ")
		if i < 0 {
			t.Errorf("docs/JOBS.md lacks %q", r.why)
			continue
		}
		if line, _, _ := strings.Cut(string(document[i:]), "\n"); !strings.Contains(line, r.issue) {
			t.Errorf("docs/JOBS.md lacks %s: %s", r.issue, line)
		}
	}
	for _, s := range States() {
		if !strings.Contains(string(document), "`"+string(s)+"`") {
			t.Errorf("docs/JOBS.md lacks the state %s", s)
		}
	}
}

func TestPace(t *testing.T) {
	other := errors.New("no complete answer")
	for name, c := range map[string]struct {
		outcomes []error
		wait     time.Duration
		again    bool
	}{
		"answers":        {[]error{nil, nil}, Interval, true},
		"failure":        {[]error{nil, other}, 2 * Interval, true},
		"two failures":   {[]error{other, other}, 4 * Interval, true},
		"three failures": {[]error{other, other, other}, 0, false},
		"recovered":      {[]error{other, other, nil}, Interval, true},
		"ended":          {[]error{fmt.Errorf("RAS: %w", fabric.ErrRASEnded)}, 0, false},
		"ended for ever": {[]error{fabric.ErrRASEnded, nil}, 0, false},
	} {
		var p Pace
		var wait time.Duration
		var again bool
		for _, err := range c.outcomes {
			wait, again = p.After(err)
		}
		if wait != c.wait || again != c.again {
			t.Errorf("%s: %s, %t", name, wait, again)
		}
	}
}

// node is a node with ranks 0 and 1 of a job, which may be asked.
func node() (*fabric.Node, *job.Job) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	n := &fabric.Node{At: now}
	n.Host.BootTime = fabric.Known(now.Add(-time.Hour), "", now)
	j := &job.Job{Name: "slurm/7"}
	var list []fabric.RankCandidate
	for i := range 2 {
		list = append(list, fabric.RankCandidate{
			PID: 4000 + i, Start: 100 * 60, NetNS: fabric.Known(uint64(7), "", now),
			Maps:    fabric.Known(fabric.MappedFiles{NCCL: "/lib/libnccl.so.2", Version: "2.30.7"}, "", now),
			Sockets: fabric.Known([]fabric.Socket{{Listening: true, Local: netip.MustParseAddrPort("127.0.0.1:28028")}}, "", now),
		})
		j.Ranks = append(j.Ranks, job.Rank{PID: 4000 + i, Rank: i})
	}
	n.Ranks = fabric.Known(list, "", now)
	return n, j
}

// A process is asked only if all that matters is known and harmless.
func TestTarget(t *testing.T) {
	at := time.Time{}
	type state struct {
		node  *fabric.Node
		job   *job.Job
		first *fabric.RankCandidate
		other *fabric.RankCandidate
	}
	for name, c := range map[string]struct {
		change func(s state)
		want   string // in the refusal; empty: it may be asked
	}{
		"as it should be":   {func(state) {}, ""},
		"ranks not stated":  {func(s state) { s.job.Ranks[0].Rank, s.job.Ranks[1].Rank = -1, -1 }, ""},
		"rank 0 elsewhere":  {func(s state) { s.job.Ranks[0].Rank, s.job.Ranks[1].Rank = 8, 9 }, "on the node of rank 0"},
		"unreadable":        {func(s state) { s.node.Ranks.State = fabric.Unknown }, "could not be read"},
		"ended":             {func(s state) { s.job.Ranks = []job.Rank{{PID: 1}} }, "none of its ranks is left"},
		"pod":               {func(s state) { s.first.NetNS.Value = 8 }, "of a pod"},
		"namespace unknown": {func(s state) { s.first.NetNS = fabric.UnknownFact[uint64](fabric.ReasonPrivilege, "", at) }, "network namespace is not known"},
		"no listener":       {func(s state) { s.first.Sockets.Value = nil }, "not seen to listen"},
		"another port":      {func(s state) { s.first.Sockets.Value[0].Local = netip.MustParseAddrPort("127.0.0.1:9") }, "not seen to listen"},
		"another address":   {func(s state) { s.first.Sockets.Value[0].Local = netip.MustParseAddrPort("10.0.0.1:28028") }, "not seen to listen"},
		"all addresses":     {func(s state) { s.first.Sockets.Value[0].Local = netip.MustParseAddrPort("0.0.0.0:28028") }, ""},
		"sockets unknown":   {func(s state) { s.other.Sockets.State = fabric.Unknown }, "too, is not known"},
		"job of another user": {func(s state) {
			s.job.Ranks = s.job.Ranks[:1]
			s.first.User, s.first.Limits = 1001, fabric.Known(fabric.ProcessLimits{}, "", time.Time{})
			s.other.User, s.other.Limits = 1002, s.first.Limits
		}, ""},
		"processes of another user that are not read": {func(s state) {
			s.job.Ranks = s.job.Ranks[:1]
			s.first.User, s.first.Limits = 1001, fabric.Known(fabric.ProcessLimits{}, "", time.Time{})
			*s.other = fabric.RankCandidate{PID: 4001, Start: 6000, User: 1002, UserKnown: true, Left: true}
		}, ""},
		"processes of the same user that are not read": {func(s state) {
			s.job.Ranks = s.job.Ranks[:1]
			s.first.User, s.first.Limits = 1001, fabric.Known(fabric.ProcessLimits{}, "", time.Time{})
			*s.other = fabric.RankCandidate{PID: 4001, Start: 6000, User: 1001, UserKnown: true, Left: true}
		}, "too, is not known"},
		"same user": {func(s state) {
			s.job.Ranks = s.job.Ranks[:1]
			s.first.Limits = fabric.Known(fabric.ProcessLimits{}, "", time.Time{})
			s.other.Limits = s.first.Limits
		}, "of another job listens"},
		"another job":         {func(s state) { s.job.Ranks = s.job.Ranks[:1] }, "of another job listens"},
		"young":               {func(s state) { s.first.Start = 100 * 3500 }, "younger than 10m"},
		"other rank is young": {func(s state) { s.other.Start = 100 * 3500 }, "younger than 10m"},
		"age unknown":         {func(s state) { s.node.Host.BootTime.State = fabric.Unknown }, "age of its processes"},
		"version refused":     {func(s state) { s.first.Maps.Value.Version = "2.29.7" }, "/2346"},
		"of the other rank":   {func(s state) { s.other.Maps.Value.Version = "2.27.5" }, "/1762"},
		"version unknown":     {func(s state) { s.first.Maps.Value.Version = "" }, "version of NCCL of PID 4000"},
		"pod of another job":  {func(s state) { s.other.NetNS.Value, s.other.Maps.Value.Version = 8, "2.26.2" }, ""},
	} {
		n, j := node()
		c.change(state{n, j, &n.Ranks.Value[0], &n.Ranks.Value[1]})
		ask := Asker{NetNS: 7, ByHand: true, Version: func(c *fabric.RankCandidate) string { return c.Maps.Value.Version }}
		target, err := ask.Choose(n, j)
		switch {
		case c.want == "" && (err != nil || target.PID != 4000 || target.Version.String() != "2.30.7" || target.Addr != netip.MustParseAddrPort("127.0.0.1:28028")):
			t.Errorf("%s: %+v, %v", name, target, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, expected %q", name, err, c.want)
		}
	}
}

// An answer with as many missing ranks as fit into it is judged about as fast as they are counted. It took
// the square of their number, which is 500 times as long.
func TestManyMissing(t *testing.T) {
	const ranks = 16_000
	c := fabric.RASCommunicator{ID: "1-2-3", Size: ranks, Complete: true, MissingCount: ranks}
	for i := range ranks {
		c.Missing = append(c.Missing, fabric.RASMissing{RASPlace: fabric.RASPlace{Rank: i}, Unresponsive: true})
	}
	answer := fabric.RASAnswer{Communicators: []fabric.RASCommunicator{c}}
	least := func(call func()) time.Duration {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		best := time.Hour
		for range 5 {
			begun := processor()
			call()
			best = min(best, processor()-begun)
		}
		return best
	}
	counted := least(func() { count(&answer) })
	judged := least(func() {
		if r := Judge([]fabric.RASAnswer{answer, answer, answer}, GPUsBusy); r.State != Missing || r.Bad[0].Count != ranks {
			t.Fatalf("%+v", r)
		}
	})
	if judged > 20*counted {
		t.Errorf("judged in %s, and counted in %s", judged, counted)
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

// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
)

// A rank counts once, in however many communicators it is missing, unless RAS does not say which process it is.
func TestRanksCount(t *testing.T) {
	place := func(rank int) fabric.RASPlace {
		return fabric.RASPlace{Rank: rank, Host: netip.MustParseAddr("10.0.0.2"), PID: 4000 + rank, GPU: 1}
	}
	lost := func(at fabric.RASPlace, dead bool) fabric.RASCommunicator {
		return fabric.RASCommunicator{Size: 8, MissingCount: 1, Missing: []fabric.RASMissing{{RASPlace: at, Unresponsive: true, Dead: dead}}}
	}
	sub := place(5)
	sub.Rank = 1 // of another communicator
	for name, c := range map[string]struct {
		answer fabric.RASAnswer
		want   Ranks
	}{
		"the same in two":     {fabric.RASAnswer{Communicators: []fabric.RASCommunicator{lost(place(5), true), lost(sub, true)}}, Ranks{Missing: 1, Unresponsive: 1, Dead: 1}},
		"two":                 {fabric.RASAnswer{Communicators: []fabric.RASCommunicator{lost(place(5), true), lost(place(6), false)}}, Ranks{Missing: 2, Unresponsive: 2, Dead: 1}},
		"place not known":     {fabric.RASAnswer{Communicators: []fabric.RASCommunicator{lost(fabric.RASPlace{Rank: 5}, false), lost(fabric.RASPlace{Rank: 5}, false)}}, Ranks{Missing: 2, Unresponsive: 2}},
		"numbers of a text":   {fabric.RASAnswer{DeadProcesses: 2, SilentProcesses: 3, Communicators: []fabric.RASCommunicator{{Size: 8, MissingCount: 4, FailedCount: 1}}}, Ranks{Missing: 4, Unresponsive: 3, Dead: 2, Failed: 1}},
		"the farthest spread": {fabric.RASAnswer{Communicators: []fabric.RASCommunicator{{Spread: fabric.RASSpread{Least: 1, Most: 2, Known: true}}, {Spread: fabric.RASSpread{Least: 5, Most: 9, Known: true}}}}, Ranks{Spread: fabric.RASSpread{Least: 5, Most: 9, Known: true}}},
		"nothing":             {fabric.RASAnswer{}, Ranks{}},
	} {
		if got := count(&c.answer); got != c.want {
			t.Errorf("%s: %+v, expected %+v", name, got, c.want)
		}
	}
}

// An account without an answer says why and has no numbers: 0 would be an answer.
func TestAccountDocument(t *testing.T) {
	text := func(a Account) string {
		b, err := json.Marshal(a.Document())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	refused := text(Account{Job: "slurm/7", Suspicions: []Suspicion{RanksApart}, Refused: refuse(Young, "PID 9 is young")})
	if strings.Contains(refused, `"ranks"`) || !strings.Contains(refused, `"refused_reason":"young_process"`) || !strings.Contains(refused, `"state":"unknown"`) || !strings.Contains(refused, `"suspicions":["ranks_apart"]`) {
		t.Error(refused)
	}
	failure := Account{Job: "slurm/7", Failure: errors.New("no complete answer")}
	failure.Take(nil, time.Time{}, GPUsBusy)
	if got := text(failure); strings.Contains(got, `"answered"`) || !strings.Contains(got, "no complete answer") || failure.Known() {
		t.Error(got)
	}
	answered := Account{Job: "slurm/7"}
	answered.Take([]fabric.RASAnswer{lose(answer(1, 2, 3), 0, true)}, time.Unix(9, 0), GPUsBusy)
	if got := text(answered); !strings.Contains(got, `"dead":1`) || !strings.Contains(got, `"collectives_apart":`) {
		t.Error(got)
	}
}

// On suspicion, the node with the lowest address asks where no rank is stated, and releases that were not
// examined are not asked.
func TestTargetOnSuspicion(t *testing.T) {
	socket := func(local, remote string) fabric.Socket {
		return fabric.Socket{Local: netip.MustParseAddrPort(local), Remote: netip.MustParseAddrPort(remote)}
	}
	connected := func(s fabric.Socket) func(c *fabric.RankCandidate, j *job.Job) {
		return func(c *fabric.RankCandidate, j *job.Job) {
			c.Sockets.Value = append(c.Sockets.Value, s)
			j.Ranks[0].Rank, j.Ranks[1].Rank = -1, -1
		}
	}
	for name, c := range map[string]struct {
		change func(first *fabric.RankCandidate, j *job.Job)
		want   Reason // empty: it is asked
	}{
		"rank 0 is here":           {func(*fabric.RankCandidate, *job.Job) {}, ""},
		"no rank stated, one node": {func(_ *fabric.RankCandidate, j *job.Job) { j.Ranks[0].Rank, j.Ranks[1].Rank = -1, -1 }, ""},
		"the lowest address":       {connected(socket("10.0.0.1:40000", "10.0.0.2:40001")), ""},
		"not the lowest address":   {connected(socket("10.0.0.3:40000", "10.0.0.2:40001")), RankElsewhere},
		"ports of a widened range": {connected(socket("10.0.0.3:2048", "10.0.0.2:1999")), RankElsewhere},
		"a lower TCPStore is no rank": {func(c *fabric.RankCandidate, j *job.Job) {
			c.EphemeralFrom = 32768
			connected(socket("10.0.0.3:40000", "10.0.0.2:29500"))(c, j)
		}, ""},
		"a lower store is no rank": {connected(socket("10.0.0.3:40000", "10.0.0.2:443")), ""},
		"its sockets are not known": {func(c *fabric.RankCandidate, j *job.Job) {
			c.Sockets.State = fabric.Unknown
			j.Ranks[0].Rank, j.Ranks[1].Rank = -1, -1
		}, RankElsewhere},
		"a release after the latest": {func(c *fabric.RankCandidate, _ *job.Job) { c.Maps.Value.Version = "2.31.1" }, VersionRefused},
	} {
		n, j := node()
		c.change(&n.Ranks.Value[0], j)
		ask := Asker{NetNS: 7, Version: func(c *fabric.RankCandidate) string { return c.Maps.Value.Version }}
		_, err := ask.Choose(n, j)
		refusal, _ := errors.AsType[*Refusal](err)
		if c.want == "" && err != nil || c.want != "" && (refusal == nil || refusal.Why != c.want) {
			t.Errorf("%s: %v, expected %q", name, err, c.want)
		}
	}
}

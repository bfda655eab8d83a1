// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/inquiry"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/jobs/progress"
	"gpufabric_exporter/internal/jobs/ras"
	"gpufabric_exporter/internal/jobs/ras/rastest"
)

// rankNode is a node with one rank, of this release of NCCL.
func rankNode(version string) *fabric.Node {
	now := time.Now()
	n := &fabric.Node{At: now}
	n.Host.BootTime = fabric.Known(now.Add(-time.Hour), "", now)
	n.GPUDriver.GPUs = []fabric.GPU{{UUID: "GPU-1", Utilization: fabric.Known(1.0, "", now)}}
	n.Ranks = fabric.Known([]fabric.RankCandidate{{
		PID: 9, NetNS: fabric.Known(uint64(7), "", now), Maps: fabric.Known(fabric.MappedFiles{Version: version}, "", now),
		Sockets: fabric.Known([]fabric.Socket{{Listening: true, Local: netip.MustParseAddrPort("127.0.0.1:28028")}}, "", now),
	}}, "", now)
	return n
}

// The whole way from the processes of a node to what is printed, with RAS of NCCL 2.30 and of releases that
// are not asked. Time is fake.
func TestAskRAS(t *testing.T) {
	hang := rastest.Healthy("2.30.7", 500)
	hang.Communicators[0].Ranks[5].AllReduce = 499
	crash := func(conn net.Conn, _ int) { _, _ = conn.Read(make([]byte, 99)) }
	replies := func(of ...rastest.State) func(net.Conn, int) {
		return func(conn net.Conn, i int) { new(rastest.Server).Converse(conn, of[min(i, len(of)-1)]) }
	}
	for name, c := range map[string]struct {
		version string
		peer    func(conn net.Conn, i int)
		change  func(n *fabric.Node, look int)
		asked   int // connections
		took    time.Duration
		code    int
		text    string
	}{
		"moving":          {"2.30.7", replies(rastest.Healthy("2.30.7", 10), rastest.Healthy("2.30.7", 20), rastest.Healthy("2.30.7", 30)), nil, 3, time.Minute, exitGood, "  moving (3 answers, 1 communicators)"},
		"hang":            {"2.30.7", replies(hang), nil, 3, time.Minute, exitFailed, "hang, confirmed: its ranks are apart (3 answers, 1 communicators)\n  communicator 1f2e-2-3 of 8 ranks: hang, 1 ranks, collectives apart: 1\n    rank 5: PID 4005 on 10.0.0.2, GPU 1"},
		"hang, suspected": {"2.29.3", replies(rastest.Healthy("2.29.3", 10)), nil, 3, time.Minute, exitFailed, "hang, suspected: its GPUs are busy"},
		"missing":         {"2.30.7", replies(rastest.Healthy("2.30.7", 10).Lose(3, false)), nil, 3, time.Minute, exitFailed, "missing (3 answers"},
		"dead":            {"2.30.7", replies(rastest.Healthy("2.30.7", 10).Lose(3, true)), nil, 3, time.Minute, exitFailed, "dead (3 answers"},
		"2.29.7":          {"2.29.7", crash, nil, 0, 0, exitUndecided, "not asked: NCCL 2.29.7: asking has crashed jobs that make communicators (https://github.com/NVIDIA/nccl/issues/2346)"},
		"2.27.5":          {"2.27.5", crash, nil, 0, 0, exitUndecided, "issues/1762"},
		"unknown version": {"", crash, nil, 0, 0, exitUndecided, "not asked: the version of NCCL of PID 9 is not known"},
		"crash":           {"2.30.7", crash, nil, 1, 0, exitUndecided, "not asked again: RAS of NCCL 2.30.7: answer to CLIENT PROTOCOL 2: the connection ended before the answer was complete: read nothing, expected \"SERVER PROTOCOL 2\"\n  The process may have crashed of it"},
		"never answers": {
			"2.30.7", func(conn net.Conn, _ int) { _, _ = io.Copy(io.Discard, conn) }, nil, 3, 3*12*time.Second + 60*time.Second + 120*time.Second, exitUndecided,
			"not asked again: RAS of NCCL 2.30.7: answer to CLIENT PROTOCOL 2: no complete answer within 12s",
		},
		"another process": {
			"2.30.7", replies(hang), func(n *fabric.Node, look int) { n.Ranks.Value[0].Start = uint64(look) }, 1, 30 * time.Second, exitUndecided,
			"not asked again: another process is the lowest rank now",
		},
		"another version": {
			"2.30.7", replies(hang), func(n *fabric.Node, look int) {
				if look > 1 {
					n.Ranks.Value[0].Maps.Value.Version = "2.27.3"
				}
			}, 1, 30 * time.Second, exitUndecided, "issues/1762",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked, looks := 0, 0
			jobs := jobsWith(job.Verdict{Transport: job.RDMA})
			q := &inquiry.Inquiry{
				Asker: progress.Asker{NetNS: 7, ByHand: true, Version: func(c *fabric.RankCandidate) string { return c.Maps.Value.Version }},
				Look: func(context.Context) (*fabric.Node, job.Jobs, error) {
					n := rankNode(c.version)
					if looks++; c.change != nil {
						c.change(n, looks)
					}
					return n, jobs, nil
				},
				Ask: func(ctx context.Context, target progress.Target) (fabric.RASAnswer, error) {
					here, there := net.Pipe()
					defer here.Close()
					i := asked
					asked++
					go func() {
						c.peer(there, i)
						there.Close()
					}()
					return ras.Ask(ctx, here, target.Version)
				},
			}
			begun := time.Now()
			all := []progress.Account{q.About(t.Context(), "slurm/7")}
			var text, document bytes.Buffer
			if err := errors.Join(printer{}.writeAnswers(&text, jobs, all), printer{json: true}.writeAnswers(&document, jobs, all)); err != nil {
				t.Fatal(err)
			}
			if code := exitOfAnswers(exitOf(jobs), all); asked != c.asked || code != c.code || !strings.Contains(text.String(), c.text) || time.Since(begun) != c.took {
				t.Errorf("%s: asked %d times in %s, exit code %d:\n%s", name, asked, time.Since(begun), code, text.String())
			}
			var back struct {
				Jobs []any `json:"jobs"`
				RAS  []progress.Document
			}
			if err := json.Unmarshal(document.Bytes(), &back); err != nil || len(back.Jobs) != 1 || len(back.RAS) != 1 || back.RAS[0].State == "" || strings.Contains(document.String(), "null") {
				t.Errorf("%s: %v: %s", name, err, document.String())
			}
		})
	}
}

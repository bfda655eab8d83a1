// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/joblog"
	"gpufabric_exporter/internal/jobs/owned"
	"gpufabric_exporter/internal/nccl/explain"
)

const (
	healthy = "healthy"
	lost    = "peer_closed, socket_failed or proxy_failed" // which is first depends on what the rank did just then
)

// TestLogs gives the logs of jobs to explain: what was planted is what it says.
func TestLogs(t *testing.T) {
	within := []string{"NCCL_P2P_DISABLE=1"}
	for _, c := range []struct {
		name   string
		common []string
		ranks  [][]string
		more   string // done on the node
		want   string // the first failure, unless now says otherwise for later releases than the first of suites
		now    string
	}{
		{name: "one host", common: within, ranks: gpus, want: healthy},
		{name: "sockets within a host", common: []string{"NCCL_SHM_DISABLE=1", "NCCL_P2P_DISABLE=1"}, ranks: gpus, want: "transport_tcp"},
		{name: "two hosts over TCP", ranks: hosts, want: "transport_tcp"},
		{name: "split", common: append([]string{"RIG_SPLIT=2"}, within...), ranks: gpus, want: healthy},
		{name: "no interface", common: []string{"NCCL_SOCKET_IFNAME==eth7"}, ranks: gpus, want: "bootstrap_no_interface"},
		{name: "one GPU twice", ranks: [][]string{nil, nil}, want: "duplicate_gpu"},
		{name: "no such network", common: []string{"NCCL_NET=IB"}, ranks: hosts, want: "net_plugin"},
		{name: "an interface as network", common: []string{"NCCL_NET=eth0"}, ranks: hosts, want: "net_plugin"},
		{name: "unknown protocol", common: []string{"NCCL_PROTO=Simpel"}, ranks: hosts, want: "no_algorithm", now: "setting_unrecognized"},
		{name: "no shared memory", common: within, ranks: gpus, more: "mount -t tmpfs -o size=4k tmpfs /dev/shm", want: "shared_memory"},
		{name: "dies", ranks: [][]string{hosts[0], append([]string{"RIG_CRASH=3"}, hosts[1]...)}, want: lost},
		{name: "aborts", ranks: [][]string{hosts[0], append([]string{"RIG_ABORT=3"}, hosts[1]...)}, want: lost},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, r rig) {
				n := newNode(t, c.more)
				ranks := n.job(t, r, 100, append([]string{"RIG_COUNT=6", "RIG_LINGER=1000"}, c.common...), c.ranks...)
				var all strings.Builder
				select {
				case <-ranks[0].done:
				case <-ranks[1].done:
				}
				patience := time.After(3 * time.Second) // one that lost the other may wait for it forever
				for _, p := range ranks {
					select {
					case <-p.done:
					case <-patience:
						for _, p := range ranks {
							p.Kill()
							<-p.done
						}
					}
					all.WriteString(p.output())
				}
				said, err := explain.Read(strings.NewReader(all.String()))
				if err != nil {
					t.Fatal(err)
				}
				want := c.want
				if r.suite != suites[0] {
					want = cmp.Or(c.now, want)
				}
				got := cmp.Or(said.Undecided(), healthy)
				if f := said.First(); f != nil {
					got = f.Signature.ID
				}
				if got != want && (want != lost || !strings.Contains(lost, got)) {
					t.Errorf("%s, expected %s: %+v\n%s", got, want, said.Findings, tail(all.String()))
				}
				followed(t, n, all.String(), said)
				for _, w := range said.Warnings {
					t.Errorf("a warning without a signature: %s", w.Text)
				}
				t.Logf("%s", got)
			})
		})
	}
}

// followed has the collector for logs read a log, which must see what explain sees.
func followed(t *testing.T, n *node, text string, said *explain.Result) {
	t.Helper()
	name := filepath.Join(n.work, "all.log")
	pattern, err := joblog.ParsePattern(name)
	if err != nil {
		t.Fatal(err)
	}
	reader := joblog.New([]joblog.Pattern{pattern}, new(owned.Owners))
	var got fabric.LogReading
	for _, content := range []string{"", text} { // lines that were there before are not counted
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err = reader.Read(time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	want, transport := map[string]int64{}, fabric.LogUnknown
	for _, f := range said.Findings {
		if f.Line > 0 {
			want[f.Signature.ID] = f.Count
		} else {
			transport = fabric.LogTCP
		}
	}
	counted := map[string]int64{}
	for _, f := range got.Failures {
		counted[f.ID] = int64(f.Count)
	}
	less := len(text) > 1<<20 // NCCL may repeat a failure faster than it is read
	if !less && !maps.Equal(counted, want) || len(counted) == 0 || len(got.Files) != 1 || got.Files[0].Transport != transport {
		t.Errorf("the collector counts %v of %+v, expected %v and %v", counted, got.Files, want, transport)
	}
}

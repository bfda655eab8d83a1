// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/exchange"
	"gpufabric_exporter/rdmaping/peers"
)

// world is peers that answer, a worker that asks them, and faults, in simulated time.
type world struct {
	sync.Mutex
	t       *testing.T
	peers   int
	node    *fabric.Node
	paused  string
	started int
	opens   int
	closed  int
	crash   bool
	held    bool                      // what ends is not released by the kernel
	dead    map[string]bool           // peers of which neither exporter nor rails answer
	ended   map[string]bool           // peers of which the exporter ended
	refuses map[string]bool           // peers of which the exporter wants another password
	keys    map[string]uint64         // of the rails of peers, and of its own
	mirrors map[string]bool           // peers that tell the rails of who asks
	lose    func(a rdmaping.Ask) bool // message
	pong    rdmaping.Pong             // what comes of others
	timed   bool                      // own NICs
	limited bool                      // own P_Keys
	sizes   map[int]int
	size    int      // of messages; 0: as usual
	mtu     int      // of peers; 0: that of the node
	devices []string // of peers, by rail; nil: as here
	random  *rand.Rand
	log     strings.Builder
}

func newWorld(t *testing.T, nodes int) *world {
	return &world{
		t: t, peers: nodes, node: nodeOf("10.0.0.1", "mlx5_0", "mlx5_1"), dead: map[string]bool{}, ended: map[string]bool{},
		refuses: map[string]bool{}, keys: map[string]uint64{"self": 1}, lose: func(rdmaping.Ask) bool { return false }, sizes: map[int]int{},
		pong:   rdmaping.Pong{RTT: 20 * time.Microsecond, Remote: 5 * time.Microsecond, Network: 15 * time.Microsecond},
		random: rand.New(rand.NewPCG(1, 2)),
	}
}

func known[T any](v T) fabric.Fact[T] { return fabric.Known(v, "test", time.Time{}) }

func nodeOf(address string, devices ...string) *fabric.Node {
	n := &fabric.Node{}
	for _, d := range devices {
		n.HCAs = append(n.HCAs, fabric.HCA{Name: d, Restricted: known(false), Ports: []fabric.Port{{
			Number: 1, Role: known(fabric.RoleCompute), GIDChoice: known(fabric.GIDChoice{Index: 3}),
			LinkLayer: known(fabric.LinkEthernet),
			GIDs:      fabric.GIDTable{Entries: known([]fabric.GID{{Index: 3, Addr: netip.MustParseAddr(address)}})},
		}}})
	}
	return n
}

func (w *world) end(host, device string) rdmaping.Endpoint {
	e := rdmaping.Endpoint{Device: device, Link: rdmaping.Ethernet, QPN: 77, QKey: 5, MTU: 4096, Key: w.keys[host] + uint64(("0" + device)[len(device)])<<32}
	if device == "mlx5_1" {
		e.Rail = 1
	}
	copy(e.GID[10:], []byte{0xff, 0xff, 10, 0, 1})
	e.GID[15] = 100 + host[1]
	return e
}

// RoundTrip is the exporters of peers.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	host := r.URL.Host
	w.Lock()
	dead, ended, refuses := w.dead[host], w.ended[host], w.refuses[host]
	ends := []rdmaping.Endpoint{w.end(host, "mlx5_0"), w.end(host, "mlx5_1")}
	for i := range ends {
		ends[i].MTU = cmp.Or(w.mtu, ends[i].MTU)
		if w.mirrors[host] {
			ends[i].GID, ends[i].Key = w.node.HCAs[0].Ports[0].GIDs.Entries.Value[0].Addr.As16(), w.end("self", ends[i].Device).Key
		}
		if w.devices != nil {
			ends[i].Device = w.devices[i]
		}
	}
	w.Unlock()
	switch {
	case dead:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case refuses:
		return &http.Response{StatusCode: http.StatusUnauthorized, Body: http.NoBody}, nil
	case ended:
		return nil, fmt.Errorf("connecting: %w", syscall.ECONNREFUSED)
	}
	text, _ := json.Marshal(map[string]any{"rdma_ping": 1, "queue_pairs": ends})
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(text)))}, nil
}

// worker answers for a process that has libibverbs.
type worker struct {
	w   *world
	end *sync.Once // it can be closed again
}

func (k worker) Close() error {
	k.w.Lock()
	defer k.w.Unlock()
	if k.w.held {
		return errors.New("the kernel has not released it")
	}
	k.end.Do(func() { k.w.closed++ })
	return nil
}

func (k worker) Call(_ context.Context, raw []byte) ([]byte, error) {
	w := k.w
	var q rdmaping.Request
	if err := json.Unmarshal(raw, &q); err != nil {
		w.t.Error(err)
	}
	if q.Round != nil {
		time.Sleep(q.Round.Gap*8 + q.Round.Timeout/2)
	}
	w.Lock()
	defer w.Unlock()
	if w.crash {
		return nil, errors.New("crashed")
	}
	var r rdmaping.Reply
	if q.Open != nil {
		w.opens++
		e := w.end("self", q.Open.Device)
		e.Timed = w.timed
		if w.limited {
			e.Link, e.LID, e.PKey = rdmaping.InfiniBand, 7, 0x7fff
		}
		e.GID = w.node.HCAs[0].Ports[0].GIDs.Entries.Value[0].Addr.As16()
		r.Endpoint = &e
	} else {
		for _, a := range q.Round.Asks {
			if err := a.To.Check(); err != nil {
				w.t.Error(err)
			}
			w.sizes[a.Size]++
			pong := w.pong
			pong.Lost = w.lose(a)
			r.Pongs = append(r.Pongs, pong)
		}
	}
	out, err := json.Marshal(r)
	return out, err
}

// run pings for some time, with something that happens meanwhile.
func (w *world) run(lasts time.Duration, steps ...func(p *Pinger)) rdmaping.Status {
	var s rdmaping.Status
	var list []string
	for i := range w.peers {
		list = append(list, fmt.Sprintf(`{"targets":["n%d:1"],"labels":{"tor":"l%d"}}`, i, i/4))
	}
	file := filepath.Join(w.t.TempDir(), "targets.json")
	if err := os.WriteFile(file, []byte("["+strings.Join(list, ",")+"]"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	synctest.Test(w.t, func(t *testing.T) {
		c := rdmaping.DefaultConfig()
		c.Files, c.LeafLabel, c.Size = []string{file}, "tor", cmp.Or(w.size, c.Size)
		p := New(Options{
			Config: c, Log: slog.New(slog.NewTextHandler(&w.log, nil)), Host: named("n0"), Client: exchange.Client(w),
			Observe: func(context.Context) *fabric.Node {
				w.Lock()
				defer w.Unlock()
				return w.node
			},
			Maintenance: func() (string, error) {
				w.Lock()
				defer w.Unlock()
				return w.paused, nil
			},
			Start: Sole(func(context.Context, string, *slog.Logger) (Worker, error) {
				w.Lock()
				defer w.Unlock()
				w.started++
				w.crash = false
				return worker{w, new(sync.Once)}, nil
			}),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.Run(ctx) }()
		for _, step := range steps {
			time.Sleep(lasts)
			synctest.Wait()
			w.Lock()
			step(p)
			w.Unlock()
		}
		time.Sleep(lasts)
		synctest.Wait()
		s = p.Status()
		cancel()
		<-done
		if w.closed != w.started {
			t.Errorf("%d workers started, %d ended", w.started, w.closed)
		}
	})
	return s
}

func lost(r rdmaping.RailStatus) (sent, lost uint64) {
	for _, l := range r.Leaves {
		sent, lost = sent+l.Sent, lost+l.Lost
	}
	return sent, lost
}

// to is whether a message goes to a host.
func (w *world) to(host string) func(a rdmaping.Ask) bool {
	return func(a rdmaping.Ask) bool { return a.To.GID == w.end(host, "").GID }
}

func TestHealthy(t *testing.T) {
	w := newWorld(t, 16)
	s := w.run(2 * time.Minute)
	if len(s.Rails) != 2 || s.Targets != 16 || w.started != 1 || w.opens != 2 {
		t.Fatalf("%+v, %d starts, %d opened", s, w.started, w.opens)
	}
	for _, r := range s.Rails {
		sent, lost := lost(r)
		if sent < 900 || lost > 0 || r.Fault != "" || !r.Judged || r.Loop.Sent < 110 || r.Large.Sent < 8 || len(r.Bad) > 0 || r.Uncovered != "" || r.Leaf != "l0" || r.Address != "n0:1" {
			t.Errorf("%+v", r)
		}
		if near := r.RTT[rdmaping.Near]; near.GetSampleCount() < 300 || near.GetSampleSum()/float64(near.GetSampleCount()) > 16e-6 || len(near.PositiveSpan) == 0 {
			t.Errorf("near: %+v", near)
		}
		if series := 11 + 2*len(r.Leaves) + 9*len(r.RTT) + len(rdmaping.Faults()) + badPeers; series > 60 {
			t.Errorf("%d series", series)
		}
	}
}

// TestFaults is what a node finds alone.
func TestFaults(t *testing.T) {
	loop := func(a rdmaping.Ask) bool { return a.To.GID == rdmaping.GID(netip.MustParseAddr("10.0.0.1").As16()) }
	for _, c := range []struct {
		name string
		lose func(w *world) func(a rdmaping.Ask) bool
		want []rdmaping.Fault // of the rails
		bad  int              // peers
	}{
		{"rail", func(*world) func(rdmaping.Ask) bool {
			return func(a rdmaping.Ask) bool { return a.Device == "mlx5_0" && !loop(a) }
		}, []rdmaping.Fault{rdmaping.OfRail, ""}, 3},
		{"rail loses 5 %", func(w *world) func(rdmaping.Ask) bool {
			return func(a rdmaping.Ask) bool { return a.Device == "mlx5_0" && !loop(a) && w.random.Float64() < 0.05 }
		}, []rdmaping.Fault{rdmaping.OfRail, ""}, 1},
		{"host", func(w *world) func(rdmaping.Ask) bool {
			return func(rdmaping.Ask) bool { return w.random.Float64() < 0.2 }
		}, []rdmaping.Fault{rdmaping.OfHost, rdmaping.OfHost}, 1},
		{"peer", func(w *world) func(rdmaping.Ask) bool { return w.to("n2:1") }, []rdmaping.Fault{rdmaping.Elsewhere, rdmaping.Elsewhere}, 1},
	} {
		w := newWorld(t, 9)
		w.lose = c.lose(w)
		s := w.run(2*time.Minute + 5*time.Second)
		for i, r := range s.Rails {
			if r.Fault != c.want[i] || c.want[i] != "" && len(r.Bad) < c.bad {
				t.Errorf("%s: rail %d: %q, bad %v", c.name, i, r.Fault, r.Bad)
			}
		}
	}
}

// TestRestart is peers whose exporter is restarted, ends, or dies with the host: only the last one loses messages.
func TestRestart(t *testing.T) {
	for _, c := range []struct {
		name   string
		happen func(w *world)
		lost   bool
	}{
		{"new numbers", func(w *world) { w.keys["n1:1"] = 5 }, false},
		{"new numbers and passwords", func(w *world) { w.keys["n1:1"], w.refuses["n1:1"] = 5, true }, false},
		{"ended", func(w *world) { w.ended["n1:1"] = true }, false},
		{"dead", func(w *world) { w.dead["n1:1"] = true }, true},
		{"black hole", func(*world) {}, true},
	} {
		w := newWorld(t, 4)
		happened := false
		w.lose = func(a rdmaping.Ask) bool { // what is sent with the old key, or to nobody
			return happened && w.to("n1:1")(a) && (!strings.HasPrefix(c.name, "new numbers") || uint32(a.To.Key) != 5)
		}
		s := w.run(time.Minute, func(*Pinger) { happened = true; c.happen(w) })
		for _, r := range s.Rails {
			sent, lost := lost(r)
			if (lost > 0) != c.lost || c.lost && lost < 40 || sent < 190 || (len(r.Bad) > 0) != c.lost {
				t.Errorf("%s: %d of %d lost, bad %v", c.name, lost, sent, r.Bad)
			}
		}
	}
}

// TestChanges are a new GID, a device that a pod takes, maintenance and a worker that crashes.
func TestChanges(t *testing.T) {
	w := newWorld(t, 8)
	check := func(what string, uncovered rdmaping.Uncovered, ends, starts, opens int) func(*Pinger) {
		return func(p *Pinger) {
			if s := p.Status(); s.Rails[0].Uncovered != uncovered || len(p.Rails()) != ends || w.started != starts || w.opens != opens {
				t.Errorf("%s: %q, %d answer, %d starts, %d opened", what, s.Rails[0].Uncovered, len(p.Rails()), w.started, w.opens)
			}
		}
	}
	s := w.run(time.Minute,
		check("begins", "", 2, 1, 2),
		func(*Pinger) { w.node = nodeOf("10.0.0.9", "mlx5_0", "mlx5_1") },
		check("GID", "", 2, 1, 4),
		func(*Pinger) { w.node = nodeOf("10.0.0.9", "mlx5_0", "mlx5_1"); w.node.HCAs[0].Moved = true },
		check("moved", rdmaping.UncoveredMoved, 1, 2, 5),
		func(*Pinger) { w.paused = "repair" },
		check("maintenance", rdmaping.UncoveredPaused, 0, 2, 5),
		func(*Pinger) { w.paused = ""; w.node = nodeOf("10.0.0.9", "mlx5_0", "mlx5_1") },
		check("back", "", 2, 3, 7),
		func(*Pinger) { w.crash = true },
		check("crashed", "", 2, 4, 9),
	)
	for _, r := range s.Rails {
		if _, lost := lost(r); lost > 0 || r.Fault != "" {
			t.Errorf("%+v", r)
		}
	}
}

// BenchmarkRound is a second of the exporter itself with eight rails and eight peers each, without its worker.
func BenchmarkRound(b *testing.B) {
	devices := make([]string, 8)
	for i := range devices {
		devices[i] = fmt.Sprintf("mlx5_%d", i)
	}
	p := New(Options{Config: rdmaping.DefaultConfig(), Log: slog.New(slog.DiscardHandler)})
	p.worker = answersAll{}
	owns, err := Rails(nodeOf("10.0.0.1", devices...), "")
	if err != nil {
		b.Fatal(err)
	}
	w := &world{keys: map[string]uint64{}}
	for _, own := range owns {
		one := planned{Own: own, self: peers.Target{Address: "n0:1", Leaf: "l0"}}
		for i := range 8 {
			address := fmt.Sprintf("n%d:1", i+1)
			one.peers = append(one.peers, peers.Target{Address: address, Leaf: fmt.Sprintf("l%d", i/2)})
			if p.told[address] == nil {
				p.told[address] = &told{known: true}
			}
			p.told[address].ends = append(p.told[address].ends, w.end(address, own.Device))
		}
		p.plan.rails = append(p.plan.rails, one)
	}
	for b.Loop() {
		p.round(b.Context())
		p.Status()
	}
}

// answersAll is a worker to which everything is answered at once.
type answersAll struct{}

func (answersAll) Close() error { return nil }

func (answersAll) Call(_ context.Context, raw []byte) ([]byte, error) {
	var q rdmaping.Request
	if err := json.Unmarshal(raw, &q); err != nil {
		return nil, err
	}
	if q.Open != nil {
		return json.Marshal(rdmaping.Reply{Endpoint: &rdmaping.Endpoint{Device: q.Open.Device, Link: rdmaping.Ethernet, MTU: 4096, Key: 1}})
	}
	return json.Marshal(rdmaping.Reply{Pongs: make([]rdmaping.Pong, len(q.Round.Asks))})
}

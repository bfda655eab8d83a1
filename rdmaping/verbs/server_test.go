// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/verbs/verbstest"
)

// built is the stand-in of all tests: the loader keeps it until the process ends.
var built struct {
	sync.Once
	path string
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "verbs")
	if err != nil {
		panic(err)
	}
	built.path = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code) //nolint:forbidigo // the main of tests
}

// fabric is servers, each with one device of a stand-in: rdma0, rdma1 and so on.
type fabric struct {
	*testing.T
	library string
	servers []*Server
	ends    []rdmaping.Endpoint
	lines   []string
}

func devices(t *testing.T, n int, also ...string) *fabric {
	t.Helper()
	built.Do(func() { built.path = verbstest.Build(t, built.path) })
	f := &fabric{T: t, library: built.path, lines: also}
	for i := range n {
		f.lines = append(f.lines, fmt.Sprintf("device rdma%d %s", i, host(i)))
	}
	f.plant()
	return f
}

func host(i int) string { return fmt.Sprintf("127.0.0.%d", i+2) }

// plant adds faults to the devices.
func (f *fabric) plant(lines ...string) {
	verbstest.Describe(f, f.library, append(lines, f.lines...)...)
}

func open(t *testing.T, n int, also ...string) *fabric {
	t.Helper()
	f := devices(t, n, also...)
	for i := range n {
		s := NewServer()
		t.Cleanup(s.Close)
		r := f.do(s, rdmaping.Request{Open: &rdmaping.Open{Library: f.library, Device: fmt.Sprintf("rdma%d", i), Port: 1, GIDIndex: 3, TrafficClass: 106}})
		if r.Failure != nil {
			t.Fatal(r.Failure)
		}
		f.servers, f.ends = append(f.servers, s), append(f.ends, *r.Endpoint)
	}
	return f
}

func (f *fabric) do(s *Server, q rdmaping.Request) rdmaping.Reply {
	f.Helper()
	raw, err := json.Marshal(q)
	if err != nil {
		f.Fatal(err)
	}
	answer, err := s.Handle(f.Context(), raw)
	if err != nil {
		f.Fatal(err)
	}
	var r rdmaping.Reply
	if err := json.Unmarshal(answer, &r); err != nil {
		f.Fatal(err)
	}
	return r
}

// How long messages are waited for that shall be answered, on a machine that is busy, and those that shall not.
const (
	patient   = 5 * time.Second
	impatient = 200 * time.Millisecond
)

// ask has one device ask an endpoint.
func (f *fabric) ask(from int, to rdmaping.Endpoint, size int, timeout time.Duration) rdmaping.Pong {
	f.Helper()
	return f.round(f.servers[from], timeout, rdmaping.Ask{Device: f.ends[from].Device, To: to, Size: size, Flow: 5})[0]
}

func (f *fabric) round(s *Server, timeout time.Duration, asks ...rdmaping.Ask) []rdmaping.Pong {
	f.Helper()
	r := f.do(s, rdmaping.Request{Round: &rdmaping.Round{Asks: asks, Timeout: timeout, Gap: time.Millisecond}})
	if len(r.Pongs) != len(asks) {
		f.Fatalf("%+v", r)
	}
	return r.Pongs
}

func (f *fabric) expect(what string, from, to, size int, answered bool) {
	f.Helper()
	timeout := impatient
	if answered {
		timeout = patient
	}
	if r := f.ask(from, f.ends[to], size, timeout); r.Failure != nil || r.Lost == answered {
		f.Errorf("%s: %+v", what, r)
	}
}

// TestPing asks a peer and itself, with small messages and large ones.
func TestPing(t *testing.T) {
	f := open(t, 2)
	if e := f.ends[0]; e.GID.String() != "::ffff:127.0.0.2" || e.MTU != 4096 || e.Link != rdmaping.Ethernet || e.Check() != nil || e.Key == f.ends[1].Key || e.QKey == f.ends[1].QKey {
		t.Errorf("%+v", e)
	}
	for _, size := range []int{64, 1024, 4096} {
		f.expect("peer", 0, 1, size, true)
		f.expect("loopback", 0, 0, size, true)
	}
	r := f.ask(0, f.ends[1], 64, patient)
	if r.RTT <= 0 || r.Remote <= 0 || r.Remote > r.RTT {
		t.Errorf("%+v", r)
	}
	t.Logf("%+v, loopback %+v", r, f.ask(0, f.ends[0], 64, patient))
	both := f.round(f.servers[0], patient, rdmaping.Ask{Device: "rdma0", To: f.ends[1], Size: 64}, rdmaping.Ask{Device: "rdma0", To: f.ends[0], Size: 64})
	if both[0].RTT <= 0 || both[1].RTT <= 0 {
		t.Errorf("in one round: %+v", both)
	}
}

// TestFaults plants what a fabric does, with and without times of NICs.
func TestFaults(t *testing.T) {
	for _, clocks := range []string{"", clocks} {
		t.Run(clocks, func(t *testing.T) { testFaults(open(t, 2, clocks)) })
	}
}

func testFaults(f *fabric) {
	for _, c := range []struct {
		fault        string
		small, large bool
	}{
		{"lose 127.0.0.3 1", false, false},
		{"lose 127.0.0.2 1", false, false}, // the way back
		{"longest 127.0.0.3 1024", true, false},
		{"delay 127.0.0.3 0.3", false, false},
		{"twice all", true, true},
		{"", true, true},
	} {
		f.plant(c.fault)
		f.expect(c.fault, 0, 1, 64, c.small)
		f.expect(c.fault+", large", 0, 1, 4096, c.large)
		time.Sleep(50 * time.Millisecond)
	}
	f.plant("delay 127.0.0.3 0.05")
	time.Sleep(800 * time.Millisecond) // what was delayed has come
	if r := f.ask(0, f.ends[1], 64, patient); r.Failure != nil || r.Lost || r.RTT < 50*time.Millisecond {
		f.Errorf("delayed: %+v", r)
	}
}

// TestStrangers answers nobody who does not know the key, and takes no answer from anyone else.
func TestStrangers(t *testing.T) {
	f := open(t, 2)
	stranger := f.ends[1]
	stranger.Key++
	if r := f.ask(0, stranger, 64, impatient); r.Failure != nil || !r.Lost {
		t.Errorf("another key: %+v", r)
	}
	liar := f.ends[1]
	liar.QPN = f.ends[0].QPN // where nobody is at that address
	if r := f.ask(0, liar, 64, impatient); r.Failure != nil || !r.Lost {
		t.Errorf("another number: %+v", r)
	}
	f.expect("afterwards", 0, 1, 64, true)
}

// TestFlood is a stranger who sends a lot of garbage with the right Q_Key, which costs the peers nothing.
func TestFlood(t *testing.T) {
	f := open(t, 2)
	conn := stranger(t, "127.0.9.9", f.ends[1])
	for i := range 2000 {
		datagram := make([]byte, 16+i)
		binary.NativeEndian.PutUint32(datagram, f.ends[1].QKey)
		if i%2 == 0 && i > 64 { // of the right form
			message{kind: byte(1 + i%4/2), key: uint64(i)}.put(datagram[16:])
		}
		_, _ = conn.Write(datagram)
	}
	for end := time.Now().Add(patient); f.ask(0, f.ends[1], 64, impatient).Lost; { // while the queue of the kernel is full
		if time.Now().After(end) {
			t.Fatal("no answer after the flood")
		}
	}
}

// TestRate asks no more than 64 times in a second.
func TestRate(t *testing.T) {
	f := open(t, 1)
	begin, refused := time.Now(), 0
	for range 100 {
		if r := f.ask(0, f.ends[0], 64, patient); r.Failure != nil {
			refused++
		}
	}
	if most := int(64*(1+time.Since(begin).Seconds())) + 1; 100-refused > most {
		t.Errorf("%d messages in %s", 100-refused, time.Since(begin))
	}
}

// TestFailures says which step fails, whatever it is, and can open again.
func TestFailures(t *testing.T) {
	f := devices(t, 1)
	q := rdmaping.Open{Library: f.library, Device: "rdma0", Port: 1, GIDIndex: 3}
	s := NewServer()
	t.Cleanup(s.Close)
	for _, function := range []string{
		"ibv_open_device", "ibv_query_port", "ibv_query_gid", "ibv_query_pkey", "ibv_alloc_pd", "ibv_reg_mr", "ibv_create_comp_channel", "ibv_create_cq", "ibv_create_qp", "ibv_modify_qp",
	} {
		f.plant("error " + function + " 12")
		if r := f.do(s, rdmaping.Request{Open: &q}); r.Failure == nil || !strings.HasPrefix(r.Failure.Step, function) || r.Failure.Errno != 12 {
			t.Errorf("%s: %+v", function, r)
		}
	}
	f.plant()
	for _, c := range []struct {
		name string
		open rdmaping.Open
		line string
		want string
	}{
		{"no library", rdmaping.Open{Library: "/nosuch.so", Device: "rdma0", Port: 1}, "", "loading libibverbs"},
		{"another library", rdmaping.Open{Library: "libc.so.6", Device: "rdma0", Port: 1}, "", "loading libibverbs: libc.so.6 has no ibv_get_device_list of IBVERBS_1.1"},
		{"no device", rdmaping.Open{Library: f.library, Device: "rdma7", Port: 1}, "", "ibv_open_device: no such device"},
		{"empty GID", rdmaping.Open{Library: f.library, Device: "rdma0", Port: 1, GIDIndex: 9}, "", "the GID is empty"},
		{"neither InfiniBand nor Ethernet", rdmaping.Open{Library: f.library, Device: "rdma0", Port: 1}, "device rdma0 127.0.0.2 4 5 0", "the port is neither InfiniBand nor RoCE"},
		{"no LID", rdmaping.Open{Library: f.library, Device: "rdma0", Port: 1}, "lid 127.0.0.2 49152\ndevice rdma0 127.0.0.2 4 5 1", "the port has no valid address: LID 49152"},
		{"GID of many", rdmaping.Open{Library: f.library, Device: "rdma0", Port: 1}, "device rdma0 224.0.0.1", "the port has no valid address: GID ::ffff:224.0.0.1"},
		{"empty P_Key", rdmaping.Open{Library: f.library, Device: "rdma0", Port: 1, PKeyIndex: 2}, "", "the P_Key is empty"},
		{"port down", rdmaping.Open{Library: f.library, Device: "rdma1", Port: 1}, "device rdma1 127.0.0.3 1", "the port is not active"},
	} {
		f.plant(c.line)
		fresh := NewServer()
		if r := f.do(fresh, rdmaping.Request{Open: &c.open}); r.Failure == nil || !strings.Contains(r.Failure.Error(), c.want) {
			t.Errorf("%s: %v", c.name, r.Failure)
		}
	}
	f.plant()
	r := f.do(s, rdmaping.Request{Open: &q})
	if r.Endpoint == nil {
		t.Fatalf("%+v", r.Failure)
	}
	again := f.do(s, rdmaping.Request{Open: &q})
	if again.Endpoint == nil || again.Endpoint.Key == r.Endpoint.Key {
		t.Errorf("opened again: %+v", again)
	}
	ask := rdmaping.Ask{Device: "rdma0", To: *again.Endpoint, Size: 64}
	f.plant("error ibv_create_ah 113")
	if r := f.round(s, time.Second, ask)[0]; r.Failure == nil || r.Failure.Error() != "ibv_create_ah: no route to host" {
		t.Errorf("%+v", r)
	}
	f.plant("error ibv_post_send 12")
	if r := f.round(s, time.Second, ask)[0]; r.Failure == nil || r.Failure.Step != "ibv_post_send" {
		t.Errorf("%+v", r)
	}
	f.plant()
	if r := f.round(s, time.Second, ask)[0]; r.Failure != nil || r.Lost {
		t.Errorf("afterwards: %+v", r)
	}
}

// TestRestart is a peer whose number changed: the old one gets no answer.
func TestRestart(t *testing.T) {
	f := open(t, 2)
	old := f.ends[1]
	r := f.do(f.servers[1], rdmaping.Request{Open: &rdmaping.Open{Library: f.library, Device: "rdma1", Port: 1}})
	if r := f.ask(0, old, 64, impatient); r.Failure != nil || !r.Lost {
		t.Errorf("the old one: %+v", r)
	}
	f.ends[1] = *r.Endpoint
	f.expect("the new one", 0, 1, 64, true)
}

func TestBadRequests(t *testing.T) {
	f := open(t, 1)
	good, _ := json.Marshal(f.ends[0])
	for _, q := range []string{
		"", "{}", "[]", `{"open":{},"round":{}}`, `{"open":{"device":"rdma0","port":0}}`, `{"open":{"device":"rdma0","port":1,"gid_index":256}}`,
		`{"open":{"device":"rdma0","port":1,"service_level":16}}`, `{"open":{"port":1,"x":1}}`, `{"round":{"timeout":1000,"asks":[]}}`,
		`{"round":{"timeout":1000,"asks":[{"device":"nosuch","size":64,"to":` + string(good) + `}]}}`,
		`{"round":{"timeout":1000,"asks":[{"device":"rdma0","size":63,"to":` + string(good) + `}]}}`,
		`{"round":{"timeout":0,"asks":[{"device":"rdma0","size":64,"to":` + string(good) + `}]}}`,
		`{"round":{"timeout":1000,"gap":-1,"asks":[{"device":"rdma0","size":64,"to":` + string(good) + `}]}}`,
		`{"round":{"timeout":1000,"asks":[{"device":"rdma0","size":64,"to":{}}]}}`,
	} {
		if _, err := f.servers[0].Handle(t.Context(), []byte(q)); err == nil {
			t.Errorf("%s: accepted", q)
		}
	}
}

func TestManyRails(t *testing.T) {
	f := devices(t, 9)
	s := NewServer()
	t.Cleanup(s.Close)
	for i := range 9 {
		raw, _ := json.Marshal(rdmaping.Request{Open: &rdmaping.Open{Library: f.library, Device: fmt.Sprintf("rdma%d", i), Port: 1}})
		if _, err := s.Handle(t.Context(), raw); (err == nil) != (i < rdmaping.MaxRails) {
			t.Errorf("rail %d: %v", i, err)
		}
	}
}

// TestManyFlows makes more ways to a peer than are kept.
func TestManyFlows(t *testing.T) {
	f := open(t, 2)
	r := f.servers[0].rails["rdma0"]
	r.mayAsk.perSecond = 1000
	f.servers[1].rails["rdma1"].mayAnswer.exporters.perSecond, f.servers[1].rails["rdma1"].ways.perPeer.exporters.perSecond = 1000, 1000
	for flow := range uint32(3 * maxFlows) {
		reply := f.round(f.servers[0], time.Second, rdmaping.Ask{Device: "rdma0", To: f.ends[1], Size: 64, Flow: flow})[0]
		if reply.Failure != nil || reply.Lost {
			t.Fatalf("flow %d: %+v", flow, reply)
		}
	}
}

func TestLimit(t *testing.T) {
	l, now, passed := limit{perSecond: 10}, time.Unix(1000, 0), 0
	for i := range 1000 {
		at := now.Add(time.Duration(i) * 10 * time.Millisecond)
		if i == 500 {
			at = now // the clock goes back
		}
		if l.pass(at) {
			passed++
		}
	}
	if passed < 105 || passed > 165 {
		t.Errorf("%d in 10 s", passed)
	}
}

func FuzzMessage(f *testing.F) {
	b := make([]byte, 104)
	message{kind: kindAsk, flow: 7, key: 1, number: 2, qkey: 3, remote: 4}.put(b[40:])
	b[0] = 0x60
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		route, text := b[:min(40, len(b))], b[min(40, len(b)):]
		sourceOf(route)
		m, err := parseMessage(text)
		if err != nil {
			return
		}
		again := make([]byte, len(text))
		m.put(again)
		if n, err := parseMessage(again); err != nil || n != m {
			t.Errorf("%+v, %+v, %v", m, n, err)
		}
	})
}

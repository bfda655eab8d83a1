// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"
)

var secret = []byte("0123456789abcdef")

func hello() Hello {
	return Hello{
		Program: "1.2.3", Rank: 1, Size: 4, Node: "n1", GPUs: []GPU{{"GPU-1", "0000:1b:00.0"}},
		Rails: []Rail{{Device: "mlx5_0", Port: 1, GPU: GPU{"GPU-1", "0000:1b:00.0"}, Rate: 50e9, Link: "Ethernet", GID: "RoCE v2", MTU: 4096}},
	}
}

// connect is a leader and a node that have just met, or why not.
func connect(t *testing.T, theirs []byte, h Hello) (leader, node *Conn, said *Hello, atLeader, atNode error) {
	t.Helper()
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	done := make(chan struct{})
	go func() {
		defer close(done)
		node, atNode = Greet(b, theirs, h)
	}()
	leader, said, atLeader = Accept(a, secret, 4)
	<-done
	return leader, node, said, atLeader, atNode
}

func TestHandshake(t *testing.T) {
	leader, node, said, err, other := connect(t, secret, hello())
	if err != nil || other != nil {
		t.Fatal(err, other)
	}
	if said.Node != "n1" || said.Rails[0].Device != "mlx5_0" || said.Protocol != Protocol {
		t.Errorf("%+v", said)
	}
	go func() {
		_ = leader.Send(Message{Beat: &struct{}{}})
		_ = leader.Send(Message{Seq: 7, Start: &Start{ID: 3, Rail: -1, GPU: 1}})
	}()
	m, err := node.Receive()
	if err != nil || m.Seq != 7 || m.Start.ID != 3 {
		t.Fatalf("%+v, %v", m, err)
	}
	go func() { _ = node.Send(Message{Seq: 7, Answer: &Answer{PID: 99}}) }()
	if m, err = leader.Receive(); err != nil || m.Answer.PID != 99 {
		t.Fatalf("%+v, %v", m, err)
	}
}

// Who has no place in the run is refused with the reason, and told it.
func TestRefuses(t *testing.T) {
	change := func(f func(*Hello)) Hello {
		h := hello()
		f(&h)
		return h
	}
	for name, tt := range map[string]struct {
		secret []byte
		hello  Hello
		want   Reason
	}{
		"secret":        {[]byte("0123456789abcdeF"), hello(), ReasonSecret},
		"size":          {secret, change(func(h *Hello) { h.Size = 5 }), ReasonSize},
		"rank":          {secret, change(func(h *Hello) { h.Rank = 4 }), ReasonRank},
		"negative rank": {secret, change(func(h *Hello) { h.Rank = -1 }), ReasonRank},
		"no name":       {secret, change(func(h *Hello) { h.Node = "" }), ReasonField},
		"a line":        {secret, change(func(h *Hello) { h.Node = "a\nb" }), ReasonField},
		"an escape":     {secret, change(func(h *Hello) { h.Rails[0].Device = "\x1b[2J" }), ReasonField},
		"no GPUs":       {secret, change(func(h *Hello) { h.GPUs = nil }), ReasonField},
		"many GPUs":     {secret, change(func(h *Hello) { h.GPUs = make([]GPU, ranksMost+1) }), ReasonField},
		"port":          {secret, change(func(h *Hello) { h.Rails[0].Port = 0 }), ReasonField},
		"rate":          {secret, change(func(h *Hello) { h.Rails[0].Rate = 1e300 }), ReasonField},
		"long":          {secret, change(func(h *Hello) { h.Driver = strings.Repeat("x", wordMost+1) }), ReasonField},
	} {
		_, _, _, err, other := connect(t, tt.secret, tt.hello)
		if err == nil || other == nil || ReasonOf(err) != tt.want || ReasonOf(other) != tt.want {
			t.Errorf("%s: %v; the node: %v, expected %s", name, err, other, tt.want)
		}
	}
}

// A hello of another protocol is refused for that, whatever else is in it.
func TestOtherProtocol(t *testing.T) {
	a, b := net.Pipe()
	go func() {
		var c challenge
		_ = readJSON(b, &c)
		raw := []byte(`{"protocol":2,"program":"9.9","novel":true,"nonce":"` + strings.Repeat("A", 43) + `="}`)
		_ = writeJSON(b, greeting{raw, mac(secret, []byte("node"), c.Nonce, raw)})
		_, _ = io.Copy(io.Discard, b)
	}()
	if _, _, err := Accept(a, secret, 4); ReasonOf(err) != ReasonVersion || !strings.Contains(err.Error(), "9.9") {
		t.Error(err)
	}
}

// A leader without the secret gets nothing started.
func TestFalseLeader(t *testing.T) {
	a, b := net.Pipe()
	go func() {
		_ = writeJSON(a, challenge{Protocol, nonce()})
		var g greeting
		_ = readJSON(a, &g)
		_ = writeJSON(a, welcome{MAC: make([]byte, macSize)})
	}()
	if _, err := Greet(b, secret, hello()); ReasonOf(err) != ReasonSecret {
		t.Error(err)
	}
}

// recorder keeps what is written.
type recorder struct {
	net.Conn
	bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error)      { return r.Buffer.Write(p) }
func (r *recorder) Read(p []byte) (int, error)       { return r.Buffer.Read(p) }
func (r *recorder) SetReadDeadline(time.Time) error  { return nil }
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }
func (r *recorder) Close() error                     { return nil }

// Frames that are forged, repeated, left out, reflected or of another connection are refused.
func TestFrames(t *testing.T) {
	ours, theirs := nonce(), nonce()
	ends := func(at *recorder) (sender, receiver *Conn) {
		return newConn(at, secret, ours, theirs, fromNode, fromLeader), newConn(at, secret, ours, theirs, fromLeader, fromNode)
	}
	two := func() []byte {
		at := &recorder{}
		sender, _ := ends(at)
		for id := range 2 {
			if err := sender.Send(Message{Kill: &id}); err != nil {
				t.Fatal(err)
			}
		}
		return at.Bytes()
	}()
	half := len(two) / 2
	flipped := bytes.Clone(two[:half])
	flipped[10] ^= 1
	for name, tt := range map[string]struct {
		frames []byte
		good   int
	}{
		"as sent": {two, 2}, "repeated": {append(bytes.Clone(two[:half]), two[:half]...), 1}, "left out": {two[half:], 0},
		"changed": {flipped, 0}, "cut": {two[:half+9], 1},
	} {
		at := &recorder{}
		_, receiver := ends(at)
		at.Buffer.Write(tt.frames)
		n := 0
		for {
			if _, err := receiver.Receive(); err != nil {
				break
			}
			n++
		}
		if n != tt.good {
			t.Errorf("%s: %d messages, expected %d", name, n, tt.good)
		}
	}
	at := &recorder{}
	sender, _ := ends(at)
	at.Buffer.Write(two)
	if _, err := sender.Receive(); ReasonOf(err) != ReasonSecret {
		t.Errorf("reflected: %v", err)
	}
}

func TestMessages(t *testing.T) {
	id := func(n int) *int { return &n }
	long := strings.Repeat("x", textMost+1)
	for name, m := range map[string]Message{
		"nothing": {}, "two": {Kill: id(1), Close: id(1)}, "negative": {Kill: id(-1)}, "large": {Log: id(idMost + 1)},
		"rail": {Start: &Start{Rail: ranksMost}}, "rail -2": {Start: &Start{Rail: -2}}, "GPU": {Start: &Start{Rail: -1, GPU: -1}},
		"no time": {Call: &Call{Request: json.RawMessage("{}")}}, "an hour": {Call: &Call{Timeout: math.MaxInt64}},
		"long call": {Call: &Call{Timeout: 1, Request: make([]byte, requestMost+1)}}, "trouble": {Answer: &Answer{Trouble: "x"}},
		"long answer": {Answer: &Answer{Text: long}}, "long stop": {Stop: &long}, "long end": {End: &long},
	} {
		if err := m.check(); ReasonOf(err) != ReasonField {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzMessage wants every message that is taken to be one that can be served.
func FuzzMessage(f *testing.F) {
	for _, s := range []string{
		`{"beat":{}}`, `{"seq":1,"start":{"id":1,"rail":-1,"gpu":0}}`, `{"seq":2,"call":{"id":1,"request":{"close":{}},"timeout":1000}}`,
		`{"seq":2,"answer":{"reply":{},"log":{"head":"AA=="}}}`, `{"stop":"python3"}`, `{"kill":1}{"kill":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		at := &recorder{}
		sender := newConn(at, secret, nil, nil, fromNode, fromLeader)
		receiver := newConn(at, secret, nil, nil, fromLeader, fromNode)
		if err := writeFrame(at, append(bytes.Clone(raw), sender.seal(fromLeader, 0, raw)...), frameMost); err != nil {
			return
		}
		m, err := receiver.Receive()
		if err == nil && m.check() != nil {
			t.Fatalf("%+v", m)
		}
	})
}

// stranger says what is in a buffer, whatever it hears.
type stranger struct {
	net.Conn
	says io.Reader
}

func (s stranger) Read(p []byte) (int, error)  { return s.says.Read(p) }
func (s stranger) Write(p []byte) (int, error) { return len(p), nil }

// FuzzHandshake has anyone say anything to a leader.
func FuzzHandshake(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Add(binary.BigEndian.AppendUint32(nil, math.MaxUint32))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		at := &recorder{}
		at.Buffer.Write(raw)
		if _, _, err := accept(stranger{at, &at.Buffer}, secret, 4, nonce()); err == nil {
			t.Fatal("accepted without the secret")
		}
	})
}

// FuzzHello wants every hello that is taken to be one that can be shown.
func FuzzHello(f *testing.F) {
	h := hello()
	raw, _ := json.Marshal(h)
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var h Hello
		if strictly(raw, &h) != nil || h.Check(4) != nil {
			return
		}
		if h.Rank < 0 || h.Rank > 3 || h.Node == "" || len(h.GPUs) > ranksMost || strings.ContainsAny(h.Node, "\n\x1b") {
			t.Fatalf("%+v", h)
		}
	})
}

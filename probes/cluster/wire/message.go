// SPDX-License-Identifier: Apache-2.0

// Package wire is how the nodes of a cluster probe talk to its leader: one TCP connection each, on which the leader
// asks and the node answers.
//
// The leader sends a nonce, the node a hello with a nonce of its own, and both prove with it that they have the secret
// of the run. From then on each frame carries an HMAC with a key of this connection, its direction and its number, so
// that none can be forged, repeated or left out. Nothing is encrypted: who listens learns what a node is, and where its
// ranks meet, as of any job. Both sides send a beat each second; who is silent for five is lost.
//
// What comes from the other side is bounded before it is read and checked before it is used. A leader has a node start
// ranks that the node planned itself, by their number: no path, variable or command ever comes over the wire.
package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Protocol is the version of the messages. Nodes of another one are refused.
const Protocol = 1

// Limits of what is said.
const (
	helloMost   = 64 << 10 // bytes of a frame before the other side is known
	frameMost   = 1 << 20
	nameMost    = 255
	wordMost    = 128
	ranksMost   = 64 // of a node
	idMost      = 1 << 20
	requestMost = 64 << 10 // bytes, as the process of a rank takes them
	textMost    = 1024
)

// How long things may take.
const (
	beat           = time.Second
	silence        = 5 * time.Second
	handshakeLimit = 10 * time.Second
)

// Hello is what a node says of itself.
type Hello struct {
	Protocol int    `json:"protocol"`
	Program  string `json:"program"` // version of this program
	Rank     int    `json:"rank"`
	Size     int    `json:"size"`
	Node     string `json:"node"`
	Leaf     string `json:"leaf,omitempty"` // the switch that it is below; empty: not known
	Nonce    []byte `json:"nonce"`
	NCCL     string `json:"nccl,omitempty"` // file of the library
	Driver   string `json:"driver,omitempty"`
	GPUs     []GPU  `json:"gpus"`
	Rails    []Rail `json:"rails"`
	// Skipped is why nothing can be measured on this node; empty: it can.
	Skipped string `json:"skipped,omitempty"`
}

// GPU is one that ranks may use.
type GPU struct {
	UUID    string `json:"uuid"`
	Address string `json:"address"`
}

// Rail is a compute port with the GPU that it is assigned to.
type Rail struct {
	Device string  `json:"device"`
	Port   int     `json:"port"`
	GPU    GPU     `json:"gpu"`
	Rate   float64 `json:"rate"` // bytes per second; 0: not known
	Link   string  `json:"link,omitempty"`
	GID    string  `json:"gid,omitempty"` // type of the GID that NCCL would use
	MTU    int     `json:"mtu,omitempty"`
}

// Check refuses what cannot be a node of this run.
func (h *Hello) Check(size int) error {
	switch {
	case h.Size != size:
		return refused(ReasonSize, "%d nodes, expected %d", h.Size, size)
	case h.Rank < 0 || h.Rank >= size:
		return refused(ReasonRank, "rank %d of %d", h.Rank, size)
	case !word(h.Node, nameMost) || h.Node == "":
		return refused(ReasonField, "name %.40q", h.Node)
	case len(h.GPUs) == 0 && h.Skipped == "":
		return refused(ReasonField, "no GPUs, and no reason")
	case len(h.GPUs) > ranksMost || len(h.Rails) > ranksMost:
		return refused(ReasonField, "%d GPUs and %d rails, expected at most %d", len(h.GPUs), len(h.Rails), ranksMost)
	case len(h.Skipped) > textMost:
		return refused(ReasonField, "a reason of %d bytes", len(h.Skipped))
	}
	words := []string{h.Program, h.Leaf, h.NCCL, h.Driver}
	gpus := slices.Clone(h.GPUs)
	for _, r := range h.Rails {
		words, gpus = append(words, r.Device, r.Link, r.GID), append(gpus, r.GPU)
		if r.Port < 1 || r.Port > 255 || r.MTU < 0 || r.MTU > 1<<20 || !(r.Rate >= 0 && r.Rate < 1e13) {
			return refused(ReasonField, "port %d with %g bytes per second and an MTU of %d", r.Port, r.Rate, r.MTU)
		}
	}
	for _, g := range gpus {
		words = append(words, g.UUID, g.Address)
	}
	if i := slices.IndexFunc(words, func(s string) bool { return !word(s, wordMost) }); i >= 0 {
		return refused(ReasonField, "%.40q", words[i])
	}
	return nil
}

// word reports whether s can be printed as it is, in one line.
func word(s string, most int) bool {
	return len(s) <= most && fabric.Printable(s, most) == s && !strings.ContainsAny(s, "\n\t")
}

// Start has a node start the rank of one of its rails, or of one of its GPUs. The rank is known by ID from then on.
type Start struct {
	ID   int `json:"id"`
	Rail int `json:"rail"` // -1: none
	GPU  int `json:"gpu"`  // where Rail is -1
}

// Call is a request to a rank, as its process takes it.
type Call struct {
	ID      int             `json:"id"`
	Request json.RawMessage `json:"request"`
	Timeout time.Duration   `json:"timeout"`
}

// Log is what the process of a rank logged.
type Log struct {
	Head    []byte `json:"head,omitempty"`
	Tail    []byte `json:"tail,omitempty"`
	Dropped int64  `json:"dropped,omitempty"`
}

// Words of Answer.Trouble, beside those of errors that have none.
const (
	TroubleHung    = "hung"
	TroubleRefused = "refused"
	TroubleOther   = "other"
)

// Answer is what became of a question.
type Answer struct {
	Trouble string          `json:"trouble,omitempty"` // empty: none
	Text    string          `json:"text,omitempty"`    // of the trouble
	PID     int             `json:"pid,omitempty"`     // of Start
	Reply   json.RawMessage `json:"reply,omitempty"`   // of Call
	Log     *Log            `json:"log,omitempty"`     // of Log
}

// Message is a frame after the handshake. Exactly one of its fields but Seq is set.
type Message struct {
	Seq    uint64    `json:"seq,omitempty"` // of a question and its answer
	Beat   *struct{} `json:"beat,omitempty"`
	Start  *Start    `json:"start,omitempty"`
	Call   *Call     `json:"call,omitempty"`
	Kill   *int      `json:"kill,omitempty"`  // ID
	Close  *int      `json:"close,omitempty"` // ID
	Log    *int      `json:"log,omitempty"`   // ID
	Answer *Answer   `json:"answer,omitempty"`
	// Stop says that a node measures no more, and why: another process came to its GPUs.
	Stop *string `json:"stop,omitempty"`
	End  *string `json:"end,omitempty"` // the run is over; what it says of this node
}

// check refuses a message that cannot be.
func (m *Message) check() error {
	set := 0
	for _, is := range []bool{
		m.Beat != nil, m.Start != nil, m.Call != nil, m.Kill != nil, m.Close != nil, m.Log != nil, m.Answer != nil,
		m.Stop != nil, m.End != nil,
	} {
		if is {
			set++
		}
	}
	if set != 1 {
		return refused(ReasonField, "a message with %d parts, expected one", set)
	}
	ids := []int{0}
	for _, id := range []*int{m.Kill, m.Close, m.Log} {
		if id != nil {
			ids = append(ids, *id)
		}
	}
	switch {
	case m.Start != nil:
		ids = append(ids, m.Start.ID)
		if m.Start.Rail < -1 || m.Start.Rail >= ranksMost || m.Start.GPU < 0 || m.Start.GPU >= ranksMost {
			return refused(ReasonField, "rail %d, GPU %d", m.Start.Rail, m.Start.GPU)
		}
	case m.Call != nil:
		ids = append(ids, m.Call.ID)
		if m.Call.Timeout <= 0 || m.Call.Timeout > time.Hour || len(m.Call.Request) > requestMost {
			return refused(ReasonField, "a call of %d bytes within %s", len(m.Call.Request), m.Call.Timeout)
		}
	case m.Answer != nil:
		if len(m.Answer.Text) > textMost || !slices.Contains([]string{"", TroubleHung, TroubleRefused, TroubleOther}, m.Answer.Trouble) {
			return refused(ReasonField, "trouble %.40q, %d bytes", m.Answer.Trouble, len(m.Answer.Text))
		}
	case m.Stop != nil && len(*m.Stop) > textMost, m.End != nil && len(*m.End) > textMost:
		return refused(ReasonField, "a reason that is too long")
	}
	if slices.ContainsFunc(ids, func(id int) bool { return id < 0 || id > idMost }) {
		return refused(ReasonField, "ranks %v", ids[1:])
	}
	return nil
}

// Reason is why a connection is refused.
type Reason string

// Reasons.
const (
	ReasonVersion   Reason = "version"
	ReasonSize      Reason = "size"
	ReasonRank      Reason = "rank"
	ReasonDuplicate Reason = "duplicate"
	ReasonSecret    Reason = "secret"
	ReasonField     Reason = "field"
	ReasonLate      Reason = "late"
	ReasonBroken    Reason = "broken" // the connection
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{
		ReasonVersion, ReasonSize, ReasonRank, ReasonDuplicate, ReasonSecret, ReasonField, ReasonLate, ReasonBroken,
	}
}

// Refused is why the other side is not spoken to.
type Refused struct {
	Reason Reason
	Text   string
}

func (r *Refused) Error() string { return string(r.Reason) + ": " + r.Text }

func refused(why Reason, format string, args ...any) error {
	return &Refused{why, fabric.Printable(fmt.Sprintf(format, args...), textMost/2)}
}

// ReasonOf is why an error refuses; ReasonBroken where it does not say.
func ReasonOf(err error) Reason {
	if r, ok := errors.AsType[*Refused](err); ok {
		return r.Reason
	}
	return ReasonBroken
}

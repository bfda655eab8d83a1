// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"gpufabric_exporter/internal/host/openat"
)

// Bytes are bytes that are hexadecimal digits in JSON.
type Bytes []byte

// MarshalText implements encoding.TextMarshaler.
func (b Bytes) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, b), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Bytes) UnmarshalText(text []byte) (err error) {
	*b, err = hex.AppendDecode(nil, text)
	return err
}

// Limits of a recording: one node's file is a few MiB long.
const (
	maxFile      = 32 << 20 // bytes
	maxExchanges = 1 << 16
	maxElements  = 1 << 20 // of all arrays
)

// Load reads a list of exchanges from a JSON file. An exchange that cannot be decoded is left out, as if it
// had not been recorded; where none can be, that is the error.
func Load(name string) ([]Exchange, error) {
	b, err := ReadFile(name, maxFile)
	if err != nil {
		return nil, err
	}
	list, err := decodeList(b)
	if err != nil {
		return nil, fmt.Errorf("%s: expected recorded answers of the kernel: %w", name, err)
	}
	return list, nil
}

func decodeList(b []byte) ([]Exchange, error) {
	if Elements(b) > maxElements {
		return nil, fmt.Errorf("more than %d elements of arrays", maxElements)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if first, err := d.Token(); err != nil || first != json.Delim('[') {
		return nil, cmp.Or(err, errNoList)
	}
	list, n := []Exchange{}, 0
	var odd error
	for ; d.More(); n++ {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		if n == maxExchanges {
			return nil, fmt.Errorf("more than %d of them", maxExchanges)
		}
		var e Exchange
		if err := json.Unmarshal(raw, &e); err != nil {
			odd = err
			continue
		}
		list = append(list, e)
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errNoList
	}
	if n > 0 && len(list) == 0 {
		return nil, odd
	}
	return list, nil
}

var errNoList = errors.New("expected one JSON array")

// ReadFile reads a file that may come from an archive by anyone: no link leads out of its folder, and a file
// that is not regular or has more than limit bytes is an error.
func ReadFile(name string, limit int64) ([]byte, error) {
	dir, err := openat.Open(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	fd, err := dir.OpenAttr(filepath.Base(name))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: expected a regular file, found %v", name, info.Mode())
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s: more than %d bytes", name, limit)
	}
	return b, err
}

// Exchange is a question and what the kernel answered, in its bytes.
type Exchange struct {
	Command string `json:"command"`
	// What is asked about: a network interface, or the attributes of the request.
	NetDev  string `json:"netdev,omitempty"`
	Request Bytes  `json:"request,omitempty"`
	// What the kernel answers: one message about an interface, or messages about anything else, or an error number.
	Answer   Bytes         `json:"answer,omitempty"`
	Messages []Bytes       `json:"messages,omitempty"`
	Errno    syscall.Errno `json:"errno,omitempty"`
	// Statistics are the answer to ETHTOOL_GSTATS, which is asked over an ioctl.
	Statistics []Statistic `json:"statistics,omitempty"`
}

// Statistic is one value that a driver counts.
type Statistic struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

func (e *Exchange) setMessages(replies []Message) {
	for _, m := range replies {
		if e.NetDev != "" {
			e.Answer = bytes.Clone(m.Data)
			return
		}
		e.Messages = append(e.Messages, bytes.Clone(m.Data))
	}
}

// Find returns the exchange about a question among others.
func Find(exchanges []Exchange, command, netdev string, request []byte) (Exchange, bool) {
	i := slices.IndexFunc(exchanges, func(e Exchange) bool {
		return e.Command == command && e.NetDev == netdev && bytes.Equal(e.Request, request)
	})
	if i < 0 {
		return Exchange{}, false
	}
	return exchanges[i], true
}

// Replay returns a connection to a kernel that answers as it was recorded. What was not asked then is refused with an
// error number.
func Replay(name string, exchanges []Exchange, otherwise syscall.Errno) *Conn {
	return &Conn{name: name, recorded: &recording{exchanges, otherwise}}
}

// recording is what stands for a kernel.
type recording struct {
	exchanges []Exchange
	otherwise syscall.Errno
}

func (r *recording) answer(q Question) ([]Message, error) {
	request := q.Message.Data
	if q.NetDev != "" {
		request = nil
	}
	e, found := Find(r.exchanges, q.Command, q.NetDev, request)
	switch {
	case !found:
		return nil, r.otherwise
	case e.Errno != 0:
		return nil, e.Errno
	case q.NetDev != "":
		e.Messages = []Bytes{e.Answer}
	}
	replies := make([]Message, len(e.Messages))
	for i, m := range e.Messages {
		replies[i] = Message{Header: Header{Type: q.Message.Header.Type}, Data: m}
		if q.Generic != 0 {
			replies[i].Data = append([]byte{q.Generic, 0, 0, 0}, m...)
		}
	}
	return replies, nil
}

// Elements counts the elements of all arrays in a JSON text: a byte or two of one may become a kilobyte when
// it is decoded. It takes no memory. Of what is no JSON the number means nothing.
func Elements(text []byte) int {
	const deepest = 10000 // where encoding/json ends
	var arrays [deepest]bool
	depth, n := 0, 0
	inText, first := false, false // first: nothing but space since an array began
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case inText:
			inText = c != '"'
			if c == '\\' {
				i++
			}
			continue
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			continue
		case first && c != ']', c == ',' && depth > 0 && arrays[depth-1]:
			n++
		}
		first = c == '['
		switch c {
		case '"':
			inText = true
		case '[', '{':
			if depth == deepest {
				return n
			}
			arrays[depth] = c == '['
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		}
	}
	return n
}

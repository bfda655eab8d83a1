// SPDX-License-Identifier: Apache-2.0

// Package replay keeps what a kernel answered over netlink in files, and gives it again where there is no such
// kernel. What an exchange is, and which answer belongs to a question, its users know.
package replay

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/host/beneath"
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

// Load reads a list of exchanges from a JSON file. An exchange that cannot be decoded is left out, as if it had not been
// recorded; where none can be, that is the error.
func Load[T any](name string) ([]T, error) {
	b, err := ReadFile(name, maxFile)
	if err != nil {
		return nil, err
	}
	list, err := decode[T](b)
	if err != nil {
		return nil, fmt.Errorf("%s: expected recorded answers of the kernel: %w", name, err)
	}
	return list, nil
}

func decode[T any](b []byte) ([]T, error) {
	if Elements(b) > maxElements {
		return nil, fmt.Errorf("more than %d elements of arrays", maxElements)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if first, err := d.Token(); err != nil || first != json.Delim('[') {
		return nil, cmp.Or(err, errNoList)
	}
	list, n := []T{}, 0
	var odd error
	for ; d.More(); n++ {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		if n == maxExchanges {
			return nil, fmt.Errorf("more than %d of them", maxExchanges)
		}
		var e T
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

// ReadFile reads a file that may come from an archive by anyone: no link leads out of its folder, and a file that is not
// regular or has more than limit bytes is an error.
func ReadFile(name string, limit int64) ([]byte, error) {
	dir, err := beneath.Open(filepath.Dir(name))
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

// Conn returns a connection to a kernel that answers each request with these messages, or with an error number that
// is not 0.
func Conn(answer func(request netlink.Message) ([]Bytes, syscall.Errno)) *netlink.Conn {
	return netlink.NewConn(&player{kernel: answer}, 0)
}

// player is a socket without a kernel behind it.
type player struct {
	kernel func(netlink.Message) ([]Bytes, syscall.Errno)
	answer []netlink.Message
}

func (p *player) Close() error { return nil }

func (p *player) Send(request netlink.Message) error {
	messages, errno := p.kernel(request)
	m := request
	m.Header.Flags = 0
	if errno != 0 {
		m.Header.Type = netlink.Error
		messages = []Bytes{binary.NativeEndian.AppendUint32(nil, -uint32(errno))}
	}
	p.answer = nil
	for _, m.Data = range messages {
		p.answer = append(p.answer, m)
	}
	return nil
}

func (p *player) SendMessages([]netlink.Message) error { return errNotAsked }

func (p *player) Receive() ([]netlink.Message, error) { return p.answer, nil }

func (p *player) ReceiveIter() iter.Seq2[netlink.Message, error] {
	return func(yield func(netlink.Message, error) bool) {
		for _, m := range p.answer {
			if !yield(m, nil) {
				return
			}
		}
	}
}

// errNotAsked is for what no user does.
var errNotAsked = fmt.Errorf("expected one message: %w", unix.EOPNOTSUPP)

// Elements counts the elements of all arrays in a JSON text: a byte or two of one may become a kilobyte when it is decoded.
// It takes no memory. Of what is no JSON the number means nothing.
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

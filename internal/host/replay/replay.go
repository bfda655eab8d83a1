// SPDX-License-Identifier: Apache-2.0

// Package replay keeps what a kernel answered over netlink in files, and gives it again where there is no such
// kernel. What an exchange is, and which answer belongs to a question, its users know.
package replay

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
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

// Load reads a list of exchanges from a JSON file.
func Load[T any](name string) ([]T, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var list []T
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("%s: expected recorded answers of the kernel: %w", name, err)
	}
	return list, nil
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

// SPDX-License-Identifier: Apache-2.0

package dcbnl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/host/replay"
)

// File is the name of a file with exchanges among those of other packages.
const File = "dcb.json"

// Exchange is a question about an interface and what the kernel answered, in its bytes. Exchanges can be kept and
// replayed: see Record, Load and Replay.
type Exchange struct {
	Command string        `json:"command"` // DCB_CMD_...
	NetDev  string        `json:"netdev"`
	Answer  replay.Bytes  `json:"answer,omitempty"` // the message, beginning with its struct dcbmsg
	Errno   syscall.Errno `json:"errno,omitempty"`  // the error number that was the answer
}

// Record has f called with every exchange from now on that the kernel brought to its end.
func (c *Client) Record(f func(Exchange)) { c.record = f }

// note records what ask got. Half an answer is none.
func (c *Client) note(cmd command, netdev string, message []byte, err error) {
	if c.record == nil || errors.Is(err, ErrBroken) {
		return
	}
	e := Exchange{Command: cmd.String(), NetDev: netdev, Answer: bytes.Clone(message)}
	if err != nil {
		var ok bool
		if e.Errno, ok = errors.AsType[syscall.Errno](err); !ok {
			return
		}
	}
	c.record(e)
}

// Load reads exchanges from a JSON file.
func Load(name string) ([]Exchange, error) { return replay.Load[Exchange](name) }

// Replay returns a Client of a kernel that answers as it was recorded. What was not asked then is ENODEV, as for an
// interface that is not there.
func Replay(exchanges []Exchange) *Client {
	return &Client{conn: replay.Conn(func(request netlink.Message) ([]replay.Bytes, syscall.Errno) {
		all, err := parse(request.Data[messageHeader:])
		netdev, _ := bytes.CutSuffix(all[attrIfName], []byte{0})
		cmd := cmdIEEEGet
		if request.Data[1] == byte(cmdCEEGet) {
			cmd = cmdCEEGet
		}
		i := slices.IndexFunc(exchanges, func(e Exchange) bool { return e.Command == cmd.String() && e.NetDev == string(netdev) })
		if err != nil || i < 0 {
			return nil, unix.ENODEV
		}
		return []replay.Bytes{exchanges[i].Answer}, exchanges[i].Errno
	})}
}

// Rewrite returns the exchange with another name for its interface, and with no other attributes than those that
// Client reads: what is in them, such as the settings of the link partner, nobody can tell. Of a message that is
// malformed nothing stays.
func (e Exchange) Rewrite(name func(netdev string) string) Exchange {
	e.NetDev = name(e.NetDev)
	if m, err := rewrite(e.Answer, name); err == nil {
		e.Answer = m
	} else {
		e.Answer = nil
	}
	return e
}

func rewrite(message []byte, name func(string) string) ([]byte, error) {
	if len(message) < messageHeader {
		return nil, malformed("%d bytes, expected %d or more", len(message), messageHeader)
	}
	top, err := parse(message[messageHeader:])
	if err != nil {
		return nil, err
	}
	out := []byte{unix.AF_UNSPEC, message[1], 0, 0}
	if netdev, ok := bytes.CutSuffix(top[attrIfName], []byte{0}); ok {
		out = appendAttribute(out, attrIfName, append([]byte(name(string(netdev))), 0))
	}
	if out, err = appendNest(out, attrIEEE, top[attrIEEE], ieeeETS, ieeePFC, ieeeAppTable, ieeeBuffer); err != nil {
		return nil, err
	}
	if out, err = appendNest(out, attrCEE, top[attrCEE], ceePFC, ceeAppTable); err != nil {
		return nil, err
	}
	if top[attrDCBX] != nil {
		out = appendAttribute(out, attrDCBX, top[attrDCBX])
	}
	return out, nil
}

// appendNest appends a nest, if it is there, with these of its attributes.
func appendNest(b []byte, nest int, data []byte, kinds ...int) ([]byte, error) {
	if data == nil {
		return b, nil
	}
	inner, err := parse(data)
	if err != nil {
		return nil, err
	}
	var kept []byte
	for _, kind := range kinds {
		if inner[kind] != nil {
			kept = appendAttribute(kept, kind, inner[kind])
		}
	}
	return appendAttribute(b, nest, kept), nil
}

// appendAttribute appends an attribute as the kernel lays it out (nla_put).
func appendAttribute(b []byte, kind int, data []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(headerSize+len(data)))
	b = binary.NativeEndian.AppendUint16(b, uint16(kind))
	b = append(b, data...)
	return append(b, make([]byte, -len(data)&(alignment-1))...)
}

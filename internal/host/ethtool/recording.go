// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"encoding/binary"
	"errors"
	"slices"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/replay"
)

// File is the name of a file with exchanges among those of other packages.
const File = "ethtool.json"

// Exchange is a question about an interface and what the kernel answered: the bytes of a message of netlink, or
// statistics. Exchanges can be kept and replayed: see Record, Load and Replay.
type Exchange struct {
	Command    string        `json:"command"` // ETHTOOL_MSG_..._GET or ETHTOOL_GSTATS
	NetDev     string        `json:"netdev"`
	Answer     replay.Bytes  `json:"answer,omitempty"` // the attributes of the message
	Statistics []Statistic   `json:"statistics,omitempty"`
	Errno      syscall.Errno `json:"errno,omitempty"` // the error number that was the answer
}

// Statistic is one that was wanted.
type Statistic struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// Record has f called with every exchange from now on that the kernel brought to its end.
func (c *Client) Record(f func(Exchange)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record = f
}

// note records an answer. Half an answer is none.
func (c *Client) note(e Exchange, err error) {
	if c.record == nil || errors.Is(err, ErrBroken) {
		return
	}
	if err != nil && e.Answer == nil {
		var ok bool
		if e.Errno, ok = errors.AsType[syscall.Errno](err); !ok {
			return
		}
	}
	c.record(e)
}

// statisticsOf returns what is kept of a list.
func statisticsOf(list []fabric.Counter) []Statistic {
	kept := make([]Statistic, len(list))
	for i, s := range list {
		kept[i] = Statistic{s.Name, s.Value.Value}
	}
	return kept
}

// Rewrite returns the exchange with another name for its interface, and with no other attributes than those that
// Client reads: what is in them, nobody can tell. Of a message that is malformed nothing stays but that it is.
func (e Exchange) Rewrite(name func(netdev string) string) Exchange {
	e.NetDev = name(e.NetDev)
	var kept attributeSet
	switch e.Command {
	case msgLinkModes.String():
		kept = attributeSet{attrSpeed: nil}
	case msgPause.String():
		kept = attributeSet{attrPauseAuto: nil, attrPauseRX: nil, attrPauseTX: nil, attrPauseStats: {attrPauseFramesTX: nil, attrPauseFramesRX: nil}}
	case msgFEC.String():
		kept = attributeSet{attrFECActive: nil, attrFECStats: {attrFECCorrected: nil, attrFECUncorrectable: nil, attrFECCorrectedBits: nil}}
	}
	if e.Answer != nil {
		b, err := kept.of(e.Answer)
		if err != nil {
			b = []byte{0} // no attribute is that short
		}
		e.Answer = b
	}
	return e
}

// attributeSet are attributes, and what is in those that are nests.
type attributeSet map[uint16]attributeSet

// of returns those of the attributes in b that are in the set.
func (s attributeSet) of(b []byte) ([]byte, error) {
	kept := netlink.NewAttributeEncoder()
	err := attributes(b, nil, func(d *netlink.AttributeDecoder) error {
		inner, known := s[d.Type()]
		if !known {
			return nil
		}
		data := d.Bytes()
		if inner != nil {
			var err error
			if data, err = inner.of(data); err != nil {
				return err
			}
		}
		kept.Bytes(d.Type(), data)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return kept.Encode()
}

// Load reads exchanges from a JSON file.
func Load(name string) ([]Exchange, error) { return replay.Load[Exchange](name) }

// Replay returns a Client of a kernel that answers as it was recorded. What was not asked then is ENODEV, as for an
// interface that is not there; a kernel that was asked nothing over netlink has no ethtool netlink.
func Replay(exchanges []Exchange) (*Client, error) {
	p := player(exchanges)
	c, err := newClient(p)
	if err == nil {
		c.dial = func() (*netlink.Conn, error) { return replay.Conn(p.message), nil }
	}
	return c, err
}

// player is a kernel that has nothing but recorded exchanges.
type player []Exchange

func (p player) find(command, netdev string) (Exchange, syscall.Errno) {
	i := slices.IndexFunc(p, func(e Exchange) bool { return e.Command == command && e.NetDev == netdev })
	if i < 0 {
		return Exchange{}, unix.ENODEV
	}
	return p[i], p[i].Errno
}

func (p player) index(netdev string) (uint32, error) {
	i := slices.IndexFunc(p, func(e Exchange) bool { return e.NetDev == netdev })
	if i < 0 {
		return 0, unix.ENODEV
	}
	return uint32(i + 1), nil
}

// ethtool answers what a Client asks to get at statistics, of which there may be more than it accepts.
func (p player) ethtool(netdev string, b []byte) error {
	e, errno := p.find(cmdValues.String(), netdev)
	if errno != 0 {
		return errno
	}
	n := uint32(len(e.Statistics))
	known := e.Statistics[:min(n, maxStatistics)]
	switch binary.NativeEndian.Uint32(b) {
	case uint32(cmdCounts):
		binary.NativeEndian.PutUint64(b[8:], 1<<setStatistics)
		binary.NativeEndian.PutUint32(b[16:], n)
	case uint32(cmdNames):
		binary.NativeEndian.PutUint32(b[8:], n)
		for i, s := range known {
			field := b[namesHeader+i*nameSize:][:nameSize]
			clear(field)
			copy(field, s.Name)
		}
	case uint32(cmdValues):
		binary.NativeEndian.PutUint32(b[4:], n)
		for i, s := range known {
			binary.NativeEndian.PutUint64(b[valuesHeader+i*valueSize:], s.Value)
		}
	default:
		return unix.EOPNOTSUPP
	}
	return nil
}

func (p player) close() {}

// message answers over generic netlink.
func (p player) message(request netlink.Message) ([]replay.Bytes, syscall.Errno) {
	const family = controller + 1 // any number will do
	known := false
	for _, m := range []message{msgLinkModes, msgPause, msgFEC} {
		if request.Header.Type == family && request.Data[0] == uint8(m) {
			e, errno := p.find(m.String(), askedFor(request.Data[headerSize:]))
			return []replay.Bytes{append([]byte{m.reply(), headerVersion, 0, 0}, e.Answer...)}, errno
		}
		known = known || slices.ContainsFunc(p, func(e Exchange) bool { return e.Command == m.String() })
	}
	if !known {
		return nil, unix.ENOENT
	}
	e := netlink.NewAttributeEncoder()
	e.Uint16(attrFamilyID, family)
	b, err := e.Encode()
	if err != nil {
		return nil, unix.ENOMEM
	}
	return []replay.Bytes{append([]byte{msgGetFamily.reply(), headerVersion, 0, 0}, b...)}, 0
}

// askedFor returns the name of the interface in a request.
func askedFor(request []byte) (netdev string) {
	err := attributes(request, nil, func(d *netlink.AttributeDecoder) error {
		if d.Type() != attrHeader {
			return nil
		}
		return attributes(d.Bytes(), nil, func(d *netlink.AttributeDecoder) error {
			if d.Type() == attrDeviceName {
				netdev = d.String()
			}
			return nil
		})
	})
	if err != nil {
		return ""
	}
	return netdev
}

// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	mdlayher "github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// families is a number that a kernel may give to ethtool.
const families = 0x15

// fakeNetlink answers requests by their command.
type fakeNetlink struct {
	answers map[message]func(request netlink.Message) ([]netlink.Message, error)
	dials   int
	fails   error // of dialling
	sent    []netlink.Message
}

func (k *fakeNetlink) dial() (*netlink.Conn, error) {
	k.dials++
	if k.fails != nil {
		return nil, k.fails
	}
	return netlink.New(name, nltest.Dial(func(requests []netlink.Message) ([]netlink.Message, error) {
		if len(requests) == 0 { // nothing was sent: a second Receive
			return nil, io.EOF
		}
		k.sent = append(k.sent, requests[0])
		return k.answers[message(requests[0].Data[0])](requests[0])
	})), nil
}

// says answers with a message.
func says(m message, attributes []byte) func(netlink.Message) ([]netlink.Message, error) {
	return func(request netlink.Message) ([]netlink.Message, error) {
		return []netlink.Message{{
			Header: netlink.Header{Type: request.Header.Type, Sequence: request.Header.Sequence, PID: request.Header.PID},
			Data:   append([]byte{m.reply(), headerVersion, 0, 0}, attributes...),
		}}, nil
	}
}

// refuses answers with NLMSG_ERROR.
func refuses(errno syscall.Errno) func(netlink.Message) ([]netlink.Message, error) {
	return func(request netlink.Message) ([]netlink.Message, error) {
		return nltest.Error(int(errno), []netlink.Message{request})
	}
}

// encoded returns attributes.
func encoded(fn func(*mdlayher.AttributeEncoder)) []byte {
	e := mdlayher.NewAttributeEncoder()
	fn(e)
	b, err := e.Encode()
	if err != nil {
		panic(err)
	}
	return b
}

func nest(e *mdlayher.AttributeEncoder, typ uint16, fn func(*mdlayher.AttributeEncoder)) {
	e.Nested(typ, func(e *mdlayher.AttributeEncoder) error { fn(e); return nil })
}

func familyReply() []byte {
	return encoded(func(e *mdlayher.AttributeEncoder) {
		e.String(attrFamilyName, familyName)
		e.Uint16(attrFamilyID, families)
		e.Uint32(3, 1) // CTRL_ATTR_VERSION
	})
}

// pauseReply is what a driver says that sends and receives pause frames, and counts them.
func pauseReply() []byte {
	return encoded(func(e *mdlayher.AttributeEncoder) {
		nest(e, attrHeader, func(e *mdlayher.AttributeEncoder) { e.Uint32(1, 7); e.String(attrDeviceName, "eth0") })
		e.Uint8(attrPauseAuto, 1)
		e.Uint8(attrPauseRX, 1)
		e.Uint8(attrPauseTX, 0)
		nest(e, attrPauseStats, func(e *mdlayher.AttributeEncoder) {
			e.Bytes(1, nil) // PAD
			e.Uint64(attrPauseFramesTX, 5)
			e.Uint64(attrPauseFramesRX, 1<<40)
		})
		e.Uint32(6, 0) // ETHTOOL_A_PAUSE_STATS_SRC
	})
}

func array(values ...uint64) (b []byte) {
	for _, v := range values {
		b = binary.NativeEndian.AppendUint64(b, v)
	}
	return b
}

// fecReply is what a driver with RS-FEC says that counts blocks by lane, and no bits.
func fecReply() []byte {
	return encoded(func(e *mdlayher.AttributeEncoder) {
		nest(e, attrHeader, func(e *mdlayher.AttributeEncoder) { e.Uint32(1, 7); e.String(attrDeviceName, "eth0") })
		nest(e, 2, func(e *mdlayher.AttributeEncoder) { e.Uint32(2, 121); e.Bytes(4, make([]byte, 16)) })
		e.Uint8(3, 1)
		e.Uint32(attrFECActive, 50)
		nest(e, attrFECStats, func(e *mdlayher.AttributeEncoder) {
			e.Bytes(attrFECCorrected, array(12, 3, 4, 5))
			e.Bytes(attrFECUncorrectable, array(1<<50))
			e.Bytes(attrFECCorrectedBits, nil)
		})
	})
}

func wantPause() fabric.Pause {
	return fabric.Pause{
		Autonegotiated: true, Receive: true,
		Received:    fabric.Known[uint64](1<<40, "ETHTOOL_A_PAUSE_STAT_RX_FRAMES", now()),
		Transmitted: fabric.Known[uint64](5, "ETHTOOL_A_PAUSE_STAT_TX_FRAMES", now()),
	}
}

func wantFEC() fabric.FEC {
	return fabric.FEC{
		Active:              "rs",
		CorrectedBlocks:     fabric.Known[uint64](12, "ETHTOOL_A_FEC_STAT_CORRECTED", now()),
		UncorrectableBlocks: fabric.Known[uint64](1<<50, "ETHTOOL_A_FEC_STAT_UNCORR", now()),
		CorrectedBits:       fabric.UnknownFact[uint64](fabric.ReasonMissing, "ETHTOOL_A_FEC_STAT_CORR_BITS", now()),
	}
}

func fakeConnection(t *testing.T) (*Client, *fakeNetlink) {
	t.Helper()
	k := &fakeNetlink{answers: map[message]func(netlink.Message) ([]netlink.Message, error){
		msgGetFamily: says(msgGetFamily, familyReply()), msgPause: says(msgPause, pauseReply()), msgFEC: says(msgFEC, fecReply()),
	}}
	c := client(t, &fakeKernel{})
	c.dial = k.dial
	return c, k
}

func TestRead(t *testing.T) {
	c, k := fakeConnection(t)
	want := fabric.QoS{
		Pause: fabric.Known(wantPause(), "ETHTOOL_MSG_PAUSE_GET", now()), FEC: fabric.Known(wantFEC(), "ETHTOOL_MSG_FEC_GET", now()),
	}
	for range 2 {
		var q fabric.QoS
		if err := c.Read("eth0", &q, now()); err != nil || q.Pause != want.Pause || q.FEC != want.FEC {
			t.Errorf("%+v, %v", q, err)
		}
	}
	if k.dials != 1 || len(k.sent) != 5 {
		t.Errorf("dialled %d times, sent %d requests", k.dials, len(k.sent))
	}
	family := []byte{3, 1, 0, 0, 12, 0, 2, 0, 'e', 't', 'h', 't', 'o', 'o', 'l', 0}
	pause := []byte{
		21, 1, 0, 0, 24, 0, 1, 0x80, 9, 0, 2, 0, 'e', 't', 'h', '0', 0, 0, 0, 0, 8, 0, 3, 0, 5, 0, 0, 0,
	}
	for i, data := range [][]byte{family, pause, slices.Concat([]byte{29}, pause[1:])} {
		typ := netlink.HeaderType(families)
		if i == 0 {
			typ = 16
		}
		if m := k.sent[i]; m.Header.Type != typ || m.Header.Flags != netlink.Request || !slices.Equal(m.Data, data) {
			t.Errorf("request %d: %+v, want %v", i, m, data)
		}
	}
	if n := c.Commands(); !maps.Equal(n, fabric.Commands{"ethtool_stats": 0, "ethtool_names": 0, "pause_get": 2, "fec_get": 2, "link_get": 0}) {
		t.Errorf("commands %v", n)
	}
}

// One fact fails for itself; what would fail them all is an error and is not asked again.
func TestReadErrors(t *testing.T) {
	pause, fec := fabric.Known(wantPause(), "ETHTOOL_MSG_PAUSE_GET", now()), fabric.Known(wantFEC(), "ETHTOOL_MSG_FEC_GET", now())
	noPause := func(r fabric.Reason) fabric.Fact[fabric.Pause] {
		return fabric.UnknownFact[fabric.Pause](r, "ETHTOOL_MSG_PAUSE_GET", now())
	}
	noFEC := func(r fabric.Reason) fabric.Fact[fabric.FEC] {
		return fabric.UnknownFact[fabric.FEC](r, "ETHTOOL_MSG_FEC_GET", now())
	}
	otherMessage := func(request netlink.Message) ([]netlink.Message, error) {
		m, err := says(msgPause, fecReply())(request)
		return append(m, m...), err
	}
	late := func(request netlink.Message) ([]netlink.Message, error) {
		request.Header.Sequence--
		return says(msgPause, pauseReply())(request)
	}
	for name, c := range map[string]struct {
		change func(*fakeNetlink)
		pause  fabric.Fact[fabric.Pause]
		fec    fabric.Fact[fabric.FEC]
		err    error
	}{
		"no FEC": {func(k *fakeNetlink) { k.answers[msgFEC] = refuses(unix.EOPNOTSUPP) }, pause, noFEC(fabric.ReasonUnsupported), nil},
		"neither": {func(k *fakeNetlink) {
			k.answers[msgPause], k.answers[msgFEC] = refuses(unix.EOPNOTSUPP), refuses(unix.EOPNOTSUPP)
		}, noPause(fabric.ReasonUnsupported), noFEC(fabric.ReasonUnsupported), nil},
		"pause fails":  {func(k *fakeNetlink) { k.answers[msgPause] = refuses(unix.EIO) }, noPause(fabric.ReasonIO), fec, nil},
		"gone":         {func(k *fakeNetlink) { k.answers[msgPause] = refuses(unix.ENODEV) }, noPause(fabric.ReasonGone), noFEC(fabric.ReasonGone), unix.ENODEV},
		"leaves":       {func(k *fakeNetlink) { k.answers[msgFEC] = refuses(unix.ENODEV) }, pause, noFEC(fabric.ReasonGone), unix.ENODEV},
		"old kernel":   {func(k *fakeNetlink) { k.answers[msgGetFamily] = refuses(unix.ENOENT) }, noPause(fabric.ReasonMissing), noFEC(fabric.ReasonMissing), nil},
		"no netlink":   {func(k *fakeNetlink) { k.fails = os.NewSyscallError("socket", unix.EAFNOSUPPORT) }, noPause(fabric.ReasonPrivilege), noFEC(fabric.ReasonPrivilege), ErrNoSocket},
		"forbidden":    {func(k *fakeNetlink) { k.fails = os.NewSyscallError("socket", unix.EACCES) }, noPause(fabric.ReasonPrivilege), noFEC(fabric.ReasonPrivilege), unix.EACCES},
		"nonsense":     {func(k *fakeNetlink) { k.answers[msgPause] = says(msgPause, []byte{1, 2, 3, 4, 5}) }, noPause(fabric.ReasonMalformed), fec, netlink.ErrMalformed},
		"nonsense too": {func(k *fakeNetlink) { k.answers[msgFEC] = says(msgFEC, fecReply()[:70]) }, pause, noFEC(fabric.ReasonMalformed), netlink.ErrMalformed},
		"two messages": {func(k *fakeNetlink) { k.answers[msgPause] = otherMessage }, noPause(fabric.ReasonMalformed), fec, netlink.ErrMalformed},
		"other answer": {func(k *fakeNetlink) { k.answers[msgPause] = says(msgFEC, pauseReply()) }, noPause(fabric.ReasonMalformed), fec, netlink.ErrMalformed},
		"no family":    {func(k *fakeNetlink) { k.answers[msgGetFamily] = says(msgGetFamily, nil) }, noPause(fabric.ReasonMalformed), noFEC(fabric.ReasonMalformed), netlink.ErrMalformed},
		"late answer":  {func(k *fakeNetlink) { k.answers[msgPause] = late }, noPause(fabric.ReasonIO), noFEC(fabric.ReasonIO), netlink.ErrBroken},
		"no buffer": {func(k *fakeNetlink) {
			k.answers[msgPause] = func(netlink.Message) ([]netlink.Message, error) { return nil, unix.ENOBUFS }
		}, noPause(fabric.ReasonIO), noFEC(fabric.ReasonIO), netlink.ErrBroken},
	} {
		t.Run(name, func(t *testing.T) {
			client, k := fakeConnection(t)
			good := maps.Clone(k.answers)
			c.change(k)
			var q fabric.QoS
			if err := client.Read("eth0", &q, now()); !errors.Is(err, c.err) || q.Pause != c.pause || q.FEC != c.fec {
				t.Errorf("%+v, %v", q, err)
			}
			k.answers, k.fails = good, nil
			if err := client.Read("eth0", &q, now()); err != nil || q.Pause != pause || q.FEC != fec {
				t.Errorf("afterwards %+v, %v", q, err)
			}
		})
	}
}

// What is malformed is named: the interface, the message, and the attribute with the nest that it is in.
func TestMalformed(t *testing.T) {
	stats := func(kind uint16, b []byte) []byte {
		return encoded(func(e *mdlayher.AttributeEncoder) {
			nest(e, attrFECStats, func(e *mdlayher.AttributeEncoder) { e.Bytes(kind, b) }) // of the same number as attrPauseStats
		})
	}
	uint32s := func(kind uint16) []byte { return encoded(func(e *mdlayher.AttributeEncoder) { e.Uint32(kind, 1) }) }
	wrongNest := encoded(func(e *mdlayher.AttributeEncoder) { e.Bytes(attrPauseStats, []byte{1, 2, 3}) })
	longNest := encoded(func(e *mdlayher.AttributeEncoder) { e.Bytes(attrPauseStats, []byte{200, 0, attrPauseFramesRX, 0}) })
	long := pauseReply()
	long[0] = 255
	for _, c := range []struct {
		name string
		m    message
		b    []byte
		want string
	}{
		{"cut", msgPause, pauseReply()[:50], "ETHTOOL_MSG_PAUSE_GET: "},
		{"longer than the message", msgPause, long, "ETHTOOL_MSG_PAUSE_GET: "},
		{"wide switch", msgPause, uint32s(attrPauseAuto), "ETHTOOL_MSG_PAUSE_GET: ETHTOOL_A_PAUSE_AUTONEG: "},
		{"wide RX", msgPause, uint32s(attrPauseRX), "ETHTOOL_MSG_PAUSE_GET: ETHTOOL_A_PAUSE_RX: "},
		{"wide TX", msgPause, uint32s(attrPauseTX), "ETHTOOL_MSG_PAUSE_GET: ETHTOOL_A_PAUSE_TX: "},
		{"nest that is none", msgPause, wrongNest, "ETHTOOL_MSG_PAUSE_GET: ETHTOOL_A_PAUSE_STATS: "},
		{"nest beyond itself", msgPause, longNest, "ETHTOOL_MSG_PAUSE_GET: ETHTOOL_A_PAUSE_STATS: "},
		{"narrow frames", msgPause, stats(attrPauseFramesRX, []byte{1, 2, 3, 4}), "ETHTOOL_MSG_PAUSE_GET: ETHTOOL_A_PAUSE_STATS: ETHTOOL_A_PAUSE_STAT_RX_FRAMES: "},
		{"empty frames", msgPause, stats(attrPauseFramesTX, nil), "ETHTOOL_MSG_PAUSE_GET: ETHTOOL_A_PAUSE_STATS: ETHTOOL_A_PAUSE_STAT_TX_FRAMES: "},
		{"no TX", msgPause, encoded(func(e *mdlayher.AttributeEncoder) { e.Uint8(attrPauseRX, 1) }), "ETHTOOL_MSG_PAUSE_GET: ETHTOOL_A_PAUSE_TX: missing: "},
		{"cut FEC", msgFEC, fecReply()[:70], "ETHTOOL_MSG_FEC_GET: "},
		{"narrow bit", msgFEC, encoded(func(e *mdlayher.AttributeEncoder) { e.Uint8(attrFECActive, 1) }), "ETHTOOL_MSG_FEC_GET: ETHTOOL_A_FEC_ACTIVE: "},
		{"odd blocks", msgFEC, stats(attrFECCorrected, make([]byte, 9)), "ETHTOOL_MSG_FEC_GET: ETHTOOL_A_FEC_STATS: ETHTOOL_A_FEC_STAT_CORRECTED: 9 bytes, expected a multiple of 8: "},
		{"odd bits", msgFEC, stats(attrFECCorrectedBits, make([]byte, 1)), "ETHTOOL_MSG_FEC_GET: ETHTOOL_A_FEC_STATS: ETHTOOL_A_FEC_STAT_CORR_BITS: 1 bytes, expected a multiple of 8: "},
	} {
		client, k := fakeConnection(t)
		k.answers[c.m] = says(c.m, c.b)
		var q fabric.QoS
		err := client.Read("eth0", &q, now())
		if !errors.Is(err, netlink.ErrMalformed) || !strings.HasPrefix(err.Error(), "ethtool: eth0: "+c.want) || fabric.ReasonOf(err) != fabric.ReasonMalformed {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		if broken := q.Pause.State != fabric.OK; broken != (c.m == msgPause) || broken == (q.FEC.State != fabric.OK) {
			t.Errorf("%s: the other answer is lost, or this one is not: %+v", c.name, q)
		}
	}
}

// The bytes as Linux lays them out on a little-endian machine: the tests above would agree with any numbers.
func TestLayout(t *testing.T) {
	bytes := func(hexadecimal string) []byte {
		b, err := hex.DecodeString(strings.ReplaceAll(hexadecimal, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	const header = "1800 0180 0800 0100 07000000 0900 0200 65746830 00000000" // index 7, "eth0"
	pause, err := decodePause(bytes(header+
		"0500 0200 01000000 0500 0300 01000000 0500 0400 00000000"+ // AUTONEG, RX, TX
		"2000 0580 0400 0100 0c00 0200 0500000000000000 0c00 0300 0000000000010000"+ // STATS: PAD, TX_FRAMES, RX_FRAMES
		"0800 0600 00000000"), now()) // STATS_SRC
	if err != nil || pause != wantPause() {
		t.Errorf("%+v, %v", pause, err)
	}
	fec, err := decodeFEC(bytes(header+
		"1000 0280 0400 0100 0800 0200 79000000"+ // MODES
		"0500 0300 01000000 0800 0400 32000000"+ // AUTO, ACTIVE
		"2800 0580 0400 0100"+ // STATS: PAD
		"1400 0200 0c00000000000000 0300000000000000 0c00 0300 0000000000000400"), now()) // CORRECTED with one lane, UNCORR
	if err != nil || fec.Active != "rs" || fec.CorrectedBlocks.Value != 12 || fec.UncorrectableBlocks.Value != 1<<50 || fec.CorrectedBits.State == fabric.OK {
		t.Errorf("%+v, %v", fec, err)
	}
	fec, err = decodeFEC(bytes(header+"1000 0580 0c00 0400 0700000000000000"), now()) // STATS: CORR_BITS
	if err != nil || fec.CorrectedBits.Value != 7 || fec.Active != "" {
		t.Errorf("%+v, %v", fec, err)
	}
	megabits, err := decodeSpeed(bytes(header + "0500 0200 01000000 0800 0500 801a0600 0500 0600 01000000")) // AUTONEG, SPEED, DUPLEX
	if err != nil || megabits != 400_000 {
		t.Errorf("%d Mb/s, %v", megabits, err)
	}
}

func TestDecodePause(t *testing.T) {
	got, err := decodePause(encoded(func(e *mdlayher.AttributeEncoder) { // without statistics
		e.Uint8(attrPauseRX, 1)
		e.Uint8(attrPauseTX, 1)
		nest(e, attrPauseStats, func(*mdlayher.AttributeEncoder) {})
	}), now())
	want := fabric.Pause{
		Receive: true, Transmit: true,
		Received: uncounted("ETHTOOL_A_PAUSE_STAT_RX_FRAMES", now()), Transmitted: uncounted("ETHTOOL_A_PAUSE_STAT_TX_FRAMES", now()),
	}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for name, b := range map[string][]byte{
		"nothing": nil,
		"no TX":   encoded(func(e *mdlayher.AttributeEncoder) { e.Uint8(attrPauseRX, 1) }),
		"wide RX": encoded(func(e *mdlayher.AttributeEncoder) { e.Uint32(attrPauseRX, 1); e.Uint8(attrPauseTX, 1) }),
		"narrow frames": append(pauseReply(), encoded(func(e *mdlayher.AttributeEncoder) {
			nest(e, attrPauseStats, func(e *mdlayher.AttributeEncoder) { e.Uint32(attrPauseFramesRX, 1) })
		})...),
		"cut": pauseReply()[:50],
	} {
		if got, err := decodePause(b, now()); !errors.Is(err, netlink.ErrMalformed) || got != (fabric.Pause{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestDecodeFEC(t *testing.T) {
	none := fabric.FEC{
		CorrectedBlocks: uncounted("ETHTOOL_A_FEC_STAT_CORRECTED", now()), UncorrectableBlocks: uncounted("ETHTOOL_A_FEC_STAT_UNCORR", now()),
		CorrectedBits: uncounted("ETHTOOL_A_FEC_STAT_CORR_BITS", now()),
	}
	if got, err := decodeFEC(nil, now()); err != nil || got != none {
		t.Errorf("%+v, %v", got, err)
	}
	for bit, want := range map[uint32]string{49: "none", 50: "rs", 51: "baser", 74: "llrs", 0: "", 52: "", 1 << 31: ""} {
		got, err := decodeFEC(encoded(func(e *mdlayher.AttributeEncoder) { e.Uint32(attrFECActive, bit) }), now())
		if err != nil || got.Active != want {
			t.Errorf("%d: %+v, %v", bit, got, err)
		}
	}
	b := encoded(func(e *mdlayher.AttributeEncoder) {
		nest(e, attrFECStats, func(e *mdlayher.AttributeEncoder) { e.Bytes(attrFECCorrected, make([]byte, 9)) })
	})
	if got, err := decodeFEC(b, now()); !errors.Is(err, netlink.ErrMalformed) || got != (fabric.FEC{}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// fuzzDecoder gives a decoder what a kernel says, and what becomes of it.
func fuzzDecoder[T comparable](f *testing.F, reply []byte, decode func([]byte) (T, error)) {
	f.Add(reply)
	f.Add(reply[:len(reply)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		before := slices.Clone(b)
		v, err := decode(b)
		if !slices.Equal(b, before) {
			t.Fatal("message was written to")
		}
		var none T
		if err != nil && (!errors.Is(err, netlink.ErrMalformed) || v != none) {
			t.Errorf("%+v, %v", v, err)
		}
		if err == nil && len(b)%4 == 0 {
			more, err := decode(append(b, encoded(func(e *mdlayher.AttributeEncoder) { e.String(0x3ff, "new") })...))
			if err != nil || more != v {
				t.Errorf("with one attribute more %+v, %v, was %+v", more, err, v)
			}
		}
	})
}

func FuzzDecodePause(f *testing.F) {
	fuzzDecoder(f, pauseReply(), func(b []byte) (fabric.Pause, error) { return decodePause(b, now()) })
}

func FuzzDecodeFEC(f *testing.F) {
	fuzzDecoder(f, fecReply(), func(b []byte) (fabric.FEC, error) { return decodeFEC(b, now()) })
}

func FuzzDecodeFamily(f *testing.F) { fuzzDecoder(f, familyReply(), decodeFamily) }

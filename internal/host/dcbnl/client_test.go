// SPDX-License-Identifier: Apache-2.0

package dcbnl

import (
	"errors"
	"os"
	"reflect"
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

// client returns a Client of a kernel that answers with fn.
func client(fn nltest.Func) *Client { return &Client{conn: netlink.New(name, nltest.Dial(fn))} }

// answer answers each request with copies of messages, with its sequence number and port.
func answer(messages ...netlink.Message) nltest.Func {
	return func(requests []netlink.Message) ([]netlink.Message, error) {
		replies := slices.Clone(messages)
		for i := range replies {
			replies[i].Header.Sequence = requests[0].Header.Sequence
			replies[i].Header.PID = requests[0].Header.PID
		}
		return replies, nil
	}
}

func reply(data []byte) netlink.Message {
	return netlink.Message{Header: netlink.Header{Type: unix.RTM_GETDCB}, Data: data}
}

// refuse answers with NLMSG_ERROR.
func refuse(errno syscall.Errno) nltest.Func {
	return func(requests []netlink.Message) ([]netlink.Message, error) {
		return nltest.Error(int(errno), requests)
	}
}

// commands answers each command in its own way.
func commands(ieee, cee nltest.Func) nltest.Func {
	return func(requests []netlink.Message) ([]netlink.Message, error) {
		if command(requests[0].Data[1]) == cmdCEEGet {
			return cee(requests)
		}
		return ieee(requests)
	}
}

func TestRequest(t *testing.T) {
	var sent []netlink.Message
	c := client(func(requests []netlink.Message) ([]netlink.Message, error) {
		sent = append(sent, requests...)
		return answer(reply(message(command(requests[0].Data[1]), put(nil, ieeeAppTable, []byte{}))))(requests)
	})
	var q fabric.QoS
	if err := c.Read("hca0", &q, at()); err != nil {
		t.Error(err)
	}
	var data []string
	for _, m := range sent {
		if m.Header.Type != 78 || m.Header.Flags != netlink.Request {
			t.Errorf("%+v", m.Header)
		}
		data = append(data, string(m.Data))
	}
	want := []string{"\x00\x15\x00\x00\x09\x00\x01\x00hca0\x00\x00\x00\x00", "\x00\x1a\x00\x00\x09\x00\x01\x00hca0\x00\x00\x00\x00"}
	if !slices.Equal(data, want) {
		t.Errorf("%q, want %q", data, want)
	}
	if n := c.Commands(); len(n) != 1 || n[fabric.CommandDCB] != 2 {
		t.Errorf("commands %v, want 2", n)
	}
}

// Read fills in its facts, and nothing else.
func TestReadFillsIn(t *testing.T) {
	pause := fabric.Known(fabric.Pause{Receive: true}, "elsewhere", at())
	q := fabric.QoS{Pause: pause, PFC: fabric.Known(fabric.PFC{Enabled: 255}, "before", at())}
	c := client(answer(recording(t, "ieee_get_hca0")))
	if err := c.Read("hca0", &q, at()); err != nil {
		t.Fatal(err)
	}
	if pfc, ok := q.PFC.Get(); !ok || pfc.Enabled != 0b11000 || !reflect.DeepEqual(q.Pause, pause) {
		t.Errorf("%+v", q)
	}
	if n := c.Commands()[fabric.CommandDCB]; n != 1 {
		t.Errorf("%d questions to a driver with IEEE, want 1", n)
	}
}

// Which drivers are asked for CEE, and what comes of it.
func TestCEE(t *testing.T) {
	table := put(nil, ieeeAppTable, []byte{})
	badTable := put(nil, ieeeAppTable, put(nil, ieeeApp, app(1, 24, 4791))) // an entry of CEE, as the kernel shows it
	zeros := slices.Concat(put(nil, ieeePFC, emptyPFC()), put(nil, ieeeETS, emptyETS()), table)
	mode := func(bits uint8) []byte { return put(nil, attrDCBX, bits) }
	var settings []byte
	for p := range fabric.NumPriorities {
		settings = put(settings, pfcPriority0+p, uint8(1))
	}
	cee := answer(reply(message(cmdCEEGet, put(put(nil, ceePFC, settings), ceeAppTable, []byte{}))))
	ceeNone := answer(reply(message(cmdCEEGet, put(nil, ceeAppTable, []byte{}))))
	for _, c := range []struct {
		name   string
		ieee   []byte
		beside []byte
		cee    nltest.Func
		asked  uint64
		source string
		want   fabric.Meta
	}{
		{name: "IEEE", ieee: zeros, beside: mode(9), asked: 1, source: sourcePFC, want: fabric.Meta{State: fabric.OK}},
		{name: "IEEE beside CEE, as mlx5 says", ieee: zeros, beside: mode(13), asked: 1, source: sourcePFC, want: fabric.Meta{State: fabric.OK}},
		{name: "IEEE that fails", ieee: table, beside: mode(13), asked: 1, source: sourcePFC, want: fabric.Meta{Reason: fabric.ReasonUnsupported}},
		{name: "no word of the mode", ieee: zeros, asked: 1, source: sourcePFC, want: fabric.Meta{State: fabric.OK}},
		{name: "ETS alone", ieee: slices.Concat(table, put(nil, ieeeETS, emptyETS())), asked: 1, source: sourcePFC, want: fabric.Meta{Reason: fabric.ReasonUnsupported}},
		{name: "CEE with zeros for IEEE, as ixgbe answers", ieee: zeros, beside: mode(5), cee: cee, asked: 2, source: sourceCEEPFC, want: fabric.Meta{State: fabric.OK}},
		{name: "CEE without its mode", ieee: table, cee: cee, asked: 2, source: sourceCEEPFC, want: fabric.Meta{State: fabric.OK}},
		{name: "CEE with its table", ieee: badTable, cee: cee, asked: 2, source: sourceCEEPFC, want: fabric.Meta{State: fabric.OK}},
		{name: "neither", ieee: table, beside: mode(0), cee: ceeNone, asked: 2, source: sourceCEEPFC, want: fabric.Meta{Reason: fabric.ReasonUnsupported}},
		{name: "CEE that the kernel does not know", ieee: zeros, beside: mode(4), cee: refuse(unix.EOPNOTSUPP), asked: 2, source: sourceCEEPFC, want: fabric.Meta{Reason: fabric.ReasonUnsupported}},
	} {
		k := client(commands(answer(reply(message(cmdIEEEGet, c.ieee, c.beside))), c.cee))
		var q fabric.QoS
		err := k.Read("hca0", &q, at())
		got := q.PFC.Meta()
		if err != nil || got.State != c.want.State || got.Reason != c.want.Reason || got.Source != c.source {
			t.Errorf("%s: %v, %+v", c.name, err, got)
		}
		if n := k.Commands()[fabric.CommandDCB]; n != c.asked {
			t.Errorf("%s: %d questions, want %d", c.name, n, c.asked)
		}
		if c.asked == 2 && (q.ETS.State == fabric.OK || q.DCBX.Source != sourceDCBX) {
			t.Errorf("%s: %+v, %+v", c.name, q.ETS, q.DCBX)
		}
	}
}

// The kernel's own errors are answers: they are found with errors.Is, and the connection goes on.
func TestRefusals(t *testing.T) {
	for errno, want := range map[syscall.Errno]fabric.Reason{
		unix.EOPNOTSUPP: fabric.ReasonUnsupported,
		unix.EINVAL:     fabric.ReasonUnsupported,
		unix.ENODEV:     fabric.ReasonGone,
		unix.EPERM:      fabric.ReasonPrivilege,
		unix.EMSGSIZE:   fabric.ReasonIO, // the table does not fit into the kernel's message
	} {
		c := client(refuse(errno))
		for range 2 {
			q := fabric.QoS{PFC: fabric.Known(fabric.PFC{Enabled: 8}, "before", at())}
			err := c.Read("hca0", &q, at())
			if none := errno == unix.EOPNOTSUPP; none != (err == nil) || !none && (!errors.Is(err, errno) || errors.Is(err, netlink.ErrBroken)) {
				t.Errorf("%v: %v", errno, err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "dcbnl: hca0: DCB_CMD_IEEE_GET: ") {
				t.Errorf("%v", err)
			}
			for _, m := range []fabric.Meta{q.PFC.Meta(), q.ETS.Meta(), q.Apps.Meta(), q.Buffers.Meta(), q.DCBX.Meta()} {
				if m.State != fabric.Unknown || m.Reason != want || m.Source == "" || !m.At.Equal(at()) {
					t.Errorf("%v: %+v", errno, m)
				}
			}
		}
		if n := c.Commands()[fabric.CommandDCB]; n != 2 {
			t.Errorf("%v: %d questions, want 2", errno, n)
		}
	}
}

func TestRecordedRefusals(t *testing.T) {
	var q fabric.QoS
	if err := client(answer(recording(t, "ieee_get_lo"))).Read("lo", &q, at()); err != nil || q.PFC.Reason != fabric.ReasonUnsupported {
		t.Errorf("%v, %+v", err, q.PFC)
	}
	if err := client(answer(recording(t, "ieee_get_gone"))).Read("hca99", &q, at()); !errors.Is(err, unix.ENODEV) || q.PFC.Reason != fabric.ReasonGone {
		t.Errorf("%v, %+v", err, q.PFC)
	}
	recorded := commands(answer(recording(t, "ieee_get_hca1")), answer(recording(t, "cee_get_hca1")))
	if err := client(recorded).Read("hca1", &q, at()); err != nil || q.PFC.Source != sourceCEEPFC || q.Buffers.Value.Total != 524288 {
		t.Errorf("%v, %+v", err, q)
	}
}

// What cannot be the name of an interface is not asked for: the kernel would stop at a NUL and answer for another one.
func TestNames(t *testing.T) {
	c := client(refuse(unix.EINVAL))
	for _, name := range []string{"", "hca0\x00", "sixteen-is-a-lot"} {
		var q fabric.QoS
		if err := c.Read(name, &q, at()); !errors.Is(err, unix.ENODEV) || q.PFC.Reason != fabric.ReasonGone {
			t.Errorf("%q: %v", name, err)
		}
	}
	if n := c.Commands()[fabric.CommandDCB]; n != 0 {
		t.Errorf("%d questions", n)
	}
}

// After an exchange that ended half-way the Client sends nothing more.
func TestBroken(t *testing.T) {
	good := recording(t, "ieee_get_hca0")
	for name, fn := range map[string]nltest.Func{
		"sequence": func(requests []netlink.Message) ([]netlink.Message, error) {
			m := good
			m.Header.Sequence, m.Header.PID = requests[0].Header.Sequence-1, nltest.PID
			return []netlink.Message{m}, nil
		},
		"port": func(requests []netlink.Message) ([]netlink.Message, error) {
			m := good
			m.Header.Sequence, m.Header.PID = requests[0].Header.Sequence, nltest.PID+1
			return []netlink.Message{m}, nil
		},
		"error of another request": func(requests []netlink.Message) ([]netlink.Message, error) {
			requests[0].Header.Sequence--
			return nltest.Error(int(unix.EOPNOTSUPP), requests)
		},
		"receive": func([]netlink.Message) ([]netlink.Message, error) { return nil, unix.ENOBUFS },
	} {
		c := client(fn)
		for range 2 {
			var q fabric.QoS
			if err := c.Read("hca0", &q, at()); !errors.Is(err, netlink.ErrBroken) || q.PFC.Reason != fabric.ReasonIO {
				t.Errorf("%s: %v, %+v", name, err, q.PFC)
			}
		}
		if n := c.Commands()[fabric.CommandDCB]; n != 1 {
			t.Errorf("%s: %d questions sent, want 1", name, n)
		}
	}
}

func TestForeignMessages(t *testing.T) {
	good := recording(t, "ieee_get_hca0")
	for name, messages := range map[string][]netlink.Message{
		"none":              {},
		"two":               {good, good},
		"another type":      {{Header: netlink.Header{Type: unix.RTM_SETDCB}, Data: good.Data}},
		"acknowledgement":   {{Header: netlink.Header{Type: mdlayher.Error}, Data: make([]byte, 20)}},
		"overrun":           {{Header: netlink.Header{Type: mdlayher.Overrun}}},
		"another interface": {recording(t, "ieee_get_hca1")},
		"another command":   {reply(message(cmdCEEGet, nil))},
	} {
		var q fabric.QoS
		if err := client(answer(messages...)).Read("hca0", &q, at()); !errors.Is(err, netlink.ErrMalformed) || q.PFC.Reason != fabric.ReasonMalformed {
			t.Errorf("%s: %v, %+v", name, err, q.PFC)
		}
	}
}

// A single attribute that is wrong is in the error with its interface, beside facts that are read.
func TestMalformedFact(t *testing.T) {
	c := client(answer(reply(message(cmdIEEEGet, put(put(nil, ieeePFC, emptyPFC()), ieeeETS, []byte{1})))))
	var q fabric.QoS
	err := c.Read("hca0", &q, at())
	want := "dcbnl: hca0: DCB_CMD_IEEE_GET: DCB_ATTR_IEEE_ETS: 1 bytes, expected 59 or more: "
	if !errors.Is(err, netlink.ErrMalformed) || !strings.HasPrefix(err.Error(), want) || q.PFC.State != fabric.OK || fabric.ReasonOf(err) != q.ETS.Reason {
		t.Errorf("%v, %+v", err, q)
	}
}

// A real socket and whatever interfaces this host has, asked without privilege.
func TestSocket(t *testing.T) {
	c, err := Dial()
	if err != nil {
		t.Skip(err)
	}
	var q fabric.QoS
	if err := c.Read("lo", &q, at()); err != nil || q.PFC.Reason != fabric.ReasonUnsupported {
		t.Errorf("lo: %v, %+v", err, q.PFC)
	}
	if err := c.Read("not-there", &q, at()); !errors.Is(err, unix.ENODEV) {
		t.Errorf("not-there: %v", err)
	}
	entries, _ := os.ReadDir("/sys/class/net")
	for _, e := range entries {
		if err := c.Read(e.Name(), &q, at()); errors.Is(err, netlink.ErrMalformed) || errors.Is(err, netlink.ErrBroken) {
			t.Errorf("%s: %v", e.Name(), err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Read("lo", &q, at()); !errors.Is(err, netlink.ErrBroken) || q.PFC.Reason != fabric.ReasonIO {
		t.Error("after Close:", err)
	}
}

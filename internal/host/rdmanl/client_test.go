// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"errors"
	"io"
	"iter"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

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

func reply(cmd command, data []byte) netlink.Message {
	return netlink.Message{Header: netlink.Header{Type: cmd.header()}, Data: data}
}

// refuse answers with NLMSG_ERROR.
func refuse(errno syscall.Errno) nltest.Func {
	return func(requests []netlink.Message) ([]netlink.Message, error) {
		requests[0].Header.Flags = 0 // NLM_F_DUMP in an error would mean NLM_F_ACK_TLVS
		return nltest.Error(int(errno), requests)
	}
}

// calls are all questions, by the command they are to send.
func calls() map[command]func(*Client) error {
	return map[command]func(*Client) error{
		cmdGet:     func(c *Client) error { _, err := c.Devices(); return err },
		cmdPortGet: func(c *Client) error { _, err := c.Port(3, 1); return err },
		cmdSysGet:  func(c *Client) error { _, err := c.System(); return err },
		cmdStatGet: func(c *Client) error { _, err := c.Counters(3, 1); return err },
	}
}

func TestRequests(t *testing.T) {
	port := put(put(nil, attrDevIndex, uint32(3)), attrPortIndex, uint32(1))
	want := map[command]netlink.Message{
		cmdGet:     {Header: netlink.Header{Type: 5121, Flags: netlink.Request | netlink.Dump}},
		cmdPortGet: {Header: netlink.Header{Type: 5125, Flags: netlink.Request}, Data: port},
		cmdSysGet:  {Header: netlink.Header{Type: 5126, Flags: netlink.Request}},
		cmdStatGet: {Header: netlink.Header{Type: 5137, Flags: netlink.Request}, Data: port},
	}
	for cmd, call := range calls() {
		var got netlink.Message
		c := client(func(requests []netlink.Message) ([]netlink.Message, error) {
			got = requests[0]
			return refuse(unix.EINVAL)(requests)
		})
		if err := call(c); !errors.Is(err, unix.EINVAL) {
			t.Errorf("%v: %v", cmd, err)
		}
		got.Header.Length, got.Header.Sequence, got.Header.PID = 0, 0, 0
		if !reflect.DeepEqual(got, want[cmd]) {
			t.Errorf("%v sends %+v, want %+v", cmd, got, want[cmd])
		}
		if sent := c.Requests(); sent[cmd.String()] != 1 || len(sent) != len(commands()) {
			t.Errorf("%v: requests %v", cmd, sent)
		}
	}
}

func TestAnswers(t *testing.T) {
	// A list arrives in several datagrams, and NLMSG_DONE ends it.
	devices, err := client(answer(recording(t, "get")...)).Devices()
	if err != nil || len(devices) != 10 {
		t.Errorf("devices %+v, %v", devices, err)
	}
	// PORT_GET is answered by a message that calls itself GET.
	port, err := client(answer(recording(t, "port_get_rxe0")...)).Port(0, 1)
	if err != nil || port.State != fabric.PortActive || port.NetDev != "rdma0" {
		t.Errorf("port %+v, %v", port, err)
	}
	counters, err := client(answer(recording(t, "stat_get_rxe0")...)).Counters(0, 1)
	if err != nil || len(counters) != 15 {
		t.Errorf("counters %+v, %v", counters, err)
	}
	system, err := client(answer(recording(t, "sys_get")...)).System()
	if err != nil || !system.SharedNetNS {
		t.Errorf("system %+v, %v", system, err)
	}
}

func TestNoDevices(t *testing.T) {
	c := client(func([]netlink.Message) ([]netlink.Message, error) { return nil, io.EOF })
	if devices, err := c.Devices(); err != nil || len(devices) != 0 {
		t.Error(devices, err)
	}
	if _, err := c.System(); !errors.Is(err, netlink.ErrMalformed) {
		t.Error("no message at all:", err)
	}
}

// The kernel's own errors are answers: they are found with errors.Is, and the connection goes on.
func TestRefusals(t *testing.T) {
	for cmd, call := range calls() {
		for _, errno := range []syscall.Errno{unix.EINVAL, unix.ENODEV, unix.EOPNOTSUPP, unix.EMSGSIZE, unix.EPERM} {
			c := client(refuse(errno))
			for range 2 {
				err := call(c)
				if !errors.Is(err, errno) || errors.Is(err, netlink.ErrBroken) || errors.Is(err, netlink.ErrMalformed) {
					t.Errorf("%v: %v, want %v", cmd, err, errno)
				}
				if !strings.HasPrefix(err.Error(), "rdmanl: "+cmd.String()+": ") && errno != unix.EINVAL {
					t.Errorf("%v: %v", cmd, err)
				}
			}
		}
	}
}

func TestRecordedRefusals(t *testing.T) {
	for _, name := range []string{"port_get_einval", "stat_get_einval", "unknown_command_einval"} {
		c := client(answer(recording(t, name)...))
		if _, err := c.System(); !errors.Is(err, unix.EINVAL) || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.Counters(0, 1); !errors.Is(err, unix.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A list can end with an error number in NLMSG_DONE.
func TestListEndsWithError(t *testing.T) {
	done := netlink.Message{
		Header: netlink.Header{Type: mdlayher.Done, Flags: mdlayher.Multi},
		Data:   []byte{0xea, 0xff, 0xff, 0xff}, // -EINVAL
	}
	c := client(answer(recording(t, "get")[0], done))
	if _, err := c.Devices(); !errors.Is(err, unix.EINVAL) || errors.Is(err, netlink.ErrBroken) {
		t.Error(err)
	}
}

func TestListInterrupted(t *testing.T) {
	messages := recording(t, "get")
	messages[1].Header.Flags |= mdlayher.DumpInterrupted
	c := client(answer(messages...))
	if devices, err := c.Devices(); !errors.Is(err, netlink.ErrInterrupted) || devices != nil {
		t.Error(devices, err)
	}
	if _, err := c.Devices(); !errors.Is(err, netlink.ErrInterrupted) {
		t.Error("the connection is good, yet:", err)
	}
}

// A device that cannot be understood does not hide the others.
func TestListWithNonsense(t *testing.T) {
	messages := recording(t, "get")
	messages[2].Data = messages[2].Data[:9]
	devices, err := client(answer(messages...)).Devices()
	if !errors.Is(err, netlink.ErrMalformed) || len(devices) != 9 {
		t.Errorf("%d devices, %v", len(devices), err)
	}
	if want := "rdmanl: get: "; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%q, want %q...", err, want)
	}
}

// After an exchange that ended half-way the Client sends nothing more.
func TestBroken(t *testing.T) {
	good := payload(t, "sys_get")
	for name, fn := range map[string]nltest.Func{
		"sequence": func(requests []netlink.Message) ([]netlink.Message, error) {
			m := reply(cmdSysGet, good)
			m.Header.Sequence, m.Header.PID = requests[0].Header.Sequence-1, nltest.PID
			return []netlink.Message{m}, nil
		},
		"port": func(requests []netlink.Message) ([]netlink.Message, error) {
			m := reply(cmdSysGet, good)
			m.Header.Sequence, m.Header.PID = requests[0].Header.Sequence, nltest.PID+1
			return []netlink.Message{m}, nil
		},
		"error of another request": func(requests []netlink.Message) ([]netlink.Message, error) {
			requests[0].Header.Sequence--
			return nltest.Error(int(unix.EINVAL), requests)
		},
		"receive": func([]netlink.Message) ([]netlink.Message, error) { return nil, unix.ENOBUFS },
	} {
		c := client(fn)
		if _, err := c.System(); !errors.Is(err, netlink.ErrBroken) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.System(); !errors.Is(err, netlink.ErrBroken) {
			t.Errorf("%s, again: %v", name, err)
		}
		if n := c.Requests()["sys_get"]; n != 1 {
			t.Errorf("%s: %d requests sent, want 1", name, n)
		}
	}
}

func TestForeignMessages(t *testing.T) {
	good := payload(t, "sys_get")
	for name, messages := range map[string][]netlink.Message{
		"two":             {reply(cmdSysGet, good), reply(cmdSysGet, good)},
		"another command": {reply(cmdGet, good)},
		"acknowledgement": {{Header: netlink.Header{Type: mdlayher.Error}, Data: make([]byte, 20)}},
		"overrun":         {{Header: netlink.Header{Type: mdlayher.Overrun}}},
		"another client":  {{Header: netlink.Header{Type: 4<<clientShift | 6}, Data: good}},
	} {
		if s, err := client(answer(messages...)).System(); !errors.Is(err, netlink.ErrMalformed) || s != (System{}) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

func TestReasonOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want fabric.Reason
	}{
		{nil, ""},
		{refused(unix.EINVAL), fabric.ReasonUnsupported},
		{refused(unix.EOPNOTSUPP), fabric.ReasonUnsupported},
		{refused(unix.ENODEV), fabric.ReasonGone},
		{refused(unix.EPERM), fabric.ReasonPrivilege},
		{refused(unix.EMSGSIZE), fabric.ReasonIO},
		{os.NewSyscallError("socket", unix.EPROTONOSUPPORT), fabric.ReasonMissing},
		{netlink.ErrMalformed, fabric.ReasonMalformed},
		{netlink.ErrBroken, fabric.ReasonIO},
	} {
		if got := fabric.ReasonOf(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

func refused(errno syscall.Errno) error {
	_, err := client(refuse(errno)).Counters(0, 1)
	return err
}

// silent is a socket that never answers.
type silent struct{ closed chan struct{} }

func (s silent) Close() error                        { close(s.closed); return nil }
func (silent) Send(netlink.Message) error            { return nil }
func (silent) SendMessages([]netlink.Message) error  { return nil }
func (s silent) Receive() ([]netlink.Message, error) { <-s.closed; return nil, os.ErrClosed }
func (s silent) ReceiveIter() iter.Seq2[netlink.Message, error] {
	return func(yield func(netlink.Message, error) bool) {
		<-s.closed
		yield(netlink.Message{}, os.ErrClosed)
	}
}

// Close ends a call that waits, and Requests does not wait for it.
func TestClose(t *testing.T) {
	c := &Client{conn: netlink.New(name, mdlayher.NewConn(silent{make(chan struct{})}, 1))}
	failed := make(chan error)
	go func() {
		_, err := c.Counters(0, 1)
		failed <- err
	}()
	for c.Requests()["stat_get"] == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; !errors.Is(err, netlink.ErrBroken) || !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

// A real socket, to a part of every Linux kernel that knows none of the commands.
func TestSocket(t *testing.T) {
	conn, err := netlink.Dial(name, unix.NETLINK_ROUTE, bufferSize)
	if err != nil {
		t.Skip(err)
	}
	c := &Client{conn: conn}
	for range 2 {
		if _, err := c.Counters(0, 1); !errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, netlink.ErrBroken) {
			t.Error(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Counters(0, 1); !errors.Is(err, netlink.ErrBroken) {
		t.Error("after Close:", err)
	}
}

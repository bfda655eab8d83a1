// SPDX-License-Identifier: Apache-2.0

package sockdiag

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

var record = flag.Bool("record", false, "write what this kernel answers about a socket into testdata")

// inode returns that of the socket of a listener or of a connection.
func inode(t *testing.T, c syscall.Conn) uint64 {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if e := raw.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &st) }); e != nil || err != nil {
		t.Fatal(e, err)
	}
	return st.Ino
}

// pair is a listener on the loopback with one connection, over which the client sent and the server answered.
type pair struct {
	listener                *net.TCPListener
	client, server          *net.TCPConn
	sent, answered          int
	listening, from, accept uint64 // inodes
}

func connect(t *testing.T, network, address string) *pair {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Skipf("no %s on the loopback: %v", network, err)
	}
	t.Cleanup(func() { l.Close() })
	p := &pair{listener: l.(*net.TCPListener), sent: 1 << 20, answered: 12345}
	c, err := net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	done := make(chan error, 1)
	go func() {
		_, err := io.CopyN(io.Discard, s, int64(p.sent))
		if err == nil {
			_, err = s.Write(make([]byte, p.answered))
		}
		done <- err
	}()
	if _, err := c.Write(make([]byte, p.sent)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, c, int64(p.answered)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	p.client, p.server = c.(*net.TCPConn), s.(*net.TCPConn)
	p.listening, p.from, p.accept = inode(t, p.listener), inode(t, p.client), inode(t, p.server)
	return p
}

func kernel(t *testing.T) *Client {
	t.Helper()
	if !Loaded("/proc", "/") {
		t.Log("this kernel may have to load tcp_diag first")
	}
	c, err := Dial()
	if err == nil {
		_, err = c.Sockets(func(uint64) bool { return false }, nil)
	}
	if err != nil {
		t.Skipf("no sock_diag here: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func find(t *testing.T, list []fabric.Socket, inode uint64) fabric.Socket {
	t.Helper()
	i := slices.IndexFunc(list, func(s fabric.Socket) bool { return s.Inode == inode })
	if i < 0 {
		t.Fatalf("no socket %d in %+v", inode, list)
	}
	return list[i]
}

// settled lists the sockets once the last acknowledgement, which the receiver may delay, has arrived.
func settled(t *testing.T, c *Client, p *pair, wanted []uint64) []fabric.Socket {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		list, err := c.Sockets(func(i uint64) bool { return slices.Contains(wanted, i) }, nil)
		if err != nil || len(list) != len(wanted) {
			t.Fatalf("%+v, %v", list, err)
		}
		if find(t, list, p.accept).Sent >= uint64(p.answered) || time.Now().After(deadline) {
			return list
		}
	}
}

// The bytes of a connection are those that went through it, on both ends, and there are no other sockets.
func TestKernel(t *testing.T) {
	c := kernel(t)
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "tcp": ":0"} {
		t.Run(network, func(t *testing.T) {
			p := connect(t, network, address)
			wanted := []uint64{p.listening, p.from, p.accept}
			list := settled(t, c, p, wanted)
			port := uint16(p.listener.Addr().(*net.TCPAddr).Port)
			l, from, accept := find(t, list, p.listening), find(t, list, p.from), find(t, list, p.accept)
			if !l.Listening || l.Counted || l.Local.Port() != port || l.Remote.Port() != 0 {
				t.Errorf("listener %+v, want port %d", l, port)
			}
			local := p.client.LocalAddr().(*net.TCPAddr).AddrPort()
			local = netip.AddrPortFrom(local.Addr().Unmap(), local.Port())
			if from.Local != local || from.Remote.Port() != port || accept.Remote != local || accept.Local != from.Remote {
				t.Errorf("addresses %v -> %v and %v <- %v, want from %v to port %d", from.Local, from.Remote, accept.Local, accept.Remote, local, port)
			}
			// The first ACK counts as a byte.
			sent, answered := uint64(p.sent), uint64(p.answered)
			if !from.Counted || !accept.Counted || from.Received != answered || accept.Received != sent || from.Sent-sent > 1 || accept.Sent-answered > 1 {
				t.Errorf("client %+v, server %+v, want %d sent, %d answered", from, accept, sent, answered)
			}
			if from.Cgroup == 0 || from.Cgroup != accept.Cgroup || from.Cgroup != l.Cgroup {
				t.Errorf("control groups %d, %d, %d", l.Cgroup, from.Cgroup, accept.Cgroup)
			}
		})
	}
}

// Another network namespace has other sockets: they are found there, and not here.
func TestNamespace(t *testing.T) {
	here := kernel(t)
	type other struct {
		pair *pair
		file *os.File
	}
	made := make(chan other)
	end := make(chan bool)
	defer close(end)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		defer close(made)
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Logf("unshare: %v", err)
			return
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			t.Log(err)
			return
		}
		defer unix.Close(fd)
		lo, _ := unix.NewIfreq("lo")
		lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
			t.Log(err)
			return
		}
		l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil || unix.Listen(l, 1) != nil {
			t.Log(err)
			return
		}
		listener, err := net.FileListener(os.NewFile(uintptr(l), "listener"))
		if err != nil {
			t.Log(err)
			return
		}
		file, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		if err != nil {
			t.Log(err)
			return
		}
		made <- other{&pair{listener: listener.(*net.TCPListener)}, file}
		<-end
		listener.Close()
	}()
	o, ok := <-made
	if !ok {
		t.Skip("no network namespace of one's own: not root")
	}
	defer o.file.Close()
	want := inode(t, o.pair.listener)
	only := func(i uint64) bool { return i == want }
	if list, err := here.Sockets(only, nil); err != nil || len(list) != 0 {
		t.Errorf("found here: %+v, %v", list, err)
	}
	there, err := DialIn(o.file)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if list, err := there.Sockets(only, nil); err != nil || len(list) != 1 || !list[0].Listening {
		t.Errorf("found there: %+v, %v", list, err)
	}
	// No thread of this process is left behind in it.
	tasks, _ := filepath.Glob("/proc/self/task/*/ns/net")
	var in int
	target, _ := os.Readlink("/proc/self/fd/" + fmt.Sprint(o.file.Fd()))
	for _, task := range tasks {
		if ns, err := os.Readlink(task); err == nil && ns == target {
			in++
		}
	}
	if in != 1 { // the one that made it
		t.Errorf("%d threads are in that namespace, want 1", in)
	}
}

// message is one as the kernel lays it out.
func message(family, state uint8, inode uint32, attributes []byte) []byte {
	b := make([]byte, messageSize)
	b[0], b[atState] = family, state
	binary.BigEndian.PutUint16(b[atLocalPort:], 40001)
	binary.BigEndian.PutUint16(b[atRemotePort:], 40002)
	copy(b[atLocal:], net.IPv4(10, 1, 2, 3).To4())
	copy(b[atRemote:], net.IPv4(10, 1, 2, 4).To4())
	binary.NativeEndian.PutUint32(b[atInode:], inode)
	return append(b, attributes...)
}

// info is a tcp_info of so many bytes.
func info(size int) []byte {
	b := make([]byte, 256)
	binary.NativeEndian.PutUint64(b[atBytesAcked:], 1<<40)
	binary.NativeEndian.PutUint64(b[atBytesReceived:], 1<<41)
	return netlink.Append(nil, attrInfo, b[:size])
}

// Newer kernels report more fields of tcp_info. A field that an older one lacks is not 0.
func TestLength(t *testing.T) {
	for size, counted := range map[int]bool{0: false, 104: false, 128: false, 135: false, 136: true, 192: true, 248: true} {
		s, err := decode(message(unix.AF_INET, stateEstablished, 7, info(size)))
		if err != nil || s.Counted != counted || counted != (s.Sent == 1<<40 && s.Received == 1<<41) {
			t.Errorf("tcp_info of %d bytes: %+v, %v", size, s, err)
		}
	}
}

func TestMalformed(t *testing.T) {
	for name, b := range map[string][]byte{
		"empty":          nil,
		"short":          make([]byte, messageSize-1),
		"other state":    message(unix.AF_INET, 6, 7, nil),
		"other family":   message(unix.AF_UNIX, stateEstablished, 7, nil),
		"odd attribute":  message(unix.AF_INET, stateEstablished, 7, []byte{3, 0, 2, 0}),
		"short group id": message(unix.AF_INET, stateEstablished, 7, netlink.AppendUint32(nil, attrCgroupID, 1)),
	} {
		if s, err := decode(b); !errors.Is(err, netlink.ErrMalformed) || s != (fabric.Socket{}) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

// However many sockets others have, those that are wanted are found behind them, as long as the kernel lists
// them in time. A list that takes longer is an error, never a part of the list.
func TestBounds(t *testing.T) {
	const theirs = 140_000
	listing := func(mine int) *Client {
		m := netlink.Message{Header: netlink.Header{Type: getSock, Flags: 2}, Data: message(unix.AF_INET, stateEstablished, 7, nil)}
		all := slices.Repeat([]netlink.Message{m}, theirs)
		m.Data = message(unix.AF_INET, stateEstablished, 8, nil)
		all = append(all, slices.Repeat([]netlink.Message{m}, mine)...)
		all = append(all, netlink.Message{Header: netlink.Header{Type: 3, Flags: 2}, Data: make([]byte, 4)})
		asked := false
		return &Client{netlink.New(name, nltest.Dial(func(requests []netlink.Message) ([]netlink.Message, error) {
			if asked { // each question is a walk through the table of the kernel
				t.Error("two questions for one list")
			}
			asked = true
			for i := range all {
				all[i].Header.Sequence, all[i].Header.PID = requests[0].Header.Sequence, requests[0].Header.PID
			}
			return all, nil
		})), longest}
	}
	synctest.Test(t, func(t *testing.T) { // in which time passes as the test says
		for _, mine := range []int{1, 20_000} {
			list, err := listing(mine).Sockets(func(inode uint64) bool { return inode == 8 }, nil)
			if err != nil || len(list) != mine {
				t.Errorf("behind %d sockets of others: %d of %d, %v", theirs, len(list), mine, err)
			}
		}
		slow := func(uint64) bool { time.Sleep(longest / theirs * 2); return true }
		if list, err := listing(1).Sockets(slow, nil); !errors.Is(err, netlink.ErrTooLong) || list != nil {
			t.Errorf("a list without an end: %d, %v", len(list), err)
		}
	})
}

func TestLoaded(t *testing.T) {
	file := func(root, name, text string) {
		p := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	const builtin = "lib/modules/6.1.0/modules.builtin"
	for name, c := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"no modules at all": {nil, true},
		"loaded":            {map[string]string{"modules": "inet_diag 24576 1 tcp_diag, Live 0x0\ntcp_diag 16384 0 - Live 0x0\n"}, true},
		"not loaded":        {map[string]string{"modules": "inet_diag 24576 1 not_tcp_diag, Live 0x0\n", "sys/kernel/osrelease": "6.1.0\n"}, false},
		"built in":          {map[string]string{"modules": "", "sys/kernel/osrelease": "6.1.0\n", builtin: "kernel/net/ipv4/tcp_diag.ko\n"}, true},
		"a module":          {map[string]string{"modules": "", "sys/kernel/osrelease": "6.1.0\n", builtin: "kernel/net/ipv4/inet_diag.ko\n"}, false},
	} {
		root := t.TempDir()
		for f, text := range c.files {
			file(root, f, text)
		}
		if got := Loaded(root, root); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

const recorded = "testdata/established.bin"

// TestRecord keeps what this kernel says about an established socket, as a seed.
func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("no -record")
	}
	c := kernel(t)
	p := connect(t, "tcp4", "127.0.0.1:0")
	err := c.conn.Each(question(), longest, func(b []byte) error {
		if i, _ := inodeOf(b); i == p.from {
			return os.WriteFile(recorded, bytes.Clone(b), 0o644)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRecorded(t *testing.T) {
	b, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	s, err := decode(b)
	if err != nil || !s.Counted || s.Sent-1<<20 > 1 || s.Received != 12345 || s.Local.Addr().String() != "127.0.0.1" || s.Cgroup == 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

func FuzzDecode(f *testing.F) {
	b, err := os.ReadFile(recorded)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(message(unix.AF_INET6, stateListen, 1, info(136)))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := slices.Clone(b)
		s, err := decode(b)
		if !slices.Equal(b, before) {
			t.Fatal("message was written to")
		}
		if err != nil && (!errors.Is(err, netlink.ErrMalformed) || s != (fabric.Socket{})) {
			t.Errorf("%+v, %v", s, err)
		}
		if err == nil && (!s.Local.IsValid() || s.Listening && s.Counted) {
			t.Errorf("%+v", s)
		}
	})
}

// Sockets are found by their control group, too.
func TestByCgroup(t *testing.T) {
	c := kernel(t)
	p := connect(t, "tcp4", "127.0.0.1:0")
	list, err := c.Sockets(func(i uint64) bool { return i == p.from }, nil)
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	id := list[0].Cgroup
	if id == 0 {
		t.Skip("this kernel does not report control groups of sockets: it is older than 5.8")
	}
	none := func(uint64) bool { return false }
	list, err = c.Sockets(none, map[uint64]bool{id: true})
	if err != nil || find(t, list, p.from).Cgroup != id {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err = c.Sockets(none, map[uint64]bool{id + 1<<40: true}); err != nil || len(list) > 0 {
		t.Errorf("sockets of no group: %+v, %v", list, err)
	}
	// The kernel itself leaves others out, from Linux 5.9 on.
	all := func(uint64) bool { return true }
	list, err = c.InGroup(id, all)
	if errors.Is(err, unix.EINVAL) {
		t.Skip("this kernel cannot select sockets by control group: it is older than 5.9")
	}
	if err != nil || find(t, list, p.from).Cgroup != id {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err = c.InGroup(id+1<<40, all); err != nil || len(list) > 0 {
		t.Errorf("sockets of no group: %+v, %v", list, err)
	}
}

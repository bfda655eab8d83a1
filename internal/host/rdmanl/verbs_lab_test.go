// SPDX-License-Identifier: Apache-2.0

//go:build lab

package rdmanl

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// Commands of uverbs (enum ib_uverbs_write_cmds of rdma/ib_user_verbs.h).
const (
	verbsGetContext = 0
	verbsAllocPD    = 3
	verbsRegMR      = 9
	verbsCreateCQ   = 18
	verbsCreateQP   = 24
)

// verbs is an open /dev/infiniband/uverbsN.
type verbs struct {
	t    *testing.T
	file *os.File
}

// call writes a command whose first field is the address of the response, and returns the response.
func (v verbs) call(command, size int, fields ...any) []byte {
	v.t.Helper()
	response := make([]byte, size)
	var p runtime.Pinner
	p.Pin(&response[0])
	defer p.Unpin()
	b := binary.NativeEndian.AppendUint64(make([]byte, 8), uint64(uintptr(unsafe.Pointer(&response[0]))))
	for _, f := range fields {
		var err error
		if b, err = binary.Append(b, binary.NativeEndian, f); err != nil {
			v.t.Fatal(err)
		}
	}
	binary.NativeEndian.PutUint32(b, uint32(command))
	binary.NativeEndian.PutUint16(b[4:], uint16(len(b)/4))
	binary.NativeEndian.PutUint16(b[6:], uint16(size/4))
	if _, err := unix.Write(int(v.file.Fd()), b); err != nil {
		v.t.Fatalf("command %d of verbs: %v", command, err)
	}
	return response
}

func handle(response []byte) uint32 { return binary.NativeEndian.Uint32(response) }

func (v verbs) pd() uint32 { return handle(v.call(verbsAllocPD, 4)) }

func (v verbs) region(pd uint32, memory []byte) {
	at := uint64(uintptr(unsafe.Pointer(&memory[0])))
	v.call(verbsRegMR, 12, at, uint64(len(memory)), at, pd, uint32(1))
}

func (v verbs) queue() uint32 {
	return handle(v.call(verbsCreateCQ, 24, uint64(0), uint32(16), uint32(0), int32(-1), uint32(0)))
}

func (v verbs) pair(pd, send, receive uint32) {
	const rc = 2
	v.call(verbsCreateQP, 64, uint64(0), pd, send, receive, uint32(0), [5]uint32{4, 4, 1, 1, 0}, [4]uint8{0, rc, 0, 0})
}

// uverbs opens the device node of an RDMA device.
func uverbs(t *testing.T, device string) verbs {
	t.Helper()
	found, err := filepath.Glob("/sys/class/infiniband_verbs/*/ibdev")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found {
		if sysfs(t, p) != device {
			continue
		}
		f, err := os.OpenFile("/dev/infiniband/"+filepath.Base(filepath.Dir(p)), os.O_RDWR, 0)
		if os.IsNotExist(err) { // no udev in the guest
			f, err = os.OpenFile("/dev/"+filepath.Base(filepath.Dir(p)), os.O_RDWR, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return verbs{t, f}
	}
	t.Fatalf("no device node of %s among %q", device, found)
	return verbs{}
}

// inThread runs f in a thread of its own, which ends when the test does, or at once.
func inThread(t *testing.T, stay bool, f func()) {
	done, end := make(chan bool), make(chan bool)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		defer close(done)
		f()
		if stay {
			done <- true
			<-end
		}
	}()
	<-done
	if stay {
		t.Cleanup(func() { close(end) })
	}
}

// What threads of this process make is found by their IDs; what a thread made that has ended is not owned, or
// not listed.
func TestKernelUse(t *testing.T) {
	c := dialKernel(t)
	devices, err := c.Devices()
	if err != nil {
		t.Fatal(err)
	}
	devices = slices.DeleteFunc(devices, func(d Device) bool { return !strings.HasPrefix(d.Name, "rxe") })
	before, err := c.Use(devices, itself)
	if err != nil || len(before.ByProcess) != 0 {
		t.Fatalf("before: %+v, %v", before, err)
	}
	const page = 4096
	memory := func() []byte {
		b, err := unix.Mmap(-1, 0, 4*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	v := uverbs(t, "rxe0")
	var first, second int
	var pd uint32
	inThread(t, true, func() {
		first = unix.Gettid()
		v.call(verbsGetContext, 8)
		pd = v.pd()
	})
	inThread(t, true, func() {
		second = unix.Gettid()
		v.region(pd, memory())
		v.region(pd, memory())
		send, receive := v.queue(), v.queue()
		for range 6 {
			v.pair(pd, send, receive)
		}
	})
	inThread(t, false, func() { v.region(pd, memory()) })
	got, err := c.Use(devices, itself)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("thread %d: %+v; thread %d: %+v; unowned %d; requests %v", first, got.ByProcess[first], second, got.ByProcess[second], got.Unowned, c.Requests())
	same := func(task int, want fabric.VerbsUse) {
		t.Helper()
		have := got.ByProcess[task]
		if have == nil || !slices.Equal(have.Devices, []string{"rxe0"}) {
			t.Errorf("thread %d: %+v", task, have)
			return
		}
		have.Devices = nil
		if have.Contexts != want.Contexts || have.PDs != want.PDs || have.Regions != want.Regions || have.Bytes != want.Bytes || have.QueuePairs != want.QueuePairs {
			t.Errorf("thread %d: %+v, want %+v", task, have, want)
		}
	}
	same(first, fabric.VerbsUse{Contexts: 1, PDs: 1})
	same(second, fabric.VerbsUse{Regions: 2, Bytes: 8 * page, QueuePairs: 6})
	if len(got.ByProcess) != 2 || got.Unowned > 1 {
		t.Errorf("%d threads, %d unowned", len(got.ByProcess), got.Unowned)
	}
	if *recordTo != "" {
		for _, k := range allKinds() {
			i := slices.IndexFunc(devices, func(d Device) bool { return d.Name == "rxe0" })
			record(t, k.command.String(), strings.ToUpper(k.command.String())+", rxe0: a context and a PD of one thread; two regions and six queue pairs of another", encode(k.command, netlink.Dump, devices[i].Index))
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build hang

package hang

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Requests of include/uapi/linux/fuse.h. What is not here is answered with ENOSYS.
const (
	opLookup      = 1
	opForget      = 2
	opGetattr     = 3
	opReadlink    = 5
	opOpen        = 14
	opRead        = 15
	opStatfs      = 17
	opRelease     = 18
	opInit        = 26
	opOpendir     = 27
	opReaddir     = 28
	opReleasedir  = 29
	opAccess      = 34
	opInterrupt   = 36
	opBatchForget = 42
)

// Structures of the protocol, as they are on the wire.
type (
	inHeader struct {
		Length, Op       uint32
		Unique, Node     uint64
		UID, GID, PID, _ uint32
	}
	outHeader struct {
		Length uint32
		Error  int32
		Unique uint64
	}
	initIn  struct{ Major, Minor, Readahead, Flags uint32 }
	initOut struct {
		Major, Minor, Readahead, Flags uint32
		Background, Congestion         uint16
		MaxWrite, Granularity          uint32
		_                              [9]uint32
	}
	attr struct {
		Ino, Size, Blocks, Atime, Mtime, Ctime                                     uint64
		AtimeNS, MtimeNS, CtimeNS, Mode, Nlink, UID, GID, Device, BlockSize, Flags uint32
	}
	attrOut struct {
		Valid        uint64
		ValidNS, Pad uint32
		Attr         attr
	}
	entryOut struct {
		Node, Generation, EntryValid, AttrValid uint64
		EntryValidNS, AttrValidNS               uint32
		Attr                                    attr
	}
	openOut struct {
		Handle     uint64
		Flags, Pad uint32
	}
	readIn struct {
		Handle, Offset uint64
		Size           uint32
	}
	statfsOut struct {
		Counts                       [5]uint64
		BlockSize, NameLen, Fragment uint32
		_                            [7]uint32
	}
	dirent struct {
		Ino, Next     uint64
		NameLen, Type uint32
	}
)

const (
	rootNode     = 1
	parallelDirs = 1 << 18 // FUSE_PARALLEL_DIROPS: a lookup that hangs must not block its directory
	directIO     = 1       // FOPEN_DIRECT_IO: each read is a request, as with sysfs
)

// request is one kind of request for one file.
type request struct {
	op   uint32
	path string // relative to the tree, without links
}

// server shows a directory tree through FUSE, read only and without any cache, and misbehaves where a test sets that.
// It has one goroutine for each request under way.
type server struct {
	tree, dir string // what is shown, and where it is mounted
	dev       *os.File
	done      chan struct{}

	mu    sync.Mutex
	paths []string // by node, from rootNode
	nodes map[string]uint64
	rules map[request]behaviour
	asked map[request]int
}

// mount mounts tree on dir until the test ends.
func mount(t *testing.T, tree, dir string) *server {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount")
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no FUSE here: %v", err)
	}
	guard(t, dir)
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)
	if err := unix.Mount("fuse", dir, "fuse", unix.MS_NODEV|unix.MS_NOSUID|unix.MS_RDONLY, options); err != nil {
		unix.Close(fd)
		t.Skipf("may not mount: %v", err)
	}
	s := &server{
		tree: tree, dir: dir, dev: os.NewFile(uintptr(fd), "/dev/fuse"), done: make(chan struct{}),
		paths: []string{"", ""}, nodes: map[string]uint64{"": rootNode}, rules: map[request]behaviour{}, asked: map[request]int{},
	}
	go s.serve()
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		s.dev.Close() // aborts the connection: whatever still hangs fails
		<-s.done
	})
	return s
}

func (s *server) serve() {
	defer close(s.done)
	buf := make([]byte, 1<<16)
	for {
		n, err := s.dev.Read(buf)
		switch {
		case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR): // the request was withdrawn
			continue
		case err != nil:
			return
		}
		var h inHeader
		body := bytes.Clone(decode(buf[:n], &h))
		switch h.Op {
		case opForget, opBatchForget, opInterrupt: // want no answer
		default:
			go s.handle(h, body)
		}
	}
}

func (s *server) handle(h inHeader, body []byte) {
	s.mu.Lock()
	path := s.paths[h.Node]
	s.mu.Unlock()
	if h.Op == opLookup {
		path = filepath.Join(path, string(bytes.TrimRight(body, "\x00")))
	}
	answer, err := s.answer(request{h.Op, path}, body)
	out := outHeader{Unique: h.Unique}
	if err != nil {
		answer = nil
		var errno unix.Errno
		if !errors.As(err, &errno) {
			errno = unix.EIO
		}
		out.Error = -int32(errno)
	}
	out.Length = uint32(binary.Size(out) + len(answer))
	s.dev.Write(append(encode(out), answer...)) // fails when no reader waits any more
}

func (s *server) answer(r request, body []byte) ([]byte, error) {
	full := filepath.Join(s.tree, r.path)
	behave, err := s.note(r), error(nil)
	var text []byte
	if r.op == opRead {
		if text, err = os.ReadFile(full); err != nil {
			return nil, err
		}
	}
	if behave != nil {
		if text, err = behave(text); err != nil {
			return nil, err
		}
	}
	switch r.op {
	case opInit:
		var in initIn
		decode(body, &in)
		return encode(initOut{Major: 7, Minor: min(in.Minor, 31), Flags: in.Flags & parallelDirs, Background: 64, Congestion: 64, MaxWrite: 4096, Granularity: 1}), nil
	case opLookup:
		a, err := s.attr(r.path)
		return encode(entryOut{Node: a.Ino, Attr: a}), err
	case opGetattr:
		a, err := s.attr(r.path)
		return encode(attrOut{Attr: a}), err
	case opReadlink:
		target, err := os.Readlink(full)
		return []byte(target), err
	case opOpen:
		return encode(openOut{Flags: directIO}), nil
	case opOpendir:
		return encode(openOut{}), nil
	case opRead:
		var in readIn
		decode(body, &in)
		text = text[min(in.Offset, uint64(len(text))):]
		return text[:min(int(in.Size), len(text))], nil
	case opReaddir:
		var in readIn
		decode(body, &in)
		return s.readdir(r.path, in)
	case opStatfs:
		return encode(statfsOut{BlockSize: 4096, NameLen: 255}), nil
	case opRelease, opReleasedir, opAccess:
		return nil, nil
	default:
		return nil, unix.ENOSYS
	}
}

// readdir returns the entries from in.Offset on that fit.
func (s *server) readdir(path string, in readIn) ([]byte, error) {
	entries, err := os.ReadDir(filepath.Join(s.tree, path))
	if err != nil {
		return nil, err
	}
	var out []byte
	for i := in.Offset; i < uint64(len(entries)); i++ {
		e := entries[i]
		kind := uint32(unix.DT_REG)
		switch {
		case e.IsDir():
			kind = unix.DT_DIR
		case e.Type() == fs.ModeSymlink:
			kind = unix.DT_LNK
		}
		next := append(encode(dirent{s.node(filepath.Join(path, e.Name())), i + 1, uint32(len(e.Name())), kind}), e.Name()...)
		next = append(next, make([]byte, -len(next)&7)...)
		if len(out)+len(next) > int(in.Size) {
			break
		}
		out = append(out, next...)
	}
	return out, nil
}

func (s *server) attr(path string) (attr, error) {
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(s.tree, path), &st); err != nil {
		return attr{}, err
	}
	return attr{
		Ino: s.node(path), Size: uint64(st.Size), Blocks: uint64(st.Blocks), Mode: st.Mode, Nlink: uint32(st.Nlink), BlockSize: 4096,
		Mtime: uint64(st.Mtim.Sec), MtimeNS: uint32(st.Mtim.Nsec),
	}, nil
}

// node returns the number of a path, which it keeps for ever.
func (s *server) node(path string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.nodes[path]
	if !ok {
		n = uint64(len(s.paths))
		s.paths, s.nodes[path] = append(s.paths, path), n
	}
	return n
}

// note counts a request and returns what happens to it; nil: nothing.
func (s *server) note(r request) behaviour {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[r]++
	return s.rules[r]
}

// request resolves the links of a path.
func (s *server) request(t *testing.T, op uint32, path string) request {
	t.Helper()
	full, err := filepath.EvalSymlinks(filepath.Join(s.tree, path))
	if err != nil {
		t.Fatal(err)
	}
	return request{op, strings.TrimPrefix(full, s.tree+"/")}
}

// set lets requests behave, and counts them anew.
func (s *server) set(rules map[request]behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.asked)
	s.rules = rules
}

// drop lets a request be answered again.
func (s *server) drop(r request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rules, r)
}

// count is how many there were since the last set.
func (s *server) count(r request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[r]
}

func encode(v any) []byte {
	b, err := binary.Append(nil, binary.NativeEndian, v)
	if err != nil {
		panic(err)
	}
	return b
}

// decode fills v and returns what follows it.
func decode(b []byte, v any) []byte {
	n, err := binary.Decode(b, binary.NativeEndian, v)
	if err != nil {
		panic(err)
	}
	return b[n:]
}

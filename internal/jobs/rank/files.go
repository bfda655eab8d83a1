// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
)

// open opens what is below procfs.
func (r *Reader) open(name string, flags int) (int, error) {
	return openat.Retry(func() (int, error) { return unix.Openat(r.at(), name, flags|unix.O_CLOEXEC, 0) })
}

// How files and folders of procfs are opened that are no links.
const (
	asFile   = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
	asFolder = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_DIRECTORY
)

// gone reports whether a process ended while it was looked at.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// descriptors calls f with each descriptor of a process and where it leads, so many at most, until f returns
// false; the text is valid until then. It reads the links and never opens what they lead to, and no link of a
// descriptor that is known, if known is not nil. all: none was left out.
func (r *Reader) descriptors(dir string, buffer []byte, most int, known func(n int) bool,
	f func(n int, target []byte) bool,
) (all bool, err error) {
	r.calls += 2
	fd, err := r.open(dir+"/fd", asFolder)
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Close(fd) }()
	count := 0
	all = true
	err = r.entries(fd, buffer, func(e openat.Entry) error {
		n, err := strconv.Atoi(string(e.Name))
		if err != nil {
			return nil
		}
		if count++; count > most {
			all = false
			return errEnough
		}
		if known != nil && known(n) {
			return nil
		}
		r.calls++
		got, err := openat.Retry(func() (int, error) { return unix.Readlinkat(fd, string(e.Name), r.links) })
		switch {
		case errors.Is(err, unix.ENOENT): // closed meanwhile
		case err != nil:
			all = false
			if errors.Is(err, unix.EACCES) || errors.Is(err, unix.ESRCH) {
				return err
			}
		case !f(n, r.links[:got]):
			all = false
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return all, err
}

var errEnough = errors.New("enough")

// Where descriptors lead that matter.
var (
	nvidia = []byte("/dev/nvidia")
	uverbs = []byte("/dev/infiniband/uverbs")
	socket = []byte("socket:[")
)

const uvm = "/dev/nvidia-uvm"

// usesCUDA reports whether a process has begun to use CUDA.
func (r *Reader) usesCUDA(dir string) (uses bool) {
	_, err := r.descriptors(dir, r.buffer[:screenBuffer], maxScreened, nil, func(_ int, target []byte) bool {
		uses = string(target) == uvm
		return !uses
	})
	return uses && err == nil
}

// maxScreened is how many descriptors of a process are looked at for a GPU: programs open theirs early.
const maxScreened = 512

// screenBuffer is the size of the parts, in bytes, in which descriptors are listed where the first of a kind
// ends the search: the kernel makes an inode for each one that it lists, which costs more than another call.
// A part has some 20 of them.
const screenBuffer = 512

// standard is how many descriptors a program has without a GPU: input, output and error.
const standard = 3

// holdsGPU reports whether a process has a device node of a GPU open.
func (r *Reader) holdsGPU(dir string) (holds bool, err error) {
	_, err = r.descriptors(dir, r.buffer[:screenBuffer], maxScreened, nil, func(_ int, target []byte) bool {
		_, holds = number(target, nvidia)
		return !holds
	})
	return holds, err
}

// count returns how many descriptors a process has open (proc_fd_getattr of fs/proc/fd.c, Linux 6.2); 0 on
// older kernels.
func (r *Reader) count(dir string) (int64, error) {
	r.calls++
	var st unix.Stat_t
	err := unix.Fstatat(r.at(), dir+"/fd", &st, unix.AT_SYMLINK_NOFOLLOW)
	return st.Size, err
}

// target is where a descriptor leads, as far as it matters.
type target struct {
	kind   targetKind
	number uint64 // of the device, or inode of the socket
	seen   int    // the look that saw the descriptor last
}

type targetKind uint8

const (
	elsewhere targetKind = iota
	toGPU
	toCUDA
	toUverbs
	toSocket
	toEvents
)

func parseTarget(text []byte) target {
	if n, ok := number(text, nvidia); ok {
		return target{kind: toGPU, number: uint64(n)}
	}
	if n, ok := number(text, uverbs); ok {
		return target{kind: toUverbs, number: uint64(n)}
	}
	if inode, ok := bytes.CutPrefix(text, socket); ok {
		if n, err := strconv.ParseUint(string(bytes.TrimSuffix(inode, []byte("]"))), 10, 64); err == nil {
			return target{kind: toSocket, number: n}
		}
	}
	switch string(text) {
	case uvm:
		return target{kind: toCUDA}
	case "anon_inode:[infinibandevent]":
		return target{kind: toEvents}
	}
	return target{}
}

func (t target) addTo(v *fabric.OpenFiles) {
	v.All++
	switch t.kind {
	case elsewhere:
	case toGPU:
		v.GPUs = add(v.GPUs, int(t.number))
	case toCUDA:
		v.CUDA = true
	case toUverbs:
		v.Uverbs = add(v.Uverbs, "uverbs"+strconv.FormatUint(t.number, 10))
	case toSocket:
		v.Sockets = append(v.Sockets, t.number)
	case toEvents:
		v.Events++
	}
}

// listAge is the number of looks after which all descriptors of a process are listed and read again, in
// another look for each process. In between those are read that are new, if there are more or fewer than
// before. What was closed while as many were opened is seen by then; verbs contexts are known by the kernel
// at each look.
const listAge = 4

// files returns where all descriptors of a process lead.
func (r *Reader) files(dir string, p *process, now time.Time) fabric.Fact[fabric.OpenFiles] {
	if p.targets == nil {
		p.targets = map[int]target{}
		p.turn = r.turns % listAge
		r.turns++
	}
	source := dir + "/fd"
	turn := r.look%listAge == p.turn
	all := true
	if n, err := r.count(dir); turn || !r.counts || err != nil || n != int64(len(p.targets)) {
		if all, err = r.listFiles(dir, p, turn); err != nil {
			p.targets = nil
			return fabric.UnknownFact[fabric.OpenFiles](reasonOf(err), source, now)
		}
	}
	v := fabric.OpenFiles{Complete: all}
	for _, t := range p.targets {
		t.addTo(&v)
	}
	r.left -= v.All
	p.share.files += v.All
	if !all {
		pid, _ := strconv.Atoi(dir)
		r.exceeds(p.share, pid, "descriptors", fabric.ReasonMalformed)
	}
	slices.Sort(v.GPUs)
	slices.Sort(v.Uverbs)
	slices.Sort(v.Sockets)
	return fabric.Known(v, source, now)
}

// listFiles takes note of the descriptors of a process and where they lead, of all again or of new ones.
func (r *Reader) listFiles(dir string, p *process, again bool) (all bool, err error) {
	take := func(n int, t target) {
		t.seen = r.look
		p.targets[n] = t
	}
	known := func(n int) bool {
		t, known := p.targets[n]
		if known = known && !again; known {
			take(n, t)
		}
		return known
	}
	all, err = r.descriptors(dir, r.buffer, min(maxFiles, r.left, r.filesEach-p.share.files), known,
		func(n int, text []byte) bool {
			take(n, parseTarget(text))
			return true
		})
	maps.DeleteFunc(p.targets, func(_ int, t target) bool { return t.seen != r.look })
	return all, err
}

// number returns the number behind a prefix, where there is nothing else.
func number(text, prefix []byte) (int, bool) {
	digits, ok := bytes.CutPrefix(text, prefix)
	if !ok || len(digits) == 0 || len(digits) > 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(digits), 10, 16)
	return int(n), err == nil
}

// add appends what is not there yet.
func add[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// reasonOf says why something is not known of a process. One that has ended meanwhile is gone.
func reasonOf(err error) fabric.Reason {
	if gone(err) {
		return fabric.ReasonGone
	}
	return fabric.ReasonOf(err)
}

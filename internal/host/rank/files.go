// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/beneath"
)

func retry(call func() (int, error)) (int, error) { return beneath.Retry(call) }

// gone tells that a process ended while it was looked at.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// descriptors calls f with where each descriptor of a process leads, so many at most, until f returns false; the text is valid until then. It
// reads the links and never opens what they lead to. all: none was left out.
func (r *Reader) descriptors(dir string, most int, f func(target []byte) bool) (all bool, err error) {
	r.calls += 2
	fd, err := retry(func() (int, error) {
		return unix.Openat(r.at(), dir+"/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Close(fd) }()
	n := 0
	all = true
	var path [16]byte
	err = r.entries(fd, func(_ uint64, name []byte) error {
		if len(name) >= len(path) || name[0] == '.' {
			return nil
		}
		if n++; n > most {
			all = false
			return errEnough
		}
		r.calls++
		got, err := retry(func() (int, error) { return unix.Readlinkat(fd, string(name), r.links) })
		switch {
		case errors.Is(err, unix.ENOENT): // closed meanwhile
		case err != nil:
			all = false
			if errors.Is(err, unix.EACCES) || errors.Is(err, unix.ESRCH) {
				return err
			}
		case got < len(r.links) && !f(r.links[:got]):
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

// usesCUDA tells whether a process has begun to use CUDA.
func (r *Reader) usesCUDA(dir string) (uses bool) {
	_, err := r.descriptors(dir, maxScreened, func(target []byte) bool {
		uses = string(target) == uvm
		return !uses
	})
	return uses && err == nil
}

// maxScreened is how many descriptors of a process are looked at for a GPU: programs open theirs early.
const maxScreened = 512

// holdsGPU tells whether a process has a device node of a GPU open.
func (r *Reader) holdsGPU(dir string) (holds bool, err error) {
	if r.counts { // one call instead of ten for threads of the kernel, of which a node has thousands
		const standard = 3 // input, output and error
		n, err := r.count(dir)
		if err != nil || n <= standard {
			return false, err
		}
	}
	_, err = r.descriptors(dir, maxScreened, func(target []byte) bool {
		_, holds = number(target, nvidia)
		return !holds
	})
	return holds, err
}

// count returns how many descriptors a process has open (proc_fd_getattr of fs/proc/fd.c, Linux 6.2); 0 on older kernels.
func (r *Reader) count(dir string) (int64, error) {
	r.calls++
	var st unix.Stat_t
	err := unix.Fstatat(r.at(), dir+"/fd", &st, unix.AT_SYMLINK_NOFOLLOW)
	return st.Size, err
}

// files reads all descriptors of a process.
func (r *Reader) files(dir string, now time.Time) fabric.Fact[fabric.OpenFiles] {
	var v fabric.OpenFiles
	all, err := r.descriptors(dir, min(maxFiles, r.left), func(target []byte) bool {
		v.All++
		if n, ok := number(target, nvidia); ok {
			v.GPUs = add(v.GPUs, n)
		} else if string(target) == uvm {
			v.CUDA = true
		} else if _, ok := number(target, uverbs); ok {
			v.Uverbs = add(v.Uverbs, string(target[len("/dev/infiniband/"):]))
		} else if inode, ok := bytes.CutPrefix(target, socket); ok {
			if n, err := strconv.ParseUint(string(bytes.TrimSuffix(inode, []byte("]"))), 10, 64); err == nil {
				v.Sockets = append(v.Sockets, n)
			}
		} else if string(target) == "anon_inode:[infinibandevent]" {
			v.Events++
		}
		return true
	})
	r.left -= v.All
	source := dir + "/fd"
	if err != nil {
		return fabric.NotKnown[fabric.OpenFiles](reasonOf(err), source, now)
	}
	slices.Sort(v.GPUs)
	slices.Sort(v.Uverbs)
	slices.Sort(v.Sockets)
	v.Complete = all
	return fabric.Known(v, source, now)
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

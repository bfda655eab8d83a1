// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// sharedMemory is where NCCL and CUDA make files that processes share. What is killed leaves them behind.
const sharedMemory = "/dev/shm"

// Room is what tasks of one run share: /dev/shm, empty at first, in a mount namespace that is gone with the
// last of them, and all files with it. Where there may be no namespace (CAP_SYS_ADMIN), tasks have the
// /dev/shm of this process, and what they are seen to use of it is removed when the last one has ended. The
// zero value is ready.
type Room struct {
	mu        sync.Mutex
	tasks     int
	namespace *os.File // nil: there is none
	broom     *broom   // where there is no namespace
	why       error
}

// Why says why tasks have no namespace; nil: they have, or none has been started.
func (r *Room) Why() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why
}

// enter takes the calling thread, which must end afterwards, into the room.
func (r *Room) enter() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tasks++; r.tasks == 1 {
		if r.namespace, r.why = newNamespace(); r.why != nil {
			r.broom = newBroom(sharedMemory)
		}
		return
	}
	if r.namespace == nil {
		return
	}
	err := unix.Unshare(unix.CLONE_FS)
	if err == nil {
		err = unix.Setns(int(r.namespace.Fd()), unix.CLONE_NEWNS)
	}
	if err != nil && r.why == nil { // it stays outside, and NCCL finds no shared memory between the two
		r.why = fmt.Errorf("setns: %w", err)
	}
}

// housed is called with a task that runs.
func (r *Room) housed(pid int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broom != nil {
		r.broom.watch(pid)
	}
}

// leave is called when a task is gone that had entered.
func (r *Room) leave(pid int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broom != nil {
		r.broom.unwatch(pid)
	}
	if r.tasks--; r.tasks > 0 {
		return
	}
	if r.broom != nil {
		r.broom.sweep()
	}
	r.namespace.Close() // nil is fine
	r.namespace, r.broom = nil, nil
}

// newNamespace gives the calling thread a mount namespace of its own, with a /dev/shm as large as the one
// that it hides. Mounts and unmounts outside propagate into it, so that it keeps no file system busy; its own
// do not propagate out.
func newNamespace() (*os.File, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(sharedMemory, &st); err != nil {
		return nil, fmt.Errorf("%s: %w", sharedMemory, err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return nil, fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return nil, fmt.Errorf("make mounts slaves: %w", err)
	}
	options := "mode=1777"
	if st.Type == unix.TMPFS_MAGIC {
		options += fmt.Sprintf(",size=%d", int64(st.Blocks)*st.Bsize)
	}
	if err := unix.Mount("tmpfs", sharedMemory, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		options); err != nil {
		return nil, fmt.Errorf("mount %s: %w", sharedMemory, err)
	}
	return os.Open("/proc/thread-self/ns/mnt")
}

const (
	broomInterval = 100 * time.Millisecond
	broomMax      = 4096     // files
	broomMaps     = 16 << 20 // bytes of the maps of a process
)

// broom removes the files that tasks have left in a directory: those that one of them was seen to map or have
// open, that were not there before, and that belong to this user. What a task made in its last tenth of a
// second may stay; what another process made is never touched.
type broom struct {
	dir    string
	before map[inode]bool
	stop   map[int]func() // by pid
	mu     sync.Mutex
	used   map[inode]string // paths
}

type inode struct{ device, number uint64 }

func newBroom(dir string) *broom {
	b := &broom{dir: dir, before: map[inode]bool{}, stop: map[int]func(){}, used: map[inode]string{}}
	entries, _ := os.ReadDir(dir) // where it cannot be read nothing is found later either
	for _, e := range entries {
		if id, ok := b.own(filepath.Join(dir, e.Name())); ok {
			b.before[id] = true
		}
	}
	return b
}

// own returns the inode of a regular file of this user.
func (b *broom) own(path string) (inode, bool) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return inode{st.Dev, st.Ino}, err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && int(st.Uid) == os.Geteuid()
}

func (b *broom) watch(pid int) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(broomInterval)
		defer tick.Stop()
		for {
			b.look(pid)
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	b.stop[pid] = sync.OnceFunc(func() {
		close(stop)
		select {
		case <-done:
		case <-time.After(linger): // the kernel holds what it looks at
		}
	})
}

func (b *broom) unwatch(pid int) {
	if stop := b.stop[pid]; stop != nil {
		stop()
		delete(b.stop, pid)
	}
}

// look notes the files that a process maps or has open now.
func (b *broom) look(pid int) {
	proc := fmt.Sprintf("/proc/%d/", pid)
	var paths []string
	if maps, err := os.Open(proc + "maps"); err == nil {
		for lines := bufio.NewScanner(io.LimitReader(maps, broomMaps)); lines.Scan(); {
			if _, path, found := strings.Cut(lines.Text(), " "+b.dir+"/"); found {
				paths = append(paths, b.dir+"/"+path)
			}
		}
		maps.Close()
	}
	fds, _ := os.ReadDir(proc + "fd")
	for _, fd := range fds {
		if path, err := os.Readlink(proc + "fd/" + fd.Name()); err == nil && strings.HasPrefix(path, b.dir+"/") {
			paths = append(paths, path)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, path := range paths {
		if id, ok := b.own(path); ok && !b.before[id] && len(b.used) < broomMax {
			b.used[id] = path
		}
	}
}

// sweep removes what was noted and is still there.
func (b *broom) sweep() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, path := range b.used {
		if now, ok := b.own(path); ok && now == id {
			_ = os.Remove(path)
		}
	}
}

// giveTo lets the user open the pipes by their names in /proc, as NCCL does with its log.
func (p *pipes) giveTo(u *User) error {
	if u == nil {
		return nil
	}
	var errs []error
	for _, f := range append(p.theirs(), p.printsW) {
		errs = append(errs, f.Chown(int(u.UID), int(u.GID)))
	}
	return errors.Join(errs...)
}

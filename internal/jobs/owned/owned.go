// SPDX-License-Identifier: Apache-2.0

// Package owned finds and opens files that users write below a folder that the site names.
//
// Nothing that a user makes there costs another user: names, files, folders and time are bounded for each
// owner, those who took least come first, and what is left out is counted for the owner who exceeds. The
// owner of a file is who could have put it there: the user that owns the outermost folder below that of the
// site; where root owns it, as that of a pod, the folder itself; and the user that owns the file where the
// folder is one that all write to (root's, and sticky), or there is none. For the subordinate numbers of
// a user (subuid(5)) one answers (Users).
//
// Nothing that a user makes waits. A file is found without asking its file system, and opened without waiting
// for a writer of a FIFO or the holder of a lease. Other mounts below the folder of the site are passed over
// unless they are of a file system of this machine: users can mount FUSE, and a server may not answer. Links
// are not followed.
//
// Concurrency: a Finder belongs to one goroutine at a time. Only where the folder of the site itself is on a
// file system that does not answer, calls do not return. Errors of a Look are those of the folder of the
// site; all else is counted.
package owned

import (
	"errors"
	"io/fs"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// Bounds of one look.
const (
	maxNames   = 2048      // of an owner, in folders that are his
	maxShared  = 16 * 2048 // in folders that all write to
	maxFolders = 1024      // of an owner
	maxKept    = 16384     // files that are remembered from earlier looks
	walkTime   = 100 * time.Millisecond
	ownTime    = 30 * time.Millisecond // of an owner

	// Ahead is by how much the date of a file may be in the future, for clocks of servers. A later one says nothing.
	Ahead = time.Minute
)

// Tree is what is looked for. Depth counts the folders between that of the site and a name.
type Tree struct {
	Folder string
	Enter  func(depth int, name string) bool // whether a folder is looked into
	Take   func(depth int, name string) bool // whether a file is wanted
}

// Identity distinguishes a file from all others that exist at the same time, whatever its name.
type Identity struct{ Device, Inode uint64 }

// File is a regular file with one name.
type File struct {
	Identity
	Name    string
	Size    int64
	Changed time.Time
	Born    time.Time        // zero: the file system does not say
	UID     uint32           // that owns it
	Owner   fabric.FileOwner // that answers for it

	folder folder
}

// Path is the name below the folder of the site.
func (f *File) Path() string { return f.folder.inside(f.Name) }

// Recent reports whether a file was changed in that time. A date in the future says nothing.
func (f *File) Recent(now time.Time, within time.Duration) bool {
	age := now.Sub(f.Changed)
	return age <= within && age >= -Ahead
}

// Found is the result of a look.
type Found struct {
	Files   map[Identity]File
	Refused map[fabric.Refusal]int
	Lost    map[fabric.FileOwner]int // by who exceeded a bound
	Whole   bool                     // every folder was seen to its end, in this look and in one go
}

// Lose counts what is left out.
func (f *Found) Lose(owner fabric.FileOwner, n int) {
	if n > 0 {
		f.Refused[fabric.RefusedTooMany] += n
		f.Lost[owner] += n
	}
}

// Refuse counts a file that cannot be read.
func (f *Found) Refuse(err error) {
	switch {
	case errors.Is(err, fs.ErrNotExist): // its job ended meanwhile
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, errIrregular):
		f.Refused[fabric.RefusedNotRegular]++
	default:
		f.Refused[fabric.RefusedUnreadable]++
	}
}

var (
	errIrregular = errors.New("it is not a regular file with one name")
	errElsewhere = errors.New("it is on another file system, which might not answer")
)

// Finder finds the files of trees. Where a look cannot see all, the next one goes on where it stopped, and
// files that were found before are not forgotten.
type Finder struct {
	trees  []Tree
	users  *Users
	resume map[place]int64 // where folders go on
	known  map[Identity]File
	spent  func() time.Duration // processor time; tests have their own
	piece  int                  // bytes of a folder that are listed at once
}

// New returns a Finder of trees. Users tells who answers for files of subordinate numbers.
func New(trees []Tree, users *Users) *Finder {
	return &Finder{
		trees: trees, users: users, resume: map[place]int64{}, known: map[Identity]File{}, spent: Spent,
		piece: 16 << 10,
	}
}

// Spent is the processor time of the calling thread. On a loaded machine, real time would take files from
// users who did nothing.
func Spent() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// Look finds the files. The error is that of a folder of the site that cannot be read; one that does not
// exist has no files.
func (f *Finder) Look() (Found, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	w := &walk{
		finder: f, began: f.spent(), resume: map[place]int64{}, mounts: map[string]*mounts{},
		accounts: map[fabric.FileOwner]*account{}, buffer: make([]byte, f.piece),
		found: Found{
			Files: map[Identity]File{}, Refused: map[fabric.Refusal]int{}, Lost: map[fabric.FileOwner]int{},
			Whole: true,
		},
	}
	defer w.close()
	f.users.Look()
	for i := range f.trees {
		err := w.begin(&f.trees[i])
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.failed = errors.Join(w.failed, err)
		}
	}
	w.run()
	if !w.found.Whole {
		w.remember()
	}
	f.known, f.resume = w.found.Files, w.resume
	return w.found, w.failed
}

// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"errors"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
)

// walk is one look.
type walk struct {
	finder   *Finder
	began    time.Duration
	found    Found
	accounts map[fabric.FileOwner]*account
	order    []*account // as they appeared
	resume   map[place]int64
	mounts   map[string]*mounts // by folder of the site
	failed   error
	buffer   []byte
}

// account is what a look did for an owner.
type account struct {
	owner fabric.FileOwner
	tasks []task
	spent time.Duration
	names int
	bound bound
}

// bound is what an account may take.
type bound struct {
	names int
	time  time.Duration
}

var (
	ofOwner = bound{maxNames, ownTime}
	ofAll   = bound{maxShared, 2 * ownTime} // in folders that all write to
)

// task is a folder that is to be listed, from an offset on.
type task struct {
	tree   *Tree
	mounts *mounts
	at     folder
	offset int64
	shared bool // all may write to it: what is in it is of who owns that
	late   bool // its beginning was listed in an earlier look
}

// place is where a folder is looked at, for a tree.
type place struct {
	tree *Tree
	path string
}

func (t *task) place() place { return place{t.tree, t.at.path("")} }

func (w *walk) account(owner fabric.FileOwner, b bound) *account {
	a := w.accounts[owner]
	if a == nil {
		a = &account{owner: owner, bound: b}
		w.accounts[owner], w.order = a, append(w.order, a)
	}
	return a
}

// begin adds the folder of the site. Its names are nobody's: all users together have them listed.
func (w *walk) begin(tree *Tree) error {
	m, err := w.of(tree.Folder)
	if err != nil {
		return err
	}
	site := w.account(fabric.FileOwner{Folder: tree.Folder}, ofAll)
	w.add(site, task{tree: tree, mounts: m, at: folder{root: tree.Folder}, shared: true})
	return nil
}

// of returns the mounts below a folder of the site.
func (w *walk) of(root string) (*mounts, error) {
	if m := w.mounts[root]; m != nil {
		return m, nil
	}
	m, err := newMounts(root)
	if err == nil {
		w.mounts[root] = m
	}
	return m, err
}

func (w *walk) close() {
	for _, m := range w.mounts {
		m.close()
	}
}

func (w *walk) add(a *account, t task) {
	if len(a.tasks) >= maxFolders {
		w.found.Lose(a.owner, 1)
		w.found.Whole = false
		return
	}
	t.offset = w.finder.resume[t.place()]
	t.late = t.offset != 0
	a.tasks = append(a.tasks, t)
}

// run lists folders, a piece at a time, of who took least so far.
func (w *walk) run() {
	for {
		a := w.next()
		if a == nil {
			return
		}
		if w.left() <= 0 || a.spent >= a.bound.time || a.names >= a.bound.names {
			w.stop(a)
			continue
		}
		t := a.tasks[0]
		begun := w.finder.spent()
		offset, err := w.list(a, t)
		a.spent += w.finder.spent() - begun
		switch {
		case err != nil && len(t.at.below) == 0:
			w.failed = errors.Join(w.failed, err)
		case err != nil:
			w.found.Refuse(err)
		}
		if t.offset = offset; offset == 0 {
			a.tasks = a.tasks[1:]
			w.end(a, t)
		} else {
			a.tasks[0] = t
		}
	}
}

func (w *walk) left() time.Duration { return walkTime - (w.finder.spent() - w.began) }

func (w *walk) next() *account {
	var least *account
	for _, a := range w.order {
		if len(a.tasks) > 0 && (least == nil || a.spent < least.spent) {
			least = a
		}
	}
	return least
}

// end counts a folder that took more than one look.
func (w *walk) end(a *account, t task) {
	if t.late {
		w.found.Lose(w.exceeding(a), 1)
		w.found.Whole = false
	}
}

// stop leaves the folders of an owner for the next look.
func (w *walk) stop(a *account) {
	for _, t := range a.tasks {
		if t.offset != 0 {
			w.resume[t.place()] = t.offset
		}
	}
	w.found.Lose(w.exceeding(a), len(a.tasks))
	w.found.Whole = false
	a.tasks = nil
}

// exceeding is who made most of the names in a folder that all write to, if those are more than half.
func (w *walk) exceeding(a *account) fabric.FileOwner {
	for _, other := range w.order {
		if a.bound == ofAll && other != a && 2*other.names > a.names {
			return other.owner
		}
	}
	return a.owner
}

// list lists a piece of a folder and returns where it goes on; 0: that was its end.
func (w *walk) list(a *account, t task) (int64, error) {
	dir, err := t.at.open(t.mounts)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(dir) }()
	if t.offset != 0 {
		if _, err := unix.Seek(dir, t.offset, unix.SEEK_SET); err != nil {
			return 0, &fs.PathError{Op: "seek", Path: t.at.path(""), Err: err}
		}
	}
	n, err := openat.Retry(func() (int, error) { return unix.ReadDirent(dir, w.buffer) })
	next := int64(0)
	if err == nil {
		err = openat.ParseEntries(w.buffer[:n], func(e openat.Entry) error {
			a.names++
			next = e.Next
			w.entry(dir, a, t, string(e.Name), e.Kind)
			return nil
		})
	}
	if err != nil {
		return 0, &fs.PathError{Op: "list", Path: t.at.path(""), Err: err}
	}
	return next, nil
}

// entry takes a file or a folder that is wanted.
func (w *walk) entry(dir int, a *account, t task, name string, kind byte) {
	depth := len(t.at.below)
	take := kind != unix.DT_DIR && t.tree.Take(depth, name)
	enter := (kind == unix.DT_DIR || kind == unix.DT_UNKNOWN) && t.tree.Enter(depth, name)
	if !take && !enter {
		return
	}
	st, err := t.mounts.stat(dir, name)
	if err != nil {
		w.found.Refuse(err)
		return
	}
	owner := a.owner
	if t.shared {
		owner = fabric.FileOwner{UID: w.finder.users.Of(st.Uid)}
	}
	switch kind := st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFDIR && enter:
		t.at = t.at.sub(name)
		t.shared = t.shared && st.Uid == 0 && st.Mode&unix.S_ISVTX != 0
		if !t.shared && owner.UID == 0 && owner.Folder == "" {
			owner.Folder = t.at.inside("")
		}
		if t.shared {
			owner = a.owner
		}
		w.add(w.account(owner, ofOwner), t)
	case kind == unix.S_IFDIR: // of another pattern
	case !take:
	case kind != unix.S_IFREG || st.Nlink > 1:
		w.found.Refuse(errIrregular)
	default:
		w.take(w.account(owner, ofOwner), fileOf(&st, t.at, name, owner), t.shared)
	}
}

// take notes a file. In a folder that all write to, its name counts for its owner, too.
func (w *walk) take(a *account, f File, shared bool) {
	if shared {
		if a.names++; a.names > a.bound.names {
			w.found.Lose(a.owner, 1)
			w.found.Whole = false
			return
		}
	}
	w.found.Files[f.Identity] = f
}

// remember adds files that were found before and are there still, since this look did not see all.
func (w *walk) remember() {
	for id, f := range w.finder.known {
		a := w.account(f.Owner, ofOwner)
		if _, again := w.found.Files[id]; again || len(w.found.Files) >= maxKept || a.spent >= 2*ownTime {
			continue
		}
		m, err := w.of(f.folder.root)
		if err != nil {
			continue
		}
		begun := w.finder.spent()
		if now, err := f.again(m); err == nil {
			w.found.Files[id] = now
		}
		a.spent += w.finder.spent() - begun
	}
}

// again looks at a file that was found before.
func (f *File) again(m *mounts) (File, error) {
	dir, err := f.folder.at(m)
	if err != nil {
		return File{}, err
	}
	defer func() { _ = unix.Close(dir) }()
	st, err := m.stat(dir, f.Name)
	if err != nil {
		return File{}, err
	}
	now := fileOf(&st, f.folder, f.Name, f.Owner)
	if now.Identity != f.Identity || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1 {
		return File{}, errors.ErrUnsupported
	}
	return now, nil
}

func fileOf(st *unix.Statx_t, at folder, name string, owner fabric.FileOwner) File {
	return File{
		Identity: identityOf(st), Name: name, Size: int64(st.Size), Changed: timeOf(st.Mtime), Born: timeOf(st.Btime),
		UID: st.Uid, Owner: owner, folder: at,
	}
}

func timeOf(t unix.StatxTimestamp) time.Time {
	if t == (unix.StatxTimestamp{}) {
		return time.Time{}
	}
	return time.Unix(t.Sec, int64(t.Nsec))
}

// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"gpufabric_exporter/internal/errand"
	"gpufabric_exporter/internal/fabric"
)

// File is the path of a state file, read and replaced as a whole.
type File string

// Load returns the content, nil if there is none yet. A file that is not regular is not waited for.
func (f File) Load() ([]byte, error) {
	file, err := os.OpenFile(string(f), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("state file: %w", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil {
		return nil, fmt.Errorf("state file: %w", err)
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no plain file", ErrState, f)
	}
	data, err := io.ReadAll(io.LimitReader(file, stateMost+1))
	if err != nil {
		return nil, fmt.Errorf("state file: %w", err)
	}
	return data, nil
}

// Save replaces the file. Whatever ends the process or the machine on the way, the file is the old or the new one; at
// most a temporary file is left beside it, which the next save takes over.
func (f File) Save(data []byte) error {
	temporary := string(f) + ".new"
	if err := write(temporary, data); err != nil {
		_ = os.Remove(temporary) // a part of it would only take room
		return fmt.Errorf("state file: %w", err)
	}
	if err := os.Rename(temporary, string(f)); err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	dir, err := os.Open(filepath.Dir(string(f)))
	if err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("state file: directory: %w", err)
	}
	return nil
}

// write makes a file that is on the disk when it returns. It follows no symbolic link, which another user may have put
// there.
func write(path string, data []byte) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Write(data); err != nil {
		return err
	}
	return file.Sync()
}

// store is where a state is kept.
type store interface {
	Load() ([]byte, error) // nil: none yet
	Save([]byte) error
}

// Keeper loads and saves a state without waiting for a file system that hangs. At most one call of its store is under
// way. It is safe for concurrent use.
type Keeper struct {
	store   store
	changed func(error) // called when saving begins to fail, and with nil when it works again; nil: not reported

	mu       sync.Mutex
	next     []byte        // waits to be saved
	idle     chan struct{} // closed when all is saved; nil: nothing is under way
	since    time.Time     // of the call under way
	failed   error         // of the last save
	reported bool          // that it fails
	closed   bool          // nothing is saved: a load did not return, or the file is another version's
}

// NewKeeper returns one that has not saved yet.
func NewKeeper(s store, changed func(error)) *Keeper { return &Keeper{store: s, changed: changed} }

// hung is how long a call of a store may take.
const hung = 5 * time.Second

// Load returns what is kept. It stops waiting after hung.
func (k *Keeper) Load(ctx context.Context) ([]byte, error) {
	data, err := errand.Within(ctx, hung, func(context.Context) ([]byte, error) { return k.store.Load() })
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = fabric.Because(fabric.ReasonStuck, "state file: reading it does not return")
		k.Refuse(err)
	}
	return data, err
}

// Refuse leaves the store as it is from now on, and says why.
func (k *Keeper) Refuse(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed, k.failed = true, why
}

// Save keeps data soon, in place of what waits to be saved. The channel is closed when nothing waits any more.
func (k *Keeper) Save(data []byte) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		done := make(chan struct{})
		close(done)
		return done
	}
	k.next = data
	if k.idle == nil {
		k.idle, k.since = make(chan struct{}), time.Now()
		go k.work()
	}
	return k.idle
}

func (k *Keeper) work() {
	for {
		k.mu.Lock()
		data := k.next
		if data == nil {
			close(k.idle)
			k.idle = nil
			k.mu.Unlock()
			return
		}
		k.next, k.since = nil, time.Now()
		k.mu.Unlock()
		slow := time.AfterFunc(hung, k.report)
		err := k.store.Save(data)
		slow.Stop()
		k.mu.Lock()
		k.failed, k.since = err, time.Now()
		k.mu.Unlock()
		k.report()
	}
}

// report calls changed when saving begins to fail, or works again.
func (k *Keeper) report() {
	k.mu.Lock()
	err := k.wrong()
	news := k.changed != nil && k.reported != (err != nil)
	k.reported = err != nil
	k.mu.Unlock()
	if news {
		k.changed(err)
	}
}

// Err is what is wrong with saving, now.
func (k *Keeper) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.wrong()
}

func (k *Keeper) wrong() error {
	if k.idle != nil && time.Since(k.since) >= hung {
		return fabric.Because(fabric.ReasonStuck, "state file: writing it does not return")
	}
	return k.failed
}

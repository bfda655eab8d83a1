// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"runtime"
	"time"

	"gpufabric_exporter/internal/fabric"
)

const (
	patience = 2 * time.Second // with the files of an owner
	maxLate  = 8               // owners whose files are being read, for how long ever
)

// Owners is what is known of the owners of files, whichever Reader looks at them: who answers for numbers of
// users, and whose files are being read. A Reader that takes the place of another gets those of the other, or
// it would read what that one still reads.
type Owners struct {
	*Users
	Turns
}

// Turns reads the files of one owner after those of another. A read that does not return keeps a goroutine
// and its thread, and the files of that owner: on XFS, a write whose data comes from memory that does not
// answer holds a lock that reading needs. The zero Turns is ready. It belongs to one goroutine at a time.
type Turns struct {
	late map[fabric.FileOwner]chan func()
}

// Collect takes over what has returned since, so that its owner has a turn again. Call it before a look.
func (t *Turns) Collect() {
	for owner, done := range t.late {
		select {
		case merge := <-done:
			delete(t.late, owner)
			merge()
		default:
		}
	}
}

// Busy reports whether the files of an owner may not be touched: a read of them has not returned, or of so
// many others that no more threads are given to it.
func (t *Turns) Busy(owner fabric.FileOwner) bool {
	_, late := t.late[owner]
	return late || len(t.late) >= maxLate
}

// Ready returns the files of owners who are not busy. Those of others are lost.
func (t *Turns) Ready(found *Found, chosen []File) (ready []File) {
	for i := range chosen {
		if t.Busy(chosen[i].Owner) {
			found.Lost[chosen[i].Owner]++
		} else {
			ready = append(ready, chosen[i])
		}
	}
	return ready
}

// Take reads the files of an owner who is not busy. The read runs on a thread of its own, and what it found
// is merged in this goroutine: now, or if it takes longer than the patience, in Collect: until then nothing
// may touch what it has.
func (t *Turns) Take(owner fabric.FileOwner, read, merge func()) (ended bool) {
	done := make(chan func(), 1)
	go func() {
		runtime.LockOSThread() // whose processor time counts
		defer runtime.UnlockOSThread()
		read()
		done <- merge
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case merge := <-done:
		merge()
		return true
	case <-timer.C:
		if t.late == nil {
			t.late = map[fabric.FileOwner]chan func(){}
		}
		t.late[owner] = done
		return false
	}
}

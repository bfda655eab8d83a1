// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"os"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/owned"
)

// turn is the read of the files of an owner.
type turn struct {
	now     time.Time
	files   []owned.File
	states  []*followed
	share   int64 // bytes
	allowed time.Duration
	spent   func() time.Duration
	open    func(f *owned.File) (*os.File, error)
	buffer  []byte
	// What follows is for Reader when the read has ended.
	used     time.Duration
	over     bool // the time was
	skipped  uint64
	failures fabric.Failures
	errs     []error
}

// run reads the files until the time is over.
func (t *turn) run() {
	begun := t.spent()
	demands := make([]int64, len(t.files))
	for i := range t.files {
		demands[i] = t.states[i].state.unread(t.files[i].Size)
	}
	for i, share := range owned.Divide(t.share, demands) {
		if demands[i] == 0 {
			continue
		}
		now := t.spent()
		left := (t.allowed - (now - begun)) / time.Duration(len(demands)-i)
		if t.over = left <= 0; t.over {
			break
		}
		enough := func() bool { return t.spent()-now >= left }
		if err := t.follow(i, max(share, leastRead), enough); err != nil {
			t.errs = append(t.errs, err)
		}
		t.over = t.over || enough()
	}
	t.used = t.spent() - begun
}

// follow reads the next bytes of a file.
func (t *turn) follow(i int, share int64, enough func() bool) error {
	in, err := t.open(&t.files[i])
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if t.buffer == nil {
		t.buffer = make([]byte, piece)
	}
	p := part{
		in: in, share: share, buffer: t.buffer, enough: enough,
		failed: func(id string) { t.failures.Add(id, t.now, true) },
	}
	skipped, err := t.states[i].state.read(&p, info.Size())
	t.skipped += skipped
	return err
}

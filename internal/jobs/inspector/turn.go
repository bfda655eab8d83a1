// SPDX-License-Identifier: Apache-2.0

package inspector

import (
	"io"
	"os"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/owned"
)

// turn is the read of the files of an owner.
type turn struct {
	now   time.Time
	files []owned.File
	last  []parsed // what is known of each
	known []bool   // whether something is
	share int64
	// What follows is for Reader when the turn has ended.
	read   map[string]parsed
	failed []string
	errs   []error
	lost   int // files that are too large for the share
}

// unchanged reports whether a file is as it was when it was read.
func (p *parsed) unchanged(f *owned.File) bool { return p.size == f.Size && p.changed.Equal(f.Changed) }

// unread is how many bytes of a file there are to read, of which this is known.
func (p *parsed) unread(f *owned.File, known bool) int64 {
	if known && p.unchanged(f) {
		return 0
	}
	if file, _ := named(f.Name); file.GPU != "" {
		return min(max(f.Size, 1), maxMetrics)
	}
	if known && p.log != nil {
		return min(max(f.Size-p.log.offset, 1), maxAppended)
	}
	return min(max(f.Size, 1), maxAppended)
}

// run reads the files that changed.
func (t *turn) run() {
	demands := make([]int64, len(t.files))
	for i := range t.files {
		demands[i] = t.last[i].unread(&t.files[i], t.known[i])
	}
	for i, share := range owned.Divide(t.share, demands) {
		f := &t.files[i]
		if t.known[i] && t.last[i].unchanged(f) || t.waits(f, share) {
			continue
		}
		p, err := t.one(i, share)
		if err != nil {
			t.failed, t.errs = append(t.failed, f.Path()), append(t.errs, err)
			continue
		}
		t.read[f.Path()] = p
	}
}

// waits reports whether a file of the Prometheus mode is left for the next call: it is being written, or
// larger than the share. It is compared again then.
func (t *turn) waits(f *owned.File, share int64) bool {
	if file, _ := named(f.Name); file.GPU == "" {
		return false
	}
	if age := t.now.Sub(f.Changed); age >= 0 && age < settleAfter {
		return true
	}
	if share < min(f.Size, maxMetrics) {
		t.lost++
		return true
	}
	return false
}

// one reads a file.
func (t *turn) one(i int, share int64) (parsed, error) {
	f, last := &t.files[i], &t.last[i]
	in, err := f.Open()
	if err != nil {
		return parsed{}, err
	}
	defer in.Close()
	p := parsed{id: f.Identity}
	p.file, _ = named(f.Name)
	if p.log = new(appended); t.known[i] && last.log != nil {
		p.log = last.log
	}
	info, err := in.Stat()
	if err != nil {
		return parsed{}, err
	}
	p.size, p.changed = info.Size(), info.ModTime()
	p.file.Owner, p.file.Written = f.UID, p.changed
	if p.file.GPU == "" {
		err = p.appended(in, share, t.now)
	} else {
		err = p.metrics(in)
	}
	return p, err
}

// metrics reads a file of the Prometheus mode.
func (p *parsed) metrics(in *os.File) error {
	data, err := io.ReadAll(io.LimitReader(in, maxMetrics+1))
	switch {
	case err != nil:
		return err
	case len(data) > maxMetrics:
		p.refused = fabric.RefusedTooLarge
		return nil
	}
	samples, ok := parseMetrics(data)
	if p.file.Samples = samples; !ok {
		p.refused = fabric.RefusedMalformed
	}
	return nil
}

// appended reads what was appended to a file of the JSON mode, or a sample of it.
func (p *parsed) appended(in *os.File, share int64, now time.Time) (err error) {
	most := min(max(share, maxRecord), maxAppended)
	if p.refused, err = p.log.read(in, p.size, most, now); err == nil && p.refused == "" {
		p.file.Samples, p.file.Totals = p.log.samples(now)
	}
	return err
}

// SPDX-License-Identifier: Apache-2.0

package openat

// Recorder receives what readers read below a Root, so that a copy of it can be made. Paths are relative to the root
// and as the reader has them: there may be links in them. It is called by the goroutines that read.
type Recorder interface {
	// Begin is called before a file or a directory is read. Where it returns an error, that is what the reader gets.
	Begin(path string) error
	// Look is called for what a reader asked about or opened: a link, a directory or a file.
	Look(path string)
	// Entry is called for each entry of a directory that a reader lists.
	Entry(dir, name string)
	// Text is called with what a read of a file gave. The text is valid until Text returns.
	Text(path string, text []byte, err error)
}

// Record reports the files that are read from now on to rec. Call it before the first read.
func (r *Root) Record(rec Recorder) { r.recorder = rec }

// Recorder returns the receiver of what is read; nil outside of a capture.
func (r *Root) Recorder() Recorder { return r.recorder }

func (r *Root) look(p string) {
	if r.recorder != nil {
		r.recorder.Look(p)
	}
}

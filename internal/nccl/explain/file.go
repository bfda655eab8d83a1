// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gpufabric_exporter/internal/nccl/log"
)

// StandardInput is the name of the standard input.
const StandardInput = "-"

// maxFiles bounds how many logs are read together.
const maxFiles = 4096

// ReadFile reads the log of that name, or stdin where the name is StandardInput. A pipe, a terminal or a
// mount may block for ever: the read is abandoned when the context ends.
func ReadFile(ctx context.Context, file string, stdin io.Reader) (*Result, error) {
	return ReadFiles(ctx, []string{file}, stdin, false)
}

// ReadFiles reads logs of one job, one for each rank or node, and those in folders of these names, as if they were
// one. Files in a folder that are no text are passed over, and listed. redact is for a ticket: see Redact.
func ReadFiles(ctx context.Context, names []string, stdin io.Reader, redact bool) (*Result, error) {
	type content struct {
		result *Result
		err    error
	}
	done := make(chan content, 1)
	go func() {
		r, err := readAll(ctx, names, stdin, redact)
		done <- content{r, err}
	}()
	var c content
	select {
	case <-ctx.Done():
	case c = <-done:
	}
	switch {
	case c.result != nil && c.err == nil:
		return c.result, nil
	case ctx.Err() != nil: // which may also be why the reader failed
		name := strings.Join(names, " ")
		if name == StandardInput {
			name = "standard input"
		}
		return nil, fmt.Errorf("%s: interrupted before its end: %w", name, ctx.Err())
	}
	return nil, c.err
}

func readAll(ctx context.Context, names []string, stdin io.Reader, redact bool) (*Result, error) {
	logs, err := expand(names)
	if err != nil {
		return nil, err
	}
	r := newReading()
	if redact {
		r.hidden = &redactor{known: map[string]struct{}{}, numbers: map[string][]string{}}
	}
	left := int64(maxBytes)
	for _, l := range logs {
		name := l.name
		if len(logs) == 1 {
			name = ""
		}
		n, err := r.open(ctx, l.name, name, stdin, left)
		left -= n
		var no *notText
		switch {
		case errors.As(err, &no) && l.found:
			r.unread = append(r.unread, unread{log.Text(filepath.Base(l.name)), no.format})
		case err != nil && l.name == StandardInput:
			return nil, fmt.Errorf("standard input: %w", err)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
	}
	if len(r.unread) == len(logs) {
		return nil, fmt.Errorf("%s: no file in it is text: expected logs", strings.Join(names, " "))
	}
	return r.result(), nil
}

// named is a log, which the user named or a folder has.
type named struct {
	name  string
	found bool
}

// expand replaces folders by the files in them and below.
func expand(names []string) ([]named, error) {
	var logs []named
	for _, name := range names {
		info, err := os.Stat(name)
		if name != StandardInput && errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: no such file or folder: expected the log of a job (- is the standard input)", name)
		}
		if name == StandardInput || err != nil || !info.IsDir() {
			logs = append(logs, named{name: name})
			continue
		}
		before := len(logs)
		err = filepath.WalkDir(name, func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case e.IsDir() && path != name && strings.HasPrefix(e.Name(), "."):
				return fs.SkipDir
			case e.Type().IsRegular():
				logs = append(logs, named{path, true})
			}
			if len(logs) > maxFiles {
				return fmt.Errorf("more than %d files: expected the logs of one job", maxFiles)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(logs) == before {
			return nil, fmt.Errorf("%s: it is a folder without files: expected logs", name)
		}
	}
	return logs, nil
}

// open reads one log, and returns how many bytes it had.
func (r *reading) open(ctx context.Context, file, name string, stdin io.Reader, most int64) (int64, error) {
	if file == StandardInput {
		in := &interruptible{ctx: ctx, from: stdin}
		err := r.read(name, in, most)
		return in.taken, err
	}
	switch info, err := os.Stat(file); { // before it is opened, which some devices act on
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular() && info.Mode()&os.ModeNamedPipe == 0:
		return 0, errors.New("it is a device or a socket: expected a file or a pipe (- is the standard input)")
	}
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	in := &interruptible{ctx: ctx, from: f}
	err = r.read(name, in, most)
	return in.taken, err
}

// interruptible ends a read of many pieces when the context ends.
type interruptible struct {
	ctx   context.Context
	from  io.Reader
	taken int64
}

func (i *interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := i.from.Read(p)
	i.taken += int64(n)
	return n, err
}

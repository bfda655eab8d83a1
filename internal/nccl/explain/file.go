// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// StandardInput is the name of the standard input.
const StandardInput = "-"

// ReadFile reads the log of that name, or stdin where the name is StandardInput. A pipe, a terminal or a
// mount may block for ever: the read is abandoned when the context ends.
func ReadFile(ctx context.Context, file string, stdin io.Reader) (*Result, error) {
	name := file
	if name == StandardInput {
		name = "standard input"
	}
	type content struct {
		result *Result
		err    error
	}
	done := make(chan content, 1)
	go func() {
		r, err := open(ctx, file, stdin)
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
		return nil, fmt.Errorf("%s: interrupted before its end: %w", name, ctx.Err())
	}
	return nil, fmt.Errorf("%s: %w", name, c.err)
}

func open(ctx context.Context, file string, stdin io.Reader) (*Result, error) {
	if file == StandardInput {
		return Read(interruptible{ctx, stdin})
	}
	switch info, err := os.Stat(file); { // before it is opened, which some devices act on
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errors.New("it is a folder: expected a file")
	case !info.Mode().IsRegular() && info.Mode()&os.ModeNamedPipe == 0:
		return nil, errors.New("it is a device or a socket: expected a file or a pipe (- is the standard input)")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(interruptible{ctx, f})
}

// interruptible ends a read of many pieces when the context ends.
type interruptible struct {
	ctx  context.Context
	from io.Reader
}

func (i interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.from.Read(p)
}

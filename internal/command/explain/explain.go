// SPDX-License-Identifier: Apache-2.0

// Package explain is the command explain: it says what a log of NCCL shows.
package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/explain"
)

// What explain exits with, as check does.
const (
	exitFine      = command.OK
	exitFailed    = 1             // the log shows a failure
	exitUndecided = 2             // it shows none, and not that all is well
	exitUnread    = command.Usage // the command line is wrong, or the input cannot be read
)

// standardInput is the name of the standard input, as an argument and in messages.
const standardInput = "-"

// explaining is one call of the command.
type explaining struct {
	stdin io.Reader
	file  string
	json  bool
}

// New returns the command.
func New() *command.Command { return (&explaining{stdin: os.Stdin}).command() }

func (k *explaining) command() *command.Command {
	return &command.Command{
		Name: "explain", Help: "Explain a log of NCCL, of one rank or many mixed, with or without what launchers put before each line: release, ranks, transport, GPUDirect RDMA, set-up time, and the first failure with its cause and remedy. Lines of PyTorch, Gloo and the kernel in it are explained, too. Exit code 0: the set-up is complete, and nothing failed; 1: something failed; 2: the log does not tell; 3: the command line is wrong, or the input cannot be read or is not text.",
		Define: func(f *command.Flags) {
			f.Argument("file", "The log; - is the standard input.", command.Into(&k.file, parseArgument))
			f.Output(&k.json)
			f.Check(func() error {
				if k.file == "" {
					return errors.New("explain: expected the name of a log, or - for the standard input")
				}
				return nil
			})
		},
		Run: k.run,
	}
}

// parseArgument parses the name of a file. Kingpin hands the argument "-" on as an empty one.
func parseArgument(s string) (string, error) {
	if s == "" {
		return standardInput, nil
	}
	return command.ParseFile(s)
}

func (k *explaining) run(ctx context.Context, c *command.Call) int {
	r, err := k.read(ctx)
	if err != nil {
		c.Complain(err)
		return exitUnread
	}
	if k.json {
		err = writeJSON(c.Stdout, r)
	} else {
		err = writeText(command.Raw(c.Stdout), r, command.Colours(c.Stdout))
	}
	if err != nil {
		c.Complain(err)
	}
	switch {
	case r.Failed():
		return exitFailed
	case err != nil:
		return exitUnread
	case r.Undecided() != "":
		return exitUndecided
	}
	return exitFine
}

// read reads the log. A pipe, a terminal or a mount may block for ever: the read is abandoned when the context ends.
func (k *explaining) read(ctx context.Context) (*explain.Result, error) {
	name := k.file
	if name == standardInput {
		name = "standard input"
	}
	type content struct {
		result *explain.Result
		err    error
	}
	done := make(chan content, 1)
	go func() {
		r, err := k.content(ctx)
		done <- content{r, err}
	}()
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: interrupted before its end: %w", name, ctx.Err())
	case c := <-done:
		if c.err != nil {
			return nil, fmt.Errorf("%s: %w", name, c.err)
		}
		return c.result, nil
	}
}

func (k *explaining) content(ctx context.Context) (*explain.Result, error) {
	if k.file == standardInput {
		return explain.Read(interruptible{ctx, k.stdin})
	}
	f, err := os.Open(k.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errors.New("it is a folder: expected a file")
	}
	return explain.Read(interruptible{ctx, f})
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

// SPDX-License-Identifier: Apache-2.0

// Package explain is the command explain: it summarizes a log of NCCL.
package explain

import (
	"context"
	"errors"
	"io"
	"os"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/nccl/explain"
)

// What explain exits with, as check does.
const (
	exitFine      = command.OK
	exitFailed    = 1             // the log shows a failure
	exitUndecided = 2             // it shows none, and not that all is well
	exitUnread    = command.Usage // the command line is wrong, or the input cannot be read
)

// explaining is one call of the command.
type explaining struct {
	stdin  io.Reader
	files  []string
	json   bool
	redact bool
}

// New returns the command.
func New() *command.Command { return (&explaining{stdin: os.Stdin}).command() }

func (k *explaining) command() *command.Command {
	return &command.Command{
		Name: "explain",
		Help: "Explain logs of NCCL, of one rank or many mixed, with or without what launchers put before each line: what failed first, why, how sure that is (certain, likely, possible) and what to do; then release, ranks, transport, GPUDirect RDMA and set-up time. Lines of PyTorch, Gloo, launchers and the kernel in them are explained, too. Exit code 0: the set-up is complete, and nothing failed; 1: something failed; 2: the log does not tell; 3: the command line is wrong, or the input cannot be read or is not text.",
		Define: func(f *command.Flags) {
			f.Argument("file", "Logs of one job, one for each rank or node, and folders with them; - is the standard input.", command.Append(&k.files, parseArgument))
			f.Output(&k.json)
			f.Switch("redact", "Replace names of hosts and users, and addresses, for a ticket.", &k.redact)
			f.Check(func() error {
				if len(k.files) == 0 {
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
		return explain.StandardInput, nil
	}
	return command.ParseFile(s)
}

func (k *explaining) run(ctx context.Context, c *command.Call) int {
	r, err := explain.ReadFiles(ctx, k.files, k.stdin)
	if err != nil {
		c.Complain(err)
		return exitUnread
	}
	if k.redact {
		r.Redact()
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

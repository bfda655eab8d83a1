// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
)

// How much is said of what keeps a command from its work.
const (
	maxFailures = 20
	maxFailure  = 3 << 9 // bytes of a line
)

// complain prints errors, a line for each.
func complain(w io.Writer, err error) {
	all := config.Errors(err)
	for i, e := range all {
		if i == maxFailures {
			fmt.Fprintf(w, "%s: error: and %d more\n", Name, len(all)-i)
			return
		}
		fmt.Fprintf(w, "%s: error: %s\n", Name, fabric.Printable(strings.ReplaceAll(e.Error(), "\n", "; "), maxFailure))
	}
}

// ExitOf is what a command exits with after an error: Usage where the configuration is wrong, else that.
func ExitOf(err error, otherwise int) int {
	if _, wrong := errors.AsType[*config.Error](err); wrong {
		return Usage
	}
	return otherwise
}

// Fail prints an error and returns the exit code: Usage where the configuration is wrong, else Failure.
func (c *Call) Fail(err error) int {
	c.Complain(err)
	return ExitOf(err, Failure)
}

// Complain prints errors, a line for each, and names the flags that they are about.
func (c *Call) Complain(err error) { complain(c.Stderr, c.Explain(err)) }

// Explain names the flag that an error is about, where a path that a flag says could not be read.
func (c *Call) Explain(err error) error {
	if all := config.Errors(err); len(all) > 1 {
		all = slices.Clone(all)
		for i := range all {
			all[i] = c.Explain(all[i])
		}
		return errors.Join(all...)
	}
	p, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return err
	}
	for _, flag := range c.inputs {
		if p.Path == flag.text {
			return fmt.Errorf("--%s=%.512q: %w: expected a path that exists and that user %d may read", flag.name, flag.text,
				p.Err, os.Geteuid())
		}
	}
	return err
}

// Unwritable is the error of a path that a flag says and that could not be written.
func Unwritable(flag, path string, err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		err = errno // without the name of a temporary file
	}
	expected := fmt.Sprintf("expected a path in a folder that exists and that user %d may write to", os.Geteuid())
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		expected = "what was there before stays: expected free space (df), inodes (df -i) and quota"
	case errors.Is(err, syscall.EROFS):
		expected = "what was there before stays: expected a file system that is mounted to write (findmnt --target), and whose unit may write there (ReadWritePaths)"
	}
	return fmt.Errorf("--%s=%.512q: %w: %s", flag, path, err, expected)
}

// TemporaryFolder returns a folder for the files of a node that is not this host.
func TemporaryFolder() (string, error) {
	dir, err := os.MkdirTemp("", Name+"_")
	if err != nil {
		return "", fmt.Errorf("no folder for the files of the node: %w: set TMPDIR to a folder that user %d may write to",
			err, os.Geteuid())
	}
	return dir, nil
}

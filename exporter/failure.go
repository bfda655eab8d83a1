// SPDX-License-Identifier: Apache-2.0

package exporter

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
			fmt.Fprintf(w, "%s: error: and %d more\n", name, len(all)-i)
			return
		}
		fmt.Fprintf(w, "%s: error: %s\n", name, clip(e.Error(), maxFailure))
	}
}

// clip bounds what is said of an error, in bytes, and keeps it on one line.
func clip(s string, most int) string {
	if len(s) > most {
		s = s[:most] + "..."
	}
	s = strings.ReplaceAll(s, "\n", "; ")
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// exitOf is what a command exits with after an error: exitUsage where the configuration is wrong, else that.
func exitOf(err error, otherwise int) int {
	if _, wrong := errors.AsType[*config.Error](err); wrong {
		return exitUsage
	}
	return otherwise
}

// explain names the flag that an error is about, where a path that a flag says could not be read.
func (f *flags) explain(err error) error {
	if all := config.Errors(err); len(all) > 1 {
		all = slices.Clone(all)
		for i := range all {
			all[i] = f.explain(all[i])
		}
		return errors.Join(all...)
	}
	p, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return err
	}
	for _, flag := range []struct{ name, path string }{
		{"config.file", f.configFile.Path},
		{"web.config.file", f.webConfigFile},
		{"manifest", f.checkManifest},
		{"capture", f.demoCapture},
		{"path.sysfs", f.sysfs},
		{"path.procfs", f.procfs},
		{"path.rootfs", f.rootfs},
	} {
		if p.Path == flag.path {
			return fmt.Errorf("--%s=%.512q: %w: expected a path that exists and that user %d may read", flag.name, flag.path, p.Err, os.Geteuid())
		}
	}
	return err
}

// unwritable is the error of a path that a flag says and that could not be written.
func unwritable(flag, path string, err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		err = errno // without the name of a temporary file
	}
	return fmt.Errorf("--%s=%.512q: %w: expected a path in a folder that exists and that user %d may write to", flag, path, err, os.Geteuid())
}

// temporaryFolder returns a folder for the files of a node that is not this host.
func temporaryFolder() (string, error) {
	dir, err := os.MkdirTemp("", name+"_")
	if err != nil {
		return "", fmt.Errorf("no folder for the files of the node: %w: set TMPDIR to a folder that user %d may write to", err, os.Geteuid())
	}
	return dir, nil
}

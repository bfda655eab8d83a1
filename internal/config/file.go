// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// DefaultFile is read unless --config.file names another file, by all commands that look at this host.
	DefaultFile = "/etc/gpufabric_exporter/config.yml"
	// NoFile is what --config.file takes to read none.
	NoFile = "none"
)

// File says which configuration the commands read.
type File struct {
	Path     string // empty: none
	Optional bool   // the default: it may be missing
}

// Read reads the file, and that of its manifest. Its errors are of type *Error.
func (f File) Read() (Config, error) {
	c, err := read(f.Path)
	if err != nil && f.Missing() {
		c, err = read("")
		c.Missing = f.Path
	}
	if err != nil {
		return Config{}, &Error{Err: err}
	}
	return c, nil
}

// Missing reports whether the file may be missing, and is.
func (f File) Missing() bool { return f.Optional && missing(f.Path) }

// missing reports whether there is no such file. A symbolic link that leads nowhere, as that file or its
// folder, is there: it is an error.
func missing(file string) bool {
	_, err := os.Lstat(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	folder := filepath.Dir(file)
	_, err = os.Lstat(folder)
	_, leads := os.Stat(folder)
	return err != nil || leads == nil
}

// Origin says for people which configuration is in force.
func (c Config) Origin() string {
	switch {
	case c.File != "":
		return c.File
	case c.Missing != "":
		return "none: " + c.Missing + " does not exist, so the node is not compared with expectations of a site"
	}
	return "none: the node is not compared with expectations of a site"
}

// Report is what the JSON of commands reports about the configuration in force.
type Report struct {
	File string `json:"file,omitempty"` // missing: none
	Text string `json:"text"`
}

// Report says for programs which configuration is in force.
func (c Config) Report() Report { return Report{c.File, c.Origin()} }

// Error says that what the user wrote is wrong: the command line, or a file that it names.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// Errors returns the errors that were joined to err, else err itself.
func Errors(err error) []error {
	// itself: one that is joined to others is one of them
	if c, ok := errors.AsType[*Error](err); ok && c.Error() == err.Error() {
		err = c.Err
	}
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		if all := j.Unwrap(); errors.Join(all...).Error() == err.Error() { // else it wraps several and has words of its own
			return all
		}
	}
	return []error{err}
}

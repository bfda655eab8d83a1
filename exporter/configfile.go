// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// defaultConfig is read unless --config.file names another file, by all commands that look at this host.
	defaultConfig = "/etc/gpufabric_exporter/config.yml"
	// noConfig is what --config.file takes to read none.
	noConfig = "none"
)

// configFile says which configuration the commands read.
type configFile struct {
	path     string // empty: none
	optional bool   // the default: it may be missing
}

// read reads the file. Its errors are of type *configError.
func (f configFile) read() (config, error) {
	c, err := readConfig(f.path)
	if err != nil && f.optional && missing(f.path) {
		c, err = readConfig("")
		c.missing = f.path
	}
	if err != nil {
		return config{}, &configError{err}
	}
	return c, nil
}

// missing tells that there is no such file. A symbolic link that leads nowhere, as that file or its folder, is there: it is an
// error.
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

// origin says for people which configuration is in force.
func (c config) origin() string {
	switch {
	case c.file != "":
		return c.file
	case c.missing != "":
		return "none: " + c.missing + " does not exist, so nothing is compared with what the site expects"
	}
	return "none: nothing is compared with what the site expects"
}

// configError says that what the user wrote is wrong: the command line, or a file that it names.
type configError struct{ err error }

func (e *configError) Error() string { return e.err.Error() }
func (e *configError) Unwrap() error { return e.err }

// exitOf is what a command exits with after an error: exitUsage where the configuration is wrong, else that.
func exitOf(err error, otherwise int) int {
	if _, wrong := errors.AsType[*configError](err); wrong {
		return exitUsage
	}
	return otherwise
}

// vanished is the error of a reload that finds the default file gone. What was in force stays: a deployment that removes the
// file before it writes the next one must not turn every expectation off.
func vanished(file string) error {
	return &configError{fmt.Errorf("%s does not exist any more: restart the exporter to serve without a configuration", file)}
}

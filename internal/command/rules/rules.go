// SPDX-License-Identifier: Apache-2.0

// Package rules is the command rules: it writes the embedded alert rules, runbooks, dashboards and objects for
// Kubernetes, with the addresses of the site.
package rules

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gpufabric_exporter/alerts"
	"gpufabric_exporter/dashboards"
	"gpufabric_exporter/deploy/operator"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/files"
	"gpufabric_exporter/internal/site"
)

// New returns the command.
func New(s *site.Site) *command.Command {
	var directory string
	return &command.Command{
		Name: "rules",
		Help: "Write alert rules, runbooks, dashboards and Kubernetes objects, with the addresses from links in the configuration.",
		Define: func(f *command.Flags) {
			f.Add("directory", "Directory to write to; existing files of the same name are replaced.",
				command.File(&directory)).Required().PlaceHolder("DIR")
		},
		Takes: []command.Group{&s.Config},
		Run: func(_ context.Context, c *command.Call) int {
			if err := write(directory, s.Config.File); err != nil {
				return c.Fail(err)
			}
			fmt.Fprintf(c.Stdout, "written to %s: alerts, dashboards, operator\n", directory)
			return command.OK
		},
	}
}

// write writes what is compiled in, for the site that the file is of.
func write(directory string, file config.File) error {
	c, err := file.Read()
	if err != nil {
		return err
	}
	for _, part := range []struct {
		name  string
		files fs.FS
	}{{"alerts", alerts.Files()}, {"dashboards", dashboards.Files()}, {"operator", operator.Files()}} {
		err := fs.WalkDir(part.files, ".", func(path string, d fs.DirEntry, err error) error {
			to := filepath.Join(directory, part.name, filepath.FromSlash(path))
			switch {
			case err != nil:
				return err
			case d.IsDir():
				return os.MkdirAll(to, 0o755)
			}
			text, err := fs.ReadFile(part.files, path)
			if err != nil {
				return err
			}
			return files.Replace(to, c.Links.Put(text))
		})
		if err != nil {
			return command.Unwritable("directory", directory, err)
		}
	}
	return nil
}

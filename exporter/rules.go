// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gpufabric_exporter/alerts"
	"gpufabric_exporter/dashboards"
	"gpufabric_exporter/deploy/operator"
	"gpufabric_exporter/internal/files"
)

func (c *commandLine) defineRules() {
	k := c.app.Command(commandRules, "Write alert rules, runbooks, dashboards and the objects for Kubernetes, with the addresses that links of the configuration names.")
	k.Flag("directory", "Folder to write them to; files of the same name are replaced.").Required().PlaceHolder("DIR").
		SetValue(&flagValue{name: "directory", set: into(&c.f.rulesDirectory, parseFile)})
}

// rules writes what is compiled in, for this site.
func rules(f *flags, o Options) int {
	if err := writeRules(f); err != nil {
		complain(o.Stderr, f.explain(err))
		return exitOf(err, exitFailure)
	}
	fmt.Fprintf(o.Stdout, "written to %s: alerts, dashboards, operator\n", f.rulesDirectory)
	return exitOK
}

func writeRules(f *flags) error {
	c, err := f.configFile.Read()
	if err != nil {
		return err
	}
	for _, part := range []struct {
		name  string
		files fs.FS
	}{{"alerts", alerts.Files()}, {"dashboards", dashboards.Files()}, {"operator", operator.Files()}} {
		err := fs.WalkDir(part.files, ".", func(path string, d fs.DirEntry, err error) error {
			to := filepath.Join(f.rulesDirectory, part.name, filepath.FromSlash(path))
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
			return unwritable("directory", f.rulesDirectory, err)
		}
	}
	return nil
}

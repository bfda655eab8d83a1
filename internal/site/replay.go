// SPDX-License-Identifier: Apache-2.0

package site

import (
	"fmt"
	"os"
	"path/filepath"

	"gpufabric_exporter/internal/capture"
	"gpufabric_exporter/internal/command"
)

// Replay unpacks a capture into a temporary folder, which the function removes, and returns the site that it
// is of. Nothing of this host is read. What this site expects of its nodes is expected of it only where the
// command line names the configuration.
func (s *Site) Replay(file string) (*Site, capture.Manifest, func(), error) {
	dir, err := command.TemporaryFolder()
	if err != nil {
		return nil, capture.Manifest{}, nil, err
	}
	done := func() { _ = os.RemoveAll(dir) }
	m, err := unpack(file, dir)
	if err != nil {
		done()
		return nil, m, nil, err
	}
	of := *s
	of.Paths = Paths{
		Sysfs: filepath.Join(dir, "sys"), Procfs: filepath.Join(dir, "proc"),
		Rootfs: filepath.Join(dir, "root"),
	}
	of.Recorded.Netlink = filepath.Join(dir, capture.NetlinkFolder)
	of.Inventory, of.LibraryPath, of.Home = "", "", ""
	if s.Config.Optional {
		of.Config.Path = ""
	}
	return &of, m, done, nil
}

func unpack(file, dir string) (capture.Manifest, error) {
	// A pipe without a writer would be waited for, for ever.
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return capture.Manifest{}, fmt.Errorf("%s: expected a regular file", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return capture.Manifest{}, err
	}
	defer f.Close()
	m, err := capture.Unpack(f, dir)
	if err != nil {
		return m, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

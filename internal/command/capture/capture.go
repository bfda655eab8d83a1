// SPDX-License-Identifier: Apache-2.0

// Package capture is the command capture: it writes an archive of what the exporter reads of this host.
package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/common/version"

	"gpufabric_exporter/internal/capture"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/site"
)

// DefaultFile is where a capture is written by default.
const DefaultFile = "gpufabric-capture.tar.gz"

// toStdout is the name of the file that is the standard output.
const toStdout = "-"

// taking is one call of the command.
type taking struct {
	site *site.Site
	log  *logging.Flags
	file string
}

// New returns the command.
func New(s *site.Site, log *logging.Flags) *command.Command {
	t := &taking{site: s, log: log}
	return &command.Command{
		Name: "capture",
		Help: "Write an archive of all data read from this host, with identifiers replaced, for a bug report.",
		Define: func(f *command.Flags) {
			f.Add("file", "File to write (tar.gz); - is the standard output.", command.File(&t.file)).Default(DefaultFile)
		},
		Takes: []command.Group{&s.Config, &s.Paths, &s.Devices},
		Run:   t.run,
	}
}

func (t *taking) run(ctx context.Context, c *command.Call) int {
	to := c.Stdout
	if t.file == toStdout {
		to = c.Stderr
	}
	m, err := t.write(ctx, c)
	if err != nil {
		return c.Fail(err)
	}
	report(to, t.file, m)
	return command.OK
}

// write makes the file first: that it exists already should not take a minute to find out. What could not
// be written in full does not stay.
func (t *taking) write(ctx context.Context, c *command.Call) (m capture.Manifest, err error) {
	conf, err := t.site.Config.Read()
	if err != nil {
		return m, err
	}
	to := command.Raw(c.Stdout)
	if t.file != toStdout {
		// what was not recognised as an identifier is in it
		file, e := os.OpenFile(t.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(e, os.ErrExist) {
			return m, fmt.Errorf("--file=%q: the file exists and is not overwritten: choose another name", t.file)
		}
		if e != nil {
			return m, command.Unwritable("file", t.file, e)
		}
		to = file
		defer func() {
			if err = errors.Join(err, file.Close()); err != nil {
				err = errors.Join(err, os.Remove(t.file))
			}
		}()
	}
	gpus, err := t.site.HostGPUs(t.log.Logger(c.Stderr))
	if err != nil {
		return m, err
	}
	taken, err := capture.Take(ctx, capture.Options{
		Sysfs: t.site.Paths.Sysfs, Procfs: t.site.Paths.Procfs, Rootfs: t.site.Paths.Rootfs, Devices: t.site.Devices.Filter,
		Policy: conf.Policy, Version: version.Version, GPUs: askOnce(gpus),
		Names: namesHere(conf),
	})
	if err != nil {
		return m, err
	}
	return taken.Manifest, taken.Write(to)
}

// namesHere returns the names of this host and of those who use it, as far as this process knows them.
func namesHere(c config.Config) []string {
	names := []string{filepath.Base(c.NCCL.Home), filepath.Base(os.Getenv("HOME"))}
	for _, variable := range []string{"USER", "LOGNAME", "SUDO_USER", "HOSTNAME"} {
		names = append(names, os.Getenv(variable))
	}
	if host, err := os.Hostname(); err == nil {
		names = append(names, host)
	}
	return names
}

// askOnce asks for everything and releases the GPUs.
func askOnce(gpus observer.GPUs) func(time.Time) (fabric.GPUDriver, error) {
	if gpus == nil {
		return nil
	}
	return func(now time.Time) (fabric.GPUDriver, error) {
		driver, err := gpus.Read(fabric.GPUDriver{}, true, now)
		return driver, errors.Join(err, gpus.Close())
	}
}

// report says what is in the archive and what is not.
func report(w io.Writer, file string, m capture.Manifest) {
	fmt.Fprintf(w, "%s: %d files of %d bytes, of %d RDMA devices", file, m.Files, m.Bytes, len(m.Devices))
	if len(m.Devices) > 0 {
		fmt.Fprintf(w, " (%s)", strings.Join(m.Devices, ", "))
	}
	fmt.Fprintf(w, ".\n")
	for _, p := range m.LeftOut {
		fmt.Fprintf(w, "Left out: %s: %s.\n", p.Path, p.Reason)
	}
	if n := len(m.Errors); n > 0 {
		fmt.Fprintf(w, "%d files could not be read; MANIFEST.json names them.\n", n)
	}
	fmt.Fprintln(w, capture.Note)
}

// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/common/version"

	"gpufabric_exporter/internal/capture"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
)

// defaultCapture is where a capture goes unless told otherwise.
const defaultCapture = "gpufabric-capture.tar.gz"

// toStdout is the name of the file that is the standard output.
const toStdout = "-"

// takeCapture writes an archive of what the exporter reads of this host.
func takeCapture(ctx context.Context, f *flags, o Options) int {
	report := o.Stdout
	if f.captureFile == toStdout {
		report = o.Stderr
	}
	m, err := writeCapture(ctx, f, o)
	if err != nil {
		complain(o.Stderr, f.explain(err))
		return exitOf(err, exitFailure)
	}
	reportCapture(report, f.captureFile, m)
	return exitOK
}

// writeCapture makes the file first: that it exists already should not take a minute to find out. What could not
// be written in full does not stay.
func writeCapture(ctx context.Context, f *flags, o Options) (m capture.Manifest, err error) {
	conf, err := f.configFile.Read()
	if err != nil {
		return m, err
	}
	to := raw(o.Stdout)
	if f.captureFile != toStdout {
		file, e := os.OpenFile(f.captureFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // what was not recognised as an identifier is in it
		if errors.Is(e, os.ErrExist) {
			return m, fmt.Errorf("--file=%q: it exists and is not overwritten: expected another name", f.captureFile)
		}
		if e != nil {
			return m, unwritable("file", f.captureFile, e)
		}
		to = file
		defer func() {
			if err = errors.Join(err, file.Close()); err != nil {
				err = errors.Join(err, os.Remove(f.captureFile))
			}
		}()
	}
	gpus, err := hostGPUs(f, o, f.logger(o.Stderr))
	if err != nil {
		return m, err
	}
	c, err := capture.Take(ctx, capture.Options{
		Sysfs: f.sysfs, Procfs: f.procfs, Rootfs: f.rootfs, Devices: f.devices, Policy: conf.Policy, Version: version.Version, GPUs: askOnce(gpus),
		Names: namesHere(conf),
	})
	if err != nil {
		return m, err
	}
	return c.Manifest, c.Write(to)
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

// hostGPUs returns who answers for the GPUs of what the flags say: this host's driver, or what one answered that was
// captured. Without either it is nil.
func hostGPUs(f *flags, o Options, log *slog.Logger) (observer.GPUs, error) {
	if f.netlink != "" {
		return replayedGPUs(f.netlink)
	}
	if g := openGPUs(f, o, log); g != nil {
		return g, nil
	}
	return nil, nil // a nil *gpuGate would be no nil interface
}

// replayedGPUs returns what a GPU driver answered, nil where nobody asked one.
func replayedGPUs(folder string) (observer.GPUs, error) {
	g, err := capture.ReplayGPUs(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// askOnce asks for everything and lets go of the GPUs.
func askOnce(gpus observer.GPUs) func(time.Time) (fabric.GPUDriver, error) {
	if gpus == nil {
		return nil
	}
	return func(now time.Time) (fabric.GPUDriver, error) {
		driver, err := gpus.Read(fabric.GPUDriver{}, true, now)
		return driver, errors.Join(err, gpus.Close())
	}
}

// reportCapture says what is in the archive and what is not.
func reportCapture(w io.Writer, file string, m capture.Manifest) {
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

// replay serves a capture. Nothing of this host is read.
func replay(ctx context.Context, f *flags, o Options) int {
	log := f.logger(o.Stderr)
	fail := func(err error) int {
		log.Error("cannot serve", "err", f.explain(err))
		return exitFailure
	}
	dir, err := temporaryFolder()
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	m, err := unpackCapture(f.demoCapture, dir)
	if err != nil {
		return fail(err)
	}
	root := func(part string) string { return dir + "/" + part }
	gpus, err := replayedGPUs(root(capture.NetlinkFolder))
	if err != nil {
		return fail(err)
	}
	what := fmt.Sprintf("Node as captured at %s by version %q", m.Time.Format(time.RFC3339), m.Version)
	onListen := o.OnListen
	o.OnListen = func(addrs []net.Addr) {
		fmt.Fprintf(o.Stdout, "%s: %d RDMA devices. Nothing of it moves.\n", what, len(m.Devices))
		showAddresses(o.Stdout, f, addrs, false)
		onListen(addrs)
	}
	return runSite(ctx, f, o, site{
		sysfs: root("sys"), procfs: root("proc"), rootfs: root("root"), netlink: root(capture.NetlinkFolder), gpus: gpus,
		config:    func() (config.Config, error) { return config.Parse("", nil) },
		title:     "captured node",
		note:      what + ". " + capture.Note,
		simulated: true,
	}, log)
}

func unpackCapture(file, dir string) (capture.Manifest, error) {
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

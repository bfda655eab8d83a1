// SPDX-License-Identifier: Apache-2.0

// Command pictures takes pictures of the dashboards in a real Grafana: it runs simulated nodes, a Prometheus
// with the shipped rules and the given Grafana on loopback, opens each dashboard in a headless Chromium, and
// writes one PNG per dashboard.
//
// It fails where a panel shows an error or is missing from its page, and names the panel. Everything that it
// started has ended when it returns, also at its deadline and on a signal. Grafana's folder is only read: its
// data and configuration are in a temporary folder.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	grafana, exporter, programs string // Grafana's home folder, the exporter, the folder of the program prometheus
	dashboards, rules, out      string // folders
	browser                     string // program; empty: the first of browsers that is installed
	landing                     string // file for the exporter's landing page; empty: none
	collect, deadline           time.Duration
	width                       int // of pictures, in pixels
}

func main() {
	runtime.LockOSThread() // programs are ended by the kernel with the thread that started them
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// run parses the command line, checks everything that can be checked, and only then starts something.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	boards, err := readBoards(o.dashboards)
	if err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.deadline, fmt.Errorf("not finished after %s (-deadline)", o.deadline))
	defer cancel()
	if err := take(ctx, o, boards, stdout); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return errors.Join(cause, err)
		}
		return err
	}
	return nil
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("pictures", flag.ContinueOnError)
	flags.StringVar(&o.grafana, "grafana", "", "Grafana's home `folder`, with bin/grafana or bin/grafana-server")
	flags.StringVar(&o.exporter, "exporter", "bin/gpufabric_exporter", "exporter that simulates nodes")
	flags.StringVar(&o.programs, "programs", "", "`folder` with the program prometheus")
	flags.StringVar(&o.dashboards, "dashboards", "dashboards", "`folder` of the dashboards")
	flags.StringVar(&o.rules, "rules", "alerts", "`folder` of the rules (*.rules.yml)")
	flags.StringVar(&o.out, "out", "docs/dashboards", "`folder` for the pictures")
	flags.StringVar(&o.landing, "landing", "", "`file` for a picture of the landing page of "+landingNode)
	flags.StringVar(&o.browser, "browser", "",
		"Chromium or Chrome (default: the first installed of "+strings.Join(browsers, ", ")+")")
	flags.DurationVar(&o.collect, "collect", 10*time.Minute,
		"how long data are collected, which is the time range of the pictures")
	flags.DurationVar(&o.deadline, "deadline", 30*time.Minute, "how long everything may take")
	flags.IntVar(&o.width, "width", 1600, "width of the pictures in pixels")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return o, nil
}

// check returns what is missing on this machine and what to do about it, all at once.
func (o *options) check() error {
	var wrong []error
	if _, err := server(o.grafana); err != nil {
		wrong = append(wrong, err)
	}
	program, err := findBrowser(o.browser)
	if err != nil {
		wrong = append(wrong, err)
	}
	o.browser = program
	for _, path := range []string{o.exporter, filepath.Join(o.programs, "prometheus")} {
		if err := executable(path); err != nil {
			wrong = append(wrong, err)
		}
	}
	if rules, _ := filepath.Glob(filepath.Join(o.rules, "*.rules.yml")); len(rules) == 0 { // the pattern is well formed
		wrong = append(wrong, fmt.Errorf("no *.rules.yml in %s (-rules)", o.rules))
	}
	return errors.Join(wrong...)
}

// take starts everything, waits for data, and writes the pictures.
func take(ctx context.Context, o *options, boards []board, stdout io.Writer) error {
	dir, err := os.MkdirTemp(scratch(), "gpufabric_pictures_")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	all := newPrograms(dir)
	defer all.stop()
	f, err := startFarm(ctx, o, all)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d simulated nodes, Prometheus %s; data are collected for %s\n", len(f.addresses), f.prometheus,
		o.collect)
	if err := all.watch(ctx, o.collect); err != nil {
		return err
	}
	address, err := startGrafana(ctx, o.grafana, o.dashboards, f.prometheus, boards, all)
	if err != nil {
		return err
	}
	now := time.Now()
	return shootAll(ctx, o, boards, span{now.Add(-o.collect), now}, address, f.addresses[landingNode], stdout)
}

// executable returns an error that says which program is missing.
func executable(path string) error {
	info, err := os.Stat(path)
	if err == nil && (info.IsDir() || info.Mode()&0o111 == 0) {
		err = fmt.Errorf("%s: not a program", path)
	}
	return err
}

// scratch is a folder in memory, where there is one with room for 15 simulated nodes of 25 MB each: they are
// thousands of small files that change each second. Docker's /dev/shm is too small.
func scratch() string {
	var shm syscall.Statfs_t
	if err := syscall.Statfs("/dev/shm", &shm); err == nil && shm.Bavail > 1<<30/uint64(shm.Bsize) {
		return "/dev/shm"
	}
	return ""
}

// SPDX-License-Identifier: Apache-2.0

// Command preview draws the Grafana dashboards of the project from the data of a real Prometheus, where no Grafana can be
// had: an HTML page for each dashboard, and a picture of it by a headless Chromium. Given an exporter it first runs
// simulated nodes and a Prometheus with the shipped rules, on loopback, and ends them.
//
// It refuses whatever of a dashboard it cannot draw, so that a picture never hides a panel or a setting. Panels whose
// queries fail say so in red, and the command fails. Queries are asked one after the other; everything that comes from
// Prometheus is escaped.
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
	"strconv"
	"strings"
	"syscall"
	"time"
)

// job is what the command is told.
type job struct {
	dashboards, out, browser string
	prometheus               string
	span, scrape             time.Duration
	open                     bool
	given                    map[string]map[string]string // dashboard, variable, value
}

func main() {
	runtime.LockOSThread() // what it starts ends with this thread, however it ends
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "preview:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	j := job{given: map[string]map[string]string{}}
	var f farm
	flags := flag.NewFlagSet("preview", flag.ContinueOnError)
	flags.StringVar(&j.dashboards, "dashboards", "../dashboards", "folder of the dashboards")
	flags.StringVar(&j.out, "out", "", "folder for pages and pictures; it is made")
	flags.StringVar(&j.browser, "browser", "chromium", "program that makes pictures; empty: pages only")
	flags.StringVar(&j.prometheus, "prometheus", "", "address of a Prometheus, like http://127.0.0.1:9090")
	flags.DurationVar(&j.span, "range", 6*time.Minute, "time that is drawn")
	flags.DurationVar(&j.scrape, "scrape", 15*time.Second, "how often the Prometheus scrapes")
	flags.BoolVar(&j.open, "open", false, "draw closed rows open")
	flags.StringVar(&f.exporter, "exporter", "", "exporter to run simulated nodes with, instead of -prometheus")
	flags.StringVar(&f.programs, "programs", "", "folder with the program prometheus, for simulated nodes")
	flags.StringVar(&f.rules, "rules", "../alerts", "folder with the rules, for simulated nodes")
	flags.DurationVar(&f.settle, "break-after", 2*time.Minute, "how long simulated nodes are healthy")
	flags.Func("set", "variable of a dashboard, as node.instance=gpu-04; may be repeated", j.set)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if j.out == "" || (j.prometheus == "") == (f.exporter == "") {
		return errors.New("want -out, and either -prometheus or -exporter")
	}
	boards, err := j.read()
	if err != nil {
		return err
	}
	if f.exporter != "" {
		f.scrape = j.scrape
		defer f.stop()
		if j.prometheus, err = f.start(ctx, stdout); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s of data are collected\n", j.span)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case name := <-f.ended:
			f.ended <- name // for stop
			return fmt.Errorf("%s ended:\n%s", name, f.logs())
		case <-time.After(j.span):
		}
	}
	return j.draw(ctx, boards, stdout)
}

func (j *job) set(text string) error {
	where, value, ok := strings.Cut(text, "=")
	board, variable, dotted := strings.Cut(where, ".")
	if !ok || !dotted {
		return errors.New("want dashboard.variable=value")
	}
	if j.given[board] == nil {
		j.given[board] = map[string]string{}
	}
	j.given[board][variable] = value
	return nil
}

// board is a dashboard and the name of its file.
type board struct {
	name string
	*Dashboard
}

// read reads all dashboards before anything is started.
func (j *job) read() ([]board, error) {
	paths, err := filepath.Glob(filepath.Join(j.dashboards, "*.json"))
	if err == nil && len(paths) == 0 {
		err = errors.New("no *.json")
	}
	if err != nil {
		return nil, fmt.Errorf("dashboards in %s: %w", j.dashboards, err)
	}
	var boards []board
	var wrong []error
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		d, err := parse(text)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", path, err))
		}
		boards = append(boards, board{strings.TrimSuffix(filepath.Base(path), ".json"), d})
	}
	return boards, errors.Join(wrong...)
}

func (j *job) draw(ctx context.Context, boards []board, stdout io.Writer) error {
	if err := os.MkdirAll(j.out, 0o755); err != nil {
		return err
	}
	now := time.Now()
	var wrong []error
	for _, d := range boards {
		s := &sheet{Dashboard: d.Dashboard, prometheus: client{j.prometheus}, from: now.Add(-j.span), to: now, scrape: j.scrape, open: j.open}
		if err := s.load(ctx, j.given[d.name]); err != nil {
			return fmt.Errorf("dashboard %s: %w", d.name, err)
		}
		page, height := s.page()
		if err := j.write(ctx, d.name, page, height); err != nil {
			return fmt.Errorf("dashboard %s: %w", d.name, err)
		}
		wrong = append(wrong, s.report(stdout, d.name))
	}
	return errors.Join(wrong...)
}

// write writes the page, or a picture of it.
func (j *job) write(ctx context.Context, name, page string, height int) error {
	path := filepath.Join(j.out, name)
	if j.browser == "" {
		return os.WriteFile(path+".html", []byte(page), 0o644)
	}
	dir, err := os.MkdirTemp("", "gpufabric_preview_")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	picture, err := photograph(ctx, j.browser, dir, page, height)
	if err != nil {
		return err
	}
	return os.WriteFile(path+".png", picture, 0o644)
}

// report lists the panels with what they show. Its error names those whose queries failed.
func (s *sheet) report(w io.Writer, name string) error {
	var wrong []error
	for _, v := range s.views {
		if v.Type == "text" {
			continue
		}
		says := strconv.Itoa(v.count())
		switch {
		case v.err != nil:
			says = "ERROR " + v.err.Error()
			wrong = append(wrong, fmt.Errorf("%s, %q: %w", name, v.Title, v.err))
		case v.empty():
			says = "no data: " + v.noValue()
		}
		if len(v.notes) > 0 {
			says += " (" + strings.Join(v.notes, "; ") + ")"
		}
		where := v.Title
		if v.row != "" {
			where = v.row + " / " + where
		}
		fmt.Fprintf(w, "%-8s %-60s %-14s %s\n", name, where, v.Type, says)
	}
	return errors.Join(wrong...)
}

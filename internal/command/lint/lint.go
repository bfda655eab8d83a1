// SPDX-License-Identifier: Apache-2.0

// Package lint is the command lint: it explains how NCCL reads the settings in files, line by line.
package lint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/nccl/lint"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
)

// What lint exits with, as check does.
const (
	exitFine      = command.OK
	exitFailed    = 1             // a line has no effect or the wrong one
	exitUndecided = 2             // no line fails, and something is undecided
	exitUnjudged  = command.Usage // the command line, the configuration or an input is wrong
)

// standardInput is the name of the standard input, as an argument and in messages.
const standardInput = "-"

type output string

const (
	outputText   output = "text"
	outputJSON   output = "json"
	outputGitHub output = "github"
	outputSARIF  output = "sarif"
)

// linting is one call of the command.
type linting struct {
	site  *site.Site
	log   *logging.Flags
	stdin io.Reader

	files       []string
	environment bool
	format      lint.Format
	version     lint.Version
	versioned   bool // --nccl-version is given
	host        bool
	capture     string              // file; empty: none
	scenario    *simulator.Scenario // nil: none
	output      output
	suggest     lint.Format // empty: judge
	verbose     bool
	wait        time.Duration // for the end of a file
}

// maxWait bounds the wait for the end of a file: a pipe may have no writer, and a mount may hang. That for
// the standard input is bounded by the caller.
const maxWait = 30 * time.Second

// New returns the command.
func New(s *site.Site, log *logging.Flags) *command.Command {
	return (&linting{site: s, log: log, stdin: os.Stdin, version: lint.Newest(), wait: maxWait}).command()
}

func (k *linting) command() *command.Command {
	s := k.site
	return &command.Command{
		Name:   "lint",
		Help:   "Explain line by line how NCCL reads the settings in an nccl.conf, an environment file, a shell or Slurm script, a manifest, or a Python program. Exit code 0: every line does what it says; 1: a line does not, or harms; 2: no line fails, but some could not be judged, or a file has no setting that lint reads; 3: the command line, the configuration or an input is wrong; the other inputs are judged. Only values of variables that NCCL and the software around it read are printed.",
		Define: k.define,
		Takes:  []command.Group{&s.Config, k.log, &s.Devices},
		OnHost: []command.Group{&s.Recorded, &s.Paths, &s.GPUs},
		Run:    k.run,
	}
}

func (k *linting) define(f *command.Flags) {
	f.Argument("file",
		"Files to read; - is the standard input. Without any and without --env: the NCCL configuration of the node.",
		command.Append(&k.files, parseArgument))
	f.Add("output", "Format: text, json, github (annotations of a workflow), sarif (SARIF 2.1.0, for code scanning).",
		command.Choice(&k.output, outputText, outputJSON, outputGitHub, outputSARIF)).Short('o').Default(string(outputText))
	f.Switch("env", "Also judge the environment of this command.", &k.environment)
	f.Add("format",
		"What the files are: conf (nccl.conf), env (environment file), shell, manifest (YAML, JSON), python; auto: by name and content.",
		command.Choice(&k.format, lint.Formats()...)).Default(string(lint.FormatAuto))
	f.Add("nccl-version",
		"Release of NCCL that the job uses, such as 2.21.5 or 2.21. Left out: with --host that of the library found on it, else the newest that is known.", command.Into(&k.version, fabric.ParseNCCLVersion)).PlaceHolder("VERSION")
	f.Switch("host",
		"Also judge for this host: its RDMA devices, addresses and interfaces, and its NCCL configuration, which that of the job overrides.", &k.host)
	f.Add("suggest",
		"Print settings that make failures of NCCL visible, and that the files do not have, instead of judging: shell, conf, env, manifest, python. They fit the node of --host or --scenario.",
		command.Choice(&k.suggest, lint.Formats()[1:]...)).PlaceHolder("FORMAT")
	f.Switch("verbose", "List lines without findings, too.", &k.verbose)
	site.AddScenario(f, &k.scenario)
	f.Add("capture", "Judge for the node of this capture (see the command capture) instead of this host.",
		command.Input(&k.capture)).PlaceHolder("FILE")
	f.Check(func() error {
		switch {
		case k.host && k.scenario != nil:
			return errors.New("--host and --scenario: expected at most one of them")
		case k.host && k.capture != "":
			return errors.New("--host and --capture: expected at most one of them")
		case k.capture != "" && k.scenario != nil:
			return errors.New("--capture and --scenario: expected at most one of them")
		}
		k.host = k.host || k.ofHost() && k.scenario == nil && k.capture == "" && k.suggest == ""
		k.versioned = f.Given("nccl-version")
		return nil
	})
}

// ofHost reports whether the NCCL configuration of the node is judged, because nothing else was named.
func (k *linting) ofHost() bool { return len(k.files) == 0 && !k.environment }

// parseArgument parses the name of a file. Kingpin hands the argument "-" on as an empty one.
func parseArgument(s string) (string, error) {
	if s == "" {
		return standardInput, nil
	}
	return command.ParseFile(s)
}

func (k *linting) run(ctx context.Context, c *command.Call) int {
	inputs, unread := k.read(ctx)
	if unread != nil {
		c.Complain(unread)
		if len(inputs) == 0 || ctx.Err() != nil || k.suggest != "" {
			return exitUnjudged
		}
	}
	node, err := k.observe(ctx, c)
	if err != nil {
		c.Complain(err)
		return exitUnjudged
	}
	if k.suggest != "" {
		if err := lint.WriteSuggestions(c.Stdout, lint.Suggest(inputs, k.version, node), k.suggest); err != nil {
			c.Complain(err)
			return exitUnjudged
		}
		return exitFine
	}
	if k.ofHost() {
		inputs = lint.HostInputs(node)
	}
	version, found := k.version, ""
	if k.host && !k.versioned {
		version, found = lint.LibraryVersion(node, k.version)
	}
	result := lint.Judge(inputs, version, node)
	result.Library = found
	if k.host {
		k.judgeFiles(&result)
	}
	switch k.output {
	case outputJSON:
		err = writeJSON(c.Stdout, &result)
	case outputGitHub:
		err = writeGitHub(c.Stdout, &result)
	case outputSARIF:
		err = writeSARIF(c.Stdout, &result)
	default:
		err = writeText(command.Raw(c.Stdout), &result, k.verbose, command.Colours(c.Stdout))
	}
	if err != nil {
		c.Complain(err)
	}
	if unread != nil || err != nil && !result.Failed() {
		return exitUnjudged
	}
	return exitCode(&result)
}

// judgeFiles looks for the files that settings name. A link that leads out of the root is not followed: what
// it leads to is not known.
func (k *linting) judgeFiles(r *lint.Result) {
	root, err := os.OpenRoot(k.site.Paths.Rootfs)
	if err != nil {
		return
	}
	defer root.Close()
	r.JudgeFiles(func(file string) bool {
		_, err := root.Stat(strings.TrimPrefix(file, "/"))
		return errors.Is(err, fs.ErrNotExist)
	})
}

func exitCode(r *lint.Result) int {
	switch {
	case r.Failed():
		return exitFailed
	case r.Undecided():
		return exitUndecided
	}
	return exitFine
}

// observe observes the node to judge for, if there is one.
func (k *linting) observe(ctx context.Context, c *command.Call) (*fabric.Node, error) {
	if !k.host && k.scenario == nil && k.capture == "" {
		return nil, nil
	}
	at := *k.site
	at.LibraryPath = os.Getenv("LD_LIBRARY_PATH")
	if k.capture != "" {
		of, _, done, err := at.Replay(k.capture)
		if err != nil {
			return nil, err
		}
		defer done()
		at = *of
	}
	want := collector.CheckWants()
	if k.host && k.environment { // this is the place of the job
		want |= fabric.WantInside
	}
	node, _, err := at.ObserveOnce(ctx, k.scenario, want, 0, k.log.Logger(c.Stderr))
	return node, err
}

// read returns the inputs that could be read, and an error for those that could not.
func (k *linting) read(ctx context.Context) ([]lint.Input, error) {
	var inputs []lint.Input
	var errs []error
	for _, file := range k.files {
		in, err := k.readFile(ctx, file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		inputs = append(inputs, in)
	}
	if k.environment {
		in, err := lint.Environment("environment", os.Environ())
		if err != nil {
			errs = append(errs, err)
		} else {
			inputs = append(inputs, in)
		}
	}
	return inputs, errors.Join(errs...)
}

// readFile reads one input. A pipe, a terminal or a mount may block for ever: the read is abandoned when the
// context ends, and that of a file after a time.
func (k *linting) readFile(ctx context.Context, file string) (lint.Input, error) {
	name := file
	var late <-chan time.Time
	if file == standardInput {
		name = "standard input"
	} else {
		late = time.After(k.wait)
	}
	type content struct {
		data []byte
		err  error
	}
	done := make(chan content, 1)
	go func() {
		data, err := k.content(file)
		done <- content{data, err}
	}()
	select {
	case <-ctx.Done():
		return lint.Input{}, fmt.Errorf("%s: interrupted before its end: %w", name, ctx.Err())
	case <-late:
		return lint.Input{},
			fmt.Errorf("%s: expected its end within %s: if it is a pipe, its writer has to end; else pass it as standard input (-)", name, k.wait)
	case c := <-done:
		if c.err != nil {
			return lint.Input{}, c.err
		}
		return lint.Parse(name, c.data, k.format)
	}
}

// content returns the content of an input, and one byte more than is allowed of one that is too large.
func (k *linting) content(file string) ([]byte, error) {
	from := k.stdin
	if file != standardInput {
		info, err := os.Stat(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil,
				fmt.Errorf("%s: no such file: expected the path of a file, - for the standard input, or no path for the NCCL configuration of this node", file)
		case err != nil:
			return nil, err
		case info.IsDir():
			return nil, fmt.Errorf("%s: it is a folder: expected a file", file)
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	data, err := io.ReadAll(io.LimitReader(from, lint.MaxInput+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return data, nil
}

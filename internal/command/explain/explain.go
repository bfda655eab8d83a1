// SPDX-License-Identifier: Apache-2.0

// Package explain is the command explain: it summarizes a log of NCCL.
package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/files"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/nccl/explain"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/status"
)

// What explain exits with, as check does.
const (
	exitFine      = command.OK
	exitFailed    = 1             // the log shows a failure
	exitUndecided = 2             // it shows none, and not that all is well
	exitUnread    = command.Usage // the command line is wrong, or the input cannot be read
)

// explaining is one call of the command.
type explaining struct {
	site   *site.Site
	log    *logging.Flags
	stdin  io.Reader
	files  []string
	json   bool
	redact bool

	host     bool
	capture  string              // file; empty: none
	status   string              // file; empty: none
	scenario *simulator.Scenario // nil: none
}

// New returns the command.
func New(s *site.Site, log *logging.Flags) *command.Command {
	return (&explaining{site: s, log: log, stdin: os.Stdin}).command()
}

func (k *explaining) command() *command.Command {
	return &command.Command{
		Name: "explain",
		Help: "Explain logs of NCCL, of one rank or many mixed, with or without what launchers put before each line. It says what failed first, why, how sure that is (certain, likely, possible) and what to do; then release, ranks, transport, GPUDirect RDMA and set-up time. Lines of PyTorch, Gloo, launchers and the kernel in them are explained, too. Exit code 0: the set-up is complete, and nothing failed; 1: something failed; 2: the log does not tell; 3: the command line is wrong, or the input cannot be read or is not text.",
		Define: func(f *command.Flags) {
			f.Argument("file", "Logs of one job, one for each rank or node, and folders with them; - is the standard input.", command.Append(&k.files, parseArgument))
			f.Output(&k.json)
			f.Switch("redact", "Replace names of hosts and users, and addresses, for a ticket.", &k.redact)
			f.Switch("host", "Let the checks of this host decide among reasons: the log is of a job that ran here.", &k.host)
			site.AddScenario(f, &k.scenario)
			f.Add("capture", "Let the checks of the node of this capture (see the command capture) decide among reasons.",
				command.Input(&k.capture)).PlaceHolder("FILE")
			f.Add("status", "Let the checks of the node of this status document (/status.json of its exporter, as a file) decide among reasons.",
				command.Input(&k.status)).PlaceHolder("FILE")
			f.Check(k.check)
		},
		Takes:  []command.Group{&k.site.Config, k.log, &k.site.Devices},
		OnHost: []command.Group{&k.site.Recorded, &k.site.Paths, &k.site.GPUs},
		Run:    k.run,
	}
}

func (k *explaining) check() error {
	nodes := 0
	for _, given := range []bool{k.host, k.capture != "", k.status != "", k.scenario != nil} {
		if given {
			nodes++
		}
	}
	switch {
	case len(k.files) == 0:
		return errors.New("explain: expected the name of a log, or - for the standard input")
	case nodes > 1:
		return errors.New("--host, --capture, --status and --scenario: expected at most one of them")
	}
	return nil
}

// weigh lets the checks of the node decide, if there is one.
func (k *explaining) weigh(ctx context.Context, c *command.Call, r *explain.Result) error {
	switch {
	case k.status != "":
		return k.weighStatus(r)
	case !k.host && k.scenario == nil && k.capture == "":
		return nil
	}
	at, name := *k.site, ""
	switch {
	case k.capture != "":
		of, _, done, err := at.Replay(k.capture)
		if err != nil {
			return err
		}
		defer done()
		at = *of
	case k.host:
		name, _ = os.Hostname()
	}
	node, _, err := at.ObserveOnce(ctx, k.scenario, collector.CheckWants(), 0, k.log.Logger(c.Stderr))
	if err == nil {
		r.Weigh(name, diagnose.Run(node, nil))
	}
	return err
}

// weighStatus lets what an exporter served decide.
func (k *explaining) weighStatus(r *explain.Result) error {
	document, err := files.Read(k.status, status.MaxRead)
	if err != nil {
		return err
	}
	name, verdicts, err := status.Verdicts(document)
	if err != nil {
		return fmt.Errorf("%s: %w", k.status, err)
	}
	r.Weigh(name, verdicts)
	return nil
}

// parseArgument parses the name of a file. Kingpin hands the argument "-" on as an empty one.
func parseArgument(s string) (string, error) {
	if s == "" {
		return explain.StandardInput, nil
	}
	return command.ParseFile(s)
}

func (k *explaining) run(ctx context.Context, c *command.Call) int {
	r, err := explain.ReadFiles(ctx, k.files, k.stdin, k.redact)
	if err != nil {
		c.Complain(err)
		return exitUnread
	}
	if err = k.weigh(ctx, c, r); err != nil {
		c.Complain(err)
		return exitUnread
	}
	if k.json {
		err = writeJSON(c.Stdout, r)
	} else {
		err = writeText(command.Raw(c.Stdout), r, command.Colours(c.Stdout))
	}
	if err != nil {
		c.Complain(err)
	}
	switch {
	case r.Failed():
		return exitFailed
	case err != nil:
		return exitUnread
	case r.Undecided() != "":
		return exitUndecided
	}
	return exitFine
}

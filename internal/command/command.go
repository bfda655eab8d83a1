// SPDX-License-Identifier: Apache-2.0

// Package command is the command line: the commands of the program and their flags, what shells complete, and
// how errors are reported to the user who typed it.
//
// A Line lists the commands and the groups of flags that several of them share. It is for one call and one
// goroutine: parsing fills in what the flags point to. Errors of the command line or of the configuration end
// in exit code Usage and one line each on the standard error, which names the flag or the line of the file,
// the value and what was expected.
package command

import (
	"context"
	"fmt"
	"io"
	"slices"
)

// Name is the program in usage texts and messages, and the prefix of its build information.
const Name = "gpufabric_exporter"

// The exit codes of all commands; those that have more say so.
const (
	OK      = 0
	Failure = 1
	Usage   = 3 // the command line or a configuration file is wrong
)

// Group is flags that several commands share. They may stand in front of any command and behind it, and are
// refused where the command does not take them.
type Group interface {
	Define(*Flags)
}

// Command is a sub-command.
type Command struct {
	Name, Help string
	Hidden     bool         // not for users
	Define     func(*Flags) // adds its own flags; nil: it has none

	Takes []Group // the shared flags that it heeds
	// those that it heeds only without its flags --scenario and --capture, because they are about this host
	OnHost []Group
	Except []string // flags of these groups that it does not heed after all

	// Run does the work and returns the exit code.
	Run func(context.Context, *Call) int
	// Refused is called with the words of a wrong command line that has the name of the command in it; nil: not called.
	Refused func(words []string) error
}

// takes reports whether the command heeds a flag of a group.
func (c *Command) takes(group Group, flag string, simulated bool) bool {
	if slices.Contains(c.Except, flag) {
		return false
	}
	return slices.Contains(c.Takes, group) || !simulated && slices.Contains(c.OnHost, group)
}

// Line is the command line of a program.
type Line struct {
	Help     string
	Groups   []Group    // the flags that commands share, in the order of the usage text
	Commands []*Command // the first is meant where none is named
	Sections []Section  // more for the manual page
}

// Call is one call of a command. What it writes to is legible whatever it is given; see Raw.
type Call struct {
	Stdout, Stderr io.Writer

	inputs []*value // flags that name files which are read
}

// Run parses the words and runs the command that they name. It returns the exit code.
func (l Line) Run(ctx context.Context, words []string, stdout, stderr io.Writer) int {
	stdout, stderr = Legible(stdout), Legible(stderr)
	chosen, call, code := l.Parse(words, stdout, stderr)
	switch {
	case chosen != nil:
		return chosen.Run(ctx, call)
	case code != Usage:
		return code
	}
	for _, c := range l.Commands {
		if c.Refused == nil || !slices.Contains(words, c.Name) {
			continue
		}
		if err := c.Refused(words); err != nil {
			complain(stderr, err)
		}
	}
	return code
}

// Parse fills in the flags, and returns the command and its call; without a command the exit code says
// whether that is an error, which it has printed.
func (l Line) Parse(words []string, stdout, stderr io.Writer) (*Command, *Call, int) {
	p := newParser(l)
	chosen, code, err := p.run(words, stdout, stderr)
	if err != nil {
		complain(stderr, fmt.Errorf("%w (try --help)", err))
		return nil, nil, Usage
	}
	return chosen, &Call{Stdout: stdout, Stderr: stderr, inputs: p.inputs(chosen)}, code
}

// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/diagnose"
)

func (c *commandLine) defineCheck() {
	f := c.f
	k := c.app.Command(commandCheck, "Judge this node: what is wrong, why, and what to do. Exit code 0: nothing is; 1: something is; 2: not everything could be told. Verdicts of severity info do not count for it, unless asked for by --severity=info or --only.")
	k.Flag("output", "Format: text, json.").Default(outputText).
		SetValue(&flagValue{name: "output", set: into(&f.checkOutput, oneOf(outputText, outputJSON))})
	k.Flag("only", "Make this check alone. Repeatable.").PlaceHolder("ID").
		SetValue(&flagValue{name: "only", set: appendTo(&f.checkOnly, parseCheckID), repeatable: true})
	k.Flag("severity", "Make checks of this severity and worse alone: critical, warning, info. Left out: all, and info does not count for the exit code.").
		SetValue(&flagValue{name: "severity", set: into(&f.checkSeverity, parseSeverity)})
	k.Flag("interval", "Look twice, with this time between, and judge what happened meanwhile too.").Default("0s").
		SetValue(&flagValue{name: "interval", set: into(&f.checkInterval, parsePause)})
	k.Flag("manifest", "Compare with what --write-manifest recorded too, instead of expected.manifest of the configuration.").PlaceHolder("FILE").StringVar(&f.checkManifest)
	k.Flag("write-manifest", "Record what this node is now in FILE, and judge nothing.").PlaceHolder("FILE").StringVar(&f.writeManifest)
	k.Flag("explain", "Say what this check reads, when it is made and what it finds, and make none.").PlaceHolder("ID").
		SetValue(&flagValue{name: "explain", set: into(&f.checkExplain, parseCheck)})
	k.Flag("textfile", "Write the verdicts as metrics to this file too, for node_exporter's textfile collector.").PlaceHolder("FILE").
		SetValue(&flagValue{name: "textfile", set: into(&f.checkTextfile, parseFile)})
	k.Flag("verbose", "List what is fine too.").BoolVar(&f.checkVerbose)
	c.simulated(k)
}

// checkCheck refuses what would leave out checks that were named.
func (c *commandLine) checkCheck() error {
	f := c.f
	if f.command != commandCheck {
		return nil
	}
	for _, id := range f.checkOnly {
		switch k := diagnose.Find(id); {
		case !severe(k, f.checkSeverity):
			return fmt.Errorf("--only=%q: it is of severity %s: expected no --severity=%s beside it", id, k.Severity, f.checkSeverity)
		case k.Rate && f.checkInterval == 0:
			return fmt.Errorf("--only=%q: it compares two readings: expected --interval beside it", id)
		}
	}
	return nil
}

func parseCheck(s string) (*diagnose.Check, error) {
	if c := diagnose.Find(s); c != nil {
		return c, nil
	}
	var all, near []string
	for _, c := range diagnose.Catalogue() {
		all = append(all, c.ID)
		if resembles(c.ID, s) {
			near = append(near, c.ID)
		}
	}
	hint := ""
	if len(near) > 0 {
		hint = "; did you mean " + strings.Join(near, ", ") + "?"
	}
	return nil, fmt.Errorf("expected one of %s%s", strings.Join(all, ", "), hint)
}

// resembles tells that two names have a word in common, or its beginning.
func resembles(a, b string) bool {
	const beginning = 4
	for x := range strings.SplitSeq(a, "_") {
		for y := range strings.FieldsFuncSeq(strings.ToLower(b), func(r rune) bool { return r == '_' || r == '-' || r == ' ' }) {
			if x == y || len(x) > beginning && len(y) > beginning && x[:beginning] == y[:beginning] {
				return true
			}
		}
	}
	return false
}

func parseCheckID(s string) (string, error) {
	c, err := parseCheck(s)
	if err != nil {
		return "", err
	}
	return c.ID, nil
}

func parseSeverity(s string) (diagnose.Severity, error) {
	if !slices.Contains(diagnose.Severities(), diagnose.Severity(s)) {
		return "", errors.New("expected critical, warning or info")
	}
	return diagnose.Severity(s), nil
}

// painter colours a word.
type painter func(colour, s string) string

// Colours of a terminal.
const (
	red    = "31"
	yellow = "33"
	green  = "32"
)

// colours paints for terminals alone, and not where NO_COLOR is set (no-color.org).
func colours(w io.Writer) painter {
	plain := func(_, s string) string { return s }
	if terminal(w) == nil || os.Getenv("NO_COLOR") != "" {
		return plain
	}
	return func(colour, s string) string { return "\x1b[" + colour + "m" + s + "\x1b[0m" }
}

func parsePause(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > 10*time.Minute {
		return 0, errors.New("expected a duration up to 10m such as 5s; 0s: look once")
	}
	return d, nil
}

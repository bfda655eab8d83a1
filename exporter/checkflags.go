// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/spelling"
)

func (c *commandLine) defineCheck() {
	f := c.f
	k := c.app.Command(commandCheck, "Judge this node: what is wrong, why, and what to do. Exit code 0: nothing is; 1: something is; 2: nothing is in what could be told, and not everything could; 3: the command line or the configuration is wrong, or the checks could not be made or reported. Verdicts of severity info do not count for it, unless asked for by --severity=info or --only.")
	c.output(k, &f.checkOutput)
	k.Flag("only", "Make this check alone. Repeatable.").PlaceHolder("ID").
		SetValue(&flagValue{name: "only", set: appendTo(&f.checkOnly, parseCheckID), words: checkIDs, repeatable: true})
	k.Flag("severity", "Make checks of this severity and worse alone: critical, warning, info. Left out: all, and info does not count for the exit code.").
		SetValue(choice("severity", &f.checkSeverity, diagnose.Severities()...))
	k.Flag("interval", "Look twice, with this time between, and judge what happened meanwhile too.").Default("0s").
		SetValue(&flagValue{name: "interval", set: into(&f.checkInterval, parsePause)})
	k.Flag("manifest", "Compare with what --write-manifest recorded too, instead of expected.manifest of the configuration.").PlaceHolder("FILE").StringVar(&f.checkManifest)
	k.Flag("write-manifest", "Record what this node is now in FILE, and judge nothing.").PlaceHolder("FILE").StringVar(&f.writeManifest)
	k.Flag("explain", "Say what this check reads, when it is made and what it finds, and make none.").PlaceHolder("ID").
		SetValue(&flagValue{name: "explain", set: into(&f.checkExplain, parseCheck), words: checkIDs})
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
	all := checkIDs()
	hint := spelling.Hint(s, all)
	if hint == "" {
		hint = ": expected one of " + strings.Join(all, ", ")
	}
	return nil, errors.New("there is no such check" + hint)
}

func checkIDs() []string {
	var all []string
	for _, c := range diagnose.Catalogue() {
		all = append(all, c.ID)
	}
	return all
}

func parseCheckID(s string) (string, error) {
	c, err := parseCheck(s)
	if err != nil {
		return "", err
	}
	return c.ID, nil
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

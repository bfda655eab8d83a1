// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/spelling"
)

// define adds the flags.
func (k *checking) define(f *command.Flags) {
	f.Output(&k.json)
	f.Add("only", "Make this check alone. Repeatable.", command.Append(&k.only, parseCheckID).Words(checkIDs)).PlaceHolder("ID")
	f.Add("severity", "Make checks of this severity and worse alone: critical, warning, info. Left out: all, and info does not count for the exit code.",
		command.Choice(&k.severity, diagnose.Severities()...))
	f.Add("interval", "Look twice, with this time between, and judge what happened meanwhile too.", command.Into(&k.interval, parsePause)).Default("0s")
	f.Add("manifest", "Compare with what --write-manifest recorded too, instead of expected.manifest of the configuration.", command.Input(&k.manifest)).
		PlaceHolder("FILE")
	f.Add("write-manifest", "Record what this node is now in FILE, and judge nothing.", command.File(&k.writeManifest)).PlaceHolder("FILE")
	f.Add("explain", "Say what this check reads, when it is made and what it finds, and make none.", command.Into(&k.explain, parseCheck).Words(checkIDs)).
		PlaceHolder("ID")
	f.Add(textfileFlag, "Write the verdicts as metrics to this file too, for node_exporter's textfile collector.", command.File(&k.textfile)).PlaceHolder("FILE")
	f.Switch("verbose", "List what is fine too.", &k.verbose)
	site.AddScenario(f, &k.scenario)
	f.Check(k.checkOnly)
}

// textfileFlag names the file for node_exporter.
const textfileFlag = "textfile"

// checkOnly refuses what would leave out checks that were named.
func (k *checking) checkOnly() error {
	for _, id := range k.only {
		switch c := diagnose.Find(id); {
		case !severe(c, k.severity):
			return fmt.Errorf("--only=%q: it is of severity %s: expected no --severity=%s beside it", id, c.Severity, k.severity)
		case c.Rate && k.interval == 0:
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

func parsePause(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > 10*time.Minute {
		return 0, errors.New("expected a duration up to 10m such as 5s; 0s: look once")
	}
	return d, nil
}

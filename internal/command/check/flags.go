// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/verdict"
)

// define adds the flags.
func (k *checking) define(f *command.Flags) {
	f.Output(&k.json)
	k.defineSelection(f)
	site.AddScenario(f, &k.scenario)
	f.Switch("inside",
		"Run in the container or task prolog of a job: check what the job finds there, instead of the node. It needs no privilege.", &k.inside)
	k.defineExpected(f)
	f.Add("interval",
		"Read the node twice, this long apart, and also check the traffic in between. Default: 0s; 2s for a scenario that shows over time only.",
		command.Into(&k.interval, parsePause)).PlaceHolder("0s")
	f.Add("manifest",
		"Also compare with this file of --write-manifest, instead of expected.manifest of the configuration.",
		command.Input(&k.manifest)).
		PlaceHolder("FILE")
	f.Add("write-manifest", "Record the current state of this node in FILE, and run no checks.",
		command.File(&k.writeManifest)).PlaceHolder("FILE")
	f.Add(acceptFlag,
		"Have the record of this node forget what this RDMA device (mlx5_5), port (mlx5_5:1) or PCI address had, because it was taken out or unplugged on purpose. No checks are run. Repeatable.", command.Append(&k.accept, parseDevice)).
		PlaceHolder("DEVICE")
	f.Add("explain", "Explain what this check reads, when it applies and what it detects, and run no checks.",
		command.Into(&k.explain, parseCheck).Words(checkIDs)).
		PlaceHolder("ID")
	f.Add(textfileFlag, "Also write the verdicts as metrics to this file, for node_exporter's textfile collector.",
		command.File(&k.textfile)).PlaceHolder("FILE")
	f.Check(func() error {
		if k.scenario != nil && k.scenario.OverTime && !k.inside && !f.Given("interval") {
			k.interval = 2 * time.Second
		}
		return k.checkAccept(f)
	})
	f.Check(k.checkInside)
	f.Check(k.checkOnly)
}

// defineSelection adds the flags that say which checks are made and shown.
func (k *checking) defineSelection(f *command.Flags) {
	f.Add("only", "Run only this check. Repeatable.",
		command.Append(&k.only, parseCheckID).Words(checkIDs)).PlaceHolder("ID")
	f.Add("severity",
		"Run only checks of at least this severity: critical, warning, info. Default: all; info does not affect the exit code.",
		command.Choice(&k.severity, verdict.Severities()...))
	f.Switch("verbose", "List passed checks too.", &k.verbose)
}

// textfileFlag names the file for node_exporter.
const textfileFlag = "textfile"

// checkOnly refuses flags that would leave out checks that were named.
func (k *checking) checkOnly() error {
	for _, id := range k.only {
		switch c := diagnose.Find(id); {
		case !severe(c, k.severity):
			return fmt.Errorf("--only=%q: the check has severity %s, which --severity=%s excludes", id, c.Severity, k.severity)
		case !slices.Contains(k.catalogue(), id):
			return fmt.Errorf("--only=%q: the check is made %s", id,
				map[bool]string{true: "without --inside only", false: "with --inside only"}[k.inside])
		case c.Rate && k.interval == 0:
			return fmt.Errorf("--only=%q: the check compares two readings: add --interval", id)
		}
	}
	return nil
}

func parseCheck(s string) (*verdict.Check, error) {
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
	all := idsOf(diagnose.Catalogue())
	for _, id := range idsOf(diagnose.Inside()) {
		if !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	return all
}

// catalogue returns the ids of the checks that can be made in this place.
func (k *checking) catalogue() []string {
	if k.inside {
		return idsOf(diagnose.Inside())
	}
	return idsOf(diagnose.Catalogue())
}

func idsOf(checks []*verdict.Check) []string {
	var all []string
	for _, c := range checks {
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
		return 0, errors.New("expected a duration up to 10m such as 5s; 0s: one reading")
	}
	return d, nil
}

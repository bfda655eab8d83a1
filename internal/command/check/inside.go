// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/nccl/lint"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/verdict"
)

// NewPreflight returns the command preflight, which is check --inside.
func NewPreflight(s *site.Site, log *logging.Flags) *command.Command {
	k := &checking{site: s, log: log, inside: true}
	return &command.Command{
		Name: "preflight",
		Help: "Check what a job finds in the place where this command runs, such as its container or task prolog: the same as check --inside, with its exit codes. It needs no privilege.",
		Define: func(f *command.Flags) {
			f.Output(&k.json)
			k.defineSelection(f)
			k.defineExpected(f)
			f.Check(k.checkOnly)
		},
		Takes:  []command.Group{&s.Config, log, &s.Devices},
		OnHost: []command.Group{&s.Recorded, &s.Paths, &s.GPUs},
		Run:    k.run,
	}
}

// defineExpected adds the flags that say what the job should have.
func (k *checking) defineExpected(f *command.Flags) {
	f.Switch("expect-rdma", "Inside a job: fail if there is no RDMA device that NCCL would use.", &k.expected.RDMA)
	f.Add("expect-gpus", "Inside a job: fail if it has another number of GPUs.",
		command.Into(&k.expected.GPUs, parseGPUs)).PlaceHolder("N")
}

func parseGPUs(s string) (*int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 1024 {
		return nil, errors.New("expected a whole number, 0 to 1024")
	}
	return &n, nil
}

// checkInside refuses flags that do not work inside a job.
func (k *checking) checkInside() error {
	switch {
	case !k.inside && (k.expected.RDMA || k.expected.GPUs != nil):
		return errors.New("--expect-rdma and --expect-gpus: expected with --inside only; the configuration says what the node should have")
	case !k.inside:
		return nil
	case k.scenario != nil:
		return errors.New("--inside and --scenario: expected at most one of them")
	case k.interval > 0:
		return errors.New("--inside and --interval: expected at most one of them")
	case k.manifest != "" || k.writeManifest != "":
		return errors.New("--inside and a manifest: expected at most one of them")
	case k.textfile != "":
		return errors.New("--inside and --textfile: expected at most one of them: its checks have no metrics")
	}
	return nil
}

// jobHome is the folder whose .nccl.conf NCCL reads in this place; empty: none.
func jobHome() string {
	home := os.Getenv("HOME")
	if _, other := os.LookupEnv("NCCL_CONF_FILE"); other || !filepath.IsAbs(home) {
		return ""
	}
	if f, err := os.Open(filepath.Join(home, ".nccl.conf")); errors.Is(err, fs.ErrPermission) {
		return "" // NCCL passes over a file that its user may not read (setEnvFile, src/misc/param.cc)
	} else if err == nil {
		_ = f.Close()
	}
	return home
}

// insideVerdicts returns what is wrong for a job in this place: the checks of package diagnose on the node as
// the environment has NCCL see it, and what lint says of the settings.
func (k *checking) insideVerdicts(n *fabric.Node) ([]verdict.Verdict, error) {
	environment, err := lint.Environment("environment", os.Environ())
	if err != nil {
		return nil, err
	}
	asked := k.asked()
	list := verdictsOf(lint.OnNode(environment, n), asked)
	if !slices.ContainsFunc(asked, func(c *verdict.Check) bool { return c.ID == verdict.CheckSettings }) {
		return list, nil
	}
	version, _ := lint.LibraryVersion(n, lint.Newest())
	result := lint.Judge(append([]lint.Input{environment}, lint.HostInputs(n)...), version, n)
	settings := settingVerdicts(&result)
	for _, status := range []verdict.Status{verdict.OK, verdict.Unknown, verdict.Failed} { // in front of the next one
		at := 0
		if status != verdict.Failed {
			at = slices.IndexFunc(list, func(v verdict.Verdict) bool {
				return v.Status == status || status == verdict.Unknown && v.Status == verdict.OK
			})
		}
		if at < 0 {
			at = len(list)
		}
		list = slices.Insert(list, at, verdict.WithStatus(settings, status)...)
	}
	return list, nil
}

// settingVerdicts has a verdict for each line that, by lint, NCCL does not follow as written.
func settingVerdicts(r *lint.Result) []verdict.Verdict {
	check := diagnose.Find(verdict.CheckSettings)
	var list []verdict.Verdict
	for i := range r.Lines {
		l, worst := &r.Lines[i], r.Lines[i].Worst()
		v := verdict.Verdict{
			Check: check, Subject: verdict.Subject{File: cmp.Or(l.Name, l.File)}, Status: verdict.OK,
			What: check.Title,
		}
		switch {
		case worst.Severity.AtLeast(verdict.Warning):
			v.Status, v.What, v.Evidence, v.Remedy = verdict.Failed, verdict.Sentence(worst.Reason),
				l.Name+"="+l.Value+" ("+l.File+"), NCCL "+r.Version.String()+".", verdict.Sentence(worst.Better)
			v.What = v.What[:len(v.What)-1]
		case worst.Verdict == lint.Undecided:
			v.Status, v.Reason, v.Evidence = verdict.Unknown, fabric.ReasonNotRead, verdict.Sentence(worst.Reason)
		}
		list = append(list, v)
	}
	return list
}

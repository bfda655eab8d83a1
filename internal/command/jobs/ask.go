// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"errors"
	"fmt"
	"io"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/inquiry"
	"gpufabric_exporter/internal/jobs/progress"
)

// inquire returns what asks on this host.
func (k *looking) inquire(c *command.Call, look inquiry.Look) *inquiry.Inquiry {
	asker := inquiry.Asker(k.site.Paths.Procfs)
	asker.ByHand = true
	return &inquiry.Inquiry{
		Look: look, Asker: asker, Ask: inquiry.Dial(k.site.RAS),
		Begin: func(name string, target progress.Target) {
			fmt.Fprintf(c.Stderr, "Asking RAS of %s (PID %d, NCCL %s) %d times within %s.\n", name, target.PID, target.Version,
				progress.Polls, (progress.Polls-1)*progress.Interval)
		},
	}
}

// maxShown is how many communicators with a bad state the text names.
const maxShown = 8

// writeAccount writes what RAS said as text.
func writeAccount(w io.Writer, a *progress.Account) {
	fmt.Fprintf(w, "\nRAS of %s\n", a.Job)
	d := a.Document()
	if d.Refused != "" {
		fmt.Fprintf(w, "  not asked: %s\n", command.OneLine(d.Refused))
		return
	}
	if d.Failure != "" {
		fmt.Fprintf(w, "  not asked again: %s\n", command.OneLine(d.Failure))
		if errors.Is(a.Failure, fabric.ErrRASEnded) {
			fmt.Fprintln(w, "  The process may have crashed of it: look at the job, and do not ask again.")
		}
	}
	fmt.Fprintf(w, "  %s (%d answers, %d communicators)\n", verdictText(a), d.Answers, d.Communicators)
	for _, c := range d.Bad[:min(len(d.Bad), maxShown)] {
		fmt.Fprintf(w, "  communicator %s of %d ranks: %s, %d ranks, collectives apart: %d\n", c.ID, c.Size, c.State,
			c.Count, c.Gap)
		for _, r := range c.Ranks {
			fmt.Fprintf(w, "    rank %d%s\n", r.Rank, where(&r))
		}
	}
	if more := len(d.Bad) - maxShown; more > 0 {
		fmt.Fprintf(w, "  and %d more communicators\n", more)
	}
}

func where(p *progress.PlaceDocument) string {
	if p.Host == "" {
		return ""
	}
	s := fmt.Sprintf(": PID %d on %s", p.PID, p.Host)
	if p.GPU != nil {
		s += fmt.Sprintf(", GPU %d", *p.GPU)
	}
	return s
}

func verdictText(a *progress.Account) string {
	if !a.Known() {
		return string(progress.Unknown)
	}
	return a.Report.Verdict()
}

// exitOfAnswers is the exit code with what RAS said: bad progress is a failure, and what it did not say is undecided.
func exitOfAnswers(code int, all []progress.Account) int {
	for i := range all {
		switch s := all[i].Document().State; {
		case s.Bad():
			return exitFailed
		case code == exitGood && s == progress.Unknown:
			code = exitUndecided
		}
	}
	return code
}

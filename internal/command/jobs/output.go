// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/jobs/progress"
)

// printer prints readings.
type printer struct {
	json   bool
	watch  bool      // one reading after the other
	screen io.Writer // on which each takes the place of the one before; nil: none
}

// Sequences of ECMA-48.
const (
	cursorHome = "\x1b[H"
	eraseBelow = "\x1b[J"
)

// write prints a reading at once, so that a terminal does not show half of it.
func (p printer) write(w io.Writer, jobs job.Jobs) error {
	var b bytes.Buffer
	if p.json {
		e := json.NewEncoder(&b)
		if !p.watch {
			e.SetIndent("", "  ")
		}
		if err := e.Encode(jobs.Document()); err != nil {
			return err
		}
	} else {
		if p.watch {
			fmt.Fprintln(&b, jobs.At.Format(time.TimeOnly))
		}
		if err := writeTable(&b, jobs); err != nil {
			return err
		}
		if p.watch && p.screen == nil {
			b.WriteByte('\n')
		}
	}
	if p.screen != nil {
		if _, err := io.WriteString(p.screen, cursorHome+eraseBelow); err != nil {
			return err
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// writeAnswers prints the answers of RAS: as text below the jobs, or as JSON together with them.
func (p printer) writeAnswers(w io.Writer, jobs job.Jobs, all []progress.Account) error {
	var b bytes.Buffer
	if !p.json {
		for i := range all {
			writeAccount(&b, &all[i])
		}
		_, err := w.Write(b.Bytes())
		return err
	}
	if err := command.JSON(&b, progress.DocumentOf(&jobs, append([]progress.Account{}, all...))); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// writeTable writes a row for each job, below it the evidence and what is wrong.
func writeTable(w io.Writer, jobs job.Jobs) error {
	switch {
	case !jobs.Known:
		_, err := fmt.Fprintf(w, "The processes of this node could not be read: %s.\n", jobs.Reason.Text())
		if err != nil || len(jobs.List) == 0 {
			return err
		}
	case len(jobs.List) == 0:
		_, err := fmt.Fprintln(w, "No process is known to hold a GPU of this node.")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "JOB\tRANKS\tGPUS\tTRANSPORT\tWAY\tRAILS")
	for i := range jobs.List {
		j := &jobs.List[i]
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\n", j.Name, ranksText(j), len(j.GPUs), j.State(),
			cmp.Or(string(j.Verdict.Way), "-"), cmp.Or(strings.Join(j.Devices, ","), "-"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	for i := range jobs.List {
		writeDetails(&b, &jobs.List[i])
	}
	if jobs.Dropped > 0 {
		fmt.Fprintf(&b, "\n%d more processes are not shown: there are too many.\n", jobs.Dropped)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ranksText is the ranks on the node, of those on all nodes if that is stated.
func ranksText(j *job.Job) string {
	if j.Size == 0 {
		return strconv.Itoa(len(j.Ranks))
	}
	return fmt.Sprintf("%d of %d", len(j.Ranks), j.Size)
}

func writeDetails(b *strings.Builder, j *job.Job) {
	fmt.Fprintf(b, "\n%s\n", j.Name)
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(b, "  %s%s\n", label, command.OneLine(text))
		}
	}
	line("unknown: ", j.Verdict.Reason.Text())
	line("not seen now: ", j.NotSeen())
	for _, e := range j.Verdict.Evidence {
		line("seen: ", e)
	}
	line("cause: ", j.Verdict.Cause.Text())
	for _, f := range j.Findings {
		line(fmt.Sprintf("%s %s: ", f.Severity, f.Rule), fmt.Sprintf("%s (%s)", f.Text, pidsText(f.PIDs)))
	}
	for _, remedy := range j.Remedies() {
		line("do: ", remedy)
	}
}

func pidsText(pids []int) string {
	if len(pids) == 1 {
		return fmt.Sprintf("PID %d", pids[0])
	}
	return fmt.Sprintf("%d ranks, first PID %d", len(pids), pids[0])
}

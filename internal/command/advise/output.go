// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/nccl/advice"
	"gpufabric_exporter/internal/nccl/lint"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/probes"
)

// jobsNote is said in the formats that have no place for differences.
const jobsNote = "Running jobs: gpufabric_exporter advise shows in which settings they differ from this advice."

// answer is what is printed.
type answer struct {
	advice.Advice
	jobs        []differing
	jobsUnknown string // why jobs, or some of them, are not known; empty: they are
	scenario    *simulator.Scenario
	conf        config.Config
}

func (a *answer) write(w io.Writer, as output) error {
	switch as {
	case outputJSON:
		return a.writeJSON(w)
	case outputShell:
		return lint.WriteSuggestions(w, a.suggestions(as), lint.FormatShell)
	case outputConf:
		return lint.WriteSuggestions(w, a.suggestions(as), lint.FormatConf)
	case outputKubernetes:
		return lint.WriteSuggestions(w, a.suggestions(as), lint.FormatManifest)
	case outputSlurm:
		return a.writeSlurm(w)
	}
	return a.writeText(w)
}

// suggestions are the settings as lint writes them, and as comments what they were made for, what is to be
// removed and what could not be decided.
func (a *answer) suggestions(as output) []lint.Suggestion {
	list := []lint.Suggestion{{Reason: "Made by gpufabric_exporter advise. " + strings.Join(a.madeFor(), ". ") + "."}}
	for _, s := range a.Settings {
		one := lint.Suggestion{Name: s.Name, Value: s.Value, Reason: s.Reason, Source: s.Source}
		if as == outputKubernetes && s.HostNames {
			one.Value, one.Reason = "", "Only for pods with hostNetwork: "+s.Name+"="+s.Value+". "+s.Reason
		}
		list = append(list, one)
	}
	for _, r := range a.Remove {
		list = append(list, lint.Suggestion{Reason: fmt.Sprintf("Remove from %s: %s. %s", r.From, line(r), r.Reason)})
	}
	for _, o := range a.Unknown {
		list = append(list, lint.Suggestion{Reason: fmt.Sprintf("Not decided: %s. %s To find out: %s.", o.Name, o.Reason,
			o.Ask)})
	}
	return append(list, lint.Suggestion{Reason: jobsNote})
}

func line(r advice.Removal) string {
	if r.Name == "" {
		return "the line, which is no setting"
	}
	return r.Name + "=" + r.Value
}

// writeSlurm prints the part of a batch script in front of srun.
func (a *answer) writeSlurm(w io.Writer) error {
	list := a.suggestions(outputSlurm)
	var b bytes.Buffer
	if err := lint.WriteSuggestions(&b, list[:1], lint.FormatShell); err != nil {
		return err
	}
	b.WriteString("# For a batch script, before srun. srun passes the environment on; --export=NAME=value would end a value at its first comma.\n")
	if n := a.Workload.Nodes; n > 0 {
		fmt.Fprintf(&b, "#SBATCH --nodes=%d\n", n)
	}
	if n := a.Workload.GPUsPerNode; n > 0 {
		fmt.Fprintf(&b, "#SBATCH --gpus-per-node=%d\n", n)
	}
	b.WriteByte('\n')
	if _, err := w.Write(b.Bytes()); err != nil {
		return err
	}
	return lint.WriteSuggestions(w, list[1:], lint.FormatShell)
}

func (a *answer) writeJSON(w io.Writer) error {
	return command.JSON(w, struct {
		advice.Advice
		Jobs          []differing   `json:"jobs"`
		JobsUnknown   string        `json:"jobs_unknown,omitempty"`
		Configuration config.Report `json:"configuration"`
	}{a.Advice, append([]differing{}, a.jobs...), a.jobsUnknown, a.conf.Report()})
}

// writeText prints the advice for people.
func (a *answer) writeText(w io.Writer) error {
	var b bytes.Buffer
	for _, l := range a.madeFor() {
		fmt.Fprintln(&b, command.OneLine(l))
	}
	heading(&b, "Set", len(a.Settings))
	for _, s := range a.Settings {
		change := string(s.Change)
		if s.Change == advice.Replace {
			change = "replaces " + s.Present
		}
		if s.PresentFrom != "" {
			change += ", " + s.PresentFrom
		}
		item(&b, s.Name+"="+s.Value+"  ("+change+")", s.Reason, "Source: "+s.Source)
	}
	heading(&b, "Remove", len(a.Remove))
	for _, r := range a.Remove {
		more := []string{r.Reason}
		if r.Instead != "" {
			more = append(more, "Instead: "+r.Instead)
		}
		item(&b, line(r)+"  ("+string(r.Verdict)+", "+r.From+")", more...)
	}
	heading(&b, "Not decided", len(a.Unknown))
	for _, o := range a.Unknown {
		item(&b, o.Name, o.Reason, "To find out: "+o.Ask)
	}
	heading(&b, "Leave to NCCL", len(a.Leave))
	for _, l := range a.Leave {
		item(&b, l.Name, l.Reason)
	}
	writeEstimates(&b, a.Estimates)
	heading(&b, "Communication in an iteration", len(a.Shares))
	for _, s := range a.Shares {
		item(&b, s.Link.Text()+", "+s.From, s.Text)
	}
	a.writeJobs(&b)
	_, err := w.Write(b.Bytes())
	return err
}

// madeFor is what the advice holds for: the node, if it is a simulated one, the workload and the release of NCCL.
func (a *answer) madeFor() []string {
	var list []string
	if a.scenario != nil {
		list = append(list, "Simulated node: "+a.scenario.Name)
	}
	list = append(list, "Workload: "+workload(a.Workload), fmt.Sprintf("NCCL %s (%s)", a.NCCL, a.NCCLFrom))
	if newest := lint.Newest().String(); a.NCCL != newest {
		list = append(list, "Each source names the release in which it was read")
	}
	return list
}

func heading(b *bytes.Buffer, text string, n int) {
	if n > 0 {
		fmt.Fprintf(b, "\n%s:\n", text)
	}
}

// item prints a line and what belongs to it; none has more lines than it was given.
func item(b *bytes.Buffer, title string, more ...string) {
	fmt.Fprintf(b, "  %s\n", command.OneLine(title))
	for _, m := range more {
		fmt.Fprintf(b, "      %s\n", command.OneLine(m))
	}
}

func workload(w advice.Workload) string {
	text := "several nodes"
	if w.Nodes > 0 {
		text = spelling.Plural(w.Nodes, "node", "nodes")
	}
	if w.GPUsPerNode > 0 {
		text += ", " + spelling.Plural(w.GPUsPerNode, "GPU", "GPUs") + " per node"
	}
	return text + ", fabric: " + w.Fabric.Text()
}

// writeEstimates prints the estimates as a table, and below it what they assume.
func writeEstimates(b *bytes.Buffer, list []advice.Estimate) {
	heading(b,
		"Estimated time of an AllReduce (NCCL's own model, docs/COMMANDS.md), without NVLink SHARP and without other traffic on the links", len(list))
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	var bases []string
	for i, e := range list {
		if i == 0 {
			fmt.Fprintln(t, "  LINK\tRANKS\tSIZE\tRING\tTREE\tMEASURED\tASSUMES")
		}
		at := indexOf(&bases, e.Basis)
		ran := "-"
		if m := e.Measured; m != nil {
			ran = fmt.Sprintf("%s (%.1f GB/s, %s)", duration(&m.Seconds), m.BusBW/1e9, m.From)
		}
		fmt.Fprintf(t, "  %s\t%d on %s\t%s\t%s\t%s\t%s\t[%d]\n", e.Link.Text(), e.Ranks,
			spelling.Plural(e.Nodes, "node", "nodes"),
			// #nosec G115 -- sizes are positive
			probes.SizeText(uint64(e.Bytes)), duration(e.Ring), duration(e.Tree), command.OneLine(ran), at+1)
	}
	_ = t.Flush()
	for i, basis := range bases {
		fmt.Fprintf(b, "  [%d] %s\n", i+1, command.OneLine(basis))
	}
}

func indexOf(list *[]string, s string) int {
	for i, one := range *list {
		if one == s {
			return i
		}
	}
	*list = append(*list, s)
	return len(*list) - 1
}

func duration(seconds *float64) string {
	if seconds == nil {
		return "-"
	}
	return advice.Duration(*seconds)
}

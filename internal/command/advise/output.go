// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"gpufabric_exporter/internal/advice"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/lint"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/probes"
)

// jobsNote is what the advice leaves out, in every format.
const jobsNote = "Settings of running jobs are not part of the advice: gpufabric_exporter jobs shows them."

func write(w io.Writer, as output, a advice.Advice, conf config.Config, scenario *simulator.Scenario) error {
	switch as {
	case outputJSON:
		return writeJSON(w, a, conf)
	case outputShell:
		return lint.WriteSuggestions(w, suggestions(a, as), lint.FormatShell)
	case outputConf:
		return lint.WriteSuggestions(w, suggestions(a, as), lint.FormatConf)
	case outputKubernetes:
		return lint.WriteSuggestions(w, suggestions(a, as), lint.FormatManifest)
	case outputSlurm:
		return writeSlurm(w, a)
	}
	return writeText(w, a, scenario)
}

// suggestions are the settings as lint writes them, and as comments what is to be removed and what could not be decided.
func suggestions(a advice.Advice, as output) []lint.Suggestion {
	var list []lint.Suggestion
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
		list = append(list, lint.Suggestion{Reason: fmt.Sprintf("Not decided: %s. %s To know: %s.", o.Name, o.Reason, strings.TrimSuffix(o.Ask, "."))})
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
func writeSlurm(w io.Writer, a advice.Advice) error {
	var b bytes.Buffer
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
	return lint.WriteSuggestions(w, suggestions(a, outputSlurm), lint.FormatShell)
}

func writeJSON(w io.Writer, a advice.Advice, conf config.Config) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		advice.Advice
		Note          string        `json:"note"`
		Configuration config.Report `json:"configuration"`
	}{a, jobsNote, conf.Report()})
}

// writeText prints the advice for people.
func writeText(w io.Writer, a advice.Advice, scenario *simulator.Scenario) error {
	var b bytes.Buffer
	if scenario != nil {
		fmt.Fprintf(&b, "Simulated node: %s\n", scenario.Name)
	}
	fmt.Fprintf(&b, "Workload: %s\nNCCL %s (%s)\n", workload(a.Workload), a.NCCL, a.NCCLFrom)
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
		item(&b, o.Name, o.Reason, "To know: "+o.Ask)
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
	fmt.Fprintf(&b, "\n%s\n", jobsNote)
	_, err := w.Write(b.Bytes())
	return err
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
	heading(b, "AllReduce by NCCL's model (docs/ADVICE.md), without NVLink SHARP and with nothing else on the links", len(list))
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
		fmt.Fprintf(t, "  %s\t%d on %s\t%s\t%s\t%s\t%s\t[%d]\n", e.Link.Text(), e.Ranks, spelling.Plural(e.Nodes, "node", "nodes"),
			probes.SizeText(uint64(e.Bytes)), duration(e.Ring), duration(e.Tree), command.OneLine(ran), at+1) // #nosec G115 -- sizes are positive
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

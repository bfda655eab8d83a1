// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/nccl/lint"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/verdict"
)

// maxShown bounds how much of a value a line of text has, in bytes.
const maxShown = 160

// text is a finding in words.
func text(f lint.Finding) string {
	switch {
	case f.Reason != "" && strings.HasSuffix(f.Reason, "."):
		return f.Reason
	case f.Reason != "":
		return f.Reason + "."
	}
	return "NCCL does what the line says."
}

// advice is a finding in words, with what is better.
func advice(f lint.Finding) string {
	if f.Better == "" {
		return text(f)
	}
	return text(f) + " Better: " + f.Better
}

// place is a line of an input; an environment has none.
func place(l *lint.Line) string {
	if l.Number == 0 {
		return l.File
	}
	return fmt.Sprintf("%s:%d", l.File, l.Number)
}

// assignment is the setting of a line as people write it.
func assignment(l *lint.Line) string {
	switch {
	case l.Name == "":
		return "(not a setting)"
	case len(l.Value) > maxShown:
		return l.Name + "=" + l.Value[:maxShown] + "..."
	}
	return l.Name + "=" + l.Value
}

// source says where it was read what NCCL does.
func source(l *lint.Line) string {
	switch {
	case l.Source == "":
		return ""
	case l.Release == "":
		return l.Source
	}
	return l.Source + " of NCCL " + l.Release
}

// writeText prints each line with what becomes of it. All but what paint adds is legible.
func writeText(w io.Writer, r *lint.Result, verbose bool, paint command.Painter) error {
	var b bytes.Buffer
	failed, undecided, noted, fine := 0, 0, 0, 0
	for i := range r.Lines {
		l := &r.Lines[i]
		worst := l.Worst()
		colour, quiet := command.Green, false
		switch {
		case worst.Severity.AtLeast(verdict.Warning):
			failed++
			colour = command.Red
		case worst.Verdict == lint.Undecided:
			undecided++
			colour = command.Yellow
		case worst.Severity == verdict.Info:
			noted++
			colour = command.Yellow
		default:
			fine++
			quiet = !verbose
		}
		if quiet {
			continue
		}
		fmt.Fprintf(&b, "%s  %s  %s\n", command.OneLine(place(l)), paint(colour, string(worst.Verdict)),
			command.OneLine(assignment(l)))
		for _, f := range l.Findings {
			indent(&b, text(f))
			if f.Better != "" {
				indent(&b, "Better: "+f.Better)
			}
		}
		if s := source(l); s != "" {
			indent(&b, "Source: "+s)
		}
	}
	release := r.Version.String()
	if r.Library != "" {
		release += " (library found: " + command.OneLine(r.Library) + ")"
	}
	fmt.Fprintf(&b, "NCCL %s: %d failed, %d undecided, %d with a note, %d without a finding", release, failed, undecided,
		noted, fine)
	if r.Others > 0 {
		fmt.Fprintf(&b, "; %s not judged: other software reads them", spelling.Plural(r.Others, "setting is", "settings are"))
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

func indent(w io.Writer, line string) { fmt.Fprintf(w, "    %s\n", command.OneLine(line)) }

// line is one in the JSON of lint.
type line struct {
	File     string         `json:"file"`
	Line     int            `json:"line,omitempty"`
	Name     string         `json:"name,omitempty"`
	Value    string         `json:"value"`
	Verdict  lint.Verdict   `json:"verdict"`
	Source   string         `json:"source,omitempty"`
	Release  string         `json:"source_release,omitempty"`
	Findings []lint.Finding `json:"findings"`
}

func writeJSON(w io.Writer, r *lint.Result) error {
	report := struct {
		Version string `json:"nccl_version"`
		Library string `json:"nccl_library,omitempty"` // missing: the version was named, or is the newest
		Failed  bool   `json:"failed"`
		Others  int    `json:"other_settings"`
		Lines   []line `json:"lines"`
	}{r.Version.String(), r.Library, r.Failed(), r.Others, []line{}}
	for i := range r.Lines {
		l := &r.Lines[i]
		one := line{l.File, l.Number, l.Name, l.Value, l.Worst().Verdict, l.Source, l.Release, nil}
		for _, f := range l.Findings {
			f.Reason = text(f)
			one.Findings = append(one.Findings, f)
		}
		report.Lines = append(report.Lines, one)
	}
	return command.JSON(w, report)
}

// writeGitHub prints workflow commands of GitHub, which it shows beside the lines of a pull request.
func writeGitHub(w io.Writer, r *lint.Result) error {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	var b bytes.Buffer
	for i := range r.Lines {
		l := &r.Lines[i]
		for _, f := range l.Findings {
			kind := map[verdict.Severity]string{
				verdict.Critical: "error", verdict.Warning: "warning",
				verdict.Info: "notice",
			}[f.Severity]
			if kind == "" {
				continue
			}
			fmt.Fprintf(&b, "::%s file=%s,line=%d,title=%s::%s\n", kind, property.Replace(l.File), max(l.Number, 1),
				property.Replace(assignment(l)+": "+string(f.Verdict)), data.Replace(advice(f)))
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"gpufabric_exporter/alerts"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/nccl/explain"
	"gpufabric_exporter/internal/nccl/signature"
	"gpufabric_exporter/internal/spelling"
)

// shownItems bounds how many communicators the text lists.
const shownItems = 8

// writeText prints the verdict, then what the log shows. All but what paint adds is legible.
func writeText(w io.Writer, r *explain.Result, paint command.Painter) error {
	var b bytes.Buffer
	writeVerdict(&b, r, paint)
	writeOthers(&b, r)
	b.WriteByte('\n')
	say := func(name, format string, args ...any) {
		for i := range args {
			if s, is := args[i].(string); is {
				r.Redact(&s)
				args[i] = s
			}
		}
		fmt.Fprintf(&b, "%-12s %s\n", name, command.OneLine(fmt.Sprintf(format, args...)))
	}
	log := fmt.Sprintf("%s, %d of NCCL", spelling.Plural(int(r.Lines), "line", "lines"), r.NCCLLines)
	if r.Long > 0 {
		log += fmt.Sprintf(", %d cut", r.Long)
	}
	if r.Unprintable > 0 {
		log += fmt.Sprintf(", %d with control characters", r.Unprintable)
	}
	if r.Cut {
		log += ", the rest was not read"
	}
	say("log", "%s", log)
	if len(r.Files) > 0 {
		names := r.Files
		r.Redact(&names)
		say("files", "%d: %s", len(names), spelling.Few(names, 8))
	}
	if unread := r.NotRead(); len(unread) > 0 {
		say("not read", "%d: %s", len(unread), spelling.Few(unread, 8))
	}
	if r.NCCLLines > 0 {
		writeSetup(r, say)
		writeConnections(r, say)
	}
	if who := r.Waiters(); who != "" {
		say("waiting", "%s", who)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func writeSetup(r *explain.Result, say func(name, format string, args ...any)) {
	if len(r.Versions) > 0 || r.Log.CUDA != "" {
		say("release", "%s", releases(r))
	}
	if len(r.Hosts) > 0 {
		say("processes", "%d on %s: %s", r.Processes, spelling.Plural(len(r.Hosts), "host", "hosts"),
			spelling.Few(r.Hosts, 8))
	}
	for i := range r.Communicators[:min(len(r.Communicators), shownItems)] {
		c := &r.Communicators[i]
		missing := ""
		if len(c.Missing) > 0 {
			missing = "; not ended: rank " + strings.Trim(strings.ReplaceAll(fmt.Sprint(c.Missing), " ", ", "), "[]")
		}
		say("communicator", "%s: set-up complete on %d of the %d in this log%s", spelling.Plural(c.Ranks, "rank", "ranks"),
			c.Complete, c.Started, missing)
	}
	if more := len(r.Communicators) - shownItems; more > 0 {
		say("communicator", "%d more", more)
	}
	if s := r.Log.Setup; s != nil {
		say("set-up time", "%.2f s on rank %d, the slowest; longest part: %s %.2f s", s.Total, s.Rank, s.Phase, s.Longest)
	}
}

func releases(r *explain.Result) string {
	text := strings.Join(r.Versions, ", ")
	if r.Log.RCCL {
		text += " (RCCL)"
	}
	if r.Log.CUDA != "" {
		text += ", built for CUDA " + r.Log.CUDA
	}
	return text
}

func writeConnections(r *explain.Result, say func(name, format string, args ...any)) {
	l := &r.Log
	if n := r.Network(); n != "" {
		say("network", "%s", n)
	}
	if d := r.Devices(); d != "" {
		say("devices", "%s", d)
	}
	if t := r.Transports(); t != (explain.Transports{}) {
		say("connections", "%s", t.String())
	}
	if l.Channels != explain.Unknown {
		say("channels", "%d", l.Channels)
	}
	if all, known := r.RingsGPUDirect(); known {
		say("rings", "GPUDirect RDMA %s", yesNo(all, "on all rings", "not on all rings"))
	}
	if l.NVLSChannels != explain.Unknown {
		say("NVLS", "%s", yesNo(l.NVLSChannels > 0, spelling.Plural(l.NVLSChannels, "channel", "channels"), "not used"))
	}
	if l.CollNet {
		say("SHARP", "used")
	}
}

func yesNo(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// writeVerdict prints what is wrong, where and how sure that is, and what to do.
func writeVerdict(b *bytes.Buffer, r *explain.Result, paint command.Painter) {
	first := r.First()
	switch why := r.Undecided(); {
	case first != nil:
		if r.Slow() {
			fmt.Fprintf(b, "%s ", paint(command.Yellow, "SLOW"))
		} else {
			fmt.Fprintf(b, "%s ", paint(command.Red, "FAILED"))
		}
		fmt.Fprintf(b, "%s: %s\n", first.Reasons[0].Certainty, first.Reasons[0].Cause)
		writeFinding(b, r, first)
	case why != "":
		fmt.Fprintf(b, "%s ", paint(command.Yellow, "UNKNOWN"))
		fmt.Fprintf(b, "%s.\n", command.OneLine(why))
		writeHarmless(b, r)
		if open := r.Open(); open != nil {
			fmt.Fprintf(b, "    If it fails, hangs or is slow, %s: %s\n", open.Reasons[0].Certainty, open.Reasons[0].Cause)
			writeFinding(b, r, open)
		}
	case r.NCCLLines == 0 && !r.Tested():
		went, seen := "No failure is in the log, and the program went on after what it warns of.", "what NCCL did"
		if !r.WentOn() {
			went, seen = "No failure is in the log: runs that are well have what it warns of, too.", "whether the program went on, and what NCCL did"
		}
		fmt.Fprintf(b, "%s %s\n", paint(command.Green, "OK"), went)
		writeHarmless(b, r)
		fmt.Fprintf(b, "    Not seen: %s, as no line is of NCCL.\n", seen)
	case len(r.Communicators) == 0 && r.Tested():
		fmt.Fprintf(b, "%s A test of NCCL ended with results, and the log shows no failure.\n    %s\n", paint(command.Green, "OK"), r.Unseen())
	case len(r.Communicators) == 0 && !r.Harmless():
		fmt.Fprintf(b, "%s No failure is in the log, and the program went on after what NCCL warns of.\n    Not seen: the set-up, and which way the connections go.\n", paint(command.Green, "OK"))
	case len(r.Communicators) == 0:
		fmt.Fprintf(b, "%s No failure: what NCCL warns of in this log is harmless. No set-up is in it.\n", paint(command.Green, "OK"))
	default:
		fmt.Fprintf(b, "%s The set-up is complete, and the log shows no failure.\n    %s\n", paint(command.Green, "OK"), r.Unseen())
	}
}

// writeHarmless says what is harmless in a log without lines of NCCL.
func writeHarmless(b *bytes.Buffer, r *explain.Result) {
	for i := range r.Findings {
		if f := &r.Findings[i]; r.NCCLLines == 0 && f.Signature.Harmless {
			fmt.Fprintf(b, "    It shows what is harmless: %s\n", f.Signature.Cause)
		}
	}
}

// writeOthers prints what else was seen.
func writeOthers(b *bytes.Buffer, r *explain.Result) {
	first, open := r.First(), r.Open()
	others := 0
	also := func(format string, args ...any) {
		if others == 0 {
			b.WriteString("\nAlso seen:\n")
		}
		others++
		fmt.Fprintf(b, "  %s\n", command.OneLine(fmt.Sprintf(format, args...)))
	}
	for i := range r.Findings {
		if f := &r.Findings[i]; f != first && f != open {
			kind := r.Kind(f)
			f = ticketed(r, f)
			also("%s %s%s: %s", kind, f.Signature.ID, seen(f), f.Text)
		}
	}
	for _, w := range r.Warnings {
		r.Redact(&w)
		also("warning without a signature, line %d: %s", w.Line, w.Text)
	}
}

// ticketed is a finding as it may be shown.
func ticketed(r *explain.Result, f *explain.Finding) *explain.Finding {
	own := *f
	r.Redact(&own)
	return &own
}

// seen is where a finding was seen, behind its name.
func seen(f *explain.Finding) string {
	if at := f.Seen(); at != "" {
		return command.OneLine(", " + at)
	}
	return ""
}

// writeFinding prints what is behind the verdict.
func writeFinding(b *bytes.Buffer, r *explain.Result, f *explain.Finding) {
	f = ticketed(r, f)
	s, top := f.Signature, &f.Reasons[0]
	fmt.Fprintf(b, "    %s (%s)%s\n", s.ID, source(f), seen(f))
	fmt.Fprintf(b, "    %s\n", command.OneLine(f.Text))
	if len(f.Pairs) > 1 {
		fmt.Fprintf(b, "    Between: %s\n", command.OneLine(spelling.Few(f.Pairs, 4)))
	}
	if top.Evidence != "" {
		fmt.Fprintf(b, "    On the node: %s\n", command.OneLine(top.Evidence))
	}
	if s.Cause != top.Cause {
		fmt.Fprintf(b, "    %s: %s\n", yesNo(f.Line > 0, "The line means", "It means"), s.Cause)
	}
	if who := r.Waiters(); who != "" && s.Kind == signature.Consequence {
		r.Redact(&who)
		fmt.Fprintf(b, "    Waiting: %s\n", command.OneLine(who))
	}
	for _, other := range f.Reasons[1:] {
		fmt.Fprintf(b, "    %s, %s: %s\n", yesNo(top.Certainty == explain.Certain, "Why", "Or"), other.Certainty, other.Cause)
		if other.Evidence != "" {
			fmt.Fprintf(b, "        On the node: %s\n", command.OneLine(other.Evidence))
		}
	}
	if s.Kind == signature.Consequence && top.Certainty != explain.Certain {
		b.WriteString("    It may follow from another failure: look at the logs of the other ranks for what failed first.\n")
	}
	if f.Guessed {
		b.WriteString("    No line shows that a call failed after this warning, but nothing else explains what failed later.\n")
	}
	b.WriteString("    Next:\n")
	for i, step := range f.Steps() {
		fmt.Fprintf(b, "      %d. %s\n", i+1, step)
	}
	if s.Runbook != "" {
		fmt.Fprintf(b, "    Runbook: %s%s\n", alerts.RunbookBase, s.Runbook)
	}
}

// source is who printed a line, and where in its source.
func source(f *explain.Finding) string {
	by := string(f.Signature.Source)
	if f.Writer != "" {
		by = "plugin " + f.Writer
	}
	if f.Place != "" {
		by += ", " + f.Place
	}
	return command.OneLine(by)
}

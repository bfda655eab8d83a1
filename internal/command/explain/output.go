// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"encoding/json"
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

// writeText prints what a log shows. All but what paint adds is legible.
func writeText(w io.Writer, r *explain.Result, paint command.Painter) error {
	var b bytes.Buffer
	say := func(name, format string, args ...any) {
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
	if r.NCCLLines > 0 {
		writeSetup(r, say)
		writeConnections(r, say)
	}
	writeFindings(&b, r, paint)
	_, err := w.Write(b.Bytes())
	return err
}

func writeSetup(r *explain.Result, say func(name, format string, args ...any)) {
	say("release", "%s", releases(r))
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
	text := "not known"
	if len(r.Versions) > 0 {
		text = strings.Join(r.Versions, ", ")
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
	say("connections", "%s", r.Transports().String())
	if l.Channels != explain.Unknown {
		say("channels", "%d", l.Channels)
	}
	if all, known := r.RingsGPUDirect(); known {
		say("rings", "GPUDirect RDMA %s", yesNo(all, "on all rings", "not on all rings"))
	}
	nvls := "the log does not show it"
	if l.NVLSChannels != explain.Unknown {
		nvls = yesNo(l.NVLSChannels > 0, spelling.Plural(l.NVLSChannels, "channel", "channels"), "not used")
	}
	say("NVLS", "%s", nvls)
	say("SHARP", "%s", yesNo(l.CollNet, "used", "not seen"))
}

func yesNo(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

func writeFindings(b *bytes.Buffer, r *explain.Result, paint command.Painter) {
	first := r.First()
	if first != nil {
		fmt.Fprintf(b, "\n%s ", paint(command.Red, "FAILED"))
		writeFinding(b, first)
	}
	others := 0
	for i := range r.Findings {
		f := &r.Findings[i]
		if f == first {
			continue
		}
		if others == 0 {
			b.WriteString("\nAlso seen:\n")
		}
		others++
		fmt.Fprintf(b, "  %s %s%s\n", f.Signature.Kind, f.Signature.ID, seen(f))
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(b, "  warning without a signature, line %d: %s\n", w.Line, command.OneLine(w.Text))
	}
	switch why := r.Undecided(); {
	case first != nil:
	case why != "":
		fmt.Fprintf(b, "\n%s %s.\n", paint(command.Yellow, "UNKNOWN"), command.OneLine(why))
	default:
		fmt.Fprintf(b, "\n%s The set-up is complete, and the log shows no failure.\n", paint(command.Green, "OK"))
	}
}

// seen is how often and where a finding was seen. What follows from the connections has no line.
func seen(f *explain.Finding) string {
	if f.Line == 0 {
		return ""
	}
	parts := []string{spelling.Plural(int(f.Count), "line", "lines"), fmt.Sprintf("first line %d", f.Line)}
	if f.Host != "" {
		parts = append(parts, "host "+f.Host)
	}
	if f.Rank != explain.Unknown {
		parts = append(parts, fmt.Sprintf("rank %d", f.Rank))
	}
	if f.Peer != "" {
		parts = append(parts, "peer "+f.Peer)
	}
	if len(f.Hosts) > 1 {
		parts = append(parts, "logged by "+spelling.Few(f.Hosts, 8))
	}
	return command.OneLine(", " + strings.Join(parts, ", "))
}

func writeFinding(b *bytes.Buffer, f *explain.Finding) {
	s := f.Signature
	fmt.Fprintf(b, "%s (%s)%s\n", s.ID, s.Source, seen(f))
	fmt.Fprintf(b, "    %s\n    Cause: %s\n    Remedy: %s\n", command.OneLine(f.Text), s.Cause, s.Remedy)
	if s.Kind == signature.Consequence {
		b.WriteString("    It is a consequence: the log does not show what failed first. Look at the logs of the other ranks.\n")
	}
	if s.Runbook != "" {
		fmt.Fprintf(b, "    Runbook: %s%s\n", alerts.RunbookBase, s.Runbook)
	}
}

// The JSON of explain.
type (
	communicator struct {
		ID       string `json:"id,omitempty"`
		Ranks    int    `json:"ranks"`
		Started  int    `json:"started"`
		Complete int    `json:"complete"`
		Missing  []int  `json:"missing,omitempty"`
	}
	finding struct {
		Signature string   `json:"signature"`
		Source    string   `json:"source"`
		Kind      string   `json:"kind"`
		Lines     int64    `json:"lines"`
		Line      int64    `json:"first_line,omitempty"`
		Host      string   `json:"host,omitempty"`
		Hosts     []string `json:"hosts,omitempty"`
		Rank      *int     `json:"rank,omitempty"`
		Code      *int     `json:"code,omitempty"`
		Peer      string   `json:"peer,omitempty"`
		Text      string   `json:"text"`
		Cause     string   `json:"cause"`
		Remedy    string   `json:"remedy"`
		Runbook   string   `json:"runbook,omitempty"`
	}
	transports struct {
		RDMA          int `json:"rdma"`
		RDMAGPUDirect int `json:"rdma_gpudirect"`
		TCP           int `json:"tcp"`
		Plugin        int `json:"plugin"`
		P2P           int `json:"p2p"`
		SHM           int `json:"shm"`
		SHARP         int `json:"sharp"`
	}
	hca struct {
		Network   string `json:"network"`
		Device    string `json:"device"`
		GPUDirect bool   `json:"gpudirect_rdma"`
	}
	setup struct {
		Rank    int     `json:"rank"`
		Seconds float64 `json:"seconds"`
		Phase   string  `json:"longest_phase,omitempty"`
		Longest float64 `json:"longest_phase_seconds"`
	}
	report struct {
		Verdict       string         `json:"verdict"` // ok, failed, unknown
		Reason        string         `json:"reason,omitempty"`
		Lines         int64          `json:"lines"`
		NCCLLines     int64          `json:"nccl_lines"`
		Long          int64          `json:"cut_lines"`
		Unprintable   int64          `json:"unprintable_lines"`
		Incomplete    bool           `json:"counts_incomplete"`
		Versions      []string       `json:"nccl_versions"`
		CUDA          string         `json:"cuda,omitempty"`
		Hosts         []string       `json:"hosts"`
		Processes     int            `json:"processes"`
		Communicators []communicator `json:"communicators"`
		Setup         *setup         `json:"slowest_setup,omitempty"`
		Network       string         `json:"network,omitempty"`
		NoDevices     bool           `json:"no_rdma_device"`
		HCAs          []hca          `json:"hcas"` // for which the log says whether GPUDirect RDMA is possible
		Connections   transports     `json:"connections"`
		Channels      *int           `json:"channels,omitempty"`
		NVLSChannels  *int           `json:"nvls_channels,omitempty"`
		First         *finding       `json:"first_failure,omitempty"`
		Findings      []finding      `json:"findings"`
		Warnings      []string       `json:"warnings_without_signature"`
	}
)

// known is a number that the log shows.
func known(n int) *int {
	if n == explain.Unknown {
		return nil
	}
	return &n
}

func writeJSON(w io.Writer, r *explain.Result) error {
	out := report{
		Verdict: "ok", Lines: r.Lines, NCCLLines: r.NCCLLines, Long: r.Long, Unprintable: r.Unprintable,
		Incomplete: r.Full || r.Cut,
		Versions:   append([]string{}, r.Versions...), CUDA: r.Log.CUDA, Hosts: append([]string{}, r.Hosts...),
		Processes: r.Processes, Communicators: []communicator{},
		Network: r.Log.Network, NoDevices: r.Log.NoDevices, HCAs: []hca{}, Connections: transports(r.Transports()),
		Channels: known(r.Log.Channels), NVLSChannels: known(r.Log.NVLSChannels),
		Findings: []finding{}, Warnings: []string{},
	}
	if why := r.Undecided(); r.Failed() {
		out.Verdict = "failed"
	} else if why != "" {
		out.Verdict, out.Reason = "unknown", why
	}
	for _, c := range r.Communicators {
		out.Communicators = append(out.Communicators, communicator{c.ID, c.Ranks, c.Started, c.Complete, c.Missing})
	}
	for _, h := range r.Log.HCAs {
		out.HCAs = append(out.HCAs, hca{h.Network, h.Name, h.GPUDirect})
	}
	if s := r.Log.Setup; s != nil {
		out.Setup = &setup{s.Rank, s.Total, s.Phase, s.Longest}
	}
	for i := range r.Findings {
		out.Findings = append(out.Findings, jsonFinding(&r.Findings[i]))
	}
	if f := r.First(); f != nil {
		one := jsonFinding(f)
		out.First = &one
	}
	for _, w := range r.Warnings {
		out.Warnings = append(out.Warnings, w.Text)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}

func jsonFinding(f *explain.Finding) finding {
	s := f.Signature
	runbook := s.Runbook
	if runbook != "" {
		runbook = alerts.RunbookBase + runbook
	}
	return finding{
		s.ID, string(s.Source), string(s.Kind), f.Count, f.Line, f.Host, f.Hosts, known(f.Rank), known(f.Code), f.Peer,
		f.Text, s.Cause, s.Remedy, runbook,
	}
}

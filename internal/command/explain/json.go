// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"io"

	"gpufabric_exporter/alerts"
	"gpufabric_exporter/internal/nccl/explain"
)

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
		Signature string   `json:"signature" fixed:""`
		Source    string   `json:"source" fixed:""`
		Kind      string   `json:"kind" fixed:""`
		Lines     int64    `json:"lines"`
		Line      int64    `json:"first_line,omitempty"`
		Host      string   `json:"host,omitempty"`
		Hosts     []string `json:"hosts,omitempty"`
		Rank      *int     `json:"rank,omitempty"`
		Code      *int     `json:"code,omitempty"`
		Peer      string   `json:"peer,omitempty"`
		Text      string   `json:"text"`
		Cause     string   `json:"cause" fixed:""`
		Remedy    string   `json:"remedy" fixed:""`
		Runbook   string   `json:"runbook,omitempty" fixed:""`
		File      string   `json:"file,omitempty"`
		Place     string   `json:"place,omitempty"`   // in the source of what printed it
		Plugin    string   `json:"plugin,omitempty"`  // that printed it
		Open      bool     `json:"open,omitempty"`    // whether it is a failure depends on what the log does not show
		Guessed   bool     `json:"guessed,omitempty"` // no line shows that a call failed after it
		Reasons   []reason `json:"reasons"`           // what may be behind it, the surest first
	}
	reason struct {
		Certainty string `json:"certainty" fixed:""` // certain, likely, possible
		Cause     string `json:"cause" fixed:""`
		Remedy    string `json:"remedy" fixed:""`
		Test      string `json:"test,omitempty" fixed:""` // what tells it from the others
		Evidence  string `json:"evidence,omitempty"`      // what the node of --host, --capture or --status shows of it
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
		Verdict       string         `json:"verdict" fixed:""` // ok, failed, unknown
		Reason        string         `json:"reason,omitempty" fixed:""`
		Lines         int64          `json:"lines"`
		NCCLLines     int64          `json:"nccl_lines"`
		Files         []string       `json:"files,omitempty"`
		Unread        []string       `json:"not_read,omitempty"` // files of folders that are no text
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
		Waiting       string         `json:"waiting,omitempty"` // ranks that wait in collectives
		Unseen        string         `json:"not_seen,omitempty" fixed:""`
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
		Verdict: "ok", Files: r.Files, Unread: r.NotRead(), Waiting: r.Waiters(), Lines: r.Lines, NCCLLines: r.NCCLLines, Long: r.Long, Unprintable: r.Unprintable,
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
	} else {
		out.Unseen = r.Unseen()
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
		out.Findings = append(out.Findings, jsonFinding(r, &r.Findings[i]))
	}
	if f := r.First(); f != nil {
		one := jsonFinding(r, f)
		out.First = &one
	}
	for _, w := range r.Warnings {
		out.Warnings = append(out.Warnings, w.Text)
	}
	r.Redact(&out)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}

func jsonFinding(r *explain.Result, f *explain.Finding) finding {
	s := f.Signature
	runbook := s.Runbook
	if runbook != "" {
		runbook = alerts.RunbookBase + runbook
	}
	var reasons []reason
	for _, one := range f.Reasons {
		reasons = append(reasons, reason{string(one.Certainty), one.Cause, one.Remedy, one.Test, one.Evidence})
	}
	return finding{
		s.ID, string(s.Source), string(r.Kind(f)), f.Count, f.Line, f.Host, f.Hosts, known(f.Rank), known(f.Code), f.Peer,
		f.Text, s.Cause, s.Remedy, runbook, f.File, f.Place, f.Writer, f.Open, f.Guessed, reasons,
	}
}

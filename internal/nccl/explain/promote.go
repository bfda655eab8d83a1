// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strings"

	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/signature"
)

// promote takes a warning without a signature for the first failure where something failed, and nothing says why;
// and where its process went on with TCP.
func (r *reading) promote() {
	if r.said.passes() {
		return
	}
	first := r.findFirst()
	for i, w := range r.Warnings {
		f := &w.finding
		unexplained := first >= 0 && unexplaining(r.Findings[first].Signature) && f.order < r.Findings[first].order
		fell := r.sockets[f.process] > f.order && r.between() != log.No
		call := r.failedCall
		failed := first < 0 && call != nil && call.process == f.process && call.order > f.order && !r.wentOn()
		if !unexplained && !fell && !failed {
			continue
		}
		r.blame(i)
		return
	}
	if r.promoteRetries(first) || r.promoteNote(first) {
		return
	}
	f := r.failedCall
	if f == nil || r.wentOn() {
		return
	}
	if first >= 0 && (!unexplaining(r.Findings[first].Signature) || f.order > r.Findings[first].order) {
		return
	}
	f.Open = first < 0 && !r.interfacesApart()
	r.find(*f)
}

// promoteRetries takes connections that are tried again and again for what a call failed by, where nothing else says
// why; and for what may keep a set-up from its end.
func (r *reading) promoteRetries(first int) bool {
	const some = 2 // at the start a few are normal
	at := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Signature.ID == "connect_retried" })
	if at < 0 || r.complete() || r.Findings[at].Count < some && !strings.Contains(r.Findings[at].raw, "timed out") {
		return false
	}
	f := &r.Findings[at]
	if first >= 0 && (!unexplaining(r.Findings[first].Signature) || r.Findings[first].order < f.order) {
		return false
	}
	f.Signature, f.Open = &signature.ConnectFailed, first < 0
	return true
}

// promoteNote takes a note that is a failure where its thread unwinds for one, where a program failed after it, and
// nothing else says why.
func (r *reading) promoteNote(first int) bool {
	if first < 0 || !unexplaining(r.Findings[first].Signature) || r.complete() {
		return false
	}
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Signature.Unwound != nil && f.order < r.Findings[first].order {
			f.Signature, f.Guessed = f.Signature.Unwound, true
			return true
		}
	}
	return false
}

// blame takes a warning without a signature for a failure.
func (r *reading) blame(i int) {
	f := r.Warnings[i].finding
	file, _, _ := strings.Cut(f.Place, ":")
	f.Signature, f.Guessed = signature.Area(file, f.Text), true
	r.Warnings = slices.Delete(r.Warnings, i, i+1)
	r.Unknown--
	r.find(f)
}

// unexplaining reports whether a line says that NCCL failed, and not why: its result, and what follows from that.
func unexplaining(s *signature.Signature) bool {
	return s.Kind == signature.Consequence && s.Source != signature.PyTorch || s.ID == "program_call_refused"
}

// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"strings"

	"gpufabric_exporter/internal/jobs/progress"
	"gpufabric_exporter/probes"
)

// rasNotes are what NCCL RAS reports about a job, and why it was queried or not. They are empty for a job that is not
// suspected.
func rasNotes(a *progress.Account) []jobNote {
	if a == nil {
		return nil
	}
	var why []string
	for _, w := range a.Suspicions {
		why = append(why, w.Text())
	}
	list := []jobNote{{"suspected", strings.Join(why, "; ") + ".", "unsure"}}
	if a.Known() {
		class := "quiet"
		if a.Report.State.Bad() {
			class = "bad"
		}
		list = append(list, jobNote{"NCCL RAS", rasText(a), class})
	}
	switch {
	case a.Refused != nil:
		list = append(list, jobNote{"not asked", a.Refused.Error() + ".", ""})
	case a.Failure != nil:
		list = append(list, jobNote{"no answer", a.Failure.Error() + ".", ""})
	}
	return list
}

// rasRemedies are what to do about what NCCL RAS reports about a job.
func rasRemedies(a *progress.Account) []string {
	if a == nil || !a.Known() || !a.Report.State.Bad() {
		return nil
	}
	if a.Report.State == progress.Straggler {
		return []string{"Look at the ranks that are named, on their hosts: clocks and throttling of the GPU, load of the CPU, py-spy dump --pid PID."}
	}
	return []string{"Look at the ranks that are named, on their hosts: gpufabric_exporter check, the kernel log, py-spy dump --pid PID. If they stand still, end the job and start it again from its checkpoint."}
}

// rasText is the verdict, with the first ranks of the worst communicator.
func rasText(a *progress.Account) string {
	text := fmt.Sprintf("%s (%s of %s, %s)", a.Report.Verdict(), probes.Counted(a.Answers, "answer"), stamp(a.Answered),
		probes.Counted(a.Report.Communicators, "communicator"))
	if len(a.Report.Bad) == 0 {
		return text
	}
	c := &a.Report.Bad[0]
	const most = 4
	list := []string{text + fmt.Sprintf("; communicator %s of %s: %s", c.ID, probes.Counted(c.Size, "rank"), c.State)}
	for _, r := range c.Ranks[:min(len(c.Ranks), most)] {
		rank := fmt.Sprintf("rank %d", r.Rank)
		if r.Host.IsValid() {
			rank += fmt.Sprintf(" (PID %d on %s)", r.PID, r.Host)
		}
		list = append(list, rank)
	}
	text = strings.Join(list, ", ")
	if more := c.Count - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

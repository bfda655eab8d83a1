// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/probes"
)

// writeRun prints a run as nccl-tests does: a header in lines that begin with #, a row for each size, a summary.
func writeRun(w io.Writer, run oneRun) error {
	var b bytes.Buffer
	r := run.result
	fmt.Fprintf(&b, "# %s\n", headline(run))
	fmt.Fprintf(&b, "#   NCCL %s, CUDA %s, GPU driver %s\n", probes.OrUnknown(r.NCCL), probes.OrUnknown(r.CUDA),
		probes.OrUnknown(r.Driver))
	for i, rank := range run.plan.Ranks {
		fmt.Fprintf(&b, "#   rank %d: %s %s\n", i, rank.Address, rank.UUID)
	}
	fmt.Fprintf(&b, "#   path %s, network %s, GPUDirect RDMA %s, channels %s, NVLS %s, SHARP %s\n",
		probes.Word(r.Path, func(p probes.Path) string { return string(p) }),
		probes.OrUnknown(r.Network), probes.Word(r.GPUDirect, probes.YesNo), probes.Word(r.Channels, strconv.Itoa),
		probes.Word(r.NVLS, probes.YesNo), probes.Word(r.SHARP, probes.YesNo))
	if r.Init > 0 {
		fmt.Fprintf(&b, "#   communicator created in %s", r.Init.Brief())
		if r.Connect > 0 {
			fmt.Fprintf(&b, ", first collective in %s", r.Connect.Brief())
		}
		b.WriteByte('\n')
	}
	writeMeasurements(&b, r.Measurements)
	fmt.Fprintf(&b, "# %s\n", summary(run))
	if r.Outcome != probes.OK {
		writeTrouble(&b, r)
	} else if r.Left != "" {
		fmt.Fprintf(&b, "#   GPUs afterwards: %s\n", r.ReleaseText())
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

// writeMeasurements is the table of nccl-tests.
func writeMeasurements(b *bytes.Buffer, list []probes.Measurement) {
	if len(list) > 0 {
		fmt.Fprintf(b, "#\n#%11s %12s %9s %7s %7s %11s %9s %9s %8s\n#%11s %12s %9s %7s %7s %11s %9s %9s\n",
			"size", "count", "type", "redop", "iter", "time", "algbw", "busbw", "#wrong", "(B)", "(elements)", "", "", "",
			"(us)", "(GB/s)", "(GB/s)")
	}
	for _, m := range list {
		fmt.Fprintf(b, " %11d %12d %9s %7s %7d %11s %9.2f %9.2f %8d\n", m.Bytes, m.Count, m.Type, reduction(m.Op),
			m.Iterations,
			m.Time.Microseconds(), m.AlgBW/1e9, m.BusBW/1e9, m.Wrong)
	}
}

// headline says what is measured, and where.
func headline(run oneRun) string {
	r := run.result
	s := r.Name()
	if run.label != "" {
		s += " (" + run.label + ")"
	}
	if wants := run.plan.Settings.Wants; len(wants) > 0 {
		s += fmt.Sprintf(": %s of %s", wants[0].Op, wants[0].Type)
	}
	return fmt.Sprintf("%s over %s, %s", s, spelling.Plural(len(run.plan.Ranks), "rank", "ranks"),
		r.At.UTC().Format("2006-01-02 15:04:05 UTC"))
}

// summary says how a run ended.
func summary(run oneRun) string {
	r := run.result
	var wrong uint64
	var sum float64
	for _, m := range r.Measurements {
		wrong += m.Wrong
		sum += m.BusBW
	}
	var parts []string
	if n := len(r.Measurements); n > 0 {
		parts = append(parts, fmt.Sprintf("average bus bandwidth %.2f GB/s", sum/1e9/float64(n)),
			fmt.Sprintf("%d wrong elements", wrong))
		const large = 64 << 20 // small messages say nothing of the hardware
		if share, ok := r.Expected.Get(); ok && r.Measurements[n-1].Bytes >= large {
			parts = append(parts, fmt.Sprintf("the last one reaches %.0f %% of the hardware limit", 100*share))
		}
	}
	parts = append(parts, "took "+r.Wall.Text(), r.GPUTime.Text()+" of GPU time")
	status := string(r.Outcome)
	if r.Outcome != probes.OK {
		status = strings.ToUpper(status) + " (" + string(r.Failure) + ")"
	}
	return status + ": " + strings.Join(parts, ", ")
}

// writeTrouble says why a run failed, what to do, and what NCCL said last.
func writeTrouble(b *bytes.Buffer, r *probes.Result) {
	fmt.Fprintf(b, "#   %s\n", r.Error)
	if i := r.Intrusion; i != nil {
		fmt.Fprintf(b, "#   the ranks were killed %s after it was detected, and exited after %s\n", i.Killed.Brief(),
			i.Gone.Brief())
	}
	if text := r.ReleaseText(); text != "" {
		fmt.Fprintf(b, "#   GPUs afterwards: %s\n", text)
	}
	if advice := r.Failure.Advice(); advice != "" {
		fmt.Fprintf(b, "#   %s\n", advice)
	}
	const most = 20
	lines := slices.Collect(strings.Lines(r.Log))
	if len(lines) > 0 {
		fmt.Fprintf(b, "#   NCCL's log ends with:\n")
	}
	for _, line := range lines[max(0, len(lines)-most):] {
		fmt.Fprintf(b, "#     %s\n", strings.TrimSuffix(line, "\n"))
	}
}

// reduction is what an operation does with elements of several ranks.
func reduction(op probes.Op) string {
	if slices.Contains([]probes.Op{probes.AllReduce, probes.Reduce, probes.ReduceScatter}, op) {
		return "sum"
	}
	return "none"
}

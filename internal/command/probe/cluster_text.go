// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/cluster"
	"gpufabric_exporter/probes/cluster/search"
	"gpufabric_exporter/probes/plan"
)

// bounds are what a run costs at most.
func bounds(o cluster.Options, nodes int) string {
	size := "unknown"
	if nodes > 0 {
		size = strconv.Itoa(nodes)
	}
	text := fmt.Sprintf("%s nodes; each pair sends %s over each rail and %s over all, both ways, in at most %d rounds; no round begins after %s; seed %d",
		size, probes.SizeText(cluster.Messages*o.RailBytes), probes.SizeText(2*cluster.Messages*o.AllBytes),
		search.RoundsMost, o.Bound, o.Seed)
	if o.AllNodes {
		text += fmt.Sprintf("; then all nodes together, each GPU sends at most %s within %s", probes.SizeText(o.WholeBytes()),
			cluster.WholeBound)
	}
	return text
}

// dryRun prints what this node would take part with.
func (p *probing) dryRun(ctx context.Context, c *command.Call, o cluster.Options, log *slog.Logger) int {
	fmt.Fprintln(c.Stdout, bounds(o, p.flags.cluster.environment().Size()))
	if _, err := p.prepare(ctx, log); err != nil {
		return c.Fail(c.Explain(err))
	}
	m, skipped := plan.NewMember(p.node, p.settings)
	if skipped != nil {
		fmt.Fprintf(c.Stdout, "this node takes no part: %s\n", skipped.Detail)
		return exitUnprobed
	}
	for i, key := range m.Rails {
		fmt.Fprintf(c.Stdout, "rail %d: %s port %d with GPU %s\n", i, key.Device, key.Port, m.ByRail[i].Address)
	}
	fmt.Fprintf(c.Stdout, "all together: %s\n", probes.Counted(len(m.ByGPU), "GPU"))
	return exitProbed
}

func columnName(rail int) string {
	if rail == search.All {
		return "all"
	}
	return fmt.Sprint("rail ", rail)
}

// cell is what a node reached over a rail.
func cell(n *cluster.Node, rail int) string {
	s, ok := n.Shares[rail]
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.3g %3.0f%%", s.BusBW/1e9, 100*s.Ratio)
}

// writeCluster prints what came of a run: what differs, what nodes reached, and what that means.
func writeCluster(w io.Writer, r *cluster.Report) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d of %d nodes came (by %s), %d rounds in %.0f s\n", len(r.Nodes), r.Size, r.By, r.Rounds, r.Wall)
	if len(r.Missing) > 0 {
		fmt.Fprintf(&b, "missing: %s\n", r.MissingText())
	}
	for why, n := range r.Refused {
		fmt.Fprintf(&b, "refused: %s (%s)\n", probes.Counted(n, "connection"), why)
	}
	for _, d := range r.Differences {
		fmt.Fprintf(&b, "differs: %s: %s; most have %s: %s\n", d.What, d.Other, d.Most, strings.Join(d.Nodes, ", "))
	}
	for _, n := range r.Nodes {
		for _, why := range []string{n.Skipped, n.Lost} {
			if why != "" {
				fmt.Fprintf(&b, "%s: %s\n", n.Name, why)
			}
		}
	}
	list := r.Rails()
	if len(list) > 0 {
		fmt.Fprintf(&b, "\nbest bus bandwidth in GB/s, and of the median\n%-20s", "node")
		for _, rail := range list {
			fmt.Fprintf(&b, " %12s", columnName(rail))
		}
		b.WriteByte('\n')
		for i := range r.Nodes {
			fmt.Fprintf(&b, "%-20s", r.Nodes[i].Name)
			for _, rail := range list {
				fmt.Fprintf(&b, " %12s", cell(&r.Nodes[i], rail))
			}
			b.WriteByte('\n')
		}
		b.WriteByte('\n')
	}
	writeWhole(&b, r.AllNodes)
	for _, v := range r.Verdicts {
		fmt.Fprintln(&b, v.Text())
		if said := errorOf(r, v); said != "" {
			fmt.Fprintf(&b, "  %s\n", said)
		}
	}
	switch {
	case r.Error != "":
		fmt.Fprintf(&b, "not finished: %s\n", r.Error)
	case len(r.Verdicts) == 0:
		fmt.Fprintln(&b, "no node, rail or path is slow")
	}
	_, err := w.Write(b.Bytes())
	return err
}

// writeWhole prints what all nodes reached together: a table for each operation.
func writeWhole(b *bytes.Buffer, w *cluster.Whole) {
	switch {
	case w == nil:
		return
	case w.Result == nil:
		fmt.Fprintf(b, "all nodes together: not measured: %s\n\n", w.Skipped)
		return
	}
	path := probes.Word(w.Result.Path, func(p probes.Path) string { return string(p) })
	fmt.Fprintf(b, "all nodes together: %s, %s, path %s\n", probes.Counted(len(w.Nodes), "node"),
		probes.Counted(len(w.Result.GPUs), "rank"), path)
	for list := w.Result.Measurements; len(list) > 0; {
		n := slices.IndexFunc(list, func(m probes.Measurement) bool { return m.Op != list[0].Op })
		if n < 0 {
			n = len(list)
		}
		fmt.Fprintf(b, "# %s\n", list[0].Op)
		writeMeasurements(b, list[:n])
		list = list[n:]
	}
	b.WriteByte('\n')
}

// errorOf is what the first failed measurement says that a verdict is about.
func errorOf(r *cluster.Report, v cluster.Verdict) string {
	for _, d := range r.Results {
		if d.Error != "" && (d.A == v.Node || d.B == v.Node) && (v.Rail < 0 || v.Rail == d.Rail) {
			return d.Error
		}
	}
	return ""
}

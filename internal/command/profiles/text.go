// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/fabric"
)

// writeAll says what this machine is, and what each profile makes of it.
func writeAll(w io.Writer, r *report) error {
	var b strings.Builder
	if is := r.Recognized; is.Profile == "" {
		fmt.Fprintf(&b, "This node has no profile: %s.\n", command.OneLine(is.Text))
	} else {
		fmt.Fprintf(&b, "This node is %s (profile %s): %s.\n", command.OneLine(is.Title), is.Profile, command.OneLine(is.Text))
	}
	fmt.Fprintf(&b, "It shows: %s.\n\n", machineText(r.Machine))
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "profile\tfits\tof\tbecause")
	for i := range r.Profiles {
		p := &r.Profiles[i]
		origin := "the program"
		if p.File != "" {
			origin = "the site"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", p.Name, fitsText(p.Fits), origin, because(p))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, text := range r.LeftOut {
		fmt.Fprintf(&b, "\nLeft out: %s", command.OneLine(text))
	}
	if len(r.LeftOut) > 0 {
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\nConfiguration: %s\n", command.OneLine(r.Configuration.Text))
	b.WriteString("profiles NAME shows one with its sources, profiles --write makes one from this node.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func machineText(m machine) string {
	var parts []string
	for _, v := range m.DMI {
		if v.Value != nil {
			parts = append(parts, v.Name+" "+command.OneLine(*v.Value))
		}
	}
	if len(parts) == 0 {
		parts = []string{"nothing in DMI"}
	}
	for _, g := range m.GPUs {
		parts = append(parts, fmt.Sprintf("%d GPUs %s", g.Number, cmp.Or(g.ID, "of an unknown kind")))
	}
	if len(m.GPUs) == 0 {
		parts = append(parts, "no GPU on the PCI bus")
	}
	return strings.Join(parts, ", ")
}

func fitsText(fits *bool) string {
	switch {
	case fits == nil:
		return "?"
	case *fits:
		return "yes"
	}
	return "no"
}

// because is what fits of the match that does, or of each match the first thing that does not.
func because(p *profile) string {
	var all []string
	for _, m := range p.Match {
		text, fits := m.because()
		if fits {
			return text
		}
		all = append(all, text)
	}
	return strings.Join(all, "; or ")
}

func (m *match) because() (text string, fits bool) {
	var fit []string
	open := ""
	for _, c := range m.Conditions {
		switch {
		case c.Fits == nil:
			open = cmp.Or(open, fmt.Sprintf("%s could not be read (%s)", c.What, c.Reason))
		case !*c.Fits:
			return fmt.Sprintf("%s: %s, expected %s", c.What, found(&c), c.Expected), false
		default:
			fit = append(fit, c.What+": "+command.OneLine(c.Found))
		}
	}
	return cmp.Or(open, strings.Join(fit, ", ")), open == ""
}

func found(c *condition) string { return cmp.Or(command.OneLine(c.Found), "nothing") }

// writeOne shows a profile with where its statements come from.
func writeOne(w io.Writer, p *profile) error {
	var b strings.Builder
	line := func(sources []string, format string, args ...any) {
		fmt.Fprintf(&b, "  "+format+" [%s]\n", append(args, strings.Join(sources, ", "))...)
	}
	fmt.Fprintf(&b, "%s: %s\n", p.Name, command.OneLine(p.Title))
	if p.File != "" {
		fmt.Fprintf(&b, "of the site: %s\n", command.OneLine(p.File))
	}
	fmt.Fprintf(&b, "fits this node: %s\n\nrecognized by\n", fitsText(p.Fits))
	for _, m := range p.Match {
		var parts []string
		for _, c := range m.Conditions {
			parts = append(parts, fmt.Sprintf("%s: %s (here %s)", c.What, c.Expected, found(&c)))
		}
		line(m.Sources, "%s", strings.Join(parts, ", "))
	}
	b.WriteString("\nstates\n")
	if g := p.GPUs; g != nil {
		line(g.Sources, "%d GPUs %s", g.Number, anyOf(g.IDs))
	}
	for _, e := range p.NICs() {
		line(e.Sources, "%s", nicText(&e))
	}
	if p.Cabling.By == fabric.CabledByProvider {
		line(p.Cabling.Sources, "the provider cables: a port without a link is a fault")
	} else {
		b.WriteString("  the site cables: nothing of links and rates\n")
	}
	for _, n := range p.Normal {
		line(n.Sources, "normal: %s", n.What)
	}
	b.WriteString("\nsources\n")
	for _, s := range p.Sources {
		fmt.Fprintf(&b, "  %s\n", command.OneLine(strings.TrimRight(fmt.Sprintf("%s: %s, %s. %s", s.Name, s.Title, s.Date, s.URL), " ")))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func anyOf(ids []fabric.PCIID) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", " or "), "[]")
}

func nicText(e *fabric.ProfileNIC) string {
	text := ""
	for _, part := range []struct {
		stated bool
		text   string
	}{
		{e.Optional, "up to "},
		{true, fmt.Sprintf("%d ports of role %s, chip %s", e.Number, e.Role, anyOf(e.Chips))},
		{e.PortsPerCard > 0, fmt.Sprintf(", %d on a card", e.PortsPerCard)},
		{e.VirtualFunctions, ", virtual functions"},
		{e.LinkLayer != "", ", " + string(e.LinkLayer)},
		{e.Gigabits > 0, fmt.Sprintf(", %v Gb/s", e.Gigabits)},
		{e.Planes > 0, fmt.Sprintf(", %d planes", e.Planes)},
		{e.Near == fabric.NearGPUs, ", spread over the GPUs"},
		{e.Near == fabric.NearNone, ", near no GPU in particular"},
	} {
		if part.stated {
			text += part.text
		}
	}
	return text
}

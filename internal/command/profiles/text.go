// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"gpufabric_exporter/internal/command"
)

// writeAll says what this machine is, and what each profile makes of it.
func writeAll(w io.Writer, r *report) error {
	var b strings.Builder
	switch is := r.Recognized; is.Profile {
	case "":
		fmt.Fprintf(&b, "This node has no profile: %s.\n", command.OneLine(is.Text))
	default:
		fmt.Fprintf(&b, "This node is %s (profile %s): %s.\n", command.OneLine(is.Title), is.Profile, command.OneLine(is.Text))
	}
	fmt.Fprintf(&b, "It shows: %s.\n\n", machineText(r.Machine))
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "profile\tfits\tof\tbecause")
	for i := range r.Profiles {
		p := &r.Profiles[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", p.Name, fitsText(p.Fits), origin(p), because(p))
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

func origin(p *profile) string {
	if p.File != "" {
		return "the site"
	}
	return "the program"
}

// because is what fits of the match that does, or of each match the first thing that does not.
func because(p *profile) string {
	var all []string
	for _, m := range p.Match {
		text := conditionsText(m)
		if m.fits() {
			return text
		}
		all = append(all, text)
	}
	return strings.Join(all, "; or ")
}

func (m *match) fits() bool {
	for _, c := range m.Conditions {
		if c.Fits == nil || !*c.Fits {
			return false
		}
	}
	return true
}

func conditionsText(m match) string {
	var fit []string
	open := ""
	for _, c := range m.Conditions {
		switch {
		case c.Fits == nil:
			open = cmp.Or(open, fmt.Sprintf("%s could not be read (%s)", c.What, c.Reason))
		case !*c.Fits:
			return fmt.Sprintf("%s: %s, expected %s", c.What, cmp.Or(command.OneLine(c.Found), "nothing"), c.Expected)
		default:
			fit = append(fit, c.What+": "+command.OneLine(c.Found))
		}
	}
	return cmp.Or(open, strings.Join(fit, ", "))
}

// writeOne shows a profile with where its statements come from.
func writeOne(w io.Writer, p *profile) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", p.Name, command.OneLine(p.Title))
	if p.File != "" {
		fmt.Fprintf(&b, "of the site: %s\n", command.OneLine(p.File))
	}
	fmt.Fprintf(&b, "fits this node: %s\n", fitsText(p.Fits))
	line := func(sources []string, format string, args ...any) {
		fmt.Fprintf(&b, format+" [%s]\n", append(args, strings.Join(sources, ", "))...)
	}
	b.WriteString("\nrecognized by\n")
	for _, m := range p.Match {
		var parts []string
		for _, c := range m.Conditions {
			parts = append(parts, fmt.Sprintf("%s: %s (here %s)", c.What, c.Expected, cmp.Or(command.OneLine(c.Found), "nothing")))
		}
		line(m.Sources, "  %s", strings.Join(parts, ", "))
	}
	b.WriteString("\nstates\n")
	if g := p.GPUs; g != nil {
		line(g.Sources, "  %d GPUs %s", g.Number, strings.Join(g.IDs, " or "))
	}
	for _, list := range [][]nic{p.Rails, p.Others} {
		for i := range list {
			line(list[i].Sources, "  %s", nicText(&list[i]))
		}
	}
	if p.Cabling.By == "provider" {
		line(p.Cabling.Sources, "  the provider cables: a port without a link is a fault")
	} else {
		b.WriteString("  the site cables: nothing of links and rates\n")
	}
	for _, n := range p.Normal {
		line(n.Sources, "  normal: %s", n.What)
	}
	b.WriteString("\nsources\n")
	for _, s := range p.Sources {
		fmt.Fprintf(&b, "  %s\n", command.OneLine(strings.TrimRight(fmt.Sprintf("%s: %s, %s. %s", s.Name, s.Title, s.Date, s.URL), " ")))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func nicText(n *nic) string {
	text := fmt.Sprintf("%d ports of role %s, chip %s", n.Number, n.Role, strings.Join(n.Chips, " or "))
	if n.Optional {
		text = "up to " + text
	}
	if n.PortsPerCard > 0 {
		text += fmt.Sprintf(", %d on a card", n.PortsPerCard)
	}
	if n.VirtualFunctions {
		text += ", virtual functions"
	}
	if n.LinkLayer != "" {
		text += ", " + n.LinkLayer
	}
	if n.Rate > 0 {
		text += fmt.Sprintf(", %v Gb/s", n.Rate)
	}
	if n.Planes > 0 {
		text += fmt.Sprintf(", %d planes", n.Planes)
	}
	switch n.Near {
	case "gpus":
		text += ", spread over the GPUs"
	case "none":
		text += ", near no GPU in particular"
	}
	return text
}

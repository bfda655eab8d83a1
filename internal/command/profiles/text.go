// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"text/template"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/fabric"
)

// list says what this machine is, and what each profile makes of it. Columns are between tabs.
const list = `{{with .Recognized}}{{if .Profile}}This node is {{line .Title}} (profile {{.Profile}}){{else}}This node has no profile{{end}}: {{line .Text}}.
{{end}}It shows: {{machine .Machine}}.

profile	fits	of	because
{{range .Profiles}}{{.Name}}	{{yes .Fits}}	{{if .File}}the site{{else}}the program{{end}}	{{because .}}
{{end}}
{{- range .LeftOut}}
Left out: {{line .}}
{{- end}}{{if .LeftOut}}
{{end}}
Configuration: {{line .Configuration.Text}}
profiles NAME shows one with its sources, profiles --write makes one from this node.
`

// one shows a profile with where its statements come from.
const one = `{{define "from"}} [{{join .Sources ", "}}]{{end -}}
{{.Name}}: {{line .Title}}
{{with .File}}of the site: {{line .}}
{{end}}fits this node: {{yes .Fits}}

recognized by
{{range .Match}}  {{range $i, $c := .Conditions}}{{if $i}}, {{end}}{{.What}}: {{.Expected}} (here {{found .Found}}){{end}}{{template "from" .}}
{{end}}
states
{{with .GPUs}}  {{.Number}} GPUs {{any .IDs}}{{template "from" .}}
{{end}}
{{- range .NICs}}  {{if .Optional}}up to {{end}}{{.Number}} ports of role {{.Role}}, chip {{any .Chips}}
{{- with .PortsPerCard}}, {{.}} on a card{{end}}{{if .VirtualFunctions}}, virtual functions{{end}}
{{- with .LinkLayer}}, {{.}}{{end}}{{with .Gigabits}}, {{.}} Gb/s{{end}}
{{- if eq .Near "gpus"}}, spread over the GPUs{{else if .Near}}, near no GPU in particular{{end}}{{template "from" .}}
{{end}}
{{- with .Cabling}}{{if eq .By "provider"}}  the provider cables: a port without a link is a fault{{template "from" .}}
{{else}}  the site cables: nothing of links and rates
{{end}}{{end}}
{{- range .Normal}}  normal: {{.What}}{{template "from" .}}
{{end}}
sources
{{range .Sources}}  {{line .Name}}: {{line .Title}}, {{line .Date}}.{{with .URL}} {{line .}}{{end}}
{{end}}`

// write fills in a text.
func write(w io.Writer, text string, of any) error {
	t := template.New("").Funcs(template.FuncMap{
		"line": command.OneLine, "join": func(s []string, between string) string { return strings.Join(s, between) },
		"machine": machineText, "yes": fitsText, "because": because, "found": found,
		"any": func(ids []fabric.PCIID) string {
			return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", " or "), "[]")
		},
	})
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if err := template.Must(t.Parse(text)).Execute(columns, of); err != nil {
		return err
	}
	return columns.Flush()
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
	if fits == nil {
		return "?"
	}
	return map[bool]string{true: "yes", false: "no"}[*fits]
}

func found(s string) string { return cmp.Or(command.OneLine(s), "nothing") }

// because is what fits of the match that does, or of each match the first thing that does not.
func because(p profile) string {
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
			return fmt.Sprintf("%s: %s, expected %s", c.What, found(c.Found), c.Expected), false
		default:
			fit = append(fit, c.What+": "+command.OneLine(c.Found))
		}
	}
	return cmp.Or(open, strings.Join(fit, ", ")), open == ""
}

// SPDX-License-Identifier: Apache-2.0

package command

import (
	"slices"
	"strings"
	"text/template"

	"github.com/alecthomas/kingpin/v2"
)

// setUsage has --help of a command list its own flags first, and of the shared ones those that it takes. The
// groups must be defined.
func (p *parser) setUsage() {
	const all = "{{if .Context.Flags -}}\nFlags:\n{{.Context.Flags|FlagsToTwoColumns|FormatTwoColumns}}\n{{end -}}\n"
	const ofCommand = "{{if .Context.SelectedCommand -}}\n" +
		"{{with .Context.SelectedCommand.Flags}}Flags:\n{{.|FlagsToTwoColumns|FormatTwoColumns}}\n{{end -}}\n" +
		"Shared flags:\n{{SharedFlags .App .Context.SelectedCommand|FlagsToTwoColumns|FormatTwoColumns}}\n" +
		"{{else -}}\n" + all + "{{end -}}\n"
	p.app.UsageTemplate(strings.Replace(kingpin.DefaultUsageTemplate, all, ofCommand, 1))
	p.app.UsageFuncs(template.FuncMap{
		"SharedFlags": func(app *kingpin.ApplicationModel, c *kingpin.CmdModel) []*kingpin.FlagModel {
			return slices.DeleteFunc(slices.Clone(app.Flags), func(f *kingpin.FlagModel) bool {
				group, chosen := p.group[f.Name], p.command(c.Name)
				return group != nil && chosen != nil && !chosen.takes(group, f.Name, false)
			})
		},
	})
}

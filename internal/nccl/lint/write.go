// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// WriteSuggestions prints settings as lines of a format, each below a comment with the reason and the source.
// One without a value is a comment alone. Whatever a value has, the format reads it as it is; one that cannot
// be written in all formats is left out, and a comment says so.
func WriteSuggestions(w io.Writer, list []Suggestion, format Format) error {
	indent, b := "", new(strings.Builder)
	switch format {
	case FormatManifest:
		indent = "  "
		b.WriteString("env:\n")
	case FormatPython:
		b.WriteString("import os\n\n")
	}
	for i, s := range list {
		if i > 0 && format != FormatManifest {
			b.WriteByte('\n')
		}
		fmt.Fprintf(b, "%s# %s\n", indent, comment(s.Reason))
		if s.Source != "" {
			fmt.Fprintf(b, "%s# Source: %s\n", indent, comment(s.Source))
		}
		switch {
		case s.Value == "":
		case strings.ContainsAny(s.Name, "+=") || !isAssignment(s.Name+"=") ||
			strings.ContainsFunc(s.Value, fabric.Unprintable):
			fmt.Fprintf(b, "%s# Left out: its name or value has characters that not every format can have.\n", indent)
		default:
			b.WriteString(assignment(s, format))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// comment is a text that stays on its line, whatever ends a line in one of the formats.
func comment(s string) string {
	return strings.Map(func(r rune) rune {
		if fabric.Unprintable(r) {
			return ' '
		}
		return r
	}, s)
}

// assignment is the line of a setting in a format.
func assignment(s Suggestion, format Format) string {
	switch format {
	case FormatConf:
		return s.Name + "=" + s.Value + "\n"
	case FormatEnv:
		return s.Name + "=" + quoted(s.Value) + "\n"
	case FormatManifest: // Kubernetes replaces $(NAME), and $$ stands for $
		pod := ""
		if s.PerJob {
			pod = "  # The pod mounts " + comment(s.Value) + " of its node (hostPath) there, with subPathExpr: $(POD_UID).\n" +
				"  - name: POD_UID\n    valueFrom: {fieldRef: {fieldPath: metadata.uid}}\n"
		}
		return pod + "  - name: " + s.Name + "\n    value: " + strconv.Quote(strings.ReplaceAll(s.Value, "$(", "$$(")) + "\n"
	case FormatPython:
		return "os.environ[" + strconv.Quote(s.Name) + "] = " + strconv.Quote(s.Value) + "\n"
	}
	ofJob := strings.TrimPrefix(s.ValueIn(format), s.Value) // which the shell expands
	return "export " + s.Name + "=" + quoted(s.Value) + ofJob + "\n"
}

// quoted is a value as shells and systemd read it. One that begins with = or ~ is a command or a home folder
// to some shells.
func quoted(value string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:/%@+-=^"
	switch {
	case strings.Trim(value, plain) == "" && value[0] != '=' && value[0] != '^':
		return value
	case !strings.ContainsAny(value, "\"$`\\!"):
		return `"` + value + `"`
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}

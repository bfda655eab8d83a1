// SPDX-License-Identifier: Apache-2.0

// Package drawing draws a node as SVG from its status document: a panel for each NUMA node with its PCIe
// switches, GPUs, NICs and the way from each GPU to its NIC; a panel for NVLink; the history of a probe.
//
// A panel is 360 units wide, and as high as it has rows: a page puts them beside each other, or on a narrow
// screen below each other. All texts are escaped, and cut where their box ends. Colours are those of the
// page's style, by class; each status also has a mark, and what is unknown has dashed lines. Parts are links
// to their ID. Functions are pure.
package drawing

import (
	"fmt"
	"html"
	"html/template"
	"strings"
	"unicode/utf8"

	"gpufabric_exporter/internal/status"
)

// Sizes in units of the drawing.
const (
	width     = 360
	textSize  = 12
	charWidth = 7.3 // of small text, on average in a wide font
	boldWidth = 8.4 // of names
)

// Mark is the sign of a status, for readers who do not see its colour.
func Mark(p *status.Part) string {
	switch p.Status {
	case status.StatusOK:
		return "✓"
	case status.StatusFailed:
		if Class(p) == "warned" {
			return "!"
		}
		return "✕"
	case status.StatusUnknown:
		return "?"
	case status.StatusPartly:
		return "(✓)"
	}
	return ""
}

// Class is the class of a part in the style.
func Class(p *status.Part) string {
	switch {
	case p.Status == status.StatusFailed && p.Severity != "critical":
		return "warned"
	default:
		return p.Status
	}
}

// Words is the status of a part in words.
func Words(p *status.Part) string {
	switch p.Status {
	case status.StatusOK:
		return "ok"
	case status.StatusFailed:
		return p.Severity
	case status.StatusUnknown:
		return "unknown"
	case status.StatusPartly:
		return "ok as far as it could be checked"
	}
	return "not checked: no check applies"
}

// canvas writes SVG.
type canvas struct {
	strings.Builder
	height float64
}

// svg returns the drawing, with a name for screen readers.
func (c *canvas) svg(name string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %d %.0f" role="group" aria-label="%s">`, width, c.height, html.EscapeString(name)) + //nolint:gosec // all texts are escaped
		c.String() + "</svg>")
}

func (c *canvas) rect(class string, x, y, w, h float64) {
	fmt.Fprintf(c, `<rect class="%s" x="%.0f" y="%.0f" width="%.0f" height="%.0f" rx="5"/>`, class, x, y, w, h)
}

// text writes a text that ends before it is wider than w.
func (c *canvas) text(class string, x, y, w float64, s string) {
	char := charWidth
	if strings.Contains(class, "name") {
		char = boldWidth
	}
	fmt.Fprintf(c, `<text class="%s" x="%.0f" y="%.0f">%s</text> `, class, x, y, html.EscapeString(fit(s, int(w/char))))
}

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(c, `<path class="%s" d="M%.0f %.0fL%.0f %.0f"/>`, class, x1, y1, x2, y2)
}

// elbow writes a line that changes its height at x.
func (c *canvas) elbow(class string, x1, y1, x, x2, y2 float64) {
	fmt.Fprintf(c, `<path class="%s" d="M%.0f %.0fH%.0fV%.0fH%.0f"/>`, class, x1, y1, x, y2, x2)
}

// box draws a part as a link: its name, lines of text and its mark. Words are for screen readers.
func (c *canvas) box(p *status.Part, class, mark string, x, y, w, h float64, words string, lines ...string) {
	seen := []string{fit(p.Name, int((w-34)/boldWidth))}
	for _, line := range lines {
		seen = append(seen, fit(line, int((w-12)/charWidth)))
	}
	fmt.Fprintf(c, `<a href="#%s" aria-label="%s">`, html.EscapeString(p.ID),
		html.EscapeString(strings.Join(append(seen, mark, words), " ")))
	c.rect("part "+class, x, y, w, h)
	c.text("name", x+8, y+17, w-34, p.Name)
	for i, line := range lines {
		c.text("small", x+8, y+33+float64(i)*portLine, w-12, line)
	}
	if mark != "" {
		c.text("mark "+class, x+w-16, y+17, 60, mark)
	}
	c.WriteString("</a>")
}

// fit cuts a text to a number of characters. Those that may be wide count twice.
func fit(s string, most int) string {
	used := 0
	for i, r := range s {
		w := 1
		if r >= 0x1100 {
			w = 2
		}
		if used+w > most {
			for used >= most && i > 0 { // room for the ellipsis
				_, size := utf8.DecodeLastRuneInString(s[:i])
				i -= size
				used--
			}
			return s[:i] + "…"
		}
		used += w
	}
	return s
}

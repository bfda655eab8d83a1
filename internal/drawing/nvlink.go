// SPDX-License-Identifier: Apache-2.0

package drawing

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/internal/status"
)

// maxCircle is the largest number of GPUs whose links without a switch are drawn; the lines between more are
// not legible.
const maxCircle = 10

// HasNVLink reports whether there is something to draw.
func HasNVLink(d *status.Document) bool { return d.NVLink.Kind != status.NVLinkNone }

// NVLink draws how NVLinks join the GPUs.
func NVLink(d *status.Document) template.HTML {
	c := &canvas{height: heading + 8}
	title := "NVLink: " + map[string]string{
		status.NVLinkSwitch: "through NVSwitches", status.NVLinkMesh: "each GPU with each other",
		status.NVLinkSome:    "between some GPUs",
		status.NVLinkUnknown: "unknown",
	}[d.NVLink.Kind]
	c.text("name", 8, 17, 340, title)
	switch {
	case d.NVLink.Kind == status.NVLinkSwitch:
		c.switched(d)
	case d.NVLink.Kind == status.NVLinkUnknown:
		c.rect("part unknown", 14, c.height, width-28, boxHeight)
		c.text("small", 24, c.height+24, 300, "The GPU driver does not report NVLinks.")
		c.height += boxHeight + gap
	case len(d.GPUs) <= maxCircle:
		c.circle(d)
	default:
		c.text("small", 14, c.height+12, 340, fmt.Sprintf("%d direct connections of %d GPUs; see the GPUs",
			len(d.NVLink.Links), len(d.GPUs)))
		c.height += heading
	}
	return c.svg(title)
}

// switched draws GPUs in two columns with the switches between them.
func (c *canvas) switched(d *status.Document) {
	const boxWidth, left, right, hub = 112.0, 14.0, width - 126.0, width/2 - 22.0
	shown := d.GPUs[:min(len(d.GPUs), 2*maxRows)]
	half := (len(shown) + 1) / 2
	top := c.height
	for i := range shown {
		g := &shown[i]
		x, end, y := left, left+boxWidth, top+float64(i%half)*(boxHeight+gap)
		from, to := end, hub
		if i >= half {
			x, from, to = right, right, hub+44
		}
		class := "way nvlink " + g.NVLinkOK
		c.line(class, from, y+boxHeight/2, to, y+boxHeight/2)
		c.gpu(g, x, y, boxWidth)
	}
	c.height = top + float64(half)*(boxHeight+gap)
	c.rect("hub", hub, top, 44, c.height-top-gap)
	fmt.Fprintf(c,
		`<text class="small" text-anchor="middle" transform="translate(%.0f %.0f) rotate(-90)">NVSwitch</text>`, hub+26,
		(top+c.height-gap)/2)
}

// gpu draws a GPU by its links.
func (c *canvas) gpu(g *status.GPU, x, y, w float64) {
	text := strings.TrimPrefix(nvlinkText(g), "NVLink ")
	class := g.NVLinkOK
	if g.Presence == status.PresenceLost {
		text, class = "lost", status.StatusFailed
	}
	part := status.Part{ID: g.ID, Name: g.Name, Status: class, Severity: "critical"}
	if text == "?" {
		text = "unknown"
	}
	if w > 80 && g.NVLinksOf > 0 && text != "lost" && text != "unknown" {
		text += " active"
	}
	c.box(&part, class, Mark(&part), x, y, w, boxHeight, "NVLinks", text)
}

// circle draws GPUs in a circle with a line for each connection.
func (c *canvas) circle(d *status.Document) {
	const boxWidth = 70.0
	n := float64(len(d.GPUs))
	rx, ry := width/2-boxWidth/2-14, max(60, n*13)
	cx, cy := width/2.0, c.height+ry+boxHeight/2
	type place struct{ x, y float64 }
	places := map[string]place{}
	for i := range d.GPUs {
		angle := 2*math.Pi*(float64(i)+0.5)/n - math.Pi/2
		places[d.GPUs[i].ID] = place{cx + rx*math.Cos(angle), cy + ry*math.Sin(angle)}
	}
	for _, l := range d.NVLink.Links {
		a, b := places[l.A], places[l.B]
		c.line("way nvlink ok", a.x, a.y, b.x, b.y)
	}
	if d.NVLink.Kind == status.NVLinkSome {
		for _, l := range d.NVLink.Links {
			a, b := places[l.A], places[l.B]
			c.text("small", (a.x+b.x)/2+4, (a.y+b.y)/2-4, 60, strconv.Itoa(l.Active)+" links")
		}
	}
	for i := range d.GPUs {
		p := places[d.GPUs[i].ID]
		c.gpu(&d.GPUs[i], p.x-boxWidth/2, p.y-boxHeight/2, boxWidth)
	}
	c.height = cy + ry + boxHeight/2 + gap
}

// History draws the results of a probe, oldest first; empty where there are fewer than two.
func History(p *status.Probe) template.HTML {
	if len(p.History) < 2 {
		return ""
	}
	const w, h = 160.0, 32.0
	least, most := p.History[0].Value, p.History[0].Value
	for _, s := range p.History {
		least, most = min(least, s.Value), max(most, s.Value)
	}
	floor := max(0, least-(most-least)/4-most/50) // a line of equal results is not at the bottom
	span := max(most-floor, 1)
	var points strings.Builder
	var x, y float64
	for i, s := range p.History {
		x, y = 3+(w-6)*float64(i)/float64(len(p.History)-1), h-3-(h-6)*(s.Value-floor)/span
		fmt.Fprintf(&points, "%.1f,%.1f ", x, y)
	}
	last := p.History[len(p.History)-1]
	name := fmt.Sprintf("%d results since %s: lowest %.2f, highest %.2f, last %.2f GB/s", len(p.History),
		p.History[0].Time.UTC().Format(time.DateTime), least/1e9, most/1e9, last.Value/1e9)
	return template.HTML(fmt.Sprintf(`<svg class="history" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s"><title>%s</title><polyline points="%s"/><circle class="%s" cx="%.1f" cy="%.1f" r="3"/></svg>`, //nolint:gosec // all texts are escaped
		w, h, html.EscapeString(name), html.EscapeString(name), strings.TrimSpace(points.String()),
		html.EscapeString(p.Status), x, y))
}

// Pattern defines the hatching of what is unknown: once in a page, before the drawings.
func Pattern() template.HTML {
	return `<svg class="pattern" width="0" height="0" aria-hidden="true" focusable="false"><defs><pattern id="hatching" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0V6"/></pattern></defs></svg>`
}

// SPDX-License-Identifier: Apache-2.0

package drawing

import (
	"encoding/xml"
	"errors"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/status"
)

// node is a document of GPUs and devices in pairs below switches, on two NUMA nodes.
func node(gpus, devices int) *status.Document {
	d := &status.Document{NVLink: status.NVLink{Kind: status.NVLinkSwitch}}
	for i := range 2 {
		d.NUMANodes = append(d.NUMANodes, status.NUMANode{ID: fmt.Sprintf("numa-%d", i), Number: &i})
	}
	for i := range 8 {
		d.Groups = append(d.Groups, status.Group{ID: fmt.Sprintf("group-%d", i), NUMANode: fmt.Sprintf("numa-%d", i/4), Switch: "0000:16:00.0"})
	}
	rate, state, role, distance, links := 5e10, "active", "compute", "PIX", 18
	for i := range devices {
		d.Devices = append(d.Devices, status.Device{
			Part:  status.Part{ID: fmt.Sprintf("device-%d", i), Name: fmt.Sprintf("mlx5_%d", i), Status: status.StatusOK},
			Group: fmt.Sprintf("group-%d", i%8),
			Ports: []status.Port{{Number: 1, State: known(state), Rate: known(rate), Role: known(role)}},
		})
	}
	for i := range gpus {
		d.GPUs = append(d.GPUs, status.GPU{
			Part: status.Part{ID: fmt.Sprintf("gpu-%d", i), Name: fmt.Sprintf("GPU%d", i), Status: status.StatusOK}, Group: fmt.Sprintf("group-%d", i%8), NVLinkOK: status.StatusOK,
			NVLinks: known(links), NVLinksOf: 18,
			Path: status.Path{Device: fmt.Sprintf("mlx5_%d", i), DeviceID: fmt.Sprintf("device-%d", i), Status: status.StatusOK, Distance: known(distance)},
		})
	}
	return d
}

// drawn is what a panel has.
type drawn struct {
	links  map[string]int // boxes by the ID that they lead to
	texts  []string
	boxes  [][4]float64 // of parts: left, top, right, bottom
	labels [][4]float64 // texts outside of parts
	lines  [][4]float64
	in     bool // a part
	height float64
}

// read reads a panel as XML, and fails where something is outside of it or boxes of parts overlap.
func read(t *testing.T, svg template.HTML) drawn {
	t.Helper()
	to := drawn{links: map[string]int{}}
	decoder := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v: %s", err, svg)
		}
		switch e := token.(type) {
		case xml.CharData:
			if text := strings.TrimSpace(string(e)); text != "" {
				to.texts = append(to.texts, text)
				if n := len(to.labels) - 1; !to.in && n >= 0 {
					to.labels[n][2] = to.labels[n][0] + 6.2*float64(utf8.RuneCountInString(text))
				}
			}
		case xml.EndElement:
			to.in = to.in && e.Name.Local != "a"
		case xml.StartElement:
			a := map[string]string{}
			for _, x := range e.Attr {
				a[x.Name.Local] = x.Value
			}
			to.element(t, e.Name.Local, a)
		}
	}
	for i, a := range to.boxes {
		for _, b := range to.boxes[:i] {
			if a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3] {
				t.Errorf("boxes overlap: %v %v", a, b)
			}
		}
	}
	return to
}

func (to *drawn) element(t *testing.T, name string, a map[string]string) {
	t.Helper()
	number := func(key string) float64 { v, _ := strconv.ParseFloat(a[key], 64); return v }
	switch name {
	case "svg":
		if _, err := fmt.Sscanf(a["viewBox"], "0 0 360 %f", &to.height); err != nil || a["aria-label"] == "" {
			t.Errorf("%v", a)
		}
	case "path":
		to.lines = append(to.lines, segments(t, a["d"])...)
	case "a":
		to.in = true
		to.links[strings.TrimPrefix(a["href"], "#")]++
		if a["aria-label"] == "" {
			t.Errorf("a part without a name: %v", a)
		}
	case "rect":
		box := [4]float64{number("x"), number("y"), number("x") + number("width"), number("y") + number("height")}
		if box[0] < 0 || box[1] < 0 || box[2] > width || box[3] > to.height {
			t.Errorf("outside of %v: %v", to.height, box)
		}
		if strings.HasPrefix(a["class"], "part ") {
			to.boxes = append(to.boxes, box)
		}
	case "text":
		if a["transform"] == "" && (number("x") < 0 || number("x") > width || number("y") > to.height) {
			t.Errorf("outside: %v", a)
		}
		if !to.in {
			to.labels = append(to.labels, [4]float64{number("x"), number("y") - 8, number("x"), number("y") + 2})
		}
	case "script", "style", "image", "foreignObject":
		t.Errorf("element %s", name)
	}
}

// segments are the lines of a path.
func segments(t *testing.T, d string) [][4]float64 {
	t.Helper()
	var x1, y1, x, y, x2 float64
	if _, err := fmt.Sscanf(d, "M%f %fL%f %f", &x1, &y1, &x, &y); err == nil {
		return [][4]float64{{x1, y1, x, y}}
	}
	if _, err := fmt.Sscanf(d, "M%f %fH%fV%fH%f", &x1, &y1, &x, &y, &x2); err != nil {
		t.Errorf("path %q: %v", d, err)
	}
	return [][4]float64{{x1, y1, x, y1}, {x, y1, x, y}, {x, y, x2, y}}
}

// crosses reports whether a line, which is horizontal or vertical, and a rectangle have a point in common.
func crosses(line, box [4]float64) bool {
	return min(line[0], line[2]) < box[2] && box[0] < max(line[0], line[2])+.1 && min(line[1], line[3]) < box[3] && box[1] < max(line[1], line[3])+.1
}

// Lines cross no text, wherever the NIC of a GPU is.
func TestLinesCrossNoText(t *testing.T) {
	below := node(8, 8) // as in a GB200 tray: GPUs below no switch, each NIC below its own
	below.Groups = append(below.Groups, status.Group{ID: "bare-0", NUMANode: "numa-0"}, status.Group{ID: "bare-1", NUMANode: "numa-1"})
	shared := node(8, 8)
	missing := node(8, 8)
	for i := range 8 {
		below.GPUs[i].Group = fmt.Sprintf("bare-%d", i/4)
		shared.GPUs[i].Group, shared.GPUs[i].Path.DeviceID = fmt.Sprintf("group-%d", i/2*2), fmt.Sprintf("device-%d", i/2*2)
		missing.GPUs[i].Path.DeviceID, missing.GPUs[i].Path.Status = "", status.StatusFailed
	}
	blocked := node(8, 8)
	for i := range 8 {
		blocked.GPUs[i].Group, blocked.GPUs[i].Path.Status = fmt.Sprintf("group-%d", i/4*4), status.StatusFailed
	}
	for name, d := range map[string]*status.Document{"beside": node(8, 8), "below": below, "shared": shared, "elsewhere": missing, "blocked": blocked} {
		for i := range d.NUMANodes {
			p := read(t, NUMA(d, &d.NUMANodes[i]))
			for _, line := range p.lines {
				if line[0] != line[2] && line[1] != line[3] {
					t.Errorf("%s: %v is oblique", name, line)
				}
				for _, label := range p.labels {
					if crosses(line, label) {
						t.Errorf("%s: %v crosses the text at %v", name, line, label)
					}
				}
			}
			for k, a := range p.labels {
				for _, b := range p.labels[:k] {
					if a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3] {
						t.Errorf("%s: texts overlap: %v %v", name, a, b)
					}
				}
			}
		}
	}
}

// The line from a GPU to its NIC has the status of the NIC if that has no active port, else that of the path.
func TestWay(t *testing.T) {
	down, active := known("down"), known("active")
	for name, c := range map[string]struct {
		edit func(*status.Document)
		want string
	}{
		"healthy": {func(*status.Document) {}, "ok"},
		"down": {func(d *status.Document) {
			d.Devices[0].Status, d.Devices[0].Severity, d.Devices[0].Ports[0].State = status.StatusFailed, "critical", down
		}, "failed"},
		"down, warned": {func(d *status.Document) {
			d.Devices[0].Status, d.Devices[0].Severity, d.Devices[0].Ports[0].State = status.StatusFailed, "warning", down
		}, "warned"},
		"not cabled": {func(d *status.Document) { d.Devices[0].Ports[0].State = down }, "none"},
		"one of two": {func(d *status.Document) { d.Devices[0].Ports = []status.Port{{State: down}, {State: active}} }, "ok"},
		"unknown":    {func(d *status.Document) { d.Devices[0].Ports[0].State = status.Fact[string]{} }, "unknown"},
		"EFA": {func(d *status.Document) {
			d.Devices[0].Ports[0].State = unknown[string](driverConstant)
		}, "ok"},
		"ACS": {func(d *status.Document) {
			d.GPUs[0].Path.Status, d.GPUs[0].Path.Severity = status.StatusFailed, "warning"
		}, "warned"},
		"no module": {func(d *status.Document) {
			d.GPUs[0].Path.Status, d.GPUs[0].Path.Severity = status.StatusFailed, "critical"
		}, "failed"},
	} {
		d := node(1, 1)
		c.edit(d)
		if svg := string(NUMA(d, &d.NUMANodes[0])); strings.Count(svg, `class="way `) != 1 || !strings.Contains(svg, `class="way `+c.want+`"`) {
			t.Errorf("%s: expected %s: %s", name, c.want, svg)
		}
	}
}

// Each GPU and each device is drawn once, alone or in a box of several.
func TestNUMA(t *testing.T) {
	for _, size := range []struct{ gpus, devices, drawn, most int }{
		{8, 8, 8, 400}, {8, 10, 10, 500}, {4, 2, 2, 400}, {0, 3, 3, 400}, {8, 128, 8, 700}, {128, 128, 64, 1900}, {0, 0, 0, 40}, {16, 2, 2, 600},
	} {
		d := node(size.gpus, size.devices)
		gpus, devices := 0, 0
		for i := range d.NUMANodes {
			svg := NUMA(d, &d.NUMANodes[i])
			p := read(t, svg)
			for id, n := range p.links {
				switch {
				case n != 1 && id != "devices":
					t.Errorf("%v: %s is drawn %d times", size, id, n)
				case strings.HasPrefix(id, "gpu-"):
					gpus++
				case strings.HasPrefix(id, "device-"):
					devices++
				}
			}
			if int(p.height) > size.most || len(svg) > 40<<10 {
				t.Errorf("%v: %v high, %d bytes", size, p.height, len(svg))
			}
		}
		if gpus != min(size.gpus, 2*maxRows) || devices != size.drawn {
			t.Errorf("%v: %d GPUs, %d devices", size, gpus, devices)
		}
	}
}

// On a flat bus no GPU has a NIC of its own: ports for training are drawn all the same, by NUMA node.
func TestFlatBus(t *testing.T) {
	d := node(8, 8)
	d.Groups = []status.Group{{ID: "group-0", NUMANode: "numa-0"}, {ID: "group-1", NUMANode: "numa-1"}}
	for i := range 8 {
		d.GPUs[i].Group, d.Devices[i].Group = fmt.Sprint("group-", i/4), fmt.Sprint("group-", i/4)
		d.GPUs[i].Path = status.Path{Status: status.StatusUnknown, Distance: status.Fact[string]{}}
	}
	for i := range d.NUMANodes {
		p := read(t, NUMA(d, &d.NUMANodes[i]))
		for k := 4 * i; k < 4*i+4; k++ {
			if p.links[fmt.Sprint("device-", k)] != 1 || p.links[fmt.Sprint("gpu-", k)] != 1 {
				t.Errorf("panel %d draws %v", i, p.links)
			}
		}
	}
}

// A problem is always drawn, with a mark and a word beside its colour; what is unknown is drawn as unknown.
func TestProblemsAreDrawn(t *testing.T) {
	d := node(8, 128)
	down := "down"
	d.Devices[120].Status, d.Devices[120].Severity = status.StatusFailed, "critical"
	d.Devices[120].Ports[0].State.Value = down
	d.GPUs[0].Presence = status.PresenceUnknown
	d.GPUs[0].Status, d.GPUs[0].NVLinkOK, d.GPUs[0].NVLinks = status.StatusUnknown, status.StatusUnknown, status.Fact[int]{}
	d.GPUs[0].Path.Status, d.GPUs[0].Path.Distance = status.StatusUnknown, status.Fact[string]{}
	d.GPUs[1].Path.Status, d.GPUs[1].Path.Severity = status.StatusFailed, "critical"
	d.GPUs[2].Path.Device, d.GPUs[2].Path.DeviceID = "mlx5_7", "device-7" // of the other NUMA node
	svg := string(NUMA(d, &d.NUMANodes[0]))
	p := read(t, template.HTML(svg))
	all := strings.Join(p.texts, "\n")
	for _, want := range []string{"mlx5_120\ndown compute\n✕", "GPU0\nunknown\n?", "\nunknown\nPIX\nGDR ✕", "to mlx5_7"} {
		if !strings.Contains(all, want) {
			t.Errorf("lacks %q:\n%s", want, all)
		}
	}
	for _, want := range []string{`class="part failed"`, `class="part unknown"`, `class="way failed"`, `class="way unknown"`, `✕ critical"`, `? unknown, way to`} {
		if !strings.Contains(svg, want) {
			t.Errorf("lacks %q", want)
		}
	}
}

func TestNVLink(t *testing.T) {
	d := node(8, 8)
	d.GPUs[5].NVLinkOK, d.GPUs[6].Presence = status.StatusFailed, status.PresenceLost
	svg := string(NVLink(d))
	p := read(t, template.HTML(svg))
	if len(p.links) != 8 || strings.Count(svg, `class="part failed"`) != 2 || !strings.Contains(svg, "NVSwitch") {
		t.Error(svg)
	}
	for _, n := range []int{2, 4, 8, maxCircle} {
		d := node(n, 0)
		d.NVLink.Kind = status.NVLinkMesh
		for a := range n {
			for b := range a {
				d.NVLink.Links = append(d.NVLink.Links, status.Link{A: fmt.Sprintf("gpu-%d", b), B: fmt.Sprintf("gpu-%d", a), Active: 6})
			}
		}
		svg := string(NVLink(d))
		if p := read(t, template.HTML(svg)); len(p.links) != n || strings.Count(svg, "way nvlink") != n*(n-1)/2 {
			t.Errorf("%d GPUs: %s", n, svg)
		}
	}
	big := node(128, 0)
	if p := read(t, NVLink(big)); len(p.links) != 2*maxRows {
		t.Errorf("%d of 128 GPUs", len(p.links))
	}
	big.NVLink.Kind = status.NVLinkUnknown
	if !strings.Contains(string(NVLink(big)), `class="part unknown"`) {
		t.Error("unknown is not drawn as unknown")
	}
}

func TestHistory(t *testing.T) {
	p := &status.Probe{Status: status.StatusFailed}
	if History(p) != "" {
		t.Error("a line of nothing")
	}
	for i, v := range []float64{44e9, 44.1e9, 30e9} {
		p.History = append(p.History, status.Sample{Time: time.Unix(int64(1_700_000_000+i), 0), Value: v})
	}
	svg := string(History(p))
	for _, want := range []string{"3 results since 2023-11-14 22:13:20: lowest 30.00, highest 44.10, last 30.00 GB/s", `class="failed"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("lacks %q: %s", want, svg)
		}
	}
	for i := range p.History {
		p.History[i].Value = 0
	}
	if strings.Contains(string(History(p)), "NaN") {
		t.Error(History(p))
	}
}

// Names add no elements to a drawing and do not extend beyond their box.
func FuzzNames(f *testing.F) {
	f.Add(`</text><script>alert(1)</script>`, `"onload="x`)
	f.Add("שלום עולם", "機器機器機器機器機器機器機器")
	f.Fuzz(func(t *testing.T, name, other string) {
		d := node(2, 3)
		valid := func(s string) string { // as the document has it
			return strings.Map(func(r rune) rune {
				if r < ' ' || r == 0xfffe || r == 0xffff {
					return '\uFFFD'
				}
				return r
			}, strings.ToValidUTF8(s, "\uFFFD"))
		}
		d.GPUs[0].Name, d.Devices[0].Name, d.GPUs[1].Path.Device = valid(name), valid(name), valid(other)
		d.Devices[1].Ports[0].State.Value = valid(other)
		for i := range d.NUMANodes {
			read(t, NUMA(d, &d.NUMANodes[i]))
		}
		read(t, NVLink(d))
	})
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{{"mlx5_0", 6, "mlx5_0"}, {"mlx5_10", 6, "mlx5_…"}, {"機器機器", 6, "機器…"}, {"", 3, ""}, {"abc", 0, "…"}} {
		if got := fit(c.text, c.most); got != c.want {
			t.Errorf("fit(%q, %d) = %q", c.text, c.most, got)
		}
	}
}

// Critical parts and warnings differ by more than their colour.
func TestMarks(t *testing.T) {
	critical, warned := Mark(&status.Part{Status: status.StatusFailed, Severity: "critical"}), Mark(&status.Part{Status: status.StatusFailed, Severity: "warning"})
	if critical != "✕" || warned != "!" {
		t.Errorf("critical is %q, a warning %q", critical, warned)
	}
}

// The tile of a port whose driver gives no state, as EFA's, has its rate: the mark beside it says that more
// is not known.
func TestPortText(t *testing.T) {
	stateless := unknown[string](driverConstant)
	rate := known(12.5e9)
	for want, p := range map[string]status.Port{
		"100 Gb/s":      {State: stateless, Rate: rate},
		"no state":      {State: stateless},
		"down":          {State: known("down"), Rate: rate},
		"in a pod":      {State: unknown[string]("moved"), Rate: rate},
		"state unknown": {State: unknown[string]("stuck"), Rate: rate},
	} {
		if got := portText(&p); got != want {
			t.Errorf("%+v: %q, expected %q", p, got, want)
		}
	}
}

func known[T any](v T) status.Fact[T] {
	return status.Fact[T]{Fact: fabric.Fact[T]{State: fabric.OK, Value: v}}
}

func unknown[T any](why fabric.Reason) status.Fact[T] {
	return status.Fact[T]{Fact: fabric.Fact[T]{Reason: why}}
}

// SPDX-License-Identifier: Apache-2.0

package document

import (
	"bytes"
	"fmt"
	"html/template"
	"strings"
	"testing"
)

// whole is a document with a text in each place that one can have.
func whole(name string) *Document {
	s := Section{Title: name}
	s.Say(name)
	s.Say(Code(name), " and ", Strong(name), ": ", Link(name, "https://example.com/"))
	s.List(Line(name), Line(Code(name)), Line(Strong(name)))
	s.Table(Table{Head: []string{name, "x"}, Rows: [][]Text{{Line(name), Line(Code(name))}, {Line(Code(name), name), nil}}, Note: name})
	return &Document{Title: name, Sections: []Section{s, {Title: name, Sub: true, Blocks: s.Blocks}, {Title: name, Blocks: s.Blocks}}}
}

func written(t *testing.T, d *Document) (md, page string) {
	t.Helper()
	var a, b bytes.Buffer
	if err := WriteMarkdown(&a, d); err != nil {
		t.Fatal(err)
	}
	if err := WriteHTML(&b, d); err != nil {
		t.Fatal(err)
	}
	return a.String(), b.String()
}

// Both formats have every text, in its order.
func TestSameContent(t *testing.T) {
	s := Section{Title: "First section"}
	s.Say("A paragraph with ", Code("code"), ", ", Strong("weight"), " and a ", Link("link", "https://example.com/x"), ".")
	s.List(Line("one line"), Line("another ", 2))
	s.List()
	s.Table(Table{Head: []string{"Head", "Second"}, Rows: [][]Text{{Line("cell"), Line(Bad("broken: x"))}}, Note: "A note."})
	md, page := written(t, &Document{Title: "Title of all", Sections: []Section{s, {Title: "Below it", Sub: true, Blocks: s.Blocks[:1]}}})
	const want = "# Title of all\n\n## First section\n\nA paragraph with `code`, **weight** and a [link](https://example.com/x).\n\n- one line\n- another 2\n\n" +
		"| Head | Second |\n|---|---|\n| cell | **broken: x** |\n\nA note.\n\n### Below it\n\nA paragraph with `code`, **weight** and a [link](https://example.com/x).\n"
	if md != want {
		t.Errorf("got\n%s\nexpected\n%s", md, want)
	}
	rest := page
	for _, w := range []string{
		"<h1>Title of all</h1>", ">First section</h2>", `<p>A paragraph with <code>code</code>, <strong>weight</strong> and a <a href="https://example.com/x">link</a>.</p>`,
		"<li>one line</li>", "<li>another 2</li>", `<th scope="col">Head</th>`, "<td>cell</td>", `<td class="bad">broken: x</td>`, ">A note.</p>", "<h3>Below it</h3>",
	} {
		at := strings.Index(rest, w)
		if at < 0 {
			t.Fatalf("the page lacks %q behind what comes before it:\n%s", w, page)
		}
		rest = rest[at:]
	}
}

// A table of many rows counts those that it leaves out.
func TestRowsAreBounded(t *testing.T) {
	var s Section
	s.Table(Table{Head: []string{"x"}, Rows: make([][]Text, MaxRows+3), Note: "From there."})
	if got := s.Blocks[0].Table; len(got.Rows) != MaxRows || !strings.HasPrefix(got.Note, "And 3 more rows") || !strings.HasSuffix(got.Note, "From there.") {
		t.Errorf("%d rows, %q", len(got.Rows), got.Note)
	}
}

// A column without text is left out, unless it is the first; a value that is empty is text.
func TestEmptyColumns(t *testing.T) {
	var s Section
	table := Table{Head: []string{"a", "b", "c", "d"}}
	table.Add("", "", Code(""), "1")
	table.Add("", "", "", 2)
	s.Table(table)
	md, page := written(t, &Document{Sections: []Section{s}})
	if want := "| a | c | d |\n|---|---|---|\n|  | (empty) | 1 |\n|  |  | 2 |\n"; !strings.Contains(md, want) || strings.Contains(page, ">b<") {
		t.Errorf("got\n%s\nexpected\n%s", md, want)
	}
}

// Lists of names and lines are bounded, and lines that are the same are one.
func TestListsAreBounded(t *testing.T) {
	names := make([]string, MaxList+3)
	for i := range names {
		names[i] = "n" + strings.Repeat("x", i)
	}
	if got := Codes(names).Plain(); strings.Count(got, ", ") != MaxList-1 || !strings.HasSuffix(got, "x and 3 more") {
		t.Errorf("names: %q", got)
	}
	if got := Join(names, "; ", func(s string) any { return s }).Plain(); !strings.HasSuffix(got, "x; and 3 more") {
		t.Errorf("joined: %q", got)
	}
	lines := Grouped([]string{"a1", "b2", "c1", "d"}, func(s *string) (string, string) { return (*s)[:1], (*s)[1:] })
	if len(lines) != 2 || lines[0].Plain() != "a, c: 1" || lines[1].Plain() != "b: 2" {
		t.Errorf("grouped: %v", lines)
	}
	if got := len(Grouped(names, func(s *string) (string, string) { return "n", *s })); got != MaxList {
		t.Errorf("%d lines", got)
	}
}

// A cell has the colour of what a finding says of it, whatever its words are.
func TestClass(t *testing.T) {
	for _, c := range []struct {
		cell Text
		want string
	}{
		{Line("broken"), ""},
		{Line("down"), ""},
		{Line(Bad("200 Gb/s")), "bad"},
		{Line(Code("x"), Unsure("slow")), "unsure"},
		{Line(Unsure("a"), Bad("b")), "bad"},
		{Line("unknown: not read"), "unsure"},
		{Line("not measured"), "unsure"},
		{Line("ok"), ""},
		{nil, ""},
	} {
		if got := c.cell.Class(); got != c.want {
			t.Errorf("%q has the class %q, expected %q", c.cell.Plain(), got, c.want)
		}
	}
}

// Rows that are the same but for names that count up are one. A gap in the names, or another value, ends it.
func TestCollapse(t *testing.T) {
	table := Table{Head: []string{"Port", "State"}}
	for _, i := range []int{0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11} {
		table.Add(Code(fmt.Sprint("mlx5_", i)), map[bool]any{true: Bad("down"), false: "active"}[i == 7])
	}
	table.Collapse(1)
	var got []string
	for _, r := range table.Rows {
		got = append(got, r[0].Plain()+" "+r[1].Plain())
	}
	if want := "mlx5_0 to mlx5_3 active|mlx5_5 active|mlx5_6 active|mlx5_7 down|mlx5_8 to mlx5_11 active"; strings.Join(got, "|") != want {
		t.Errorf("got %s\nexpected %s", strings.Join(got, "|"), want)
	}
}

// Tables have names of their own, and links lead to the sections that they name.
func TestLandmarks(t *testing.T) {
	s := Section{Title: "A", Sub: true, Anchor: "issue-1"}
	s.Say(To("the issue", "issue-1"))
	for range 2 {
		table := Table{Head: []string{"x"}}
		table.Add(Code(strings.Repeat("mlx5_0,", 9)))
		s.Table(table)
	}
	md, page := written(t, &Document{Sections: []Section{{Title: "Above"}, s}})
	for _, want := range []string{`aria-label="A: table"`, `aria-label="A: table 2"`, `<a href="#issue-1">the issue</a>`, `<h3 id="issue-1">`, `<code class="long">`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if !strings.Contains(md, "<a id=\"issue-1\"></a>\n\n### A\n") || !strings.Contains(md, "[the issue](#issue-1)") {
		t.Errorf("%s", md)
	}
}

// hostile are names that would end a table, a line, a code span or a tag, if they were not escaped.
var hostile = []string{
	"a|b", "`x`", "``|``", "\\|", "a\\|b", "a\nb\n# c", "<script>alert(1)</script>", "](javascript:alert(1))", "**b**", "![x](https://e/x.png)", "| --- |", "\u202ertl", "a\u2066b\u2069", "&lt;", "- x", "\x1b[31mred",
	"1. x", "", "   ", strings.Repeat("A", 1<<16), "a\rb", "\u2028|", "</td></table>", "https://evil.example/", "\"'", "$(id)", "@all #1 ~~s~~", "\xff|\xfe", "``` ` |",
}

// No text adds a row, a tag, a line or a link.
func TestHostileTexts(t *testing.T) {
	md, page := written(t, whole("x"))
	rows, tags := len(tableRows(t, md)), strings.Count(page, "<")
	escaped := strings.NewReplacer(`\<`, "", `\]`, "")
	for _, name := range hostile {
		md, page := written(t, whole(name))
		if got := len(tableRows(t, md)); got != rows {
			t.Errorf("%.20q: %d rows of tables, expected %d", name, got, rows)
		}
		if got := strings.Count(page, "<"); got != tags && name != "" {
			t.Errorf("%.20q: %d tags, expected %d", name, got, tags)
		}
		for _, bad := range []string{"\r", "\x1b", "\u2028", "\u202e", "\u2066", "\n# c"} {
			if strings.Contains(page, bad) || strings.Contains(md, bad) {
				t.Errorf("%.20q: %q is left", name, bad)
			}
		}
		for _, bad := range []string{"](javascript:", "<script", "](https://e/"} {
			if !codeOnly(escaped.Replace(md), bad) {
				t.Errorf("%.20q: the Markdown has %q", name, bad)
			}
		}
		if !strings.Contains(page, template.HTMLEscapeString(line(name))) {
			t.Errorf("%.20q: the page lacks it", name)
		}
		if len(md) > 64<<10 || len(page) > 64<<10 {
			t.Errorf("%.20q: %d and %d bytes", name, len(md), len(page))
		}
	}
}

func FuzzText(f *testing.F) {
	for _, name := range hostile {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		md, page := written(t, whole("x"))
		lines, tags := strings.Count(md, "\n"), strings.Count(page, "<")
		if strings.TrimSpace(line(name)) == "" {
			return
		}
		md, page = written(t, whole(name))
		tableRows(t, md)
		if l, n := strings.Count(md, "\n"), strings.Count(page, "<"); l != lines || n != tags {
			t.Errorf("%d lines of Markdown and %d tags of HTML, expected %d and %d:\n%s", l, n, lines, tags, md)
		}
	})
}

// codeOnly reports whether a text occurs only in code spans, where it is no mark.
func codeOnly(md, s string) bool {
	for l := range strings.Lines(md) {
		out := ""
		for len(l) > 0 {
			i := strings.IndexByte(l, '`')
			if i < 0 {
				out += l
				break
			}
			if i > 0 && l[i-1] == '\\' {
				out, l = out+l[:i+1], l[i+1:]
				continue
			}
			out += l[:i]
			l = l[i:]
			n := len(l) - len(strings.TrimLeft(l, "`"))
			fence := l[:n]
			rest := l[n:]
			for {
				k := strings.Index(rest, fence)
				if k < 0 {
					out, l = out+fence, rest
					break
				}
				run := len(rest[k:]) - len(strings.TrimLeft(rest[k:], "`"))
				if run == n {
					l = rest[k+n:]
					break
				}
				rest = rest[k+run:]
			}
		}
		if strings.Contains(out, s) {
			return false
		}
	}
	return true
}

// tableRows reads the tables of a Markdown text as GitHub's does (GFM, section 4.10): bars that a backslash does not escape
// separate cells, in code, too. Each row must have as many cells as the head of its table.
func tableRows(t *testing.T, md string) (rows [][]string) {
	t.Helper()
	cells := 0
	for l := range strings.Lines(md) {
		l = strings.TrimSuffix(l, "\n")
		if !strings.HasPrefix(l, "|") {
			cells = 0
			continue
		}
		var row []string
		cell := ""
		for i := 1; i < len(l); i++ {
			switch {
			case l[i] == '\\' && i+1 < len(l):
				cell += l[i : i+2]
				i++
			case l[i] == '|':
				row, cell = append(row, strings.TrimSpace(cell)), ""
			default:
				cell += string(l[i])
			}
		}
		if cells == 0 {
			cells = len(row)
		}
		if len(row) != cells || cell != "" {
			t.Fatalf("a row has %d cells and %q behind, expected %d: %.300s", len(row), cell, cells, l)
		}
		rows = append(rows, row)
	}
	return rows
}

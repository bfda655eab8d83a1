// SPDX-License-Identifier: Apache-2.0

package document

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// WriteMarkdown writes a document as Markdown with tables (GitHub Flavored Markdown). Whatever its texts
// have, they add no mark, row or column of their own.
func WriteMarkdown(w io.Writer, d *Document) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n", escape(line(d.Title)))
	for i := range d.Sections {
		s := &d.Sections[i]
		level := "##"
		if s.Sub {
			level = "###"
		}
		if s.Anchor != "" {
			fmt.Fprintf(&b, "\n<a id=\"%s\"></a>\n", s.Anchor)
		}
		fmt.Fprintf(&b, "\n%s %s\n", level, escape(line(s.Title)))
		for _, block := range s.Blocks {
			b.WriteByte('\n')
			block.markdown(&b)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (k *Block) markdown(b *bytes.Buffer) {
	switch {
	case k.Table != nil:
		k.Table.markdown(b)
	case k.List != nil:
		for _, l := range k.List {
			b.WriteString("- " + l.markdown(false) + "\n")
		}
	default:
		b.WriteString(k.Paragraph.markdown(false) + "\n")
	}
}

func (t *Table) markdown(b *bytes.Buffer) {
	row := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	cells := make([]string, len(t.Head))
	for i, h := range t.Head {
		cells[i] = escape(line(h))
	}
	row(cells)
	b.WriteString("|" + strings.Repeat("---|", len(t.Head)) + "\n")
	for _, r := range t.Rows {
		for i := range cells {
			cells[i] = ""
			if i < len(r) {
				cells[i] = r[i].markdown(true)
			}
		}
		row(cells)
	}
	if t.Note != "" {
		b.WriteString("\n" + Line(t.Note).markdown(false) + "\n")
	}
}

// markdown returns a line; in a table, what would end a cell is escaped in code, too.
func (t Text) markdown(cell bool) string {
	var b strings.Builder
	for _, s := range t {
		switch text := line(s.Text); s.mark {
		case code:
			b.WriteString(codeSpan(text, cell))
		case strong, bad:
			if text = strings.TrimSpace(text); text != "" {
				b.WriteString("**" + escape(text) + "**")
			}
		case link:
			b.WriteString("[" + escape(text) + "](" + s.url + ")")
		default:
			b.WriteString(escape(text))
		}
	}
	return startOfLine(b.String())
}

// codeSpan marks a text as code, between more backticks in a row than it has itself.
func codeSpan(s string, cell bool) string {
	if strings.TrimSpace(s) == "" {
		return "(empty)"
	}
	fence, run := 1, 0
	for _, r := range s {
		if run++; r != '`' {
			run = 0
		}
		fence = max(fence, run+1)
	}
	if cell && strings.Contains(s, "|") {
		if strings.Contains(s, `\`) { // before a bar it would be read as a mark, in code, too
			return escape(s)
		}
		s = strings.ReplaceAll(s, "|", `\|`)
	}
	pad := ""
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") || strings.HasPrefix(s, " ") && strings.HasSuffix(s, " ") {
		pad = " "
	}
	marks := strings.Repeat("`", fence)
	return marks + pad + s + pad + marks
}

// escape keeps what a plain text has from being a mark. An underscore between letters is none.
func escape(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case strings.ContainsRune("\\`*[]<|~&$#@", r), r == '_' && !inWord(s, i):
			b.WriteByte('\\')
		case r == ':' && strings.HasPrefix(s[i:], "://"): // no link that was not meant
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func inWord(s string, i int) bool {
	letter := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' }
	return i > 0 && i+1 < len(s) && letter(s[i-1]) && letter(s[i+1])
}

// startOfLine escapes what would make a list, a heading or a rule of a line.
func startOfLine(s string) string {
	rest := strings.TrimLeft(s, " ")
	digits := strings.TrimLeft(rest, "0123456789")
	switch {
	case rest == "":
		return ""
	case strings.ContainsRune("-+=>", rune(rest[0])):
		return `\` + rest
	case len(digits) < len(rest) && (strings.HasPrefix(digits, ". ") || strings.HasPrefix(digits, ") ")):
		return rest[:len(rest)-len(digits)] + `\` + digits
	}
	return rest
}

// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

var update = flag.Bool("update", false, "write the table of docs/PROFILES.md")

// TestDocument: the table of docs/PROFILES.md has what the profiles say, and the format there is right.
func TestDocument(t *testing.T) {
	const file = "../../docs/PROFILES.md"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	const mark = "from internal/profiles/builtin -->\n"
	before, _, found := strings.Cut(text, mark)
	want := before + mark + table()
	if *update && found {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil { //nolint:gosec // not secret
			t.Fatal(err)
		}
		text = want
	}
	if text != want {
		t.Errorf("%s is not up to date: make docs", file)
	}
	_, example, _ := strings.Cut(text, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	if p, err := Parse([]byte(example)); err != nil || p.Name != "rack-a" {
		t.Errorf("the example: %v", err)
	}
	for _, what := range fabric.Normals() {
		if !strings.Contains(text, fmt.Sprintf("| `%s` |", what)) {
			t.Errorf("%s is not explained", what)
		}
	}
}

func table() string {
	var b strings.Builder
	b.WriteString("\n| profile | platform | recognized by | states |\n|---|---|---|---|\n")
	for _, p := range Builtin() {
		var matches, states []string
		for _, m := range p.Match {
			var all []string
			for _, c := range m.Conditions(&fabric.Node{}) {
				all = append(all, fmt.Sprintf("%s `%s`", c.What, c.Expected))
			}
			matches = append(matches, strings.Join(all, ", "))
		}
		for _, e := range p.NICs() {
			number := strconv.Itoa(e.Number)
			if e.Optional {
				number = "up to " + number
			}
			link := ""
			if e.Gigabits > 0 {
				link = fmt.Sprintf(", %s at %v Gb/s", e.LinkLayer, e.Gigabits)
			}
			states = append(states, fmt.Sprintf("%s ports of role %s%s", number, e.Role, link))
		}
		if len(states) == 0 {
			states = []string{"no NICs"}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Name, p.Title, strings.Join(matches, "; or "), strings.Join(states, "; "))
	}
	return b.String()
}

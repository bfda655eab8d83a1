// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/profiles"
	"gpufabric_exporter/probes"
)

func short(d time.Duration) string {
	return regexp.MustCompile(`([a-z])0[ms].*$`).ReplaceAllString(d.String(), "$1")
}

func sortByPath(all []key) {
	slices.SortFunc(all, func(a, b key) int { return strings.Compare(a.path, b.path) })
}

// document is a file with one key, and what its parents require.
func document(path, value string) []byte {
	parts := strings.Split(path, ".")
	for _, part := range slices.Backward(parts) {
		name, list := strings.CutSuffix(part, "[]")
		switch {
		case list && strings.HasPrefix(value, "{device: "):
			value = "[" + strings.TrimSuffix(value, "}") + ", role: storage}]"
		case list && strings.HasPrefix(value, "{role: "):
			value = "[" + strings.TrimSuffix(value, "}") + ", device: mlx5_0}]"
		case list:
			value = "[" + value + "]"
		case name != "version" && strings.Contains(path, "manifest.") && part == parts[len(parts)-1]:
			name = "version: 1, " + name
		}
		value = "{" + name + ": " + value + "}"
	}
	return []byte(value)
}

// parsedKeys returns the keys that Parse takes below a path, which it lists in its error about an unknown one.
func parsedKeys(path string) []string {
	taken := func(path string) []string {
		_, err := Parse("f", document(strings.TrimPrefix(path+".nosuchkey", "."), "1"))
		if err == nil {
			return nil
		}
		m := regexp.MustCompile(`unknown key "nosuchkey" \(.*? takes: ([^)]*)\)`).FindStringSubmatch(err.Error())
		if m == nil {
			return nil
		}
		return strings.Split(m[1], ", ")
	}
	var all []string
	for _, parent := range []string{path, path + "[]"} {
		for _, name := range taken(parent) {
			below := strings.TrimPrefix(parent+"."+name, ".")
			all = append(append(all, below), parsedKeys(below)...)
		}
		if path == "" {
			break
		}
	}
	return all
}

// TestKeys compares the documented keys with those that are parsed: each is there, with its range and its default.
func TestKeys(t *testing.T) {
	var documented []string
	for _, k := range keys() {
		documented = append(documented, k.path)
		if k.meaning == "" || k.takes != "" && k.initial == "" && k.without == "" {
			t.Errorf("%s: expected what it means, and its default or what holds without it", k.path)
		}
		if k.takes != "" && len(k.beyond) == 0 && !strings.HasPrefix(k.takes, "list") {
			t.Errorf("%s: expected values that are refused", k.path)
		}
		for _, value := range []string{k.low, k.high, k.initial, k.example} {
			if _, err := Parse("f", document(k.path, value)); value != "" && err != nil {
				t.Errorf("%s: %s is documented, and refused: %v", k.path, value, err)
			}
		}
		for _, value := range k.beyond {
			if _, err := Parse("f", document(k.path, value)); err == nil {
				t.Errorf("%s: %s is accepted, which the documented type or range does not allow", k.path, value)
			}
		}
		if k.initial == "" || strings.HasPrefix(k.path, "probes.every.") {
			continue
		}
		c, err := Parse("f", document(k.path, k.initial))
		if err != nil || !reflect.DeepEqual(c.ByHand, probes.DefaultConfig()) || c.Links != DefaultLinks() {
			t.Errorf("%s: %s is not its default: %v", k.path, k.initial, err)
		}
	}
	parsed := parsedKeys("")
	for _, path := range parsed {
		if !slices.Contains(documented, path) {
			t.Errorf("the key %s is not described: add it to keys in keys_test.go", path)
		}
	}
	for _, path := range documented {
		if !slices.Contains(parsed, path) {
			t.Errorf("the key %s is described, and not taken", path)
		}
	}
}

// A named kind of probe has the interval that the default has.
func TestDefaultIntervals(t *testing.T) {
	n := 0
	for _, k := range keys() {
		kind, ok := strings.CutPrefix(k.path, "probes.every.")
		if !ok {
			continue
		}
		n++
		c, err := Parse("f", document(k.path, k.initial))
		if want := probes.DefaultConfig().Every[probes.Kind(kind)]; err != nil || c.ByHand.Every[probes.Kind(kind)] != want {
			t.Errorf("%s: %v, %v, want %v", k.path, c.ByHand.Every, err, want)
		}
	}
	if n != len(probes.DefaultConfig().Every) {
		t.Errorf("%d kinds", n)
	}
}

// explained says all about a key but its name.
func (k key) explained() (takes, without, meaning string) {
	takes = k.takes
	switch {
	case takes == "":
		takes = "keys with values"
	case k.low != "" && k.low == k.high:
		takes = k.low
	case k.low != "":
		takes += ", " + k.low + " to " + k.high
	}
	return takes, k.without, k.meaning + "."
}

// markdown is docs/CONFIGURATION.md.
func markdown(file string) string {
	var b strings.Builder
	b.WriteString(`<!-- written by make docs from internal/config/keys_test.go -->
# Configuration

The exporter and all commands that look at a node read ` + "`" + DefaultFile + "`" + `, a YAML file of 1 MiB at most. It may be missing, and so may every key in it: a key without a value counts as missing. ` + "`--config.file=FILE`" + ` names another file, which must exist; ` + "`--config.file=" + NoFile + "`" + ` reads none. Everything else is set by flags (` + "`--help`" + `), and TLS and authentication by ` + "`--web.config.file`" + `.

    gpufabric_exporter --config.check          # every error in the file, with its line; exit code 3
    systemctl reload gpufabric_exporter        # or SIGHUP, or POST /-/reload

The check reads the files of probes, of RDMA ping and of ` + "`--web.config.file`" + `, too. Give it the options of the service: what is in the latter decides what RDMA ping needs.

If a reloaded file has errors or is missing, the previous configuration stays in force, and ` + "`gpufabric_exporter_config_last_reload_successful`" + ` is 0.

## Types

| type | written as |
|---|---|
| whole number, number | decimal, without quotes |
| true or false | these words |
| time | a number with a unit, ` + "`90s`, `10m` or `2h`" + ` |
| bytes | a number, or one with ` + "`K`, `M` or `G`" + `: powers of 1024 |
| regular expression | [RE2](https://github.com/google/re2/wiki/Syntax); it must match a whole name |
| address | ` + "`http` or `https`" + `, without a user or a query |

## Keys

Names with dots are nested keys; ` + "`[]`" + ` stands for each entry of a list.

| key | takes | default | meaning |
|---|---|---|---|
`)
	for _, k := range keys() {
		takes, without, meaning := k.explained()
		if k.initial != "" {
			without = "`" + k.initial + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.path, takes, without, meaning)
	}
	b.WriteString("\n## Reference file\n\nThe packages have this file as `/usr/share/doc/gpufabric-exporter/config.yml`; it changes nothing. Copy what the site needs.\n\n```yaml\n" + file + "```\n")
	return b.String()
}

// defaultFile is packaging/reference.yml: sections, and their keys as comments.
func defaultFile() string {
	link := regexp.MustCompile(`\[([A-Z]+\.md)\]\([^)]*\)`)
	var b strings.Builder
	b.WriteString(`# Configuration of gpufabric_exporter: what this site expects of its nodes.
#
# Nothing here is required. Sections without keys have no effect; remove the # in front of a key to set it. The values are
# examples, or the defaults where these are given. After a change:
#
#   gpufabric_exporter --config.check
#   systemctl reload gpufabric_exporter
`)
	for _, k := range keys() {
		depth := strings.Count(k.path, ".")
		name := k.path[strings.LastIndex(k.path, ".")+1:]
		if strings.Contains(k.path, "[]") || k.example == "" && k.initial == "" && k.takes != "" {
			continue // explained with the list; part of a file of its own
		}
		indent := strings.Repeat("  ", depth)
		if depth == 0 {
			b.WriteString("\n")
		}
		takes, without, meaning := k.explained()
		meaning = strings.ReplaceAll(link.ReplaceAllString(meaning, "docs/$1"), "`", "")
		without = strings.ReplaceAll(link.ReplaceAllString(without, "docs/$1"), "`", "")
		if k.initial != "" {
			without = k.initial
		}
		if k.takes != "" {
			meaning += " Takes: " + takes + ". Default: " + without + "."
		}
		for _, line := range wrap(meaning, 120-len(indent)) {
			fmt.Fprintf(&b, "%s# %s\n", indent, line)
		}
		value := k.example
		if value == "" {
			value = k.initial
		}
		if k.takes == "" || k.path == "probes" {
			fmt.Fprintf(&b, "%s%s:\n", indent, name)
		} else {
			fmt.Fprintf(&b, "%s#%s: %s\n", indent, name, value)
		}
	}
	return b.String()
}

// wrap breaks a text into lines of at most n characters.
func wrap(text string, n int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) > n:
			lines = append(lines, word)
		default:
			*last += " " + word
		}
	}
	return lines
}

// TestConfigurationDocument compares docs/CONFIGURATION.md and packaging/reference.yml with the keys.
func TestConfigurationDocument(t *testing.T) {
	file := defaultFile()
	for name, want := range map[string]string{"../../docs/CONFIGURATION.md": markdown(file), "../../packaging/reference.yml": file} {
		if *update {
			if err := os.WriteFile(name, []byte(want), 0o644); err != nil { //nolint:gosec // not secret
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, []byte(want)) {
			t.Errorf("%s is not up to date: make docs", name)
		}
	}
}

// The default file changes nothing, and is right with every key that it explains.
func TestDefaultFile(t *testing.T) {
	file := defaultFile()
	c, err := Parse("config.yml", []byte(file))
	if want := (Config{Policy: &fabric.Policy{Profiles: profiles.Builtin()}, ByHand: probes.DefaultConfig(), Links: DefaultLinks(), File: "config.yml"}); err != nil || !reflect.DeepEqual(c, want) {
		t.Errorf("the default file sets something, or is refused: %v", err)
	}
	setting := regexp.MustCompile(`(?m)^( *)#([^ \n#])`)
	if n := len(setting.FindAllString(file, -1)); n < 30 {
		t.Errorf("%d keys", n)
	}
	all := setting.ReplaceAllString(file, "$1$2")
	c, err = Parse("config.yml", []byte(all))
	if err != nil || c.Probes == nil || c.Policy.Restricted == nil || len(c.Policy.Roles) != 1 || c.Links.Grafana == "" || c.manifest == "" {
		t.Errorf("with every key: %v", err)
	}
	for _, one := range setting.FindAllStringIndex(file, -1) { // and with each of them alone
		if _, err := Parse("config.yml", []byte(file[:one[0]]+setting.ReplaceAllString(file[one[0]:one[1]], "$1$2")+file[one[1]:])); err != nil {
			t.Error(err)
		}
	}
}

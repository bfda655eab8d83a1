// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"strings"
	"syscall"
	"testing"
)

func mkfifo(name string) error { return syscall.Mkfifo(name, 0o644) }

// TestRefused: what is wrong with a profile is said, and it is not read.
func TestRefused(t *testing.T) {
	const gpus = "gpus: {ids: \"10de:2330\", number: 8, source: s}\n"
	rail := func(s string) string { return gpus + "rails:\n  - {chips: \"15b3:1021\", source: s, " + s + "}\n" }
	provider := func(s string) string {
		return strings.Replace(text("a", "product: X", rail(s)), "cabling: {by: site}", "cabling: {by: provider, source: s}", 1)
	}
	own := func(s string) string { return text("a", "product: X", s) }
	for name, c := range map[string]struct{ text, says string }{
		"another version":     {strings.Replace(own(""), "version: 1", "version: 2", 1), "version 2: expected 1"},
		"no version":          {strings.Replace(own(""), "version: 1", "", 1), "with the key version"},
		"unknown key":         {own("rials: [x]\n"), "unknown key rials"},
		"twice the same key":  {own("title: Again\n"), "already defined"},
		"two documents":       {own("---\nversion: 1\n"), "one YAML document"},
		"aliases":             {"a: &a [x, x]\nb: &b [*a, *a, *a]\nc: [*b, *b, *b]\n" + own(""), "no anchors and aliases"},
		"nested":              {own("rails: " + strings.Repeat("[", 200) + strings.Repeat("]", 200)), "nested too deeply"},
		"many":                {own("normal: [" + strings.Repeat("{}, ", 5000) + "{}]"), "values"},
		"name":                {text("A b", "product: X", ""), `name "A b"`},
		"only a vendor":       {text("a", "vendor: NVIDIA", ""), "common to many platforms"},
		"only a tag":          {text("a", "asset_tag: OracleCloud.com", ""), "common to many platforms"},
		"anything":            {text("a", "product: \"*\"", ""), "expected a line"},
		"control characters":  {text("a", "product: \"a\\x1b[2Jb\"", ""), "expected a line"},
		"no source":           {strings.Replace(own(""), ", source: s", "", 1), "match[0]: expected its source"},
		"source of nothing":   {strings.Replace(own(""), "source: s", "source: other", 1), `source "other" is not among sources`},
		"GPUs of no number":   {text("a", "gpus: \"10de:2330\"", ""), "at_least 0: expected 1 to 1024"},
		"more than there are": {text("a", "gpus: \"10de:2330\", at_least: 9", gpus), "states 8 GPUs"},
		"other GPUs":          {text("a", "gpus: \"10de:2335\", at_least: 5", gpus), "states others"},
		"number 0":            {own(rail("number: 0")), "rails[0].number 0: expected 1 to 1024"},
		"negative number":     {own(rail("number: -8")), "rails[0].number -8"},
		"huge number":         {own(rail("number: 99999999999999999999")), "line"},
		"no chip":             {own(gpus + "rails:\n  - {number: 8, source: s}\n"), "expected ids of vendor and device"},
		"chip by name":        {own(gpus + "rails:\n  - {chips: ConnectX-7, number: 8, source: s}\n"), "expected ids of vendor and device"},
		"role of rails":       {own(rail("number: 8, role: storage")), "rails are of role compute"},
		"role of others":      {own("other:\n  - {chips: \"15b3:1021\", number: 2, role: compute, source: s}\n"), "expected storage, management or unused"},
		"two roles": {
			own(rail("number: 8") + "other:\n  - {chips: \"15b3:1021\", number: 2, role: storage, source: s}\n"), "do not differ",
		},
		"two roles of a chip among others": {
			own("other:\n  - {chips: [\"15b3:1021\", \"15b3:a2dc\"], number: 2, role: storage, source: s}\n" +
				"  - {chips: \"15b3:a2dc\", number: 2, role: management, source: s}\n"), "do not differ",
		},
		"rate where the site cables": {own(rail("number: 8, rate_gigabits_per_second: 400")), "only where the provider cables"},
		"link where the site cables": {own(rail("number: 8, link_layer: ethernet")), "only where the provider cables"},
		"rate":                       {provider("number: 8, rate_gigabits_per_second: -1"), "rate_gigabits_per_second -1"},
		"no rate":                    {provider("number: 8, rate_gigabits_per_second: .nan"), "rate_gigabits_per_second NaN"},
		"link layer":                 {provider("number: 8, link_layer: wifi"), `link_layer "wifi"`},
		"near":                       {own(rail("number: 8, near: gpu0")), `near "gpu0"`},
		"near GPUs that are not there": {
			own("rails:\n  - {chips: \"15b3:1021\", number: 8, near: gpus, source: s}\n"), "states no GPUs",
		},
		"ports":           {own(rail("number: 8, ports_per_card: -1")), "ports_per_card -1"},
		"cabling":         {strings.Replace(own(""), "by: site", "by: us", 1), `by "us"`},
		"normal":          {own("normal: [{what: broken, source: s}]\n"), `"broken"`},
		"normal twice":    {own("normal: [{what: shared_port, source: s}, {what: shared_port, source: s}]\n"), "each once"},
		"VFs not said":    {own(rail("number: 8, virtual_functions: true")), "vf_rails"},
		"VFs that are no": {own(rail("number: 8") + "normal: [{what: vf_rails, source: s}]\n"), "vf_rails"},
		"address":         {strings.Replace(own(""), "title: Our rack", "title: Our rack, url: \"javascript:x\"", 1), "expected https://"},
	} {
		if p, err := Parse([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v", name, p.Name, err)
		}
	}
	if _, err := Parse([]byte(provider("number: 8, rate_gigabits_per_second: 400, link_layer: infiniband, near: gpus"))); err != nil {
		t.Errorf("a right one: %v", err)
	}
}

// FuzzProfile: whatever is in a file, it is read in a bounded time, and is right or refused in one line.
func FuzzProfile(f *testing.F) {
	for _, name := range builtinFiles() {
		data, err := builtin.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(text("a", "product: X", "")))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse(data)
		switch {
		case err != nil && (strings.Contains(err.Error(), "\n") || err.Error() == ""):
			t.Errorf("error %q", err)
		case err == nil && (p.Name == "" || len(p.Match) == 0 || len(p.Sources) == 0):
			t.Errorf("%+v", p)
		}
	})
}

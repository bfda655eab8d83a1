// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Files that are no profiles, as those that a link leads to by mistake, are not quoted: they may have secrets.
func TestNoSecretInErrors(t *testing.T) {
	for _, secret := range []string{
		"hunter2\n", "*hunter2\n", "hunter2: x\n", "password: hunter2\n", "- hunter2\n", "name: hunter2\nversion: 9\n", "version: hunter2\n", "!hunter2 x\n", "%hunter2\n", "\"hunter2\\q\"",
		"? {version: 1}\n: hunter2\n", "&hunter2 x\n",
	} {
		dir, secrets := t.TempDir(), t.TempDir()
		write("token", secret)(t, secrets)
		must(t, os.Symlink(filepath.Join(secrets, "token"), filepath.Join(dir, "b.yaml")))
		set := Load(dir)
		if len(set.Problems) != 1 || strings.Contains(set.Problems[0].Error(), "hunter2") {
			t.Errorf("%q: %v", secret, set.Problems)
		}
	}
}

// A line of an error is printable, whatever a key or the name of a file has in it.
func TestPrintableErrors(t *testing.T) {
	for name, content := range map[string]string{
		"a.yaml":         text("a", "product: X", "\"\\e[2Jkey\": 1\n"),
		"b.yaml":         text("b", "product: X", "\"k\u202eye\": 1\n"),
		"c\n\u2066.yaml": "x",
		"d.yaml":         text("d", "product: X, source: \"\u202ex\"", ""),
		"e.yaml":         text("e", "product: \"a\u2066b\"", ""),
		"f.yaml":         strings.Replace(text("f", "product: X", ""), "title: Ours", "title: \"a\u202eb\"", 1),
		"g.yaml":         strings.Replace(text("g", "product: X", ""), "{s:", "{\"x\u202e\": {title: y, date: \"1\"}, s:", 1),
	} {
		set := Load(folder(t, map[string]string{name: content}))
		if len(set.Problems) != 1 || strings.ContainsFunc(set.Problems[0].Error(), fabric.Unprintable) {
			t.Errorf("%q: %q", name, set.Problems)
		}
	}
}

// A key without a value, or with an empty one, is a mistake: it would be as if it were not there.
func TestNothingIsIgnored(t *testing.T) {
	const gpus = "gpus: {ids: \"10de:2330\", number: 8, source: s}\n"
	rail := "rails: [{chips: \"15b3:1021\", number: 8, near: gpus, source: s}]\n"
	for name, c := range map[string]struct{ text, says string }{
		"no text":                 {text("a", "product: X, board: \"\"", ""), "expected a value"},
		"null":                    {text("a", "product: X, board: ~", ""), "expected a value"},
		"no GPUs":                 {text("a", "product: X, gpus: []", ""), "expected a value"},
		"GPUs of nothing":         {text("a", "product: X", "gpus:\n"), "expected a value"},
		"no rails":                {text("a", "product: X", "rails: []\n"), "expected a value"},
		"nothing else":            {text("a", "product: X", "other: {}\n"), "expected a value"},
		"star within":             {text("a", "product: \"*H100*\"", ""), "only at the end"},
		"source of no cabling":    {strings.Replace(text("a", "product: X", ""), "{by: site}", "{by: site, source: nobody}", 1), `"nobody" is not among sources`},
		"another version":         {strings.Replace(text("a", "product: X", "planets: 9\n"), "version: 1", "version: 2", 1), "version 2: expected 1"},
		"fewer than half":         {text("a", "product: X, gpus: \"10de:2330\", at_least: 4", gpus), "at_least 4: expected 5 to 7"},
		"all of them":             {text("a", "product: X, gpus: \"10de:2330\", at_least: 8", gpus), "at_least 8: expected 5 to 7"},
		"8 rails at 9 GPUs":       {text("a", "product: X", strings.Replace(gpus, "number: 8", "number: 9", 1)+rail), "8 ports cannot be spread evenly over 9 GPUs"},
		"a rail that is a GPU":    {text("a", "product: X", gpus+strings.Replace(rail, "15b3:1021", "10de:2330", 1)), "10de:2330 is a GPU"},
		"number with a fraction":  {text("a", "product: X", strings.Replace(rail, "number: 8", "number: 8.5", 1)), "expected a whole number"},
		"number as text":          {text("a", "product: X", strings.Replace(rail, "number: 8", "number: eight", 1)), "expected a whole number"},
		"octal":                   {text("a", "product: X", strings.Replace(rail, "number: 8", "number: 010", 1)), "expected a whole number"},
		"infinite rate":           {text("a", "product: X", strings.Replace(rail, "number: 8", "number: 8, rate_gigabits_per_second: .inf", 1)), "rate_gigabits_per_second"},
		"negative at_least":       {text("a", "product: X, gpus: \"10de:2330\", at_least: -1", ""), "at_least -1"},
		"at_least alone":          {text("a", "product: X, at_least: -1", ""), "at_least without gpus"},
		"only beginning of a tag": {text("a", "product: \"T*\"", ""), "at least 3 characters"},
	} {
		if p, err := Parse([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v", name, p.Name, err)
		}
	}
}

// Where a file of the site is damaged that takes the place of a compiled-in profile, that one does not come
// back: what it states, the site may have taken out on purpose.
func TestDamagedReplacement(t *testing.T) {
	good := text("dgx-h100", "product: DGXH100", "")
	for name, damaged := range map[string]string{"key": good + "x: 1\n", "syntax": good + "rails: [\n", "value": good + "rails: [{number: 9999, chips: \"15b3:1021\", source: s}]\n"} {
		set := Load(folder(t, map[string]string{"a.yaml": damaged}))
		if len(set.Problems) != 1 || slices.ContainsFunc(set.Profiles, func(p fabric.Profile) bool { return p.Name == "dgx-h100" }) {
			t.Errorf("%s: %d profiles, %v", name, len(set.Profiles), set.Problems)
		}
	}
}

// Whatever is in the folder, loading takes a bounded time and memory, and nothing in it is left out silently
// or by chance.
func TestHostileFolder(t *testing.T) {
	begin := time.Now()
	giant := t.TempDir()
	write("a.yaml", text("rack-a", "product: X", ""))(t, giant)
	must(t, os.Truncate(filepath.Join(giant, "a.yaml"), 1<<30))
	deep, flow := strings.Repeat("- ", 30_000), strings.Repeat("{a: ", 16_000)
	many := map[string]string{}
	for i := range 100 {
		many[fmt.Sprintf("%03d.yaml", i)] = text(fmt.Sprintf("rack-%d", i), "product: X", "")
	}
	crowd := t.TempDir()
	for i := range 10_000 {
		must(t, os.Link(filepath.Join(giant, "a.yaml"), filepath.Join(crowd, fmt.Sprintf("%d.yaml", i))))
	}
	beside := t.TempDir()
	for i := range 2000 {
		must(t, os.Link(filepath.Join(giant, "a.yaml"), filepath.Join(beside, fmt.Sprintf("%d.bak", i))))
	}
	write("z.yaml", text("rack-z", "product: X", ""))(t, beside)
	pipe := t.TempDir()
	must(t, mkfifo(filepath.Join(t.TempDir(), "fifo")))
	fifo := filepath.Join(t.TempDir(), "fifo")
	must(t, mkfifo(fifo))
	must(t, os.Symlink(fifo, filepath.Join(pipe, "a.yaml")))
	loop := t.TempDir()
	must(t, os.Symlink("a.yaml", filepath.Join(loop, "a.yaml")))
	for name, c := range map[string]struct {
		dir, says string
		more      int
	}{
		"a file of 1 GiB":      {giant, "larger than 65536 bytes", 0},
		"deep blocks":          {folder(t, map[string]string{"a.yaml": deep}), "a.yaml", 0},
		"deep flow":            {folder(t, map[string]string{"a.yaml": flow}), "a.yaml", 0},
		"100 profiles":         {folder(t, many), "more than 64 profiles", 64},
		"10,000 profiles":      {crowd, "more than 1024 files", 0},
		"a profile among many": {beside, "more than 1024 files", 0},
		"link to a FIFO":       {pipe, "not a regular file", 0},
		"a loop":               {loop, "too many", 0},
		"only a comment":       {folder(t, map[string]string{"a.yaml": "# x\n"}), "expected a profile in YAML", 0},
		"upper case":           {folder(t, map[string]string{"A.YAML": "x"}), "A.YAML", 0},
	} {
		set := Load(c.dir)
		if len(set.Problems) != 1 || !strings.Contains(set.Problems[0].Error(), c.says) || len(set.Profiles) != len(Builtin())+c.more {
			t.Errorf("%s: %d profiles, %.300v", name, len(set.Profiles)-len(Builtin()), set.Problems)
		}
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("all of it took %v", took)
	}
}

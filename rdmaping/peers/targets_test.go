// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const twoGroups = `[
  {"targets": ["a:10791", "[fd00::1]:10791"], "labels": {"leaf": "l1", "rack": "r", "pod": "p", "zone": "z"}},
  {"targets": ["a:10791"], "labels": {"leaf": "l2", "rail": "3"}}
]`

func TestParse(t *testing.T) {
	for name, text := range map[string]string{
		"nodes.json": twoGroups,
		"nodes.yml":  "- targets: ['a:10791', '[fd00::1]:10791']\n  labels: {leaf: l1, rack: r, pod: p, zone: z}\n- targets: ['a:10791']\n  labels: {leaf: l2, rail: '3'}\n",
	} {
		got, err := Parse(name, []byte(text), "leaf")
		want := []Target{
			{"a:10791", AllRails, "l1", "r", "p"},
			{"[fd00::1]:10791", AllRails, "l1", "r", "p"},
			{"a:10791", 3, "l2", "", ""},
		}
		if err != nil || got.LeftOut != 0 || fmt.Sprint(got.Targets) != fmt.Sprint(want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestGarbage leaves out what is wrong and keeps the rest.
func TestGarbage(t *testing.T) {
	for _, address := range []string{"a", "a:0", "a:65536", ":1", "a b:1", "a\x00:1", "http://a:1", strings.Repeat("a", 254) + ":1", "a/../b:1", "é:1"} {
		text := fmt.Sprintf(`[{"targets":[%q,"b:1"]}]`, address)
		if got, err := Parse("f.json", []byte(strings.ReplaceAll(text, `\x00`, `\u0000`)), "leaf"); err != nil || got.LeftOut != 1 || len(got.Targets) != 1 || got.Why == nil {
			t.Errorf("%q: %+v, %v", address, got, err)
		}
	}
	for _, labels := range []string{`{"rail":"64"}`, `{"rail":"-1"}`, `{"rail":"x"}`, `{"leaf":"a\nb"}`, `{"leaf":"` + strings.Repeat("x", 65) + `"}`, `{"leaf":"` + strings.Repeat("x", 1<<20) + `"}`} {
		if got, err := Parse("f.json", []byte(`[{"targets":["a:1"],"labels":`+labels+`},{"targets":["b:1"]}]`), "leaf"); err != nil || got.LeftOut != 1 || len(got.Targets) != 1 || len(got.Why.Error()) > 200 {
			t.Errorf("%.100s: %+v, %v", labels, got, err)
		}
	}
	const twice = `[{"targets":["a:1","a:1"],"labels":{"leaf":"l1"}},{"targets":["a:1"],"labels":{"leaf":"l2"}},{"targets":["a:1"],"labels":{"leaf":"l2","rail":"1"}}]`
	if got, err := Parse("f.json", []byte(twice), "leaf"); err != nil || len(got.Targets) != 2 || got.LeftOut != 1 || got.Why.Error() != `target "a:1" is there twice, with the leaves "l1" and "l2"` {
		t.Errorf("%+v, %v", got, err)
	}
	for name, text := range map[string]string{
		"empty.json": "", "object.json": "{}", "half.json": `[{"targets":["a:1"`, "tail.json": "[] x", "types.json": `[{"targets":[1]}]`,
		"bomb.yaml": "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c]\n",
		"deep.json": strings.Repeat("[", 1<<20), "deeper.json": `[{"labels":{"x":` + strings.Repeat("[", 1<<20), "deep.yml": strings.Repeat("- ", 1<<18),
		"long.yml": strings.Repeat("#", maxYAML+1), "long.json": strings.Repeat(" ", maxFile+1),
	} {
		if got, err := Parse(name, []byte(text), "leaf"); err == nil || len(got.Targets) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestEntriesWithoutTargets refuses what Prometheus refuses, a key that file_sd does not have, and counts entries that
// have no targets at all. An empty list of them is none to complain of.
func TestEntriesWithoutTargets(t *testing.T) {
	for name, c := range map[string]struct {
		text             string
		targets, leftOut int
		wrong            string // of the file; empty: it is taken
	}{
		"typo.json":    {`[{"target":["a:1"]},{"targets":["b:1"]}]`, 0, 0, "target"},
		"typo.yml":     {"- target: ['a:1']\n- targets: ['b:1']\n", 0, 0, "target"},
		"labels.json":  {`[{"targets":["a:1"],"lables":{"leaf":"l"}}]`, 0, 0, "lables"},
		"nothing.json": {`[{},null,{"labels":{"leaf":"l"}},{"targets":["b:1"]}]`, 1, 3, ""},
		"nothing.yml":  {"- {}\n-\n- labels: {leaf: l}\n- targets: ['b:1']\n", 1, 3, ""},
		"empty.json":   {`[{"targets":[]},{"targets":["b:1"]}]`, 1, 0, ""},
		"empty.yml":    {"- targets: []\n- targets: ['b:1']\n", 1, 0, ""},
		"none.json":    {`[]`, 0, 0, ""},
		"none.yml":     {`[]`, 0, 0, ""},
	} {
		got, err := Parse(name, []byte(c.text), "leaf")
		if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) || len(got.Targets) != c.targets || got.LeftOut != c.leftOut {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if c.leftOut > 0 && !strings.Contains(fmt.Sprint(got.Why), "targets") {
			t.Errorf("%s: %v", name, got.Why)
		}
	}
}

// TestLeafByRack takes a label for the leaf that is kept for something else, too.
func TestLeafByRack(t *testing.T) {
	got, err := Parse("f.json", []byte(`[{"targets":["a:1"],"labels":{"rack":"r1"}}]`), "rack")
	if err != nil || len(got.Targets) != 1 || got.Targets[0].Leaf != "r1" || got.Targets[0].Rack != "r1" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestManyTargets bounds a list and the lists together.
func TestManyTargets(t *testing.T) {
	var text strings.Builder
	text.WriteString(`[{"targets":["n:1"`)
	for i := range MaxTargets {
		fmt.Fprintf(&text, `,"n%d:1"`, i)
	}
	text.WriteString("]}]")
	got, err := Parse("f.json", []byte(text.String()), "leaf")
	if err != nil || len(got.Targets) != MaxTargets || got.LeftOut != 1 {
		t.Fatalf("%d targets, %d left out, %v", len(got.Targets), got.LeftOut, err)
	}
	if n := len(Choose(Target{Address: "n:1", Rail: 0}, got.Targets, DefaultPeers)); n != DefaultPeers {
		t.Errorf("%d chosen", n)
	}
	dir := t.TempDir()
	s := Source{Files: []string{filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")}}
	for _, f := range s.Files {
		if err := os.WriteFile(f, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if all, errs := readAll(t, &s); len(all) != MaxTargets || len(errs) != 2 {
		t.Errorf("%d targets, %v", len(all), errs)
	}
}

// readAll waits for lists that a busy machine takes long to read.
func readAll(t testing.TB, s *Source) ([]Target, []error) {
	t.Helper()
	for {
		all, errs := s.Targets(t.Context())
		if !strings.Contains(fmt.Sprint(errs), "not read within") {
			return all, errs
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestSource follows a file that changes, and keeps what it had when it is damaged or gone.
func TestSource(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodes.json")
	var unresolved error
	s := Source{Files: []string{file}, Names: []string{"nodes.svc:10791"}, Lookup: func(_ context.Context, host string) ([]string, error) {
		return []string{"10.0.0.2", "10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"}, unresolved
	}}
	written := time.Now()
	write := func(text string) {
		t.Helper()
		written = written.Add(time.Second)
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chtimes(file, written, written)); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(targets, wrong int) {
		t.Helper()
		all, errs := s.Targets(t.Context())
		if len(all) != targets || len(errs) != wrong {
			t.Errorf("%v, %v, expected %d targets and %d errors", all, errs, targets, wrong)
		}
	}
	expect(2, 1)
	write(twoGroups)
	expect(5, 0)
	write(`[{"targets":["a:1","b"]}]`)
	expect(3, 1)
	write(`[{"targets"`)
	expect(3, 1)
	os.Remove(file)
	unresolved = errors.New("no such host")
	expect(3, 2)
	write(twoGroups)
	expect(5, 1)
	s = Source{Names: []string{"nodes", "nodes:http"}}
	expect(0, 2)
}

// TestHanging publishes what can be read although a name hangs, and what that had before stays.
func TestHanging(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodes.json")
	if err := os.WriteFile(file, []byte(twoGroups), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		var looks atomic.Int32
		s := Source{Files: []string{file}, Names: []string{"hangs:1", "well:1"}, Lookup: func(_ context.Context, host string) ([]string, error) {
			if host == "hangs" && hangs.Load() { // and does not heed its context
				looks.Add(1)
				time.Sleep(time.Hour)
			}
			return []string{"10.0.0." + strconv.Itoa(len(host))}, nil
		}}
		for _, now := range []bool{false, true, true, true} {
			hangs.Store(now)
			begin := time.Now()
			all, errs := s.Targets(t.Context())
			if len(all) != 5 || (len(errs) > 0) != now || time.Since(begin) > patience {
				t.Errorf("%v, %v after %s", all, errs, time.Since(begin))
			}
			if want := "hangs:1: not read within 5s: does its file system or name server answer? (it keeps the targets that it had: 1)"; now && fmt.Sprint(errs) != "["+want+"]" {
				t.Errorf("%v, expected %s", errs, want)
			}
		}
		if n := looks.Load(); n != 1 {
			t.Errorf("%d looks at what hangs", n)
		}
		time.Sleep(time.Hour)
		hangs.Store(false)
		if _, errs := s.Targets(t.Context()); len(errs) > 0 {
			t.Error(errs)
		}
	})
}

// TestLate takes what came too late with the next look, so that a name server that is slow is no dead one.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Source{Names: []string{"slow:1"}, Lookup: func(ctx context.Context, _ string) ([]string, error) {
			time.Sleep(patience + time.Second)
			return []string{"10.0.0.1"}, ctx.Err()
		}}
		for i := range 3 {
			all, errs := s.Targets(t.Context())
			if want := min(i, 1); len(all) != want || len(errs) != 1 {
				t.Errorf("look %d: %v, %v", i, all, errs)
			}
			time.Sleep(2 * patience)
		}
	})
}

// TestRefused reads a file that was refused again when it changes, and no sooner.
func TestRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodes.json")
	at := time.Now()
	write := func(text string) { // each has another inode, and neither another time nor size
		t.Helper()
		if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Chtimes(file+".new", at, at), os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
	}
	s := Source{Files: []string{file}}
	look := func(targets int, want string) os.FileInfo {
		t.Helper()
		all, errs := s.Targets(t.Context())
		if text := fmt.Sprint(errors.Join(errs...)); len(all) != targets || !strings.Contains(text, want) || (want == "<nil>") != (len(errs) == 0) {
			t.Errorf("%v, %s, expected %d targets and %s", all, text, targets, want)
		}
		return s.lists[0].file
	}
	write(`[{"targets":["a:1"]}]`)
	look(1, "<nil>")
	write(`[{"targets":["a:1"]} `)
	const refused = "nodes.json: expected a list of targets as of Prometheus' file_sd: it is empty or cut off (it keeps the targets that it had: 1)"
	if first, again := look(1, refused), look(1, refused); first != again {
		t.Error("it is parsed again")
	}
	write(`[{"targets":["b:1"]}]`)
	look(1, "<nil>")
}

// TestReplacedWhileRead takes one file or the other whole, and the last one in the end.
func TestReplacedWhileRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodes.json")
	write := func(i int) {
		text := `[{"targets":["a:1"` + strings.Repeat(" ", i%2*1000) + strings.Repeat(`,"b:1"`, i%2) + `]}]`
		if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file)); err != nil {
			t.Error(err)
		}
	}
	write(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 300 {
			write(i)
		}
	}()
	s := Source{Files: []string{file}}
	for writing := true; writing; {
		select {
		case <-done:
			writing = false
		default:
		}
		if all, errs := readAll(t, &s); len(errs) > 0 || len(all) == 0 {
			t.Fatalf("%v, %v", all, errs)
		}
	}
	if all, errs := readAll(t, &s); len(errs) > 0 || len(all) != 2 {
		t.Errorf("%v, %v", all, errs)
	}
}

// TestNoFile is what is no file, and is neither waited for nor read.
func TestNoFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(syscall.Mkfifo(at("fifo"), 0o600), os.Symlink("b", at("a")), os.Symlink("a", at("b")), os.WriteFile(at("long"), make([]byte, maxFile+1), 0o600)); err != nil {
		t.Fatal(err)
	}
	s := Source{Files: []string{at("fifo"), at("a"), dir, "/dev/zero", at("long"), at("none")}}
	all, errs := s.Targets(t.Context())
	for i, want := range []string{"is a FIFO, expected a regular file", "too many levels of symbolic links", "is a directory", "is a device", "longer than", "no such file"} {
		if len(all) > 0 || len(errs) != 6 || !strings.Contains(errs[i].Error(), want) {
			t.Fatalf("%v, %v, expected %s", all, errs, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("f.json", []byte(twoGroups))
	f.Add("f.yml", []byte("- targets: [a:1]\n  labels: {leaf: x}\n"))
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		got, err := Parse(name, content, "leaf")
		if err != nil && len(got.Targets) > 0 || (got.LeftOut > 0) != (got.Why != nil) {
			t.Errorf("%+v, %v", got, err)
		}
		for _, g := range got.Targets {
			if CheckAddress(g.Address) != nil || g.Rail < AllRails || g.Rail > maxRail || len(g.Leaf) > maxLabel {
				t.Errorf("%+v", g)
			}
		}
		Choose(Target{Address: "a:1", Leaf: "x"}, got.Targets, DefaultPeers)
	})
}

// BenchmarkTargets is 100,000 targets: a file that changed, one that did not, and the choice of eight rails.
func BenchmarkTargets(b *testing.B) {
	var list []string
	for i := range 100_000 {
		list = append(list, fmt.Sprintf(`{"targets":["node%d.cluster.example:10791"],"labels":{"leaf":"leaf-%d"}}`, i, i/32))
	}
	file := filepath.Join(b.TempDir(), "a.json")
	write := func() {
		if err := os.WriteFile(file, []byte("["+strings.Join(list, ",\n")+"]"), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	write()
	s := Source{Files: []string{file}}
	all, errs := readAll(b, &s)
	if len(all) != len(list) || len(errs) > 0 {
		b.Fatal(len(all), errs)
	}
	b.Run("changed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.lists = nil
			readAll(b, &s)
		}
		var before, after runtime.MemStats
		s, all = Source{Files: s.Files}, nil
		runtime.GC()
		runtime.ReadMemStats(&before)
		all, _ = readAll(b, &s)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB-kept")
	})
	b.Run("as it was", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Targets(b.Context())
		}
	})
	b.Run("choose", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for rail := range 8 {
				self := all[77]
				self.Rail = rail
				Choose(self, all, DefaultPeers)
			}
		}
	})
}

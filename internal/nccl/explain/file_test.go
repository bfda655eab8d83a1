// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/nccl/signature"
)

// Logs of several nodes are read as one: what is earlier by its time comes first, in whatever file.
func TestSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	late := "[2026-03-04 05:07:00] gpu1:41:77 [0] misc/socket.cc:9 NCCL WARN socketStartConnect: Connect to 10.0.0.7<9> failed : Connection refused\n"
	early := "[2026-03-04 05:06:00] gpu2:42:78 [0] misc/socket.cc:9 NCCL WARN ncclSocketInit: Socket creation failed : Too many open files\n"
	a, b := write("a.log", ranks(2, "gpu1")+late), write("b.log", early)
	write("core", "\x1f\x8b\x08\x00")
	for name, names := range map[string][]string{"two names": {a, b}, "another order": {b, a}, "a folder": {dir}} {
		r, err := ReadFiles(t.Context(), names, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		f := r.First()
		if f == nil || f.Signature.ID != "ports_exhausted" || f.File != b || f.Line != 1 || f.Host != "gpu2" || len(r.Files) != 2 || len(r.Hosts) != 2 {
			t.Errorf("%s: %+v of %q", name, f, r.Files)
		}
	}
	for name, names := range map[string][]string{"missing": {a, dir + "/none"}, "no text": {filepath.Join(dir, "core")}, "a device": {"/dev/null"}} {
		if _, err := ReadFiles(t.Context(), names, nil, false); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

// The facts that the table names are known here, and mean what it says.
func TestFacts(t *testing.T) {
	for text, want := range map[string]int{
		"x returned 113(No route to host) errno 115(Operation now in progress)": 113, "failed with error Cannot allocate memory": 12,
		"failed with error Bad address errno 14": 14, "failed with 110 Connection timed out": 110, "RC: -22": 22, "error: No such file or directory (2)": 2,
		"all is well": 0, "errno 99999": 0,
	} {
		if got := Errno(text); got != want {
			t.Errorf("%q: %d, expected %d", text, got, want)
		}
	}
}

// TestTableOfFacts: each fact of the table is one that this package knows.
func TestTableOfFacts(t *testing.T) {
	all := signature.All()
	for _, s := range signature.Judgements() {
		all = append(all, *s)
	}
	used := map[signature.Fact]bool{}
	for _, s := range all {
		for _, r := range s.Reasons {
			for _, fact := range slices.Concat(r.If, r.Likely, r.Certain) {
				used[signature.Fact(strings.TrimPrefix(string(fact), "!"))] = true
			}
		}
	}
	for fact := range used {
		_, known := facts[fact]
		_, around := surrounding[fact]
		known = known || around
		for _, relation := range relations {
			known = known || strings.HasPrefix(string(fact), relation.name)
		}
		if !known {
			t.Errorf("%q is not known", fact)
		}
		if id, is := strings.CutPrefix(string(fact), "seen:"); is && id != "xid" && id != "xid_hardware" && !slices.ContainsFunc(all, func(s signature.Signature) bool { return s.ID == id }) {
			t.Errorf("%q is no signature", id)
		}
	}
	for _, fact := range slices.Concat(slices.Collect(maps.Keys(facts)), slices.Collect(maps.Keys(surrounding))) {
		if !used[fact] {
			t.Errorf("%q is not used", fact)
		}
	}
}

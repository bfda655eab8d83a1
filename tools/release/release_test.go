// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// built builds this program, which is linked with one module, and changes to its folder, which is a root as
// read expects.
func built(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	return path
}

func output(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(&out, args); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Each module of the binary is in the bill of materials, with its licence, and the same binary gives the same bits.
func TestSPDX(t *testing.T) {
	program := built(t)
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	text := output(t, "sbom", "1.2.3", program)
	if again := output(t, "sbom", "1.2.3", program); again != text {
		t.Error("another text for the same binary")
	}
	var d spdxDocument
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	if d.Version != "SPDX-2.3" || d.Creation.Created != "2023-11-14T22:13:20Z" {
		t.Errorf("%s of %s", d.Version, d.Creation.Created)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"gpufabric_exporter 1.2.3 Apache-2.0", "std " + strings.TrimPrefix(info.GoVersion, "go") + " BSD-3-Clause", "github.com/google/licensecheck v0.3.1 BSD-3-Clause"}
	var got []string
	ids := map[string]bool{}
	for _, p := range d.Packages {
		got = append(got, p.Name+" "+p.Version+" "+p.LicenceDeclared)
		if ids[p.ID] || !regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`).MatchString(p.ID) {
			t.Errorf("%s: the ID %s is there twice, or has other characters than SPDX allows", p.Name, p.ID)
		}
		ids[p.ID] = true
	}
	if !slices.Equal(got, want) {
		t.Errorf("packages are %q, want %q", got, want)
	}
	for _, r := range d.Relationships {
		if !ids[r.Related] {
			t.Errorf("%v is about nothing in the document", r)
		}
	}
}

func TestLicences(t *testing.T) {
	text := output(t, "licences", built(t))
	for _, want := range []string{"github.com/google/licensecheck  v0.3.1", "\nstd/LICENSE\n", "github.com/google/licensecheck/LICENSE", "Redistribution and use in source and binary forms"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q", want)
		}
	}
}

// A module whose licence is unknown, or requires more than a notice, is not released.
func TestIdentify(t *testing.T) {
	mit := "Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the \"Software\"), " +
		"to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell " +
		"copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions:\n\nThe above copyright notice and " +
		"this permission notice shall be included in all copies or substantial portions of the Software.\n\nTHE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, " +
		"EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE " +
		"AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN " +
		"CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.\n"
	gpl := "This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as published by the Free Software " +
		"Foundation, either version 3 of the License, or (at your option) any later version. This program is distributed in the hope that it will be useful, but WITHOUT ANY " +
		"WARRANTY; without even the implied warranty of MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE. See the GNU General Public License for more details."
	for _, c := range []struct{ text, id, refused string }{
		{mit, "MIT", ""},
		{gpl, "", "expected one of"},
		{"All rights reserved. You may not use this.", "", "is a known licence"},
		{mit + strings.Repeat("And every user owes the author a letter, by post, each year, in a language of the author's choice. ", 20), "", "is a known licence"},
	} {
		ids := map[string]bool{}
		err := identify(ids, "LICENSE", []byte(c.text))
		if c.refused == "" && (err != nil || len(ids) != 1 || !ids[c.id]) || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%.40s: %v, %v", c.text, ids, err)
		}
	}
}

// A module without a licence ends the release.
func TestUnlicensed(t *testing.T) {
	m := module{path: "example.com/m", version: "v1.0.0"}
	err := m.readLicences(map[string][]string{"example.com/m": {t.TempDir()}})
	if err == nil || !strings.Contains(err.Error(), "has no licence") {
		t.Error(err)
	}
	if err := m.readLicences(nil); err == nil || !strings.Contains(err.Error(), "go list does not know it") {
		t.Error(err)
	}
}

// The licence of a part of a module counts, beside that of the module.
func TestNestedLicence(t *testing.T) {
	root := t.TempDir()
	part := filepath.Join(root, "internal", "part")
	if err := os.MkdirAll(part, 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{filepath.Join(root, "LICENSE"): string(text), filepath.Join(root, "NOTICE"): "of the authors\n", filepath.Join(part, "LICENSE.txt"): string(text)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := module{path: "example.com/m"}
	if err := m.readLicences(map[string][]string{"example.com/m": {part, filepath.Dir(part), root}}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, t := range m.texts {
		names = append(names, t.name)
	}
	if want := []string{"example.com/m/LICENSE", "example.com/m/NOTICE", "example.com/m/internal/part/LICENSE.txt"}; !slices.Equal(names, want) || m.licence != "Apache-2.0" {
		t.Errorf("%q, %s", names, m.licence)
	}
}

// The statement names what was built, and from what.
func TestProvenance(t *testing.T) {
	program := built(t)
	other := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(other, []byte("text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir("../..")
	b := binary{modules: []module{{path: standard, version: "1.26.8"}, {path: "github.com/NVIDIA/go-nvml", version: "v0.13.4-0", sum: "h1:Khu2En+0gcYPZ2kuIihfswbzxv/mIHXgzPZ018Oty48="}}}
	var out bytes.Buffer
	if err := writeProvenance(&out, b, "1.2.3", strings.Repeat("a", 40), []string{program, other}); err != nil {
		t.Fatal(err)
	}
	var s statement
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Subject) != 2 || s.Subject[1].Name != "text" || s.Subject[1].Digest["sha256"] != "b9e68e1bea3e5b19ca6b2f98b73a54b73daafaa250484902e09982e07a12e733" {
		t.Errorf("subjects are %v", s.Subject)
	}
	digests := map[string]string{}
	debs := 0
	for _, d := range s.Predicate.Definition.Dependencies {
		for _, sum := range d.Digest {
			digests[d.URI] = sum
		}
		if strings.HasSuffix(d.URI, ".deb") && len(d.Digest["sha256"]) == 64 {
			debs++
		}
	}
	// The example of in-toto's digest_set.md.
	if got := digests["pkg:golang/github.com/nvidia/go-nvml@v0.13.4-0"]; got != "2a1bb6127fb481c60f67692e22285fb306f3c6ffe62075e0ccf674d7c3adcb8f" {
		t.Errorf("the checksum of a module is %s", got)
	}
	if digests["git+"+repository] != strings.Repeat("a", 40) || debs != 6 {
		t.Errorf("commit %s, %d packages of the sysroot", digests["git+"+repository], debs)
	}
}

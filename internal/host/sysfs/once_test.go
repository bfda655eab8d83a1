// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// TestOnceReadsEverything: each method that reads at a time is called from once.go, or reads a part of what those do.
func TestOnceReadsEverything(t *testing.T) {
	parts := []string{ // of others, or asked for by name in a capture
		"FindGIDs", "ReadGIDs", "ReadRate", "ReadNetDev", "HasHWCounters", "ReadDeviceHWCounters", "ReadPortHWCounters", "NetDevs",
	}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	methods, called := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				for _, p := range n.Type.Params.List {
					typ, ok := p.Type.(*ast.SelectorExpr)
					if ok && typ.Sel.Name == "Time" && n.Recv != nil && n.Name.IsExported() && name != "once.go" {
						methods[n.Name.Name] = true
					}
				}
			case *ast.SelectorExpr:
				called[n.Sel.Name] = called[n.Sel.Name] || name == "once.go"
			}
			return true
		})
	}
	if len(methods) < 15 {
		t.Errorf("found only %v", slices.Sorted(maps.Keys(methods)))
	}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if !called[name] && !slices.Contains(parts, name) {
			t.Errorf("%s reads something that captures will not have: call it in once.go", name)
		}
	}
}

// listener receives what is read by one goroutine.
type listener struct {
	reading string // what is being read
	files   map[string]bool
}

func (r *listener) Begin(p string) error             { r.reading = p; return nil }
func (r *listener) Look(string)                      {}
func (r *listener) Entry(string, string)             {}
func (r *listener) Text(p string, _ []byte, _ error) { r.reading = ""; r.files[p] = true }

// TestRecorderSeesEveryRead: there is no way to the text of a file around the recorder.
func TestRecorderSeesEveryRead(t *testing.T) {
	f, _ := mlx5("mlx5_0", mlx5PCI, "hca0").open(t)
	rec := &listener{files: map[string]bool{}}
	f.Record(rec)
	preads, pread := 0, f.pread
	f.pread = func(fd int, p []byte, offset int64) (int, error) {
		if preads++; rec.reading == "" {
			t.Error("a file was read that the recorder did not receive")
		}
		return pread(fd, p, offset)
	}
	d, err := f.Device("mlx5_0")
	must(t, err)
	defer d.Close()
	var h fabric.HCA
	must(t, d.ReadOnce(&h, now))
	f.ReadOnce(now)
	if len(h.Ports) == 0 || preads < 50 || len(rec.files) < 40 {
		t.Errorf("%d ports, %d reads, %d files recorded", len(h.Ports), preads, len(rec.files))
	}
}

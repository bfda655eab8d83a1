// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// rowVariable is a row that a variable of a file is.
type rowVariable struct {
	variable, file, name string
	listed, emitted      bool // in a function of rows; anywhere else
}

// rowVariables reads the source of this package for rows and what becomes of them.
func rowVariables(t *testing.T) []*rowVariable {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var rows []*rowVariable
	var files []*ast.File
	set := token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				for _, s := range g.Specs {
					spec := s.(*ast.ValueSpec)
					for i, v := range spec.Values {
						if family, ok := familyName(v); ok {
							rows = append(rows, &rowVariable{variable: spec.Names[i].Name, file: name, name: family})
						}
					}
				}
			}
		}
	}
	for _, file := range files {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					if i := slices.IndexFunc(rows, func(r *rowVariable) bool { return r.variable == id.Name }); i >= 0 {
						lists := listsRows(f)
						rows[i].listed = rows[i].listed || lists
						rows[i].emitted = rows[i].emitted || !lists
					}
				}
				return true
			})
		}
	}
	return rows
}

// listsRows reports whether the function returns []*Family.
func listsRows(f *ast.FuncDecl) bool {
	if f.Type.Results == nil || len(f.Type.Results.List) != 1 {
		return false
	}
	list, ok := f.Type.Results.List[0].Type.(*ast.ArrayType)
	if !ok {
		return false
	}
	pointer, ok := list.Elt.(*ast.StarExpr)
	if !ok {
		return false
	}
	of, ok := pointer.X.(*ast.Ident)
	return ok && of.Name == "Family"
}

// familyName is the name in a literal &Family{Name: "...", ...}.
func familyName(e ast.Expr) (string, bool) {
	u, ok := e.(*ast.UnaryExpr)
	if !ok {
		return "", false
	}
	lit, ok := u.X.(*ast.CompositeLit)
	if !ok {
		return "", false
	}
	if id, ok := lit.Type.(*ast.Ident); !ok || id.Name != "Family" {
		return "", false
	}
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok && kv.Key.(*ast.Ident).Name == "Name" {
			if v, ok := kv.Value.(*ast.BasicLit); ok {
				name, err := strconv.Unquote(v.Value)
				return name, err == nil
			}
		}
	}
	return "", true
}

// rowFile is the file that has a row with this name.
func rowFile(t *testing.T, f *Family) string {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && !strings.HasSuffix(name, "_test.go") && strings.Contains(string(text), strconv.Quote(f.Name)) {
			return "collector/" + name
		}
	}
	return "collector"
}

// A row is in the list of its collector, once, and something emits it.
func TestRowsAreListedAndEmitted(t *testing.T) {
	rows := rowVariables(t)
	if len(rows) == 0 {
		t.Fatal("no rows are found")
	}
	for _, r := range rows {
		count := 0
		for _, f := range Catalogue() {
			if f.Name == r.name {
				count++
			}
		}
		switch {
		case !r.listed:
			t.Errorf("collector/%s: the row %s (%s) is in no list: add it to the function ...Families of its collector", r.file, r.variable, r.name)
		case count != 1:
			t.Errorf("collector/%s: the row %s (%s) is %d times in the catalogue: list it once, in a function that a collector in collector/collector.go names in families", r.file, r.variable, r.name, count)
		case !r.emitted:
			t.Errorf("collector/%s: nothing emits %s (%s): emit it in the function collect... of its collector", r.file, r.variable, r.name)
		}
	}
}

// A fact of a device or port that costs a read is of use: as a metric, for a check or for what follows from it.
func TestFactsAreUsed(t *testing.T) {
	var source strings.Builder
	for _, pattern := range []string{"*.go", "../internal/diagnose/*.go", "../internal/diagnose/*/*.go", "../internal/verdict/*.go", "../internal/fabric/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && !strings.HasSuffix(file, "_test.go") {
				source.Write(text)
			}
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[fabric.HCA](), reflect.TypeFor[fabric.Port]()} {
		for _, f := range reflect.VisibleFields(of) {
			if strings.HasPrefix(f.Type.Name(), "Fact[") && !regexp.MustCompile(`\.`+f.Name+`\b`).MatchString(source.String()) {
				t.Errorf("nothing uses the fact %s of a %s: add its metric to the tables in collector/hca.go", f.Name, of.Name())
			}
		}
	}
}

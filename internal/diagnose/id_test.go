// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// A check that is renamed must not drop out of where it is named: in code by a constant, in queries by its ID.
func TestNamedChecksExist(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../verdict/id.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, is := n.(*ast.BasicLit); is {
			if id, err := strconv.Unquote(s.Value); err != nil || diagnose.Find(id) == nil {
				t.Errorf("no check %s", s.Value)
			}
		}
		return true
	})
	inCode := regexp.MustCompile(`diagnose\.(?:Find|Checks)\("|Check\.ID [!=]= "`)
	literal := regexp.MustCompile(`(?:[^:\s] |[{([])"([a-z_]+)"[^:]`) // no value of a field, nor key of a map
	named := regexp.MustCompile(`(?:\bcheck(?:=|=~|!=|!~)\\*"|\b(?:fails|follows)\("|"problem", ")([a-z][a-z_|.+]*)\\*"`)
	found := 0
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch ext := filepath.Ext(path); {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || strings.HasSuffix(path, "_test.go") || !slices.Contains([]string{".go", ".json", ".yml", ".yaml", ".md"}, ext):
			return nil
		}
		content, err := os.ReadFile(path)
		if inCode.Match(content) {
			t.Errorf("%s: names a check by a literal", path)
		}
		for _, m := range literal.FindAllStringSubmatch(string(content), -1) {
			if strings.HasPrefix(path, "../../internal/diagnose/") && diagnose.Find(m[1]) != nil {
				t.Errorf("%s: names the check %s by a literal", path, m[1])
			}
		}
		for _, m := range named.FindAllStringSubmatch(string(content), -1) {
			for id := range strings.SplitSeq(m[1], "|") {
				found++
				pattern := regexp.MustCompile("^" + id + "$")
				if !slices.ContainsFunc(diagnose.Catalogue(), func(c *verdict.Check) bool { return pattern.MatchString(c.ID) }) {
					t.Errorf("%s: no check %s", path, id)
				}
			}
		}
		return err
	})
	if err != nil || found < 50 {
		t.Errorf("%d checks are named: %v", found, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("an ID without a check is taken")
		}
	}()
	diagnose.Checks(verdict.CheckGID, "renamed")
}

// What a configuration expects is compared with each node by a check.
func TestExpectationsHaveChecks(t *testing.T) {
	all := &fabric.Policy{
		ComputePorts: new(8), GPUs: new(8), NCCL: new(fabric.NCCLVersion), PortRates: map[fabric.Role]float64{fabric.RoleCompute: 50e9},
		RoCE: fabric.RoCEPolicy{DSCP: new(26), Priority: new(3), Lossless: new(true), ECN: new(true)},
	}
	for _, e := range all.Expectations() {
		if !slices.ContainsFunc(diagnose.Catalogue(), func(c *verdict.Check) bool { return c.Expects != "" && strings.HasPrefix(e.Key, c.Expects) }) {
			t.Errorf("no check compares the node with %s", e)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpufabric_exporter/internal/host/netlink"
)

// The commands that the package may know, with their numbers in enum rdma_nldev_command. Kernels let all users send
// them (nldev_cb_table has no RDMA_NL_ADMIN_PERM for them), and none changes anything.
func readingCommands() map[string]int {
	return map[string]int{
		"cmdGet": 1, "cmdPortGet": 5, "cmdSysGet": 6, "cmdStatGet": 17,
		"cmdCQGet": 12, "cmdMRGet": 13, "cmdPDGet": 14, "cmdCtxGet": 22,
	}
}

// The sources hold no other command, and only encode makes requests.
func TestSourcesKnowReadingCommandsOnly(t *testing.T) {
	found := map[string]int{}
	for name, file := range sources(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, id := range n.Names {
					if !isCommand(n, id) || id.Name == "lastCommand" {
						continue
					}
					if i >= len(n.Values) {
						t.Errorf("%s: %s has no number of its own", name, id.Name)
						continue
					}
					number, err := strconv.Atoi(n.Values[i].(*ast.BasicLit).Value)
					if err != nil {
						t.Errorf("%s: %s: %v", name, id.Name, err)
					}
					found[id.Name] = number
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "command" && name != "command.go" {
					t.Errorf("%s converts a number to a command", name)
				}
			case *ast.CompositeLit:
				if sel, ok := n.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Header" && name != "command.go" {
					t.Errorf("%s makes a header", name)
				}
			case *ast.SelectorExpr:
				if slices.Contains([]string{"Execute", "SendMessages", "SyscallConn", "Sendmsg", "Sendto", "Write", "Create", "Replace", "Excl"}, n.Sel.Name) {
					t.Errorf("%s uses %s", name, n.Sel.Name)
				}
			}
			return true
		})
	}
	if want := readingCommands(); !maps.Equal(found, want) {
		t.Errorf("commands %v, want %v", found, want)
	}
}

func isCommand(spec *ast.ValueSpec, id *ast.Ident) bool {
	typ, ok := spec.Type.(*ast.Ident)
	return ok && typ.Name == "command" || strings.HasPrefix(id.Name, "cmd") || strings.HasSuffix(id.Name, "Command")
}

// sources parses the files of the package without its tests.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	files := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	return files
}

// What encode makes is a request of a reading command, with or without NLM_F_DUMP.
func TestEncodeOnlyReads(t *testing.T) {
	var numbers []int
	for _, cmd := range commands() {
		numbers = append(numbers, int(cmd))
		for _, flags := range []netlink.HeaderFlags{0, netlink.Dump} {
			for _, args := range [][]uint32{nil, {1}, {1, 2}} {
				m := encode(cmd, flags, args...)
				if m.Header.Type != cmd.header() || m.Header.Flags&^flags != netlink.Request || len(m.Data) != 8*len(args) {
					t.Errorf("%v: %+v", cmd, m)
				}
			}
		}
		if cmd.String() == "unknown" {
			t.Errorf("command %d has no name", cmd)
		}
	}
	want := slices.Sorted(maps.Values(readingCommands()))
	if !slices.Equal(numbers, want) {
		t.Errorf("commands %v, want %v", numbers, want)
	}
}

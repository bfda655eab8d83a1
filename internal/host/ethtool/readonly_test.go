// SPDX-License-Identifier: Apache-2.0

package ethtool

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
)

// The requests that the package may know, with their numbers. Kernels let all users send them, and none changes
// anything.
func readingRequests() map[string]int {
	return map[string]int{
		"cmdDriverInfo": 0x3, "cmdNames": 0x1b, "cmdValues": 0x1d, "cmdCounts": 0x37,
		"msgGetFamily": 3, "msgLinkModes": 4, "msgPause": 21, "msgFEC": 29,
	}
}

// The sources contain no other request, and one place that makes each kind.
func TestSourcesKnowReadingRequestsOnly(t *testing.T) {
	found := map[string]int{}
	uses := map[string]int{}
	for name, file := range sources(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				typ, _ := n.Type.(*ast.Ident)
				for i, id := range n.Names {
					typed := typ != nil && (typ.Name == "command" || typ.Name == "message")
					if !typed && !strings.HasPrefix(id.Name, "cmd") && !strings.HasPrefix(id.Name, "msg") {
						continue
					}
					if i >= len(n.Values) {
						t.Errorf("%s: %s has no number of its own", name, id.Name)
						continue
					}
					number, err := strconv.ParseInt(n.Values[i].(*ast.BasicLit).Value, 0, 32)
					if err != nil {
						t.Errorf("%s: %s: %v", name, id.Name, err)
					}
					found[id.Name] = int(number)
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "command" || id.Name == "message") {
					t.Errorf("%s converts a number to a %s", name, id.Name)
				}
			case *ast.SelectorExpr:
				switch n.Sel.Name {
				case "Syscall", "IoctlIfreq", "ethtool", "Send", "Message", "SIOCETHTOOL", "SIOCGIFINDEX":
					uses[name+" "+n.Sel.Name]++
				case "RawSyscall", "Syscall6", "Execute", "SendMessages", "SyscallConn", "Sendmsg", "Sendto", "Write", "Pwrite", "Create", "WriteFile":
					t.Errorf("%s uses %s", name, n.Sel.Name)
				}
				if strings.HasPrefix(n.Sel.Name, "SIOC") || strings.HasPrefix(n.Sel.Name, "ETHTOOL_") {
					if n.Sel.Name != "SIOCETHTOOL" && n.Sel.Name != "SIOCGIFINDEX" {
						t.Errorf("%s uses %s", name, n.Sel.Name)
					}
				}
			}
			return true
		})
	}
	if want := readingRequests(); !maps.Equal(found, want) {
		t.Errorf("requests %v, want %v", found, want)
	}
	want := map[string]int{
		"ioctl.go Syscall": 1, "ioctl.go SIOCETHTOOL": 1, "ioctl.go ethtool": 1, "ioctl.go IoctlIfreq": 1, "ioctl.go SIOCGIFINDEX": 1,
		"netlink.go Message":   1,
		"recording.go Message": 1, // what the player is asked
	}
	if !maps.Equal(uses, want) {
		t.Errorf("uses %v, want %v", uses, want)
	}
}

// sources parses the files of the package without its tests.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	files := map[string]*ast.File{}
	for _, name := range slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "_test.go") }) {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	return files
}

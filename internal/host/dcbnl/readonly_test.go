// SPDX-License-Identifier: Apache-2.0

package dcbnl

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/host/netlink"
)

// The sources hold no command but the two that read (they are of type RTM_GETDCB in reply_funcs of dcbnl.c), and only
// encode makes requests.
func TestSourcesKnowReadingCommandsOnly(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	found := map[string]string{}
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
			case *ast.ValueSpec:
				for i, id := range n.Names {
					if typ, ok := n.Type.(*ast.Ident); ok && typ.Name == "command" || strings.HasPrefix(id.Name, "cmd") {
						found[id.Name] = n.Values[i].(*ast.BasicLit).Value
					}
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "command" {
					t.Errorf("%s converts a number to a command", name)
				}
			case *ast.CompositeLit:
				if sel, ok := n.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Header" && name != "command.go" {
					t.Errorf("%s makes a header", name)
				}
			case *ast.SelectorExpr:
				forbidden := []string{"Execute", "SendMessages", "SyscallConn", "Sendmsg", "Sendto", "Write", "JoinGroup", "RTM_SETDCB", "Acknowledge"}
				if slices.Contains(forbidden, n.Sel.Name) {
					t.Errorf("%s uses %s", name, n.Sel.Name)
				}
			}
			return true
		})
	}
	if want := map[string]string{"cmdIEEEGet": "21", "cmdCEEGet": "26"}; !maps.Equal(found, want) {
		t.Errorf("commands %v, want %v", found, want)
	}
}

// What encode makes is a question: its type, no flag but that of a request, and the name of the interface alone.
func TestEncodeOnlyReads(t *testing.T) {
	for _, cmd := range []command{cmdIEEEGet, cmdCEEGet} {
		for _, netdev := range []string{"lo", "eth0", "fifteen-letters"} {
			m := encode(cmd, netdev)
			all, err := parse(m.Data[messageHeader:])
			if err != nil || m.Header.Type != unix.RTM_GETDCB || m.Header.Flags != netlink.Request || len(m.Data)%4 != 0 {
				t.Errorf("%+v, %v", m, err)
			}
			for kind, data := range all {
				if kind == attrIfName && string(data) == netdev+"\x00" || kind != attrIfName && data == nil {
					continue
				}
				t.Errorf("attribute %d: %q", kind, data)
			}
		}
	}
}

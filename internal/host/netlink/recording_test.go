// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

// TestLoad: an untrusted archive has these files. Nothing is read through a link, waited for or without bound.
func TestLoad(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte(`[{"command": "secret"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		make func(file string) error
		want []Exchange
		says string
	}{
		"good":             {text(`[{"command": "a", "request": "01ff"}, {"command": "b"}] `), []Exchange{{Command: "a", Request: Bytes{1, 255}}, {Command: "b"}}, ""},
		"none":             {text(`[]`), []Exchange{}, ""},
		"one is odd":       {text(`[{"command": "a", "request": "0"}, {"command": ["odd"]}, 7, {"command": "b"}]`), []Exchange{{Command: "b"}}, ""},
		"all are odd":      {text(`[{"request": "xy"}]`), nil, "expected recorded answers"},
		"nonsense":         {text(`nonsense`), nil, "expected recorded answers"},
		"empty":            {text(``), nil, "expected recorded answers"},
		"no list":          {text(`{}`), nil, "expected one JSON array"},
		"more behind":      {text(`[] []`), nil, "expected one JSON array"},
		"broken off":       {text(`[{"command": "a"}`), nil, "expected recorded answers"},
		"too many parts":   {text(`[{"messages": [0` + strings.Repeat(",0", maxElements) + "]}]"), nil, "more than 1048576"},
		"too many":         {text("[" + strings.Repeat("0,", maxExchanges) + "0]"), nil, "more than 65536"},
		"a link":           {func(f string) error { return os.Symlink(outside, f) }, nil, "path escapes"},
		"a chain of links": {chain(outside), nil, "path escapes"},
		"a FIFO":           {func(f string) error { return syscall.Mkfifo(f, 0o600) }, nil, "expected a regular file"},
		"a folder":         {func(f string) error { return os.Mkdir(f, 0o700) }, nil, "expected a regular file"},
		"too long":         {func(f string) error { return errors.Join(text("[]")(f), os.Truncate(f, maxFile+1)) }, nil, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x.json")
			if err := c.make(file); err != nil {
				t.Fatal(err)
			}
			got, err := Load(file)
			if c.says == "" && (err != nil || !reflect.DeepEqual(got, c.want)) {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
			if c.says != "" && (err == nil || got != nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%+v, %v; want an error that says %q", got, err, c.says)
			}
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), "nosuch")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func text(s string) func(string) error {
	return func(file string) error { return os.WriteFile(file, []byte(s), 0o600) }
}

func chain(to string) func(string) error {
	return func(file string) error {
		return errors.Join(os.Symlink(to, file+".1"), os.Symlink(filepath.Base(file)+".1", file))
	}
}

func TestElements(t *testing.T) {
	for text, want := range map[string]int{
		"":                              0,
		"[]":                            0,
		" [ \n]":                        0,
		"[[]]":                          1,
		"[{},{}, null,0]":               4,
		`{"a": [1, {"b": [], "c": 2}]}`: 2,
		`["[1,2,\"3,\\", ","]`:          2,
		"]]}[1":                         1,
		strings.Repeat("[", 20000):      10000,
	} {
		if got := Elements([]byte(text)); got != want {
			t.Errorf("%.40q: %d elements, expected %d", text, got, want)
		}
	}
}

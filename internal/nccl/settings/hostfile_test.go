// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLinks(t *testing.T) {
	const outside = "NCCL_NET=outside\n"
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	for name, data := range map[string]string{
		"root/etc/site/nccl.conf": "NCCL_NET=inside\n",
		"root/nccl.conf":          "NCCL_NET=top\n",
		"nccl.conf":               outside,
		"etc/site/nccl.conf":      outside,
	} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/site", filepath.Join(root, "conf")); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ target, want string }{
		{"site/nccl.conf", "inside"},
		{"./site/../site//nccl.conf", "inside"},
		{"/etc/site/nccl.conf", "inside"}, // of the host, which is root here
		{"/conf/nccl.conf", "inside"},     // over a second link
		{"../conf/../../nccl.conf", "top"},
		{"../nccl.conf", "top"},
		{"../../../../../nccl.conf", "top"}, // ".." stops at root as it does at /
		{"/../nccl.conf", "top"},
		{filepath.Join(dir, "nccl.conf"), ""}, // is not in the host's root file system
		{"site/nccl.conf/", "inside"},
		{"site/nccl.conf/x", ""},
		{"/proc/self/cwd/nccl.conf", ""},
	}
	for _, test := range tests {
		link := filepath.Join(root, systemFile)
		if err := os.RemoveAll(link); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(test.target, link); err != nil {
			t.Fatal(err)
		}
		c, err := New(root, "", "").Read(time.Now())
		if v, _ := c.Lookup("NCCL_NET"); err != nil || v.Value != test.want {
			t.Errorf("link to %s: NCCL_NET=%q, %v, want %q", test.target, v.Value, err, test.want)
		}
	}
}

// The names in the configuration go through the same lookup as links.
func TestNamesStayInside(t *testing.T) {
	root := tree(t, map[string]string{"root/env": "NCCL_CONF_FILE=/../../secret\n", "secret": "NCCL_NET=outside\n", "home/train/.nccl.conf": "NCCL_DEBUG=INFO\n"})
	c, err := New(filepath.Join(root, "root"), "../../env", "..").Read(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if got := files(c); !slices.Equal(got, []string{"/env ok", "/../../secret absent", "/etc/nccl.conf absent"}) {
		t.Errorf("files %q", got)
	}
}

// Files of procfs have no size; reading some of them waits or takes something away.
func TestProcfsIsNotRead(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("no procfs")
	}
	c, err := readHostFile("/", "/proc/self/environ")
	if len(c.data) != 0 || !c.whole || err != nil {
		t.Errorf("%d bytes, %v, %v", len(c.data), c.whole, err)
	}
}

func TestHugeFile(t *testing.T) {
	root := tree(t, map[string]string{"etc/nccl.conf": "NCCL_NET=IB\n"})
	if err := os.Truncate(filepath.Join(root, systemFile), 1<<30); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	c, err := New(root, "", "").Read(start)
	if err != nil || !slices.Equal(effective(c), []string{"NCCL_NET=IB /etc/nccl.conf:1"}) {
		t.Errorf("variables %q, %v", effective(c), err)
	}
	if got := findings(c); !slices.Equal(got, []string{"file_too_large /etc/nccl.conf:1"}) {
		t.Errorf("findings %q", got)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("took %v", took)
	}
}

// What a file holds bounds neither the number nor the length of what comes out of it.
func TestHostileContent(t *testing.T) {
	var many strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&many, "NCCL_%d=\n", i)
	}
	tests := map[string]string{
		"binary":            strings.Repeat("\x7fELF\x02\x01\x00\xff=\n\x00\r=", 50_000),
		"UTF-16":            "\xff\xfeN\x00C\x00C\x00L\x00_\x00A\x00=\x001\x00\r\x00\n\x00",
		"no line end":       strings.Repeat("NCCL_A=", 100_000),
		"only line ends":    strings.Repeat("\n", maxFile),
		"many variables":    many.String(),
		"long name":         "NCCL_" + strings.Repeat("A", 3000) + "=1\n",
		"control in a name": "NCCL_\x1b]0;x\x07=1\nexport NCCL_\xff=1\n",
		"long value":        "NCCL_DEBUG=" + strings.Repeat("\xff", 3000) + "\n",
		"quotes":            strings.Repeat("NCCL_A='\"\\", 100_000),
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			root := tree(t, map[string]string{"env": data, "home/train/.nccl.conf": data, "etc/nccl.conf": data})
			c, err := New(root, "/env", "/home/train").Read(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			checkConfig(t, c)
		})
	}
}

// A path from the environment file is shown escaped.
func TestDisplayPath(t *testing.T) {
	c, err := New(tree(t, map[string]string{"env": "NCCL_CONF_FILE='/a\x1b[31m\xff'\n"}), "/env", "").Read(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if got := files(c)[1]; got != `"/a\x1b[31m\xff" absent` {
		t.Errorf("file %s", got)
	}
	checkConfig(t, c)
}

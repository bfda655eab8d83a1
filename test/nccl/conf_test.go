// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/settings"
)

// confs are files that NCCL reads, and the environment of the process.
var confs = []struct {
	name                                  string
	environment, file, home, system, more string // more: what the file that NCCL_CONF_FILE names has
}{
	{"the environment wins", "NCCL_A=environment", "", "NCCL_A=home", "NCCL_A=system", ""},
	{"an empty variable of the environment wins", "NCCL_A=", "", "NCCL_A=home", "NCCL_A=system", ""},
	{"the home directory wins", "", "", "NCCL_A=home", "NCCL_A=system", ""},
	{"the first line wins", "", "", "", "NCCL_A=first\nNCCL_A=second", ""},
	{"files complete each other", "", "", "NCCL_A=home", "NCCL_B=system\nNCCL_C=system", ""},
	{"NCCL_CONF_FILE instead of the home directory", "", "more", "NCCL_A=home\nNCCL_B=home", "NCCL_A=system\nNCCL_C=system", "NCCL_A=more"},
	{"NCCL_CONF_FILE names no file", "", "absent", "NCCL_A=home", "NCCL_B=system", ""},
	{"NCCL_CONF_FILE is empty", "", "empty", "NCCL_A=home", "NCCL_B=system", ""},
	{"NCCL_CONF_FILE in a file", "", "", "NCCL_CONF_FILE=/etc/more.conf", "NCCL_B=system", "NCCL_A=more"},
	{"comments", "", "", "", "#NCCL_A=1\n NCCL_B=2\n# NCCL_C=3\nNCCL_D=4 # 5", ""},
	{"blanks", "", "", "", "NCCL_A = 1\n\tNCCL_B=2\nNCCL_C= 3 \n\n   \nNCCL_D=4", ""},
	{"a shell's syntax", "", "", "", "export NCCL_A=1\nNCCL_B=\"2\"\nNCCL_C='3'\nNCCL_D=$HOME\nNCCL_E=1;NCCL_F=2", ""},
	{"line ends of DOS", "", "", "", "NCCL_A=1\r\nNCCL_B=2\r\n", ""},
	{"no line end", "", "", "", "NCCL_A=1\nNCCL_B=2", ""},
	{"no value, no name, no =", "", "", "", "NCCL_A=\n=2\nNCCL_C\nNCCL_D=4", ""},
	{"a second =", "", "", "", "NCCL_A=a=b\nNCCL_B==c", ""},
	{"a long value", "", "", "", "NCCL_A=" + strings.Repeat("x", 1500) + "\nNCCL_B=2", ""},
	{"a long line", "", "", "", "# " + strings.Repeat("x", 5000) + "\nNCCL_B=2", ""},
	{"small letters", "", "", "", "nccl_A=1\nNccl_B=2", ""},
	{"a mark of the byte order", "", "", "", "\ufeffNCCL_A=1\nNCCL_B=2", ""},
	{"a zero byte", "", "", "", "NCCL_A=1\x002\nNCCL_B=2", ""},
}

// TestFiles compares the variables that NCCL has after it has read its files with those that our reader finds.
func TestFiles(t *testing.T) {
	each(t, func(t *testing.T, r rig) {
		release, err := fabric.ParseNCCLVersion(r.release)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range confs {
			if c.file != "" && !release.AtLeast("2.23") {
				continue
			}
			n := newNode(t, "")
			root := t.TempDir()
			write := func(name, text string) {
				if text == "" {
					return
				}
				file := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write(filepath.Join(n.home, ".nccl.conf"), c.home)
			write("etc/nccl.conf", c.system)
			write("etc/more.conf", c.more)
			env := strings.Fields(c.environment)
			switch c.file {
			case "":
			case "empty":
				env = append(env, "NCCL_CONF_FILE=")
			default:
				env = append(env, "NCCL_CONF_FILE=/etc/"+c.file+".conf")
			}
			write("environment", strings.Join(append(env, "#"), "\n"))
			n.sh(t, "cp -r "+root+"/etc/. /etc/ 2>/dev/null; cp "+root+n.home+"/.nccl.conf "+n.home+" 2>/dev/null; true")

			p := n.start(t, r, env, "id")
			p.ended(t, 20*time.Second)
			var have []string
			for _, entry := range strings.Split(p.output(), "ENV <")[1:] {
				if entry, _, ok := strings.Cut(entry, ">\n"); ok && ofTest(entry) {
					have = append(have, entry)
				}
			}
			config, err := settings.New(root, "environment", n.home).Read(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			end := ""
			if strings.Contains(c.system, "\r") && !release.AtLeast("2.30.3") {
				end = "\r" // a finding says so
			}
			var want []string
			for _, v := range config.Variables {
				if ofTest(v.Name + "=" + v.Value) {
					want = append(want, v.Name+"="+v.Value+end)
				}
			}
			slices.Sort(have)
			slices.Sort(want)
			if !slices.Equal(have, want) {
				t.Errorf("%s: NCCL %s has\n%q,\nwe say\n%q\n%s", c.name, r.release, have, want, tail(p.output()))
			}
		}
	})
}

// ofTest reports whether NAME=VALUE is that of a variable that a process of a test does not have anyway.
func ofTest(entry string) bool {
	name, _, _ := strings.Cut(entry, "=")
	return len(name) == len("NCCL_A") && strings.HasPrefix(name, "NCCL_")
}

// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/advice"
	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/simulatortest"
)

// hostileValues run a command, end a quotation or begin something else in a shell, in YAML or in nccl.conf.
var hostileValues = []string{
	"$(touch x)", "`touch x`", "a;touch x", `"; touch x; "`, `'; touch x; '`, "a\rtouch x", "a\\", "a # b", "k: v", "- a", "{a: b}", "*a", "!!int 1", "$(HOME)", "${HOME}",
	"a\xff\xfe; touch x", "a\u2028touch x", "a\u0085touch x", "\x1b]0;touch x\a", strings.Repeat("$(touch x)", 1000), "!touch", "~", "=a", "%s%n", "a\x00; touch x",
}

var forms = []output{outputShell, outputSlurm, outputKubernetes, outputConf}

// What the nccl.conf of a host has stays text in every form: a shell runs none of it, and no setting is added.
func TestAdviseHostileConf(t *testing.T) {
	t.Setenv("TMPDIR", commandtest.Memory(t))
	flags := simulatortest.Host(t, "healthy-roce-vlan")
	_, root, _ := strings.Cut(flags[len(flags)-1], "--path.rootfs=")
	kept := false
	for from := 0; from < len(hostileValues); from += 13 {
		var conf strings.Builder
		at := from
		for _, v := range settings.Variables() {
			if v.Parser == settings.ParserText && v.Status == settings.StatusCurrent {
				evil := hostileValues[at%len(hostileValues)]
				fmt.Fprintf(&conf, "%s=%s\n%s=1\n", v.Name, evil, evil)
				at++
			}
		}
		if err := os.WriteFile(filepath.Join(root, "etc/nccl.conf"), []byte(conf.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, form := range forms {
			code, out, errs := advised(t, append(flags, "--nodes=16", "--nccl-version="+settings.NewestNCCL, "--output="+string(form))...)
			if code != command.OK || len(out) > 1<<20 {
				t.Fatalf("%s: exit code %d, %d bytes: %s", form, code, len(out), errs)
			}
			harmless(t, form, out)
			kept = kept || strings.Contains(out, "'$(touch x)'")
		}
	}
	if !kept {
		t.Error("no hostile value is kept: nothing is tested")
	}
}

// So do the names of devices, interfaces and libraries.
func TestAdviseHostileNames(t *testing.T) {
	s, err := simulator.Find("healthy-mixed-nics-roce")
	if err != nil {
		t.Fatal(err)
	}
	fresh := *simulatortest.Watch(t, s, 0)[0]
	for _, evil := range hostileValues {
		node := fresh
		node.HCAs = slices.Clone(fresh.HCAs)
		for i := range node.HCAs {
			node.HCAs[i].Name += evil + "\ntouch x\n- name: touch"
		}
		up := fabric.Known("up", "", node.At)
		node.Interfaces = fabric.Known([]fabric.Interface{{Name: evil, OperState: up}, {Name: "\ntouch x\n", OperState: up}}, "", node.At)
		a := answer{Advice: advice.For(&node, advice.Workload{})}
		a.NCCLFrom = "/usr/lib/\ntouch x\n" + evil
		for _, form := range forms {
			var b bytes.Buffer
			if err := a.write(&b, form); err != nil {
				t.Fatal(err)
			}
			harmless(t, form, b.String())
		}
	}
}

// harmless tests that a form has settings alone, whatever is in it.
func harmless(t *testing.T, form output, text string) {
	t.Helper()
	var names []string
	switch form {
	case outputShell, outputSlurm:
		names = sourced(t, text)
	case outputKubernetes:
		var read struct {
			Env []struct{ Name, Value string }
		}
		d := yaml.NewDecoder(strings.NewReader(text))
		d.KnownFields(true)
		if err := d.Decode(&read); err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		for _, e := range read.Env {
			names = append(names, e.Name)
			if strings.Contains(strings.ReplaceAll(e.Value, "$$(", ""), "$(") {
				t.Errorf("Kubernetes replaces a part of %s=%q", e.Name, e.Value)
			}
		}
	case outputConf:
		for s := range settings.ParseConf([]byte(text)) {
			if s.Name != "" {
				names = append(names, s.Name)
			}
		}
	}
	if len(names) == 0 {
		t.Errorf("%s: there is no setting:\n%s", form, text)
	}
	for _, name := range names {
		if _, known := settings.Describe(name); !known {
			t.Errorf("%s: there is a setting %q:\n%s", form, name, text)
		}
	}
}

// sourced runs a script in an empty folder, and tests that it leaves no file. It returns the variables that
// the script sets.
func sourced(t *testing.T, script string) (names []string) {
	t.Helper()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "advice.sh")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "bash", "--norc", "--noprofile", "-euc", `. "$0"; compgen -e`, file)
	c.Dir, c.Env = dir, []string{"PATH=" + os.Getenv("PATH")}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, script)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the script left %v: %v", left, err)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool {
		return slices.Contains([]string{"PATH", "PWD", "OLDPWD", "SHLVL", "_"}, name)
	})
}

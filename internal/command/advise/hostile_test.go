// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/host/ncclconf"
	"gpufabric_exporter/internal/simulator/simulatortest"
)

// hostileValues run a command, end a quotation or begin something else in a shell, in YAML or in nccl.conf.
var hostileValues = []string{
	"$(touch x)", "`touch x`", "a;touch x", `"; touch x; "`, `'; touch x; '`, "a\rtouch x", "a\\", "a # b", "k: v", "- a", "{a: b}", "*a", "!!int 1", "$(HOME)", "${HOME}",
	"a\xff\xfe; touch x", "a\u2028touch x", "a\u0085touch x", "\x1b]0;touch x\a", strings.Repeat("$(touch x)", 1000), "!touch", "~", "=a", "%s%n", "a\x00; touch x",
}

// What the files and names of a host have in them stays text in every format: a shell runs none of it, and no setting is added.
func TestAdviseHostileHost(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	t.Setenv("TMPDIR", commandtest.Memory(t))
	flags := hostileHost(t)
	for _, form := range []string{"shell", "slurm", "kubernetes", "conf", "text", "json"} {
		code, out, errs := advised(t, append(flags, "--nodes=16", "--nccl-version=2.21", "--output="+form)...)
		if code != command.OK || len(out) > 1<<20 {
			t.Fatalf("%s: exit code %d, %d bytes: %s", form, code, len(out), errs)
		}
		switch form {
		case "shell", "slurm":
			sourced(t, bash, out)
		case "kubernetes":
			var read struct{ Env []struct{ Name, Value string } }
			d := yaml.NewDecoder(strings.NewReader(out))
			d.KnownFields(true)
			if err := d.Decode(&read); err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			for _, e := range read.Env {
				known(t, form, e.Name)
				if strings.Contains(strings.ReplaceAll(e.Value, "$$(", ""), "$(") {
					t.Errorf("Kubernetes replaces a part of %s=%q", e.Name, e.Value)
				}
			}
		case "conf":
			for s := range ncclconf.ParseConf([]byte(out)) {
				known(t, form, s.Name)
			}
		}
	}
}

// known tests that a setting is one that the host has or NCCL knows.
func known(t *testing.T, form, name string) {
	t.Helper()
	if _, found := ncclconf.Describe(name); !found && !strings.HasPrefix(name, "NCCL_EVIL_") && name != "" {
		t.Errorf("%s: there is a setting %q", form, name)
	}
}

// hostileHost returns the flags for a host whose nccl.conf and names of network interfaces are hostile.
func hostileHost(t *testing.T) []string {
	t.Helper()
	flags := simulatortest.Host(t, "healthy-roce-vlan")
	at := map[string]string{}
	for _, f := range flags {
		name, dir, _ := strings.Cut(f, "=")
		at[name] = dir
	}
	var conf strings.Builder
	for i, v := range hostileValues {
		fmt.Fprintf(&conf, "NCCL_EVIL_%d=%s\n%s=%s\n", i, v, v, v)
	}
	for _, name := range []string{"NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_NET", "NCCL_IB_TC", "NCCL_TOPO_FILE", "NCCL_DEBUG_FILE"} {
		fmt.Fprintf(&conf, "%s=$(touch x);`touch x`\"'\n", name)
	}
	if err := os.WriteFile(filepath.Join(at["--path.rootfs"], "etc/nccl.conf"), []byte(conf.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for class, names := range map[string][]string{"net": {"$(touch x)", "`touch x`\n", "a\";touch x;\""}, "infiniband": {"$(touch x)", "a: b\n- c #"}} {
		dir := filepath.Join(at["--path.sysfs"], "class", class)
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) < 2 {
			t.Fatalf("%d entries: %v", len(entries), err)
		}
		for i, name := range names[:min(len(names), len(entries)-1)] {
			if err := os.Rename(filepath.Join(dir, entries[i].Name()), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return flags
}

// sourced runs a script in an empty folder, and tests that it prints nothing, leaves no file and sets only known variables.
func sourced(t *testing.T, bash, script string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "advice.sh")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), bash, "--norc", "--noprofile", "-euc", `. "$0"; compgen -e`, file)
	c.Dir, c.Env = dir, []string{"PATH=" + os.Getenv("PATH")}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, script)
	}
	set := 0
	for line := range strings.Lines(string(out)) {
		switch name := strings.TrimSuffix(line, "\n"); name {
		case "PATH", "PWD", "OLDPWD", "SHLVL", "_":
		default:
			set++
			known(t, "shell", name)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the script left %v: %v", left, err)
	}
	if set == 0 {
		t.Errorf("the script sets nothing:\n%s", script)
	}
}

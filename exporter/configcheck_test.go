// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/internal/command"
)

func TestConfigCheck(t *testing.T) {
	var stdout, stderr output
	o := options{Stdout: &stdout, Stderr: &stderr}
	if code := run(t.Context(), []string{"--config.check", "--config.file=../internal/config/testdata/good.yml"}, o); code != command.OK || stdout.String() != "../internal/config/testdata/good.yml: ok\n" {
		t.Errorf("good: %d %s%s", code, stdout.String(), stderr.String())
	}
	if code := run(t.Context(), []string{"--config.check", "--config.file=../internal/config/testdata/bad.yml"}, o); code != command.Usage {
		t.Errorf("bad: %d", code)
	}
	contains(t, stderr.String(), command.Name+": error: ../internal/config/testdata/bad.yml:1: unknown key", "\n"+command.Name+": error: ../internal/config/testdata/bad.yml:18: ")
	if code := run(t.Context(), []string{"--config.check", "--config.file=../internal/config/testdata/good.yml", "--web.config.file=../internal/config/testdata/bad.yml"}, o); code != command.Usage {
		t.Errorf("bad web configuration: %d", code)
	}
}

// A profile that the service would leave out is one of the errors.
func TestConfigCheckReadsProfiles(t *testing.T) {
	var stdout, stderr output
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "config.yml")
	for name, text := range map[string]string{filepath.Join(dir, "rack.yaml"): "version: 7\n", file: "profiles: " + dir + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code := run(t.Context(), []string{"--config.check", "--config.file=" + file}, options{Stdout: &stdout, Stderr: &stderr}); code != command.Usage {
		t.Errorf("exit code %d", code)
	}
	contains(t, stderr.String(), "rack.yaml: version 7: expected 1")
}

// Without a configuration the service runs, and the other files are checked all the same.
func TestConfigCheckWithoutFile(t *testing.T) {
	var stdout, stderr output
	o := options{Stdout: &stdout, Stderr: &stderr}
	if code := run(t.Context(), []string{"--config.check", "--config.file=none"}, o); code != command.OK || !strings.HasPrefix(stdout.String(), "none: the node is not compared") {
		t.Errorf("%d %s%s", code, stdout.String(), stderr.String())
	}
	if code := run(t.Context(), []string{"--config.check", "--config.file=none", "--web.config.file=../internal/config/testdata/bad.yml"}, o); code != command.Usage {
		t.Errorf("bad web configuration: %d", code)
	}
}

// However many errors a file has, --config.check prints each of them, so that all can be corrected at once.
func TestConfigCheckNamesEachError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yml")
	if err := os.WriteFile(file, []byte("roles:\n"+strings.Repeat("- {device: mlx5_0, role: wrong}\n", 50)), 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr output
	code := run(t.Context(), []string{"--config.check", "--config.file=" + file}, options{Stdout: io.Discard, Stderr: &stderr})
	if got := strings.Count(stderr.String(), command.Name+": error: "+file); code != command.Usage || got != 50 {
		t.Errorf("exit code %d, %d errors of 50\n%s", code, got, stderr.String())
	}
}

// --config.check reads the file of variables too, which the exporter reads with each probe.
func TestConfigCheckReadsTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	env, conf := filepath.Join(dir, "probes.env"), filepath.Join(dir, "site.yml")
	if err := os.WriteFile(conf, []byte("probes: {env_file: "+env+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		content string // empty: there is no file
		mode    os.FileMode
		code    int
		want    string
	}{
		{"# ours\nNCCL_IB_TC=106\nNCCL_SOCKET_IFNAME=eth0\n", 0o640, command.OK, env + ": ok\n"},
		{"", 0, command.Usage, "no such file"},
		{"NCCL_IB_TC=106\nLD_PRELOAD=/tmp/x.so\nNCCL_DEBUG=TRACE\n", 0o600, command.Usage, `line 2: "LD_PRELOAD" is not for probes`},
		{strings.Repeat("# longer than allowed\n", 3000), 0o600, command.Usage, "longer than 65536 bytes"},
		{"NCCL_IB_TC=106\n", 0o606, command.Usage, "others could have put it there"},
	} {
		os.Remove(env)
		if test.content != "" {
			if err := os.WriteFile(env, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(env, test.mode); err != nil {
				t.Fatal(err)
			}
		}
		var stdout, stderr output
		code := run(t.Context(), []string{"--config.check", "--config.file=" + conf}, options{Stdout: &stdout, Stderr: &stderr})
		if said := stdout.String() + stderr.String(); code != test.code || !strings.Contains(said, test.want) {
			t.Errorf("%.30q: exit code %d, %s", test.content, code, said)
		}
	}
}

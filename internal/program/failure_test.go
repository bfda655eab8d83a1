// SPDX-License-Identifier: Apache-2.0

package program

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
)

// What keeps a command from its work is said in one line that names the flag, its value and what to do.
func TestFailuresNameTheFlag(t *testing.T) {
	dir := t.TempDir()
	none := filepath.Join(dir, "none")
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	_, port, _ := net.SplitHostPort(busy.Addr().String())
	long := "/" + strings.Repeat("x", 100_000)
	const reads, writes = "may read", "may write to"
	for _, c := range []struct {
		args string
		want []string
	}{
		{"--web.listen-address=" + busy.Addr().String(), []string{"address already in use", "sport = :" + port, "choose another port"}},
		{"demo --web.listen-address=" + busy.Addr().String(), []string{"address already in use", "choose another port"}},
		{"--web.listen-address=192.0.2.1:1", []string{"cannot assign requested address", "expected an address of this host"}},
		{"--config.file=" + none, []string{"no such file", reads}},
		{"--config.file=" + dir, []string{"is a directory", reads}},
		{"--config.file=" + long, []string{"file name too long", reads}},
		{"check --config.file=" + none, []string{"no such file", reads}},
		{"check --scenario=healthy --config.file=" + none, []string{"no such file", reads}},
		{"topology --config.file=" + none, []string{"no such file", reads}},
		{"capture --config.file=" + none, []string{"no such file", reads}},
		{"--config.check --config.file=" + none, []string{"no such file", reads}},
		{"--web.config.file=" + none, []string{"no such file", reads}},
		{"--path.sysfs=" + none, []string{"no such file", reads}},
		{"check --path.procfs=" + none, []string{"no such file", reads}},
		{"--path.netlink=" + none, []string{"no such file", reads}},
		{"check --scenario=healthy --manifest=" + none, []string{"no such file", reads}},
		{"demo --capture=" + none, []string{"no such file", reads}},
		{"check --scenario=healthy --only=compute_ports --textfile=" + none + "/x.prom", []string{"no such file", writes}},
		{"check --scenario=healthy --write-manifest=" + none + "/x.yml", []string{"no such file", writes}},
		{"capture --file=" + none + "/x.tar.gz", []string{"no such file", writes}},
		{"rules --directory=" + file + "/x", []string{"not a directory", writes}},
		{"check --scenario=portdown", []string{`--scenario="portdown": unknown scenario (demo --list shows all); did you mean port-down?`}},
	} {
		var stdout, stderr commandtest.Output
		if code := run(t, Options{}, &stdout, &stderr, strings.Fields(c.args)...); code == command.OK {
			t.Errorf("%.80s: exit code %d", c.args, code)
		}
		var output strings.Builder
		for line := range strings.Lines(stderr.String()) {
			if !strings.Contains(line, "level=info") {
				output.WriteString(strings.ReplaceAll(line, `\"`, `"`))
			}
		}
		said := output.String()
		flag, value, _ := strings.Cut(c.args[strings.LastIndex(c.args, "--"):], "=")
		for _, w := range append(c.want, flag+`="`+value[:min(len(value), 500)]) {
			if !strings.Contains(said, w) {
				t.Errorf("%.80s: lacks %q: %s", c.args, w, said)
			}
		}
		if strings.Count(said, "\n") != 1 || len(said) > 1500 || strings.Contains(said, "/.x.") || strings.Contains(said, "goroutine") {
			t.Errorf("%.80s: expected one short line, got %s", c.args, said)
		}
	}
}

func TestNoTemporaryFolder(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	for _, args := range []string{"demo --web.listen-address=127.0.0.1:0", "check --scenario=healthy", "topology --scenario=healthy"} {
		var stdout, stderr commandtest.Output
		code := run(t, Options{}, &stdout, &stderr, strings.Fields(args)...)
		if code == command.OK || !strings.Contains(stderr.String(), "set TMPDIR to a folder") {
			t.Errorf("%s: exit code %d, %s", args, code, stderr.String())
		}
	}
}

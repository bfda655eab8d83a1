// SPDX-License-Identifier: Apache-2.0

// Package systemd_test tests the units in this folder. Those under which the program runs are started by make
// systemd-test.
package systemd_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const (
	unit  = "gpufabric_exporter.service"
	check = "gpufabric-check.service"
)

// laidOut returns a folder with the units, the exporter's with the drop-ins of tiers.
func laidOut(t *testing.T, tiers ...string) string {
	t.Helper()
	dir := t.TempDir()
	put := func(from, to string) {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		// systemd-analyze verify requires that the programs exist.
		text = bytes.ReplaceAll(text, []byte("=/usr/bin/gpufabric_exporter"), []byte("=/bin/true"))
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{unit, check, "gpufabric-check.timer"} {
		put(name, name)
	}
	for _, tier := range tiers {
		put("tiers/"+tier+".conf", unit+".d/"+tier+".conf")
	}
	return dir
}

// analyze runs systemd-analyze, which reads units as systemd does.
func analyze(t *testing.T, dir string, args ...string) string {
	t.Helper()
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed: ", err)
	}
	if out, err := exec.CommandContext(t.Context(), program, "security", "--help").CombinedOutput(); err != nil || !strings.Contains(string(out), "--offline") {
		t.Skip("systemd-analyze is older than 250 and has no security --offline")
	}
	c := exec.CommandContext(t.Context(), program, args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("systemd-analyze %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// Every tier has the folder of the record: the unit has it for its own user, and no drop-in takes it away or
// runs as another user.
func TestStateFolder(t *testing.T) {
	for _, name := range []string{unit, check} {
		if text, err := os.ReadFile(name); err != nil || !strings.Contains(string(text), "\nStateDirectory=gpufabric_exporter\n") || !strings.Contains(string(text), "\nUser=gpufabric_exporter\n") {
			t.Errorf("%s has no state folder of the exporter: %v", name, err)
		}
	}
	tiers, err := filepath.Glob("tiers/*.conf")
	if err != nil || len(tiers) != 6 {
		t.Fatal(tiers, err)
	}
	other := regexp.MustCompile(`(?m)^(StateDirectory|User|DynamicUser|ReadOnlyPaths|InaccessiblePaths)=`)
	for _, name := range tiers {
		if text, err := os.ReadFile(name); err != nil || other.Match(text) {
			t.Errorf("%s changes the state folder, or its user: %v", name, err)
		}
	}
}

var (
	overall = regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)
	weak    = regexp.MustCompile(`(?m)^✗ .*$`)
)

// The exposure of each unit is fixed: a line that increases it fails the test.
func TestExposure(t *testing.T) {
	for _, c := range []struct {
		unit  string
		tiers []string
		limit float64
	}{
		{unit, nil, 1.3},
		{unit, []string{"gpu"}, 1.5},
		{unit, []string{"bus"}, 1.8},
		{unit, []string{"gpu", "bus"}, 2.0},
		{unit, []string{"gpu", "jobs"}, 2.2},
		{unit, []string{"gpu", "probes"}, 1.6},
		{unit, []string{"kernel"}, 2.0},
		{unit, []string{"ping"}, 1.6},
		{unit, []string{"gpu", "bus", "jobs", "probes", "kernel", "ping"}, 2.8},
		{check, nil, 2.0},
	} {
		t.Run(strings.Join(append([]string{c.unit}, c.tiers...), " "), func(t *testing.T) {
			out := analyze(t, laidOut(t, c.tiers...), "security", "--offline=true", "--no-pager", "./"+c.unit)
			m := overall.FindStringSubmatch(out)
			if m == nil {
				t.Fatalf("no exposure:\n%s", out)
			}
			if got, err := strconv.ParseFloat(m[1], 64); err != nil || got > c.limit {
				t.Errorf("exposure %s, want at most %.1f:\n%s", m[1], c.limit, strings.Join(weak.FindAllString(out, -1), "\n"))
			}
		})
	}
}

// systemd accepts every line.
func TestVerify(t *testing.T) {
	dir := laidOut(t, "gpu", "bus", "jobs", "probes", "kernel", "ping")
	for _, name := range []string{unit, check, "gpufabric-check.timer"} {
		out := analyze(t, dir, "verify", "--man=no", "--recursive-errors=one", "./"+name)
		if strings.Contains(out, dir) || strings.Contains(out, "gpufabric") {
			t.Errorf("%s:\n%s", name, out)
		}
	}
}

// settings returns the lines of a unit or drop-in that set something, without those of [Unit] and [Install].
func settings(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, service, _ := strings.Cut(string(text), "\n[Service]\n")
	service, _, _ = strings.Cut(service, "\n[Install]\n")
	var list []string
	for line := range strings.Lines(service) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			list = append(list, line)
		}
	}
	return list
}

// Every line of the units and tiers is in docs/SECURITY.md, which says why it is there and what a test shows of it.
func TestLinesAreExplained(t *testing.T) {
	document, err := os.ReadFile("../../docs/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(document), "\n### The lines of the units\n")
	text, _, closed := strings.Cut(text, "\n## ")
	if !found || !closed {
		t.Fatal("docs/SECURITY.md has no section about the lines of the units")
	}
	for _, file := range []string{unit, check, "tiers/gpu.conf", "tiers/bus.conf", "tiers/jobs.conf", "tiers/probes.conf", "tiers/kernel.conf", "tiers/ping.conf"} {
		for _, line := range settings(t, file) {
			name, _, _ := strings.Cut(line, "=")
			if !strings.Contains(text, "`"+line+"`") && !strings.Contains(text, "`"+name+"`") {
				t.Errorf("docs/SECURITY.md has no %s, of %s", line, file)
			}
		}
	}
}

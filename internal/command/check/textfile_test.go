// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/diagnose"
)

func TestTextfile(t *testing.T) {
	dir := commandtest.Memory(t)
	path := filepath.Join(dir, "gpufabric.prom")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := checked(t, "--scenario=port-down", "--textfile="+path); code != exitFailed || !strings.Contains(out, "1 failed") || errs != "" {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v, node_exporter must be able to read it (%v)", info.Mode(), err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	failed, checks := 0, len(families["gpufabric_check_failed"].GetMetric())
	for _, m := range families["gpufabric_check_failed"].GetMetric() {
		failed += int(m.GetGauge().GetValue())
	}
	if failed != 1 || checks < 25 || checks > len(diagnose.Catalogue()) {
		t.Errorf("%d of %d failed", failed, checks)
	}
	at := families["gpufabric_check_timestamp_seconds"].GetMetric()
	if len(at) != 1 || time.Since(time.Unix(int64(at[0].GetGauge().GetValue()), 0)).Abs() > time.Hour {
		t.Errorf("when it was made: %v", at)
	}
	onlyFile(t, dir, "gpufabric.prom")
}

func onlyFile(t *testing.T, dir string, want ...string) {
	t.Helper()
	var names []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, want) {
		t.Errorf("the folder has %v, want %v", names, want)
	}
}

// An error that prevents checks is in the file, too, so that an alert fires; earlier verdicts stay in it.
func TestTextfileReportsErrors(t *testing.T) {
	dir := commandtest.Memory(t)
	path := filepath.Join(dir, "gpufabric.prom")
	read := func() map[string]*dto.MetricFamily {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return families
	}
	value := func(family string) float64 {
		t.Helper()
		m := read()["gpufabric_"+family].GetMetric()
		if len(m) != 1 {
			t.Fatalf("%d series of %s", len(m), family)
		}
		return m[0].GetGauge().GetValue()
	}
	failed := func() (n int) {
		for _, m := range read()["gpufabric_check_failed"].GetMetric() {
			n += int(m.GetGauge().GetValue())
		}
		return n
	}
	begin := float64(time.Now().UnixNano()) / 1e9
	for _, args := range [][]string{
		{"--config.file=/nosuch.yml", "--textfile=" + path},
		{"--textfile=" + path, "--nosuch-flag"},
		{"--nosuch-flag", "--textfile", path},
		{"--manifest=/nosuch.yml", "--textfile=" + path},
	} {
		_ = os.Remove(path)
		if code, _, errs := checked(t, args...); code != exitUnchecked || errs == "" {
			t.Errorf("%v: exit code %d: %s", args, code, errs)
		}
		if value("check_error") != 1 || value("check_run_timestamp_seconds") < begin || len(read()) != 2 {
			t.Errorf("%v: %v", args, read())
		}
	}
	if code, _, errs := checked(t, "--scenario=port-down", "--textfile="+path); code != exitFailed {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	at := value("check_timestamp_seconds")
	if value("check_error") != 0 || failed() != 1 || value("check_run_timestamp_seconds") != at {
		t.Errorf("after checks that were made: %v", read())
	}
	for range 2 { // also if the file reports an error already
		checked(t, "--config.file=/nosuch.yml", "--textfile="+path)
		if value("check_error") != 1 || failed() != 1 || value("check_timestamp_seconds") != at || value("check_run_timestamp_seconds") == at {
			t.Errorf("after an error: %v", read())
		}
	}
	if err := os.WriteFile(path, []byte("no metrics, { but \"garbage\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	checked(t, "--config.file=/nosuch.yml", "--textfile="+path)
	if value("check_error") != 1 || len(read()) != 2 {
		t.Errorf("over garbage: %v", read())
	}
	if code, _, errs := checked(t, "--config.file=/nosuch.yml", "--textfile=/nosuch/x.prom"); code != exitUnchecked || !strings.Contains(errs, "/nosuch/x.prom") || !strings.Contains(errs, "/nosuch.yml") {
		t.Errorf("neither file: exit code %d: %s", code, errs)
	}
	// With checks that do not apply nothing is known either, and the file must not look as if it were of this run.
	checked(t, "--scenario=port-down", "--textfile="+path)
	if code, _, errs := checked(t, "--scenario=healthy-cpu-node", "--only=pcie_acs", "--textfile="+path); code != exitUndecided || !strings.Contains(errs, "no check applies") {
		t.Errorf("no check: exit code %d: %s", code, errs)
	}
	if value("check_error") != 1 || failed() != 1 {
		t.Errorf("no check applies: %v", read())
	}
	onlyFile(t, dir, "gpufabric.prom")
}

// A flag in the place of a path is not a path.
func TestTextfileWithoutAPath(t *testing.T) {
	t.Chdir(commandtest.Memory(t))
	if code, _, _ := checked(t, "--textfile", "--scenario=healthy"); code != exitUnchecked {
		t.Errorf("exit code %d", code)
	}
	onlyFile(t, ".")
}

// A check that failed sets the exit code, even if something cannot be written.
func TestExitCodeWhenOutputFails(t *testing.T) {
	if code, _, errs := checked(t, "--scenario=port-down", "--textfile=/nosuch/x.prom"); code != exitFailed || !strings.Contains(errs, "--textfile=") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// A file that cannot be written is reported, the exit code is not 0, and no file is left.
func TestTextfileThatCannotBeWritten(t *testing.T) {
	dir := commandtest.Memory(t)
	taken := filepath.Join(dir, "taken.prom")
	if err := os.MkdirAll(filepath.Join(taken, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/proc/gpufabric.prom", taken, filepath.Join(dir, "missing", "x.prom"), "/dev/null/x.prom"} {
		code, out, errs := checked(t, "--scenario=healthy", "--only=port_active", "--textfile="+path)
		if code != exitUnchecked || !strings.Contains(errs, fmt.Sprintf("--textfile=%q: ", path)) || !strings.Contains(out, "0 failed, 0 unknown, 1 check passed") {
			t.Errorf("%s: exit code %d: %s%s", path, code, out, errs)
		}
	}
	onlyFile(t, dir, "taken.prom")
}

// On a disk that is full or read-only, the old file stays complete, and no other file is left.
func TestTextfileOnBadDisks(t *testing.T) {
	for _, c := range []struct {
		name, options string
		flags         uintptr // set once the old file is there
		want          string
	}{
		{"full", "size=4k", 0, "no space left on device"},
		{"read-only", "size=1m", syscall.MS_REMOUNT | syscall.MS_RDONLY, "read-only file system"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := commandtest.Memory(t)
			if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, c.options); err != nil {
				t.Skipf("a file system cannot be mounted here: %v", err)
			}
			t.Cleanup(func() {
				if err := syscall.Unmount(dir, 0); err != nil {
					t.Error(err)
				}
			})
			path := filepath.Join(dir, "gpufabric.prom")
			if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
			if c.flags != 0 {
				if err := syscall.Mount("tmpfs", dir, "tmpfs", c.flags, c.options); err != nil {
					t.Fatal(err)
				}
			}
			code, _, errs := checked(t, "--scenario=healthy", "--textfile="+path)
			if code != exitUnchecked || !strings.Contains(errs, "--textfile=") || !strings.Contains(errs, c.want) {
				t.Errorf("exit code %d: %s", code, errs)
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != "old" {
				t.Errorf("the old file is %q, %v", text, err)
			}
			onlyFile(t, dir, "gpufabric.prom")
		})
	}
}

// What other users can put in place of a file that is read and replaced: a FIFO whose writer writes nothing,
// or a link to a file that they may not read.
func TestFilesThatAreReplaced(t *testing.T) {
	dir := t.TempDir()
	fifo, secret, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "secret"), filepath.Join(dir, "link")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(secret, []byte("secret 1\n"), 0o600), os.Symlink(secret, link)); err != nil {
		t.Fatal(err)
	}
	silent, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, file := range []string{fifo, link} {
			if old := oldVerdicts(file); len(old) > 0 {
				t.Errorf("textfile: %s: %q", file, old)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("waits for the writer of a FIFO")
	}
}

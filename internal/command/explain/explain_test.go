// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/status"
)

var update = flag.Bool("update", false, "write the golden files")

func run(t *testing.T, ctx context.Context, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	k := &explaining{site: new(site.Site), log: new(logging.Flags), stdin: stdin}
	var out, errs bytes.Buffer
	code = command.Line{Commands: []*command.Command{k.command()}}.Run(ctx, append([]string{"explain"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// TestExplain has the text and the JSON of each log, whose lines testdata/README.md has the sources of.
func TestExplain(t *testing.T) {
	for log, tt := range map[string]struct {
		code  int
		first string
	}{
		"healthy":        {exitFine, ""},
		"tcp":            {exitFailed, "transport_tcp"},
		"retry_exceeded": {exitFailed, "completion_retry_exceeded"},
		"memlock":        {exitFailed, "qp_create"},
		"bootstrap":      {exitFailed, "bootstrap_connect"},
		"gpudirect":      {exitFailed, "gpudirect_unused"},
		"kernel":         {exitFailed, "mlx5_health"},
		"sockets":        {exitUndecided, ""},
		"gdr_disabled":   {exitUndecided, ""},
		"hostile":        {exitFailed, "cuda_failed"},
	} {
		t.Run(log, func(t *testing.T) {
			file := filepath.Join("testdata", log+".log")
			for _, output := range []string{"text", "json"} {
				code, stdout, stderr := run(t, t.Context(), nil, file, "--output="+output)
				if code != tt.code || stderr != "" {
					t.Errorf("exit code %d, expected %d: %s", code, tt.code, stderr)
				}
				golden(t, filepath.Join("testdata", log+"."+output), stdout)
				if strings.ContainsAny(stdout, "\x1b\x07\x00\u202e") || strings.Contains(stdout, "hunter2") {
					t.Errorf("%s is not fit to be printed: %q", output, stdout)
				}
				if output == "json" {
					var got report
					if err := json.Unmarshal([]byte(stdout), &got); err != nil {
						t.Fatal(err)
					}
					first := ""
					if got.First != nil {
						first = got.First.Signature
					}
					if first != tt.first {
						t.Errorf("the first failure is %q, expected %q", first, tt.first)
					}
				}
			}
		})
	}
}

func golden(t *testing.T, path, have string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || string(want) != have {
		t.Errorf("%s differs (go test -update), %v:\n%s", path, err, have)
	}
}

func TestInputs(t *testing.T) {
	dir := t.TempDir()
	packed := filepath.Join(dir, "log.gz")
	if err := os.WriteFile(packed, []byte("\x1f\x8b\x08\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args  []string
		stdin io.Reader
		code  int
		want  string
	}{
		"none":           {nil, nil, exitUnread, "expected the name of a log"},
		"missing":        {[]string{filepath.Join(dir, "no.log")}, nil, exitUnread, "no.log: no such file or folder: expected the log of a job"},
		"a folder":       {[]string{dir}, nil, exitUnread, "no file in it is text"},
		"a device":       {[]string{"/dev/zero"}, nil, exitUnread, "it is a device"},
		"gzip":           {[]string{packed}, nil, exitUnread, "zcat FILE | gpufabric_exporter explain -"},
		"read error":     {[]string{"-"}, iotest.ErrReader(io.ErrClosedPipe), exitUnread, "standard input"},
		"standard input": {[]string{"-"}, strings.NewReader("gpu1:1:1 [0] NCCL INFO Using network IB\n"), exitUndecided, "UNKNOWN no communicator"},
		"empty":          {[]string{"-"}, strings.NewReader(""), exitUndecided, "NCCL_DEBUG=INFO"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, t.Context(), tt.stdin, tt.args...)
			if code != tt.code || !strings.Contains(stdout+stderr, tt.want) {
				t.Errorf("exit code %d, expected %d and %q:\n%s%s", code, tt.code, tt.want, stdout, stderr)
			}
		})
	}
}

// Files of a folder that are not read are listed.
func TestNotRead(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"a.log": "gpu1:1:1 [0] NCCL INFO Using network IB\n", "b.gz": "\x1f\x8b\x08\x00"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for output, want := range map[string]string{"text": "not read     1: b.gz (gzip)", "json": `"b.gz (gzip)"`} {
		if code, stdout, _ := run(t, t.Context(), nil, dir, "--output="+output); code != exitUndecided || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, expected %q:\n%s", code, want, stdout)
		}
	}
}

// A pipe that never ends is left when the user interrupts.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	from, to := io.Pipe()
	defer to.Close()
	go func() {
		_, _ = to.Write([]byte("gpu1:1:1 [0] NCCL INFO Using network IB\n"))
		cancel()
	}()
	if code, _, stderr := run(t, ctx, from, "-"); code != exitUnread || !strings.Contains(stderr, "interrupted") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// The checks of a node decide among the reasons.
func TestNode(t *testing.T) {
	log := filepath.Join("testdata", "memlock.log")
	for scenario, want := range map[string]string{
		"memlock-low": "On the node: check memlock fails",
		"healthy-ib":  "On the node: the checks that would show it are right",
	} {
		var stdout, stderr commandtest.Output
		code := commandtest.RunTo(t, &stdout, &stderr, new(site.Site), New, log, "--scenario="+scenario)
		if code != exitFailed {
			t.Errorf("%s: exit code %d: %s", scenario, code, stderr.String())
		}
		commandtest.Contains(t, stdout.String(), want)
	}
	var stdout, stderr commandtest.Output
	if code := commandtest.RunTo(t, &stdout, &stderr, new(site.Site), New, log, "--scenario=healthy-ib", "--host"); code != exitUnread {
		t.Errorf("two nodes: exit code %d: %s", code, stdout.String())
	}
}

// A status document of the node decides as the node itself does, and only for failures of its own.
func TestStatus(t *testing.T) {
	file := filepath.Join(t.TempDir(), "status.json")
	log := filepath.Join("testdata", "memlock.log")
	for _, tt := range []struct {
		document string
		code     int
		want     string
	}{
		{`{"version": 1, "node": {"name": ""}, "findings": [{"check": "memlock", "what": "The limit is low"}]}`, exitFailed, "check memlock fails: The limit is low"},
		{`{"version": 1, "node": {"name": ""}, "findings": [], "checks": [{"id": "memlock", "status": "ok"}]}`, exitFailed, "the checks that would show it are right"},
		{`{"version": 1, "node": {"name": "zzz7"}, "findings": [{"check": "memlock", "what": "The limit is low"}]}`, exitFailed, "memlock"},
		{`{"findings": "zzz"}`, exitUnread, "no status document"},
		{strings.Repeat(" ", status.MaxRead+1), exitUnread, "is longer than"},
	} {
		if err := os.WriteFile(file, []byte(tt.document), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := run(t, t.Context(), nil, log, "--status="+file)
		if code != tt.code || !strings.Contains(stdout+stderr, tt.want) {
			t.Errorf("%.80s: exit code %d, expected %d and %q:\n%s%s", tt.document, code, tt.code, tt.want, stdout, stderr)
		}
		if strings.Contains(tt.document, "zzz7") && strings.Contains(stdout, "On the node") {
			t.Errorf("another node decides:\n%s", stdout)
		}
	}
	if code, _, stderr := run(t, t.Context(), nil, log, "--status="+file, "--host"); code != exitUnread || !strings.Contains(stderr, "at most one") {
		t.Errorf("two nodes: %d, %s", code, stderr)
	}
	if code, _, stderr := run(t, t.Context(), nil, log, "--status=/dev/zero"); code != exitUnread || !strings.Contains(stderr, "regular file") {
		t.Errorf("a device: %d, %s", code, stderr)
	}
}

// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/probes"
)

// The key alone switches probing on; without it there is none.
func TestConfigOfProbesDefaults(t *testing.T) {
	defaults := probes.DefaultConfig()
	for _, text := range []string{"probes:", "probes: {}", "probes: null", "probes:\n  duty:\n"} {
		c, err := parseConfig("f", []byte(text))
		if err != nil || c.probes == nil || !reflect.DeepEqual(*c.probes, defaults) {
			t.Errorf("%q: %+v, %v", text, c.probes, err)
		}
	}
	if c, err := parseConfig("f", []byte("nccl: {home: /root}")); err != nil || c.probes != nil {
		t.Errorf("without probes: %+v, %v", c.probes, err)
	}
	// Who names kinds means no others, and no kind at all is for probes by hand.
	c, err := parseConfig("f", []byte("probes: {every: {node: 2h}}"))
	if err != nil || !reflect.DeepEqual(c.probes.Every, map[probes.Kind]time.Duration{probes.Node: 2 * time.Hour}) {
		t.Errorf("one kind: %+v, %v", c.probes, err)
	}
	c, err = parseConfig("f", []byte("probes: {every: {}}"))
	if err != nil || len(c.probes.Every) != 0 {
		t.Errorf("no kind: %+v, %v", c.probes, err)
	}
}

// Every field of the configuration can be said in the file.
func TestConfigOfProbesIsComplete(t *testing.T) {
	c, err := readConfig("testdata/config/probes.yml")
	if err != nil {
		t.Fatal(err)
	}
	want := probes.Config{
		Every: map[probes.Kind]time.Duration{probes.Transport: time.Hour, probes.Node: 90 * time.Minute, probes.Rail: 12 * time.Hour},
		Duty:  0.0005, Op: probes.ReduceScatter, Type: probes.BFloat16, Bytes: 32 << 20, Collective: 250 * time.Millisecond, Wall: 20 * time.Second, Warn: 0.9, IdleMemory: 600 << 20, User: 4711,
		NCCL: "/opt/nccl/lib/libnccl.so.2", CUDA: "/usr/lib/libcuda.so.1", EnvFile: "/etc/gpufabric/probes.env",
		StateFile: "/var/lib/gpufabric/probes.json", LockFile: "/run/lock/probes.lock",
	}
	if !reflect.DeepEqual(*c.probes, want) {
		t.Errorf("got\n%+v\nwant\n%+v", *c.probes, want)
	}
	defaults := reflect.ValueOf(probes.DefaultConfig())
	for i := range defaults.NumField() {
		if reflect.DeepEqual(defaults.Field(i).Interface(), reflect.ValueOf(*c.probes).Field(i).Interface()) {
			t.Errorf("%s has its default: the file does not say it", defaults.Type().Field(i).Name)
		}
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
		{"# ours\nNCCL_IB_TC=106\nNCCL_SOCKET_IFNAME=eth0\n", 0o640, exitOK, env + ": ok\n"},
		{"", 0, exitFailure, "no such file"},
		{"NCCL_IB_TC=106\nLD_PRELOAD=/tmp/x.so\nNCCL_DEBUG=TRACE\n", 0o600, exitFailure, `line 2: "LD_PRELOAD" is not for probes`},
		{strings.Repeat("# longer than anybody needs\n", 3000), 0o600, exitFailure, "longer than 65536 bytes"},
		{"NCCL_IB_TC=106\n", 0o606, exitFailure, "others could have put it there"},
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
		code := Run(t.Context(), []string{"--config.check", "--config.file=" + conf}, Options{Stdout: &stdout, Stderr: &stderr})
		if said := stdout.String() + stderr.String(); code != test.code || !strings.Contains(said, test.want) {
			t.Errorf("%.30q: exit code %d, %s", test.content, code, said)
		}
	}
}

func TestParseSize(t *testing.T) {
	for s, want := range map[string]uint64{
		"8": 8, "8B": 8, "64K": 64 << 10, "64KB": 64 << 10, "64KiB": 64 << 10, "1M": 1 << 20, "4GiB": 4 << 30, "0": 0, "8589934591G": 8589934591 << 30,
	} {
		if got, err := parseSize(s); err != nil || got != want {
			t.Errorf("%s: %d, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "K", "-1", "1.5G", "64 MB", "64m", "1T", "8589934592G", "9999999999999", "1MM", "1iB", "0x10", "１"} {
		if got, err := parseSize(s); err == nil {
			t.Errorf("%q: %d", s, got)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"8", "64KiB", "1G", "8589934592G", "-1", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := parseSize(s); err == nil && (v > math.MaxInt64 || s == "") {
			t.Errorf("%q: %d", s, v)
		}
	})
}

// The example of the document is what holds without it, and the document names all that results can say.
func TestDocumentOfProbes(t *testing.T) {
	raw, err := os.ReadFile("../docs/PROBES.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "```yaml\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("no example")
	}
	c, err := parseConfig("docs/PROBES.md", []byte(example))
	if err != nil || c.probes == nil || !reflect.DeepEqual(*c.probes, probes.DefaultConfig()) {
		t.Errorf("%+v, %v", c.probes, err)
	}
	for _, list := range [][]string{
		namesOf(probes.Kinds()), namesOf(probes.Ops()), namesOf(probes.DTypes()), namesOf(probes.Failures()), namesOf(probes.Skips()), namesOf(probes.Paths()),
	} {
		for _, name := range list {
			if !strings.Contains(string(raw), "`"+name+"`") && !strings.Contains(string(raw), " "+name) {
				t.Errorf("%s is not named", name)
			}
		}
	}
	for _, v := range []any{
		probesStatusJSON{},
		probeStateJSON{},
		probeChangedJSON{},
		probeResultJSON{},
		probeIntrusionJSON{},
		probeMeasuredJSON{},
		probeBaselineJSON{},
		probeLatencyJSON{},
		probeDifferentJSON{},
		probeSkippedJSON{},
	} {
		for field := range reflect.TypeOf(v).Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" || !strings.Contains(string(raw), name) {
				t.Errorf("%T: the document does not have %q", v, name)
			}
		}
	}
}

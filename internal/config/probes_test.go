// SPDX-License-Identifier: Apache-2.0

package config

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/probes"
)

// The word enabled switches probing on and off. A section with settings and without that word is on, one
// without a setting is off: a template that renders an empty value must not run collectives.
func TestConfigSwitchesProbes(t *testing.T) {
	defaults := probes.DefaultConfig()
	for text, on := range map[string]bool{
		"nccl: {home: /root}":                            false,
		"probes:":                                        false,
		"probes: null":                                   false,
		"probes: ~":                                      false,
		"probes: {}":                                     false,
		"probes:\n  duty:\n":                             false, // all settings are commented out
		"probes: false":                                  false,
		"probes: {enabled: false}":                       false,
		"probes: {enabled: }":                            false,
		"probes: {enabled: false, duty: 0.001}":          false,
		"probes: true":                                   true,
		"probes: True":                                   true,
		"probes: {enabled: true}":                        true,
		"probes: {enabled: TRUE}":                        true,
		"probes: {enabled: true, duty: }":                true,
		"probes: {duty: 0.001}":                          true, // as before there was the word
		"probes: {enabled: , duty: 0.001}":               true,
		"probes: {duty: 0.001, enabled: true, op: null}": true,
	} {
		c, err := Parse("f", []byte(text))
		if err != nil || (c.Probes != nil) != on || on && !reflect.DeepEqual(*c.Probes, defaults) || !reflect.DeepEqual(c.ByHand, defaults) {
			t.Errorf("%q: %+v, by hand %+v, %v", text, c.Probes, c.ByHand, err)
		}
	}
	// Who names kinds means no others, and no kind at all is for probes that are asked for.
	c, err := Parse("f", []byte("probes: {every: {node: 2h}}"))
	if err != nil || !reflect.DeepEqual(c.Probes.Every, map[probes.Kind]time.Duration{probes.Node: 2 * time.Hour}) {
		t.Errorf("one kind: %+v, %v", c.Probes, err)
	}
	c, err = Parse("f", []byte("probes: {every: {}}"))
	if err != nil || c.Probes == nil || len(c.Probes.Every) != 0 {
		t.Errorf("no kind: %+v, %v", c.Probes, err)
	}
	// Probes by hand have the settings also where the exporter does not probe by itself.
	c, err = Parse("f", []byte("probes: {enabled: false, nccl: /opt/libnccl.so.2}"))
	if err != nil || c.Probes != nil || c.ByHand.NCCL != "/opt/libnccl.so.2" {
		t.Errorf("switched off: %+v, by hand %+v, %v", c.Probes, c.ByHand, err)
	}
}

// A value that is not a switch, and errors in a section that is switched off, are reported with their line.
func TestConfigOfProbesErrors(t *testing.T) {
	for text, want := range map[string]string{
		"probes: yes":                                 `f:1: probes: "yes": expected true or false, or settings`,
		"\nprobes: 1":                                 `f:2: probes: "1": expected true or false, or settings`,
		"probes: \"true\"":                            `f:1: probes: "true": expected true or false, or settings`,
		"probes: ''":                                  `f:1: probes: "": expected true or false, or settings`,
		"probes: [true]":                              `f:1: probes: expected true or false, or settings`,
		"roles: &on []\nprobes: *on":                  `f:2: probes: *on is a YAML alias`,
		"probes:\n  enabled: \"yes\"\n":               `f:2: enabled: "yes": expected true or false`,
		"probes:\n  enabled: {}\n":                    `f:2: enabled: expected true or false`,
		"probes:\n  enabled: false\n  duty: 7\n":      `f:3: duty: "7": expected a share of time`,
		"probes:\n  enabled: false\n  nosuch: 7\n":    `f:3: unknown key "nosuch"`,
		"probes:\n  enabled: true\n  enabled: true\n": `f:3: enabled: the key is already in line 2`,
	} {
		if c, err := Parse("f", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", text, c.Probes, err, want)
		}
	}
}

// Every field of the configuration can be said in the file.
func TestConfigOfProbesIsComplete(t *testing.T) {
	c, err := (File{Path: "testdata/probes.yml"}).Read()
	if err != nil {
		t.Fatal(err)
	}
	want := probes.Config{
		Every: map[probes.Kind]time.Duration{probes.Transport: time.Hour, probes.Node: 90 * time.Minute, probes.Rail: 12 * time.Hour},
		Duty:  0.0005, Op: probes.ReduceScatter, Type: probes.BFloat16, Bytes: 32 << 20, Collective: 250 * time.Millisecond, Wall: 20 * time.Second, Warn: 0.9, IdleMemory: 600 << 20, User: 4711,
		IdleCommand: []string{"/usr/local/sbin/node-is-free", "--quiet"},
		NCCL:        "/opt/nccl/lib/libnccl.so.2", CUDA: "/usr/lib/libcuda.so.1", EnvFile: "/etc/gpufabric/probes.env",
		StateFile: "/var/lib/gpufabric/probes.json", LockFile: "/run/lock/probes.lock",
	}
	if !reflect.DeepEqual(*c.Probes, want) {
		t.Errorf("got\n%+v\nwant\n%+v", *c.Probes, want)
	}
	defaults := reflect.ValueOf(probes.DefaultConfig())
	for i := range defaults.NumField() {
		if reflect.DeepEqual(defaults.Field(i).Interface(), reflect.ValueOf(*c.Probes).Field(i).Interface()) {
			t.Errorf("%s has its default: the file does not say it", defaults.Type().Field(i).Name)
		}
	}
}

// A command of the site is a list of words, of which the first one is an absolute path.
func TestConfigOfIdleCommand(t *testing.T) {
	for text, want := range map[string]string{
		"[/usr/bin/node-is-free]":              "",
		`[/usr/bin/node-is-free, "7", -v]`:     "",
		"[]":                                   "",
		"/usr/bin/node-is-free":                "f.yml:2: idle_command: ",
		"[node-is-free]":                       `f.yml:2: idle_command: ["node-is-free"], expected an absolute path`,
		"[/bin/sh, [-c]]":                      "f.yml:2: idle_command: ",
		`["/bin/a\0b"]`:                        "f.yml:2: idle_command: ",
		"[/" + strings.Repeat("x", 5000) + "]": "f.yml:2: idle_command: ",
	} {
		_, err := Parse("f.yml", []byte("probes:\n  idle_command: "+text+"\n"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, expected %q", text[:min(len(text), 40)], err, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	for s, want := range map[string]uint64{
		"8": 8, "8B": 8, "64K": 64 << 10, "64KB": 64 << 10, "64KiB": 64 << 10, "1M": 1 << 20, "4GiB": 4 << 30, "0": 0, "8589934591G": 8589934591 << 30,
	} {
		if got, err := ParseSize(s); err != nil || got != want {
			t.Errorf("%s: %d, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "K", "-1", "1.5G", "64 MB", "64m", "1T", "8589934592G", "9999999999999", "1MM", "1iB", "0x10", "１"} {
		if got, err := ParseSize(s); err == nil {
			t.Errorf("%q: %d", s, got)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"8", "64KiB", "1G", "8589934592G", "-1", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := ParseSize(s); err == nil && (v > math.MaxInt64 || s == "") {
			t.Errorf("%q: %d", s, v)
		}
	})
}

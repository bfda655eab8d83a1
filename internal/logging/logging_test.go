// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/go-logfmt/logfmt"
)

// TestHandler runs the standard library's test of handlers on both formats, with the dotted keys made groups
// again.
func TestHandler(t *testing.T) {
	parse := map[string]func(t *testing.T, line []byte) map[string]any{
		formatLogfmt: func(t *testing.T, line []byte) map[string]any {
			m := map[string]any{}
			d := logfmt.NewDecoder(bytes.NewReader(line))
			for d.ScanRecord() {
				for d.ScanKeyval() {
					m[string(d.Key())] = string(d.Value())
				}
			}
			if d.Err() != nil {
				t.Fatalf("%s: %v", line, d.Err())
			}
			return m
		},
		formatJSON: func(t *testing.T, line []byte) map[string]any {
			m := map[string]any{}
			if err := json.Unmarshal(line, &m); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return m
		},
	}
	for format, parse := range parse {
		t.Run(format, func(t *testing.T) {
			var buf bytes.Buffer
			slogtest.Run(t, func(*testing.T) slog.Handler {
				buf.Reset()
				return New(&buf, format, slog.LevelDebug).Handler()
			}, func(t *testing.T) map[string]any {
				return undot(parse(t, buf.Bytes()))
			})
		})
	}
}

// undot nests dotted keys, and renames what slog calls otherwise.
func undot(flat map[string]any) map[string]any {
	nested := map[string]any{}
	for key, v := range flat {
		if key == "ts" {
			key = slog.TimeKey
		}
		groups := strings.Split(key, ".")
		m := nested
		for _, g := range groups[:len(groups)-1] {
			if m[g] == nil {
				m[g] = map[string]any{}
			}
			m = m[g].(map[string]any)
		}
		m[groups[len(groups)-1]] = v
	}
	return nested
}

type nilStringer struct{ text string }

func (n *nilStringer) String() string { return n.text }

func TestLogValues(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := []struct {
		name         string
		value        any
		json, logfmt string
	}{
		{"text", "a b", `"a b"`, `"a b"`},
		{"line break", "a\nb", `"a\nb"`, `"a\nb"`},
		{"int", 3, `3`, `3`},
		{"uint64", uint64(math.MaxUint64), `18446744073709551615`, `18446744073709551615`},
		{"float", 0.5, `0.5`, `0.5`},
		{"nan", math.NaN(), `"NaN"`, `NaN`},
		{"infinity", math.Inf(1), `"+Inf"`, `+Inf`},
		{"bool", true, `true`, `true`},
		{"duration", 1500 * time.Millisecond, `1.5`, `1.5`},
		{"time", at, `"2026-01-02T03:04:05Z"`, `2026-01-02T03:04:05Z`},
		{"error", fmt.Errorf("read: %w", errors.ErrUnsupported), `"read: unsupported operation"`, `"read: unsupported operation"`},
		{"nil", nil, `null`, `null`},
		{"stringer", netip.MustParseAddr("10.0.0.1"), `"10.0.0.1"`, `10.0.0.1`},
		{"nil stringer", (*nilStringer)(nil), `"!PANIC: runtime error: invalid memory address or nil pointer dereference"`, `"!PANIC: runtime error: invalid memory address or nil pointer dereference"`},
		{"list", []string{"a", "b"}, `["a","b"]`, `"[a b]"`},
		{"function", struct{ F func() }{}, `"{F:<nil>}"`, `{F:<nil>}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var j, l bytes.Buffer
			New(&j, formatJSON, slog.LevelInfo).Info("m", "v", test.value)
			New(&l, formatLogfmt, slog.LevelInfo).Info("m", "v", test.value)
			contains(t, j.String(), `"v":`+test.json+"}")
			contains(t, l.String(), " msg=m v="+test.logfmt+"\n")
		})
	}
}

func TestLogLine(t *testing.T) {
	var buf bytes.Buffer
	level := new(slog.LevelVar)
	log := New(&buf, formatLogfmt, level)
	log.Debug("hidden")
	level.Set(slog.LevelDebug)
	log.With("a", 1).WithGroup("g").Debug("shown", "b", 2, "", 3)
	log.Warn("w", "=", 4)
	lines := strings.Split(strings.TrimSpace(buf.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%q", lines)
	}
	if !strings.HasPrefix(lines[0], "ts=20") || !strings.HasSuffix(lines[0], "Z level=debug msg=shown a=1 g.b=2 g.=3") {
		t.Error(lines[0])
	}
	if !strings.HasSuffix(lines[1], "level=warn msg=w !BADKEY=4") {
		t.Error(lines[1])
	}
}

func TestDemoted(t *testing.T) {
	var buf bytes.Buffer
	log := slog.New(Demoted{New(&buf, formatLogfmt, slog.LevelInfo).Handler()})
	log.With("a", 1).WithGroup("g").Info("hidden")
	log.Warn("shown")
	if log.Enabled(context.Background(), slog.LevelInfo) {
		t.Error("Info is enabled")
	}
	if strings.Contains(buf.String(), "hidden") {
		t.Error(buf.String())
	}
	contains(t, buf.String(), "level=warn msg=shown")
	buf.Reset()
	slog.New(Demoted{New(&buf, formatLogfmt, slog.LevelDebug).Handler()}).Info("now")
	contains(t, buf.String(), "level=debug msg=now")
}

// Credentials in values are masked.
func TestCredentialsAreMasked(t *testing.T) {
	var b bytes.Buffer
	log := New(&b, formatLogfmt, slog.LevelInfo)
	log.With("url", "https://alice:hunter2@h").Info("said", "err", errors.New("token=hunter2 is refused"))
	if strings.Contains(b.String(), "hunter2") {
		t.Error(b.String())
	}
	contains(t, b.String(), "https://***@h")
	contains(t, b.String(), "token=*** is refused")
}

func contains(t *testing.T, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("lacks %q:\n%s", part, text)
	}
}

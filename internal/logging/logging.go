// SPDX-License-Identifier: Apache-2.0

// Package logging writes what the program logs, a line for each record, as logfmt or JSON.
//
// Loggers may be used from any number of goroutines. Credentials in values are masked, and a value that
// cannot be shown does not cost the line.
package logging

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	kitlog "github.com/go-kit/log"
	kitlevel "github.com/go-kit/log/level"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/fabric"
)

// The values of --log.format.
const (
	formatLogfmt = "logfmt"
	formatJSON   = "json"
)

// Flags are those of the log.
type Flags struct {
	level  slog.Level
	format string
}

// Define adds the flags.
func (f *Flags) Define(flags *command.Flags) {
	levels := func() []string { return []string{"debug", "info", "warn", "error"} } // from the least
	flags.Add("log.level", "Minimum level to log: debug, info, warn, error.",
		command.Into(&f.level, func(s string) (level slog.Level, err error) {
			if s, err = command.OneOf(levels()...)(s); err == nil {
				err = level.UnmarshalText([]byte(s))
			}
			return level, err
		}).Words(levels)).Default("info")
	flags.Add("log.format", "Format of the log: logfmt, json.",
		command.Choice(&f.format, formatLogfmt, formatJSON)).Default(formatLogfmt)
}

// Logger returns the logger that the flags ask for.
func (f *Flags) Logger(w io.Writer) *slog.Logger { return New(w, f.format, f.level) }

// logHandler lets slog write through a go-kit logger: slog is the API because exporter-toolkit and
// client_golang take nothing else, go-kit/log is the sink. Groups become dotted keys.
type logHandler struct {
	sink   kitlog.Logger
	json   bool
	level  slog.Leveler
	prefix string // the open groups: "a.b."
	attrs  []any  // keys and values of WithAttrs, ready for the sink
}

var _ slog.Handler = (*logHandler)(nil)

// New returns a logger that writes one line per record to w, as logfmt or json.
func New(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	w = kitlog.NewSyncWriter(w)
	if format == formatJSON {
		return slog.New(&logHandler{sink: kitlog.NewJSONLogger(w), json: true, level: level})
	}
	return slog.New(&logHandler{sink: kitlog.NewLogfmtLogger(w), level: level})
}

func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	line := make([]any, 0, 6+len(h.attrs)+2*r.NumAttrs())
	if !r.Time.IsZero() {
		line = append(line, "ts", r.Time.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	}
	line = append(line, kitlevel.Key(), kitLevel(r.Level), "msg", r.Message)
	line = append(line, h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		line = h.append(line, h.prefix, a)
		return true
	})
	return h.sink.Log(line...)
}

func (h *logHandler) WithAttrs(as []slog.Attr) slog.Handler {
	c := *h
	c.attrs = slices.Clone(h.attrs)
	for _, a := range as {
		c.attrs = c.append(c.attrs, c.prefix, a)
	}
	return &c
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	c := *h
	c.prefix += name + "."
	return &c
}

// append adds an attribute to line; a group becomes its members.
func (h *logHandler) append(line []any, prefix string, a slog.Attr) []any {
	v := a.Value.Resolve()
	if a.Key == "" && v.Equal(slog.Value{}) {
		return line
	}
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, m := range v.Group() {
			line = h.append(line, prefix, m)
		}
		return line
	}
	key := prefix + a.Key
	if strings.Trim(key, " \"=") == "" {
		key = "!BADKEY" // logfmt would drop the whole line
	}
	value := h.value(v)
	if s, ok := value.(string); ok {
		value = fabric.MaskCredentials(s)
	}
	return append(line, key, value)
}

// value returns what the sink encodes as the type it is: numbers and booleans as such, durations in seconds,
// times as RFC 3339, errors as their text.
func (h *logHandler) value(v slog.Value) any {
	switch v.Kind() {
	case slog.KindDuration:
		return v.Duration().Seconds()
	case slog.KindTime:
		return v.Time().Format(time.RFC3339Nano)
	case slog.KindFloat64:
		if f := v.Float64(); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Sprint(f) // JSON has no such number
		}
		return v.Any()
	case slog.KindAny:
		return h.any(v.Any())
	default:
		return v.Any()
	}
}

// any never fails: a value that cannot be shown must not cost the line.
func (h *logHandler) any(v any) (shown any) {
	defer func() {
		if p := recover(); p != nil {
			shown = fmt.Sprintf("!PANIC: %v", p)
		}
	}()
	switch v := v.(type) {
	case nil:
		return nil
	case error:
		return v.Error()
	case fmt.Stringer:
		return v.String()
	}
	if h.json {
		if b, err := json.Marshal(v); err == nil {
			return json.RawMessage(b)
		}
	}
	return fmt.Sprintf("%+v", v)
}

func kitLevel(l slog.Level) kitlevel.Value {
	switch {
	case l < slog.LevelInfo:
		return kitlevel.DebugValue()
	case l < slog.LevelWarn:
		return kitlevel.InfoValue()
	case l < slog.LevelError:
		return kitlevel.WarnValue()
	default:
		return kitlevel.ErrorValue()
	}
}

// Demoted turns what a library calls Info into Debug: exporter-toolkit announces each listener twice.
type Demoted struct{ slog.Handler }

// Enabled implements slog.Handler.
func (d Demoted) Enabled(ctx context.Context, l slog.Level) bool {
	return d.Handler.Enabled(ctx, demote(l))
}

// Handle is of slog.Handler.
func (d Demoted) Handle(ctx context.Context, r slog.Record) error {
	r.Level = demote(r.Level)
	return d.Handler.Handle(ctx, r)
}

// WithAttrs is of slog.Handler.
func (d Demoted) WithAttrs(as []slog.Attr) slog.Handler { return Demoted{d.Handler.WithAttrs(as)} }

// WithGroup is of slog.Handler.
func (d Demoted) WithGroup(g string) slog.Handler { return Demoted{d.Handler.WithGroup(g)} }

func demote(l slog.Level) slog.Level {
	if l == slog.LevelInfo {
		return slog.LevelDebug
	}
	return l
}

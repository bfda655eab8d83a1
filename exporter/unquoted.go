// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	toolkit "github.com/prometheus/exporter-toolkit/web"
)

// validWeb says what is wrong with a file of --web.config.file, and shows nothing of it.
func validWeb(file string) error { return unquoted(toolkit.Validate(file)) }

// unquoted is an error about a file that may have passwords. Those of YAML have keys and values of it, and those of
// hashes a character.
func unquoted(err error) error {
	if err == nil {
		return nil
	}
	if strings.Contains(err.Error(), "bcrypt") {
		return errors.New("basic_auth_users: expected bcrypt hashes (htpasswd -nBC 10 USER makes one)")
	}
	if text := withoutYAML(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

var yamlLine = regexp.MustCompile(`(?m)^\s*(?:unmarshal errors:\s*)?(line \d+):`)

// withoutYAML leaves only the lines of what YAML complains about.
func withoutYAML(text string) string {
	before, quoted, found := strings.Cut(text, "yaml: ")
	if !found {
		return text
	}
	var lines []string
	for _, m := range yamlLine.FindAllStringSubmatch(quoted, -1) {
		lines = append(lines, m[1])
	}
	where := ""
	if len(lines) > 0 {
		where = strings.Join(slices.Compact(lines), ", ") + ": "
	}
	return before + where + "not what is expected in such a file (its content is not shown: it may have passwords)"
}

// withoutValues logs nothing of the web configuration file, which is read for each request and may be damaged by then.
type withoutValues struct{ slog.Handler }

func (h withoutValues) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, withoutYAML(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(withoutYAML(a.Value.String()))
		}
		clean.AddAttrs(a)
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

func (h withoutValues) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withoutValues{h.Handler.WithAttrs(attrs)}
}

func (h withoutValues) WithGroup(name string) slog.Handler {
	return withoutValues{h.Handler.WithGroup(name)}
}

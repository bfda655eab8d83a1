// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"gpufabric_exporter/internal/spelling"
)

// flagValue is a kingpin.Value whose errors name the flag and its value.
type flagValue struct {
	name       string // of the flag; empty: it is an argument
	set        func(string) error
	words      func() []string // what it may be, for shells to complete; nil: anything
	repeatable bool
	text       string
}

var _ kingpin.Value = (*flagValue)(nil)

// Set is called by kingpin with each value that the user gives.
func (v *flagValue) Set(s string) error {
	v.text = s
	err := v.set(s)
	switch {
	case err != nil && v.name == "":
		return fmt.Errorf("%.256q: %w", s, err)
	case err != nil:
		return fmt.Errorf("--%s=%.256q: %w", v.name, s, err)
	}
	return nil
}

func (v *flagValue) String() string { return v.text }

// IsCumulative tells kingpin whether the flag may be given more than once.
func (v *flagValue) IsCumulative() bool { return v.repeatable }

// into returns a setter that parses into *to.
func into[T any](to *T, parse func(string) (T, error)) func(string) error {
	return func(s string) (err error) {
		*to, err = parse(s)
		return err
	}
}

// appendTo returns a setter that parses and appends to *to.
func appendTo[T any](to *[]T, parse func(string) (T, error)) func(string) error {
	return func(s string) error {
		v, err := parse(s)
		*to = append(*to, v)
		return err
	}
}

// choice is the value of a flag, or of an argument without a name, that is one of some words.
func choice[T ~string](name string, to *T, words ...T) *flagValue {
	all := spelling.Names(words)
	return &flagValue{name: name, words: func() []string { return all }, set: into(to, oneOf(words...))}
}

// output adds the format of what a command prints: one spelling for all of them.
func (c *commandLine) output(command *kingpin.CmdClause, to *string) {
	command.Flag("output", "Format: text, json.").Short('o').Default(outputText).SetValue(choice("output", to, outputText, outputJSON))
}

// The parsers return errors that say what was expected.

func oneOf[T ~string](words ...T) func(string) (T, error) {
	return func(s string) (T, error) {
		if slices.Contains(words, T(s)) {
			return T(s), nil
		}
		all := spelling.Names(words)
		return "", errors.New("expected " + spelling.List(all) + spelling.Hint(s, all))
	}
}

// levels are those of the log, from the least.
func levels() []string { return []string{"debug", "info", "warn", "error"} }

func parseLevel(s string) (level slog.Level, err error) {
	if s, err = oneOf(levels()...)(s); err == nil {
		err = level.UnmarshalText([]byte(s))
	}
	return level, err
}

func parseAddress(s string) (string, error) {
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", errors.New("expected HOST:PORT such as :10791, 127.0.0.1:10791 or [::1]:10791")
	}
	return s, nil
}

func parseCount(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, errors.New("expected a whole number, 0 or more")
	}
	return int(n), nil
}

func parseSeconds(s string) (time.Duration, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= time.Hour.Seconds()) {
		return 0, errors.New("expected a number of seconds such as 0.5")
	}
	return time.Duration(math.Round(f * float64(time.Second))), nil
}

func parseInterval(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, errors.New("expected a duration above 0 such as 5s or 1m")
	}
	return d, nil
}

func parseFile(s string) (string, error) {
	if s == "" || strings.ContainsRune(s, 0) {
		return "", errors.New("expected a path")
	}
	return s, nil
}

// plainPath has no character that means something to http.ServeMux or needs quoting in a link.
var plainPath = regexp.MustCompile(`^/[A-Za-z0-9._~/-]*$`)

func parsePath(s string) (string, error) {
	clean := path.Clean(s)
	if !plainPath.MatchString(s) || clean != s && clean+"/" != s {
		return "", errors.New("expected a path such as /metrics: letters, digits and -._~ between slashes")
	}
	return clean, nil
}

// parseURLPath returns the path of an absolute URL.
func parseURLPath(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("expected a URL such as https://proxy.example.com/fabric")
	}
	if u.Path == "" {
		return "/", nil
	}
	p, err := parsePath(u.Path)
	if err != nil {
		return "", errors.New("the path of the URL: " + err.Error())
	}
	return p, nil
}

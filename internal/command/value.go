// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
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

// Value is what becomes of the value of a flag.
type Value struct {
	set        func(string) error
	words      func() []string // what it may be, for shells to complete; nil: anything
	repeatable bool
	input      bool // it names a file or folder that is read
}

// Into parses a value into *to.
func Into[T any](to *T, parse func(string) (T, error)) Value {
	return Value{set: func(s string) (err error) {
		*to, err = parse(s)
		return err
	}}
}

// Append is the value of a flag that may be given more than once: it parses and appends to *to.
func Append[T any](to *[]T, parse func(string) (T, error)) Value {
	return Value{repeatable: true, set: func(s string) error {
		v, err := parse(s)
		*to = append(*to, v)
		return err
	}}
}

// Choice is a value that is one of some words.
func Choice[T ~string](to *T, words ...T) Value {
	return Into(to, OneOf(words...)).Words(func() []string { return spelling.Names(words) })
}

// Set is a value that set is called with.
func Set(set func(string) error) Value { return Value{set: set} }

// File is the path of a file or folder.
func File(to *string) Value { return Into(to, ParseFile) }

// Input is the path of a file or folder that is read: Explain names the flag when that fails.
func Input(to *string) Value {
	v := File(to)
	v.input = true
	return v
}

// Words says what the value may be, for shells to complete.
func (v Value) Words(words func() []string) Value {
	v.words = words
	return v
}

// Output adds the format of what a command prints, which is text or JSON: one spelling for all commands.
func (f *Flags) Output(json *bool) {
	const text = "text"
	var format string
	v := Choice(&format, text, "json")
	set := v.set
	v.set = func(s string) error {
		err := set(s)
		*json = format != text
		return err
	}
	f.Add("output", "Format: text, json.", v).Short('o').Default(text)
}

// value is a kingpin.Value whose errors name the flag and its value.
type value struct {
	Value
	name string // of the flag; empty: it is an argument
	text string
}

var _ kingpin.Value = (*value)(nil)

// Set is called by kingpin with each value that the user gives.
func (v *value) Set(s string) error {
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

func (v *value) String() string { return v.text }

// IsCumulative reports to kingpin whether the flag may be given more than once.
func (v *value) IsCumulative() bool { return v.repeatable }

// The parsers return errors that say what was expected.

// OneOf parses one of some words.
func OneOf[T ~string](words ...T) func(string) (T, error) {
	return func(s string) (T, error) {
		if slices.Contains(words, T(s)) {
			return T(s), nil
		}
		all := spelling.Names(words)
		return "", errors.New("expected " + spelling.List(all) + spelling.Hint(s, all))
	}
}

// ParseAddress parses HOST:PORT.
func ParseAddress(s string) (string, error) {
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", errors.New("expected HOST:PORT such as :10791, 127.0.0.1:10791 or [::1]:10791")
	}
	return s, nil
}

// ParseCount parses a whole number, 0 or more.
func ParseCount(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, errors.New("expected a whole number, 0 or more")
	}
	return int(n), nil
}

// ParseSeconds parses a number of seconds, up to an hour.
func ParseSeconds(s string) (time.Duration, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= time.Hour.Seconds()) {
		return 0, errors.New("expected a number of seconds such as 0.5")
	}
	return time.Duration(math.Round(f * float64(time.Second))), nil
}

// ParseInterval parses a duration above 0.
func ParseInterval(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, errors.New("expected a duration above 0 such as 5s or 1m")
	}
	return d, nil
}

// ParseFile parses a path.
func ParseFile(s string) (string, error) {
	if s == "" || strings.ContainsRune(s, 0) {
		return "", errors.New("expected a path")
	}
	return s, nil
}

// plainPath has no character that means something to http.ServeMux or needs quoting in a link.
var plainPath = regexp.MustCompile(`^/[A-Za-z0-9._~/-]*$`)

// ParsePath parses a path of the HTTP server, without a trailing slash.
func ParsePath(s string) (string, error) {
	clean := path.Clean(s)
	if !plainPath.MatchString(s) || clean != s && clean+"/" != s {
		return "", errors.New("expected a path such as /metrics: letters, digits and -._~ between slashes")
	}
	return clean, nil
}

// ParseURLPath returns the path of an absolute URL.
func ParseURLPath(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("expected a URL such as https://proxy.example.com/fabric")
	}
	if u.Path == "" {
		return "/", nil
	}
	p, err := ParsePath(u.Path)
	if err != nil {
		return "", errors.New("the path of the URL: " + err.Error())
	}
	return p, nil
}

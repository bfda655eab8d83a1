// SPDX-License-Identifier: Apache-2.0

// Command mixin writes the alert rules and dashboards of the exporter for sites whose series have other
// labels than those of a plain Prometheus: other names for cluster and instance, further matchers, other
// thresholds. Without options it writes the files as they are. Nothing runs at the same time; an error means
// that an option or a source file is wrong, and then nothing is written.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/tools/operator"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mixin:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var o options
	set := flag.NewFlagSet("mixin", flag.ContinueOnError)
	rules := set.String("rules", "../alerts", "folder with the rules (*.rules.yml) to start from")
	dashboards := set.String("dashboards", "../dashboards", "folder with the dashboards (*.json) to start from")
	out := set.String("out", "",
		"folder that the files are written to; its folder operator gets the objects for Kubernetes")
	cluster := set.String("cluster-label", "cluster", "label that identifies the cluster")
	instance := set.String("instance-label", "instance", "label that names the node")
	job := set.String("job-label", "job", "label that names the scrape job")
	set.Func("selector", `matchers for all series that are scraped, such as job="gpufabric"`, o.selector)
	set.Func("set",
		"NAME.FIELD=VALUE, repeatable. NAME is an alert, a recording rule or a group. FIELD is for, keep_firing_for or severity "+
			"of an alert, interval of a group, or a number in the expression, which VALUE replaces", o.set)
	var usage strings.Builder
	set.SetOutput(&usage)
	if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Print(usage.String())
		return nil
	} else if err != nil {
		return fmt.Errorf("options: %w", err)
	}
	if *out == "" || set.NArg() > 0 {
		return fmt.Errorf("--out=DIR is needed, and no arguments: %q", set.Args())
	}
	if err := o.rename(map[string]string{"cluster": *cluster, "instance": *instance, "job": *job}); err != nil {
		return err
	}
	files, err := o.rewrite(os.DirFS(*rules), os.DirFS(*dashboards))
	if err != nil {
		return err
	}
	return write(*out, files)
}

// options are what a site changes.
type options struct {
	labels   map[string]string // new names by old
	matchers []*labels.Matcher // of every series that is scraped
	settings []setting
}

// setting is a value of a rule or a group.
type setting struct{ name, field, value string }

func (s setting) String() string { return s.name + "." + s.field + "=" + s.value }

func (o *options) selector(text string) error {
	matchers, err := parser.ParseMetricSelector("{" + strings.Trim(text, "{}") + "}")
	if err != nil {
		return fmt.Errorf("matchers of PromQL: %w", err)
	}
	o.matchers = append(o.matchers, matchers...)
	return nil
}

func (o *options) set(text string) error {
	left, value, ok := strings.Cut(text, "=")
	name, field, dotted := strings.Cut(left, ".")
	if !ok || !dotted || name == "" || field == "" || value == "" {
		return errors.New("want NAME.FIELD=VALUE")
	}
	o.settings = append(o.settings, setting{name, field, value})
	return nil
}

// rename takes new names by old.
func (o *options) rename(names map[string]string) error {
	valid, seen := regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`), map[string]bool{}
	o.labels = map[string]string{}
	for _, from := range slices.Sorted(maps.Keys(names)) {
		to := names[from]
		if !valid.MatchString(to) || seen[to] {
			return fmt.Errorf("label %q for %s: not a label name, or there twice", to, from)
		}
		if seen[to] = true; to == from {
			continue
		}
		for _, f := range collector.Catalogue() {
			if slices.Contains(f.Labels, to) {
				return fmt.Errorf("label %q for %s: %s has a label of that name", to, from, f.FullName())
			}
		}
		o.labels[from] = to
	}
	return nil
}

// rewrite returns the contents of files by their paths.
func (o *options) rewrite(rules, dashboards fs.FS) (map[string][]byte, error) {
	all := map[string][]byte{}
	used := map[setting]bool{}
	for _, kind := range []struct {
		from    fs.FS
		pattern string
		rewrite func(text []byte) ([]byte, error)
	}{
		{rules, "*.rules.yml", func(text []byte) ([]byte, error) { return o.ruleFile(text, used) }},
		{dashboards, "*.json", o.dashboard},
	} {
		names, err := fs.Glob(kind.from, kind.pattern)
		if err != nil || len(names) == 0 {
			return nil, fmt.Errorf("%d files %s (%w)", len(names), kind.pattern, errors.Join(err, fs.ErrNotExist))
		}
		for _, name := range names {
			text, err := fs.ReadFile(kind.from, name)
			if err != nil {
				return nil, fmt.Errorf("source: %w", err)
			}
			if all[name], err = kind.rewrite(text); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	for _, s := range o.settings {
		if !used[s] {
			return nil, fmt.Errorf("--set=%s: no alert, recording rule or group has that name and field", s)
		}
	}
	return all, nil
}

func write(folder string, files map[string][]byte) error {
	put := func(name string, text []byte) error {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return fmt.Errorf("output: %w", err)
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Join(folder, "operator"), 0o755); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	for name, text := range files {
		if err := put(name, text); err != nil {
			return err
		}
	}
	objects, err := operator.Objects(os.DirFS(folder), os.DirFS(folder))
	if err != nil {
		return fmt.Errorf("objects for Kubernetes: %w", err)
	}
	for name, text := range objects {
		if err := put(filepath.Join("operator", name), text); err != nil {
			return err
		}
	}
	return nil
}

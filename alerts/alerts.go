// SPDX-License-Identifier: Apache-2.0

// Package alerts holds the Prometheus rules of the exporter, a runbook for each alert, and an example
// for Alertmanager. The files are the source of truth; they work as they are, without the exporter.
//
// The package only reads embedded files. It has no state and is safe for concurrent use. An error means that
// an embedded file is broken, which the tests exclude.
//
// The cost of a rule for Prometheus is the number of series that it selects, regardless of their values (make
// scale). So rules select families that exist only while something is wrong (exporter_source_unknown,
// probe_fault_*) or that summarize a node (node_compute_ports, gpudirect_unusable_gpus), and expressions that
// several rules need are recorded once (port:gpufabric_hca_port_state:down).
package alerts

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed *.rules.yml runbooks/*.md alertmanager.example.yml
var files embed.FS

// RunbookBase is where annotations look for runbooks: the folder of this package in the home of the project.
const RunbookBase = "https://github.com/gpufabric/gpufabric_exporter/blob/main/alerts/runbooks/"

// Files are the rule files (*.rules.yml), the runbooks (runbooks/*.md) and alertmanager.example.yml.
func Files() fs.FS { return files }

// Group is a group of rules that Prometheus evaluates one after the other.
type Group struct {
	File     string `yaml:"-"` // name of its file
	Name     string `yaml:"name"`
	Interval string `yaml:"interval"` // a Prometheus duration: 15s
	Rules    []Rule `yaml:"rules"`
}

// Rule is an alert or a recording rule; one of Alert and Record is empty.
type Rule struct {
	Alert         string            `yaml:"alert"`
	Record        string            `yaml:"record"`
	Expr          string            `yaml:"expr"`
	For           string            `yaml:"for"`             // a Prometheus duration; empty: at once
	KeepFiringFor string            `yaml:"keep_firing_for"` // a Prometheus duration; empty: not at all
	Labels        map[string]string `yaml:"labels"`
	Annotations   map[string]string `yaml:"annotations"`
}

// Series is what a recording rule records, with its labels if it has some: name{label="value"}. It is empty
// for an alert.
func (r *Rule) Series() string {
	if r.Record == "" || len(r.Labels) == 0 {
		return r.Record
	}
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
		labels = append(labels, fmt.Sprintf("%s=%q", name, r.Labels[name]))
	}
	return r.Record + "{" + strings.Join(labels, ",") + "}"
}

// Groups reads all rule files, in the order of their names.
func Groups() ([]Group, error) {
	names, err := fs.Glob(files, "*.rules.yml")
	if err != nil {
		return nil, fmt.Errorf("rule files: %w", err)
	}
	var all []Group
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("rule file: %w", err)
		}
		var file struct {
			Groups []Group `yaml:"groups"`
		}
		d := yaml.NewDecoder(strings.NewReader(string(text)))
		d.KnownFields(true)
		if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("rule file %s: %w", name, err)
		}
		for i := range file.Groups {
			file.Groups[i].File = name
		}
		all = append(all, file.Groups...)
	}
	return all, nil
}

// Runbook is the page of an alert, or of a family of checks as "check-" and its name.
func Runbook(name string) (string, error) {
	text, err := fs.ReadFile(files, path.Join("runbooks", path.Base(name)+".md"))
	if err != nil {
		return "", fmt.Errorf("runbook: %w", err)
	}
	return string(text), nil
}

// SPDX-License-Identifier: Apache-2.0

//go:build kubernetes

// Package kubernetes holds the chart, the manifests that are rendered from it and the objects for the Prometheus Operator to Helm
// and to the API server of Kubernetes (make kubernetes). Its tests need the programs in bin, and etcd.
package kubernetes

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	helmProgram = "../../bin/helm"
	chart       = "../../deploy/chart"
	manifests   = "../../deploy/kubernetes"
	release     = "gpufabric-exporter"
)

// tiers are the files of ci that have one manifest each.
var tiers = []string{"passive", "gpu", "bus", "jobs", "probes"}

var update = flag.Bool("update", false, "write deploy/kubernetes and the table in docs/KUBERNETES.md instead of comparing with them")

// helm returns what Helm writes to its standard output, and its errors.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), helmProgram, args...)
	c.Env = append(os.Environ(), "HELM_CACHE_HOME="+t.TempDir(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		return errs.String(), err
	}
	return string(out), nil
}

// template renders the chart with values of ci for a namespace.
func template(t *testing.T, namespace, values string, args ...string) string {
	t.Helper()
	out, err := helm(t, append([]string{"template", release, chart, "--namespace=" + namespace, "--values=" + filepath.Join(chart, "ci", values+".yaml")}, args...)...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", values, err, out)
	}
	return out
}

// TestLint lints the chart with each file of ci.
func TestLint(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(chart, "ci", "*.yaml"))
	if err != nil || len(files) <= len(tiers) {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		if out, err := helm(t, "lint", "--strict", chart, "--values="+file); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}

// TestWrongValues wants a message that names the value, and what is expected of it.
func TestWrongValues(t *testing.T) {
	for set, want := range map[string]string{
		"tiers.gpus=true":                        "at '/tiers': additional properties 'gpus' not allowed",
		"tier.gpu=true":                          "additional properties 'tier' not allowed",
		"tiers.gpu=maybe":                        "at '/tiers/gpu': got string, want boolean",
		"tiers.jobs=true":                        "set tiers.gpu to true, too",
		"tiers.gpu=true,tiers.probes=true":       "set config.probes.enabled to true, too",
		"config.probes.enabled=true":             "config.probes needs the privileges of tiers.probes",
		"web.port=80":                            "at '/web/port': minimum: got 80",
		"web.tls=true":                           "set web.secret, too",
		"web.authentication=true":                "set web.secret, too",
		"web.config=x":                           "at '/web': additional properties 'config' not allowed",
		"image.digest=sha256:1":                  "at '/image/digest'",
		"fullnameOverride=fabric":                "GpuFabricExporterDown expects to contain gpufabric",
		"extraArgs[0]=collector.cm":              "at '/extraArgs/0'",
		"config.rolls=x":                         "at '/config': additional properties 'rolls' not allowed",
		"resources.limits.memory=much":           "at '/resources/limits/memory'",
		"resources.limit.memory=1Gi":             "at '/resources': additional properties 'limit' not allowed",
		"podMonitor.scrapeTimeout=1m30s":         "longer than podMonitor.interval=15s",
		"podLabels.app\\.kubernetes\\.io/name=x": "podLabels has app.kubernetes.io/name",
		"podMonitor.interval=often":              "at '/podMonitor/interval'",
		"podMonitor.labels.release=1":            "at '/podMonitor/labels/release': got number, want string",
	} {
		if out, err := helm(t, "template", release, chart, "--set="+set); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, expected %q in\n%s", set, err, want, out)
		}
	}
}

// Lines of a rendered chart that mean something to Helm only, or that kubectl's -n says.
var helmsOnly = regexp.MustCompile(`(?m)^ *(app\.kubernetes\.io/managed-by: Helm|helm\.sh/chart: .*|namespace: monitoring|# Source: .*)\n`)

// TestVersion holds the version of the image that the chart installs to that of the program.
func TestVersion(t *testing.T) {
	version, err := os.ReadFile("../../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	of, err := os.ReadFile(filepath.Join(chart, "Chart.yaml"))
	if err != nil || !strings.Contains(string(of), "\nappVersion: "+strings.TrimSpace(string(version))+"\n") {
		t.Errorf("VERSION is %s, Chart.yaml (%v) has\n%s", version, err, of)
	}
}

// TestManifests holds deploy/kubernetes to the chart.
func TestManifests(t *testing.T) {
	for _, tier := range tiers {
		text := "# SPDX-License-Identifier: Apache-2.0\n#\n# Generated from deploy/chart with ci/" + tier + ".yaml (make kubernetes-manifests); do not edit.\n" +
			helmsOnly.ReplaceAllString(template(t, "monitoring", tier, "--skip-tests"), "")
		path := filepath.Join(manifests, tier+".yaml")
		if *update {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%s is not what the chart says (%v): make kubernetes-manifests", path, err)
		}
	}
}

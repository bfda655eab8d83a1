// SPDX-License-Identifier: Apache-2.0

//go:build kubernetes

// Package kubernetes holds the chart, the manifests that are rendered from it and the objects for the
// Prometheus Operator to Helm and to the API server of Kubernetes (make kubernetes). Its tests need the
// programs in bin, and etcd.
package kubernetes

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	chart     = "../../deploy/chart"
	manifests = "../../deploy/kubernetes"
	release   = "gpufabric-exporter"
)

// tiers are the files of ci that have one manifest each.
var tiers = []string{"passive", "gpu", "bus", "jobs", "probes", "ping"}

var update = flag.Bool("update", false, "write deploy/kubernetes and the table in docs/KUBERNETES.md instead of comparing with them")

// helms are the releases of Helm that the chart is for: 4 and 3.
var helms = []string{"../../bin/helm", "../../bin/helm3"}

// helm returns what Helm 4 writes to its standard output, and its errors.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return helmOf(t, helms[0], args...)
}

func helmOf(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), program, args...)
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

// TestLint lints and renders the chart with each file of ci: Helm 3 renders what Helm 4 does, but for empty lines.
func TestLint(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(chart, "*", "*.yaml"))
	files = slices.DeleteFunc(files, func(file string) bool {
		return !slices.Contains([]string{"ci", "platforms"}, filepath.Base(filepath.Dir(file)))
	})
	if err != nil || len(files) <= len(tiers)+3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		var rendered []string
		for _, program := range helms {
			if out, err := helmOf(t, program, "lint", "--strict", chart, "--values="+file); err != nil {
				t.Errorf("%s, %s: %v\n%s", program, file, err, out)
			}
			out, err := helmOf(t, program, "template", release, chart, "--values="+file)
			if err != nil {
				t.Errorf("%s, %s: %v\n%s", program, file, err, out)
			}
			rendered = append(rendered, strings.Join(strings.FieldsFunc(out, func(r rune) bool { return r == '\n' }), "\n"))
		}
		if rendered[0] != rendered[1] {
			t.Errorf("%s: Helm 3 renders\n%s\nand Helm 4\n%s", file, rendered[1], rendered[0])
		}
	}
}

// TestWrongValues wants a message that names the value, and what is expected of it.
func TestWrongValues(t *testing.T) {
	for set, want := range map[string]string{
		"tiers.gpus=true":                               "at '/tiers': additional properties 'gpus' not allowed",
		"tier.gpu=true":                                 "additional properties 'tier' not allowed",
		"tiers.gpu=maybe":                               "at '/tiers/gpu': got string, want boolean",
		"tiers.jobs=true":                               "set tiers.gpu to true, too",
		"tiers.gpu=true,tiers.probes=true":              "set config.probes.enabled to true, too",
		"config.probes.enabled=true":                    "config.probes needs the privileges of tiers.probes",
		"tiers.ping=true":                               "set both or neither",
		"config.rdma_ping.enabled=true":                 "set both or neither",
		"tiers.ping=true,config.rdma_ping.enabled=true": "set tiers.gpu to true, too",
		"tiers.gpu=true,tiers.ping=true,config.rdma_ping.enabled=true": "set web.secret, or config.rdma_ping.plain to true",
		"ping.targets=leaves":                                "set it to true, too",
		"ping.target=leaves":                                 "at '/ping': additional properties 'target' not allowed",
		"web.port=80":                                        "at '/web/port': minimum: got 80",
		"web.tls=true":                                       "set web.secret, too",
		"web.authentication=true":                            "set web.secret, too",
		"web.config=x":                                       "at '/web': additional properties 'config' not allowed",
		"image.digest=sha256:1":                              "at '/image/digest'",
		"fullnameOverride=fabric":                            "GpuFabricExporterDown expects to contain gpufabric",
		"extraArgs[0]=collector.cm":                          "at '/extraArgs/0'",
		"config.rolls=x":                                     "at '/config': additional properties 'rolls' not allowed",
		"resources.limits.memory=much":                       "at '/resources/limits/memory'",
		"resources.limit.memory=1Gi":                         "at '/resources': additional properties 'limit' not allowed",
		"podMonitor.scrapeTimeout=1m30s":                     "longer than podMonitor.interval=15s",
		"podLabels.app\\.kubernetes\\.io/name=x":             "podLabels has app.kubernetes.io/name",
		"config.expected=8":                                  "at '/config/expected': got number, want ",
		"config.roles=storage":                               "at '/config/roles': got string, want array",
		"config.roles[0].role=rail,config.roles[0].device=x": "at '/config/roles/0/role': value must be one of 'compute', 'storage'",
		"config.nccl.home=root":                              "at '/config/nccl/home': 'root' does not match pattern '^/'",
		"config.probes.wall=90":                              "at '/config/probes/wall': got number, want string",
		"config.expected.port_rate_gigabits_per_second.compute=fast": "got string, want number",
		"extraArgs[0]=--config.file=none":                            "extraArgs has --config.file, which the chart sets itself: set the value config instead",
		"extraEnv[0].key=x":                                          "at '/extraEnv/0': additional properties 'key' not allowed",
		"extraVolumes[0].hostPath.path=/x":                           "at '/extraVolumes/0': missing property 'name'",
		"extraVolumeMounts[0].path=/x":                               "at '/extraVolumeMounts/0': additional properties 'path' not allowed",
		"imagePullSecrets[0]=x":                                      "at '/imagePullSecrets/0': got string, want object",
		"tolerations[0].effects=NoSchedule":                          "at '/tolerations/0': additional properties 'effects' not allowed",
		"affinity.nodeAffinities=x":                                  "at '/affinity': additional properties 'nodeAffinities' not allowed",
		"appArmorProfile.type=None":                                  "at '/appArmorProfile/type': value must be one of",
		"updateStrategy.rollingUpdate.maxSurge=1":                    "at '/updateStrategy/rollingUpdate': additional properties 'maxSurge' not allowed",
		"podMonitor.tlsConfig.skipVerify=true":                       "at '/podMonitor/tlsConfig': additional properties 'skipVerify' not allowed",
		"podMonitor.basicAuth.password=x":                            "at '/podMonitor/basicAuth/password': got string, want object",
		"networkPolicy.from[0].namespace=x":                          "at '/networkPolicy/from/0': additional properties 'namespace' not allowed",
		"clusterProbe.enabled=true":                                  "clusterProbe.secret: the name of a Secret",
		"clusterProbe.nodes=1":                                       "at '/clusterProbe/nodes': minimum: got 1, want 2",
		"clusterProbe.resources.limit=1":                             "at '/clusterProbe/resources': additional properties 'limit' not allowed",
		"clusterProbe.push=http://user:x@gateway":                    "at '/clusterProbe/push'",
		"podMonitor.interval=often":                                  "at '/podMonitor/interval'",
		"podMonitor.labels.release=1":                                "at '/podMonitor/labels/release': got number, want string",
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

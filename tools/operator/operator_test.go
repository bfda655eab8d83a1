// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"gpufabric_exporter/alerts"
)

const (
	folder     = "../../deploy/operator"
	podMonitor = "podmonitor.yaml" // the one that is not generated
)

var update = flag.Bool("update", false, "write deploy/operator instead of comparing with it")

// dashboards are those of the project.
func dashboards() fs.FS { return os.DirFS("../../dashboards") }

func objects(t *testing.T) map[string][]byte {
	t.Helper()
	all, err := Objects(alerts.Files(), dashboards())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestObjects compares deploy/operator with rules and dashboards.
func TestObjects(t *testing.T) {
	all := objects(t)
	there, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range there {
		if name := filepath.Base(path); all[name] == nil && name != podMonitor {
			if !*update {
				t.Errorf("%s: made of nothing that is there: make docs", path)
			} else if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, want := range all {
		path := filepath.Join(folder, name)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		} else if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what its source says (%v): make docs", path, err)
		}
	}
}

// strict decodes an object as the API server does with strict validation: a field that the type does not have
// is an error.
func strict(text []byte) (any, error) {
	var kind meta.TypeMeta
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return nil, err
	}
	kinds := map[string]any{
		"monitoring.coreos.com/v1 PrometheusRule": new(monitoring.PrometheusRule),
		"monitoring.coreos.com/v1 PodMonitor":     new(monitoring.PodMonitor),
		"v1 ConfigMap":                            new(core.ConfigMap),
	}
	object := kinds[kind.APIVersion+" "+kind.Kind]
	if object == nil {
		return nil, fmt.Errorf("no kind %s %s", kind.APIVersion, kind.Kind)
	}
	return object, yaml.UnmarshalStrict(text, object)
}

// TestObjectsAreWhatTheirTypesSay decodes all files and looks at their names.
func TestObjectsAreWhatTheirTypesSay(t *testing.T) {
	all := objects(t)
	text, err := os.ReadFile(filepath.Join(folder, podMonitor))
	if err != nil {
		t.Fatal(err)
	}
	all[podMonitor] = text
	seen := map[string]bool{}
	for file, text := range all {
		object, err := strict(text)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		m := object.(meta.Object)
		wrong := validation.IsDNS1123Subdomain(m.GetName())
		for k, v := range m.GetLabels() {
			wrong = append(append(wrong, validation.IsQualifiedName(k)...), validation.IsValidLabelValue(v)...)
		}
		if c, ok := object.(*core.ConfigMap); ok {
			for k := range c.Data {
				wrong = append(wrong, validation.IsConfigMapKey(k)...)
			}
		}
		if len(wrong) > 0 {
			t.Errorf("%s: %s", file, strings.Join(wrong, "; "))
		}
		if name := fmt.Sprintf("%T %s", object, m.GetName()); seen[name] {
			t.Errorf("%s: another object has its name, too: %s", file, name)
		} else {
			seen[name] = true
		}
	}
}

// TestStrictFindsMisspelledFields proves that the above can fail.
func TestStrictFindsMisspelledFields(t *testing.T) {
	monitor, err := os.ReadFile(filepath.Join(folder, podMonitor))
	if err != nil {
		t.Fatal(err)
	}
	all := objects(t)
	for _, c := range []struct {
		text     []byte
		old, new string
	}{
		{all["rules-hard.yaml"], "expr:", "exprr:"},
		{all["rules-hard.yaml"], "keep_firing_for:", "keepFiringFor:"},
		{all["rules-hard.yaml"], "kind: PrometheusRule", "kind: PrometheusRules"},
		{all["rules-hard.yaml"], "  name: gpufabric-rules-hard\n", "  name: gpufabric-rules-hard\n  name: twice\n"},
		{monitor, "targetLabel:", "target_label:"},
		{monitor, "podMetricsEndpoints:", "podMetricEndpoints:"},
	} {
		broken := bytes.Replace(c.text, []byte(c.old), []byte(c.new), 1)
		if _, err := strict(broken); err == nil || bytes.Equal(broken, c.text) {
			t.Errorf("%q instead of %q: no error", c.new, c.old)
		}
	}
}

// TestRulesSurvive: the operator reads the same groups that Prometheus reads from the rule files.
func TestRulesSurvive(t *testing.T) {
	groups, err := alerts.Groups()
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, g := range groups {
		for _, r := range g.Rules {
			want = append(want, fmt.Sprint(g.Name, g.Interval, r.Alert, r.Record, r.Expr, r.For, r.KeepFiringFor, r.Labels, r.Annotations))
		}
	}
	for file, text := range objects(t) {
		var object monitoring.PrometheusRule
		if !strings.HasPrefix(file, "rules-") {
			continue
		}
		if err := yaml.UnmarshalStrict(text, &object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, g := range object.Spec.Groups {
			for _, r := range g.Rules {
				got = append(got, fmt.Sprint(g.Name, or(g.Interval), r.Alert, r.Record, r.Expr.String(), or(r.For), or(r.KeepFiringFor), r.Labels, r.Annotations))
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("%d rules of %d, or others", len(got), len(want))
	}
}

// or is a duration as text, or none.
func or[D ~string](d *D) string {
	if d == nil {
		return ""
	}
	return string(*d)
}

// TestDashboardsSurvive: Grafana gets the dashboards of the folder unchanged, whatever their strings contain.
func TestDashboardsSurvive(t *testing.T) {
	hard := "{\n  \"a\": \"{{instance}} # : '\\\"\\n $__rate_interval → %d\",\n\n  \"b\": [ ]  \n}"
	all := fstest.MapFS{"hard_one.json": {Data: []byte(hard)}}
	want := map[string]string{"gpufabric-hard-one.json": hard + "\n"}
	names, err := fs.Glob(dashboards(), "*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(dashboards(), name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = &fstest.MapFile{Data: text}
		want["gpufabric-"+name] = strings.TrimRight(string(text), "\n") + "\n"
	}
	made, err := Objects(fstest.MapFS{}, all)
	if err != nil || len(made) != len(all) {
		t.Fatalf("%d objects of %d dashboards: %v", len(made), len(all), err)
	}
	for file, text := range made {
		var object core.ConfigMap
		if err := yaml.UnmarshalStrict(text, &object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for name, got := range object.Data {
			if want[name] != got {
				t.Errorf("%s: dashboard %s is another one", file, name)
			}
		}
		if len(object.Data) != 1 || object.Labels["grafana_dashboard"] != "1" {
			t.Errorf("%s: dashboards %v, labels %v", file, slices.Collect(maps.Keys(object.Data)), object.Labels)
		}
	}
}

func TestObjectsRefuses(t *testing.T) {
	big := &fstest.MapFile{Data: bytes.Repeat([]byte("#"), dashboardLimit+1)}
	small := &fstest.MapFile{Data: []byte("{}")}
	for name, c := range map[string]struct{ rules, dashboards fstest.MapFS }{
		"dashboard": {fstest.MapFS{}, fstest.MapFS{"a.json": big}},
		"rules":     {fstest.MapFS{"a.rules.yml": {Data: big.Data[:ruleLimit+1]}}, fstest.MapFS{}},
		"one name":  {fstest.MapFS{}, fstest.MapFS{"a_b.json": small, "a-b.json": small}},
	} {
		if _, err := Objects(c.rules, c.dashboards); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Objects(fstest.MapFS{}, fstest.MapFS{"a.json": {Data: big.Data[:dashboardLimit]}}); err != nil {
		t.Errorf("what just fits: %v", err)
	}
}

// TestPodMonitorNamesNodes applies Prometheus' own relabelling to the labels that the operator gives a pod.
func TestPodMonitorNamesNodes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(folder, podMonitor))
	if err != nil {
		t.Fatal(err)
	}
	var m monitoring.PodMonitor
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		t.Fatal(err)
	}
	var configs []*relabel.Config
	for _, r := range m.Spec.PodMetricsEndpoints[0].RelabelConfigs {
		c := relabel.DefaultRelabelConfig
		c.NameValidationScheme = model.LegacyValidation
		for _, l := range r.SourceLabels {
			c.SourceLabels = append(c.SourceLabels, model.LabelName(l))
		}
		if r.Regex != "" {
			c.Regex = relabel.MustNewRegexp(r.Regex)
		}
		if r.Action != "" {
			c.Action = relabel.Action(r.Action)
		}
		c.TargetLabel = r.TargetLabel
		if err := c.Validate(model.LegacyValidation); err != nil {
			t.Fatal(err)
		}
		configs = append(configs, &c)
	}
	job := "monitoring/" + m.Name // what the operator makes of it
	if !regexp.MustCompile(`^.*gpu.?fabric.*$`).MatchString(job) {
		t.Errorf("GpuFabricExporterDown does not know the job %s before the exporter has answered once", job)
	}
	target := map[string]string{
		"__address__": "10.0.3.4:10791", "__scheme__": "http", "__metrics_path__": "/metrics", "__meta_kubernetes_pod_node_name": "gpu-17",
		"__meta_kubernetes_pod_name": "gpufabric-exporter-x7k2p", "job": job, "namespace": "monitoring",
		"pod": "gpufabric-exporter-x7k2p", "container": "exporter", "endpoint": "metrics",
	}
	got, keep := relabel.Process(labels.FromMap(target), configs...)
	if !keep {
		t.Fatal("the target is dropped")
	}
	left := map[string]string{}
	got.Range(func(l labels.Label) {
		if !strings.HasPrefix(l.Name, "__") {
			left[l.Name] = l.Value
		}
	})
	want := map[string]string{"instance": "gpu-17", "job": job, "namespace": "monitoring"}
	if !maps.Equal(left, want) || got.Get("__address__") != target["__address__"] {
		t.Errorf("labels %v, want %v", left, want)
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build kubernetes

package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// rendered are the objects of the chart with these values, by kind.
func rendered(t *testing.T, values string) map[string]object {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := helm(t, "template", release, chart, "--namespace=monitoring", "--values="+file)
	if err != nil {
		t.Fatalf("%s: %v\n%s", values, err, out)
	}
	all := map[string]object{}
	for _, o := range objects(t, out) {
		all[o.kind()] = o
	}
	return all
}

// pod is a field of the pods of the chart with these values, as text.
func pod(t *testing.T, values string, path ...string) string {
	t.Helper()
	return fmt.Sprint(rendered(t, values)["DaemonSet"].field(append([]string{"spec", "template"}, path...)...))
}

// Each default can be changed by itself and taken away, as values.yaml says.
func TestDefaults(t *testing.T) {
	resources := func(values string) string {
		containers, _ := rendered(t, values)["DaemonSet"].field("spec", "template", "spec", "containers").([]any)
		return fmt.Sprint(object(containers[0].(map[string]any)).field("resources"))
	}
	for _, c := range []struct{ got, want string }{
		{pod(t, "affinity: {}", "spec", "affinity"), "<nil>"},
		{pod(t, "affinity: {podAffinity: {x: 1}}", "spec", "affinity"), "map[podAffinity:map[x:1]]"},
		{pod(t, "nodeSelector: {pool: gpu}", "spec", "nodeSelector"), "map[kubernetes.io/os:linux pool:gpu]"},
		{pod(t, "tolerations: []", "spec", "tolerations"), "<nil>"},
		{pod(t, "tiers: {gpu: true}\nruntimeClassName: ''", "spec", "runtimeClassName"), "<nil>"},
		{fmt.Sprint(rendered(t, "updateStrategy: {type: OnDelete}")["DaemonSet"].field("spec", "updateStrategy")), "map[type:OnDelete]"},
		{resources("resources: {}"), "map[limits:map[memory:256Mi] requests:map[cpu:20m memory:64Mi]]"},
		{resources("resources: {requests: {cpu: 50m}}"), "map[limits:map[memory:256Mi] requests:map[cpu:50m memory:64Mi]]"},
		{resources("resources: {limits: {memory: null}}"), "map[limits:map[] requests:map[cpu:20m memory:64Mi]]"},
		{resources("resources: {limits: null}"), "map[requests:map[cpu:20m memory:64Mi]]"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	if got := pod(t, "{}", "spec", "affinity"); !strings.Contains(got, "nvidia.com/gpu.present") {
		t.Errorf("by default all nodes are selected: %s", got)
	}
}

// Labels and annotations of the site are on all objects, and none replaces those by which pods are known.
func TestLabels(t *testing.T) {
	values := "commonLabels: {team: fabric, app.kubernetes.io/name: x}\npodLabels: {team: pods}\n" +
		"serviceAccount: {annotations: {a/b: c}}\npodMonitor: {enabled: true}\nprometheusRule: {enabled: true}\ndashboards: {enabled: true}\n"
	all := rendered(t, values)
	for kind, o := range all {
		if o.field("metadata", "labels", "team") != "fabric" || strings.Contains(fmt.Sprint(o.field("metadata", "labels")), "name:x") {
			t.Errorf("%s has labels %v", kind, o.field("metadata", "labels"))
		}
	}
	if got := all["ServiceAccount"].field("metadata", "annotations", "a/b"); got != "c" {
		t.Errorf("annotation %v", got)
	}
	if got := pod(t, values, "metadata", "labels", "team"); got != "pods" {
		t.Errorf("the pods have the label %s", got)
	}
}

// Both kinds of monitors name the node and not the pod, and take what the site adds.
func TestMonitors(t *testing.T) {
	const more = ", relabelings: [{targetLabel: cluster, replacement: a}], metricRelabelings: [{action: drop, regex: go_.*, sourceLabels: [__name__]}]}"
	for kind, path := range map[string][2]string{"PodMonitor": {"podMetricsEndpoints", "pod|container|endpoint"}, "ServiceMonitor": {"endpoints", "pod|container|endpoint|service"}} {
		all := rendered(t, "podMonitor: {enabled: true, kind: "+kind+more)
		endpoints, _ := all[kind].field("spec", path[0]).([]any)
		if len(endpoints) != 1 {
			t.Fatalf("%s: %v", kind, all[kind])
		}
		got := fmt.Sprint(endpoints[0])
		for _, want := range []string{"__meta_kubernetes_pod_node_name", "regex:" + path[1] + "]", "targetLabel:cluster", "metricRelabelings:[map[action:drop"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s lacks %s: %s", kind, want, got)
			}
		}
		service := all["Service"]
		if (service != nil) != (kind == "ServiceMonitor") {
			t.Errorf("%s with %v", kind, service)
		}
		if kind == "ServiceMonitor" && fmt.Sprint(service.field("spec", "selector")) != fmt.Sprint(all["DaemonSet"].field("spec", "selector", "matchLabels")) {
			t.Errorf("the Service selects %v", service.field("spec", "selector"))
		}
	}
}

// On each platform the pods are on its GPU nodes, have the folder of the record, and what they need is permitted.
func TestPlatforms(t *testing.T) {
	for platform, want := range map[string]string{"openshift": "nvidia.com/gpu.present", "gke": "cloud.google.com/gke-accelerator", "eks": "p5.48xlarge"} {
		for _, tier := range tiers {
			out, err := helm(t, "template", release, chart, "--namespace=monitoring",
				"--values="+filepath.Join(chart, "platforms", platform+".yaml"), "--values="+filepath.Join(chart, "ci", tier+".yaml"))
			if err != nil {
				t.Fatalf("%s, %s: %v\n%s", platform, tier, err, out)
			}
			if !strings.Contains(out, want) || !strings.Contains(out, "hostPath: {path: /var/lib/gpufabric_exporter") {
				t.Errorf("%s, %s: no %s, or no record:\n%s", platform, tier, want, out)
			}
			for _, o := range objects(t, out) {
				if o.kind() == "SecurityContextConstraints" {
					permits(t, o, out)
				}
			}
			if strings.Contains(out, "kind: SecurityContextConstraints") != (platform == "openshift") {
				t.Errorf("%s, %s: constraints of OpenShift", platform, tier)
			}
		}
	}
}

// permits wants the constraints to allow what the pods of the same chart ask for, and no more.
func permits(t *testing.T, constraints object, out string) {
	t.Helper()
	for _, o := range objects(t, out) {
		if o.kind() != "DaemonSet" {
			continue
		}
		spec := object(o.field("spec", "template", "spec").(map[string]any))
		containers, _ := spec.field("containers").([]any)
		add := object(containers[0].(map[string]any)).field("securityContext", "capabilities", "add")
		if allowed := constraints.field("allowedCapabilities"); fmt.Sprint(allowed) != fmt.Sprint(add) && (add != nil || fmt.Sprint(allowed) != "[]") {
			t.Errorf("allowed %v, asked for %v", allowed, add)
		}
		if got, want := constraints.field("allowHostPID"), spec.field("hostPID") == true; got != want {
			t.Errorf("allowHostPID %v, asked for %v", got, want)
		}
		if users := fmt.Sprint(constraints.field("users")); users != fmt.Sprintf("[system:serviceaccount:monitoring:%v]", spec.field("serviceAccountName")) {
			t.Errorf("for %s", users)
		}
	}
}

// What the notes and the document have the site type for all nodes is an option that Helm takes: --set reads {} as a list.
func TestAllNodes(t *testing.T) {
	for _, file := range []string{filepath.Join(chart, "templates", "NOTES.txt"), "../../docs/KUBERNETES.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		typed := regexp.MustCompile(`(--set[a-z-]*) '?(affinity=[^ '` + "`" + `]*)`).FindSubmatch(text)
		if typed == nil {
			t.Fatalf("%s does not say how to select all nodes", file)
		}
		if out, err := helm(t, "template", release, chart, string(typed[1]), string(typed[2])); err != nil || strings.Contains(out, "nodeAffinity") {
			t.Errorf("%s: %s: %v\n%s", file, typed[0], err, out)
		}
	}
}

// The processes of the CronJob find the first one by the name of its Job, and each is on a node of its own.
func TestClusterProbe(t *testing.T) {
	if _, has := rendered(t, "{}")["CronJob"]; has {
		t.Error("there is a CronJob without clusterProbe.enabled")
	}
	all := rendered(t, "commonLabels: {team: fabric}\nclusterProbe: {enabled: true, nodes: 16, secret: s, priorityClassName: lowest, schedule: '30 2 * * *', extraArgs: [--partial]}")
	job := object(all["CronJob"].field("spec", "jobTemplate", "spec").(map[string]any))
	pod := object(job.field("template", "spec").(map[string]any))
	text := fmt.Sprint(pod)
	for _, want := range []string{
		"--leader=$(JOB_NAME)-0.gpufabric-exporter-cluster:10793", "name:WORLD_SIZE value:16", "subdomain:gpufabric-exporter-cluster",
		"priorityClassName:lowest", "secretName:s", "--partial", "topologyKey:kubernetes.io/hostname", "nvidia.com/gpu:8",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if got := fmt.Sprint(all["CronJob"].field("spec", "schedule"), " ", job.field("completions"), job.field("completionMode")); got != "30 2 * * * 16Indexed" {
		t.Error(got)
	}
	labels := fmt.Sprint(job.field("template", "metadata", "labels"))
	if selector := all["Service"].field("spec", "selector"); fmt.Sprint(selector) != "map[app.kubernetes.io/component:cluster-probe app.kubernetes.io/instance:gpufabric-exporter]" ||
		strings.Contains(labels, "app.kubernetes.io/name") || !strings.Contains(labels, "team:fabric") {
		t.Errorf("the service selects %v, the pods have %s, and the DaemonSet must not select them", selector, labels)
	}
}

// With the tier ping nodes find each other by a headless service, or by a ConfigMap of the site, and the pods may no more than those of gpu.
func TestPing(t *testing.T) {
	const on = "tiers: {gpu: true, ping: true}\nconfig: {rdma_ping: {enabled: true, plain: true%s}}\nnetworkPolicy: {enabled: true}\n"
	without, none := rendered(t, "tiers: {gpu: true}"), fmt.Sprintf(on, "")
	if without["Service"] != nil || pod(t, "{}", "spec", "dnsPolicy") != "Default" {
		t.Error("there is a Service, or the name service of the cluster, without tiers.ping")
	}
	all := rendered(t, none)
	if got := fmt.Sprint(all["Service"].field("spec")); got != "map[clusterIP:None publishNotReadyAddresses:true selector:"+fmt.Sprint(all["DaemonSet"].field("spec", "selector", "matchLabels"))+"]" {
		t.Error(got)
	}
	if got := fmt.Sprint(all["NetworkPolicy"].field("spec", "egress")); !strings.Contains(got, "10791") || !strings.Contains(got, "53") {
		t.Errorf("it may not ask others: %s", got)
	}
	for _, c := range []struct{ values, want string }{
		{none, "target_names:\n  - gpufabric-exporter-ping:10791\n"},
		{none + "ping: {targets: leaves}", "target_files:\n  - /etc/gpufabric_exporter/ping/targets.json\n"},
		{fmt.Sprintf(on, ", target_names: [nodes:1]"), "target_names:\n  - nodes:1\n"},
		{fmt.Sprintf(on, ", target_files: [/x.json]"), "target_files:\n  - /x.json\n"},
	} {
		all := rendered(t, c.values)
		text, spec := fmt.Sprint(all["ConfigMap"].field("data", "config.yml")), fmt.Sprint(all["DaemonSet"].field("spec", "template", "spec"))
		if !strings.Contains(text, c.want) || strings.Count(text, "target_") != 1 {
			t.Errorf("%s: %s", c.values, text)
		}
		byMap := strings.Contains(c.values, "leaves")
		if strings.Contains(spec, "configMap:map[name:leaves]") != byMap || (all["Service"] == nil) != byMap {
			t.Errorf("%s: %s, %v", c.values, spec, all["Service"])
		}
		for _, want := range []string{"dnsPolicy:ClusterFirstWithHostNet", "name:NVIDIA_MOFED value:enabled", "runAsNonRoot:true"} {
			if !strings.Contains(spec, want) {
				t.Errorf("%s: no %s in %s", c.values, want, spec)
			}
		}
		if strings.Contains(spec, " add:") || strings.Contains(spec, "hostPID") {
			t.Errorf("%s: privileges: %s", c.values, spec)
		}
	}
}

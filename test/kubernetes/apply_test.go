// SPDX-License-Identifier: Apache-2.0

//go:build kubernetes

package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// operatorModule has the definitions of the kinds of the Prometheus Operator.
const operatorModule = "github.com/prometheus-operator/prometheus-operator@v0.90.1"

// levels are the pod security standards that forbid something.
var levels = []string{"baseline", "restricted"}

// TestCluster applies everything to one API server.
func TestCluster(t *testing.T) {
	c := start(t)
	c.prepare(t)
	t.Run("manifests", c.testManifests)
	t.Run("values", c.testValues)
	t.Run("refuses", c.testRefuses)
	t.Run("security", c.testSecurity)
	for _, program := range helms {
		t.Run(filepath.Base(program), func(t *testing.T) { c.testHelm(t, program) })
	}
}

// prepare makes what the objects need: namespaces, the kinds of the Prometheus Operator, and classes.
func (c *cluster) prepare(t *testing.T) {
	t.Helper()
	for _, namespace := range []string{"monitoring", "values", "helm"} {
		c.must(t, "", labelled(namespace, nil))
	}
	for _, level := range levels {
		c.must(t, "", labelled(level, map[string]any{"pod-security.kubernetes.io/warn": level}))
		c.must(t, "", labelled("enforce-"+level, map[string]any{"pod-security.kubernetes.io/enforce": level}))
	}
	c.must(t, "", object{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": map[string]any{"name": "nvidia"}, "handler": "nvidia"},
		object{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": map[string]any{"name": "monitoring"}, "value": 1})
	folder := definitions(t)
	for _, kind := range []string{"podmonitors", "prometheusrules"} {
		text, err := os.ReadFile(filepath.Join(folder, "monitoring.coreos.com_"+kind+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects(t, string(text)) {
			c.must(t, "", o)
		}
	}
	for _, path := range []string{resources["PodMonitor"], resources["PrometheusRule"]} {
		c.await(t, fmt.Sprintf(path, "monitoring"))
	}
}

func labelled(namespace string, labels map[string]any) object {
	return object{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace, "labels": labels}}
}

// definitions is the folder with the CustomResourceDefinitions of the Prometheus Operator.
func definitions(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", operatorModule).Output()
	var module struct{ Dir string }
	if err != nil || json.Unmarshal(out, &module) != nil {
		t.Fatalf("%s: %v\n%s", operatorModule, err, out)
	}
	return filepath.Join(module.Dir, "example/prometheus-operator-crd")
}

// testManifests applies deploy/kubernetes, one tier over the other, deploy/operator, and the Job of deploy/cluster.
func (c *cluster) testManifests(t *testing.T) {
	for _, tier := range tiers {
		text, err := os.ReadFile(filepath.Join(manifests, tier+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		c.must(t, "monitoring", objects(t, string(text))...)
	}
	files, err := filepath.Glob("../../deploy/operator/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range append(files, "../../deploy/cluster/job.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c.must(t, "monitoring", objects(t, string(text))...)
	}
}

// testValues applies the chart with each file of ci.
func (c *cluster) testValues(t *testing.T) {
	for _, values := range append([]string{"full", "cluster"}, tiers...) {
		kinds := map[string]int{}
		for _, o := range objects(t, template(t, "values", values)) {
			c.must(t, "values", o)
			kinds[o.kind()]++
		}
		t.Logf("%s: %v", values, kinds)
	}
}

// testRefuses proves that the server finds what is wrong: a field that does not exist, a value that is none,
// a missing class.
func (c *cluster) testRefuses(t *testing.T) {
	text := template(t, "values", "full")
	for old, broken := range map[string]string{
		"hostNetwork: true":   "hostNetworks: true",
		"drop: [ALL]":         "drop: ALL",
		"keep_firing_for: 2m": "keep_firing_for: often",
		"scrapeTimeout: 10s":  "scrapeTimeout: 10",
	} {
		changed := strings.Replace(text, old, broken, 1)
		if changed == text {
			t.Errorf("the chart has no %q", old)
			continue
		}
		refused := false
		for _, o := range objects(t, changed) {
			status, _, _ := c.apply(t, "values", o)
			refused = refused || status >= http.StatusBadRequest
		}
		if !refused {
			t.Errorf("%q is accepted", broken)
		}
	}
}

// testSecurity lists what the pods of each tier have that the standards forbid. docs/KUBERNETES.md has the list.
func (c *cluster) testSecurity(t *testing.T) {
	var table strings.Builder
	table.WriteString("| tier | violates `baseline` | and `restricted` |\n|---|---|---|\n")
	for _, tier := range tiers {
		row := []string{"`" + tier + "`"}
		known := map[string]bool{}
		for _, level := range levels {
			set := objects(t, template(t, level, tier))
			i := slices.IndexFunc(set, func(o object) bool { return o.kind() == "DaemonSet" })
			status, warnings, message := c.apply(t, level, set[i])
			if status != http.StatusCreated && status != http.StatusOK || len(warnings) != 1 {
				t.Fatalf("%s, %s: %d %s %q", tier, level, status, message, warnings)
			}
			var fresh []string
			for _, v := range violations(t, level, warnings[0]) {
				if !known[v] {
					fresh = append(fresh, v)
				}
				known[v] = true
			}
			row = append(row, strings.Join(fresh, "; "))
			c.testEnforced(t, tier, level, set[i])
		}
		fmt.Fprintf(&table, "| %s |\n", strings.Join(row, " | "))
	}
	t.Log("\n" + table.String())
	document(t, table.String())
}

// testEnforced wants a namespace that enforces a standard to refuse the pods, and any other to take them.
func (c *cluster) testEnforced(t *testing.T, tier, level string, set object) {
	t.Helper()
	pod, _ := set.field("spec", "template").(map[string]any)
	pod = maps.Clone(pod)
	pod["apiVersion"], pod["kind"] = "v1", "Pod"
	metadata, _ := pod["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	metadata["name"] = tier + "-" + level
	delete(metadata, "namespace")
	pod["metadata"] = metadata
	for namespace, want := range map[string]int{"enforce-" + level: http.StatusForbidden, "monitoring": http.StatusCreated} {
		if status, _, message := c.apply(t, namespace, pod); status != want {
			t.Errorf("a pod of %s in %s: %d %s", tier, namespace, status, message)
		}
	}
}

// violations are the checks in a warning of the API server.
func violations(t *testing.T, level, warning string) []string {
	t.Helper()
	_, list, found := strings.Cut(warning, `would violate PodSecurity "`+level+`:latest": `)
	if !found {
		t.Fatalf("no violation: %s", warning)
	}
	var all []string
	depth, from := 0, 0
	for i, r := range list + "," {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth == 0:
			all = append(all, strings.ReplaceAll(strings.TrimSpace(list[from:i]), `"`, ""))
			from = i + 1
		}
	}
	slices.Sort(all)
	return all
}

// document holds the table in docs/KUBERNETES.md to the one that the server says.
func document(t *testing.T, table string) {
	t.Helper()
	const file, begin = "../../docs/KUBERNETES.md", "| tier | violates"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(after, "\n\n")
	if !found || !ended {
		t.Fatalf("%s has no table that begins with %q", file, begin)
	}
	want := before + table + "\n" + after
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s has another table: make kubernetes-manifests", file)
	}
}

// get reads an object of a namespace; one that does not exist has no fields but those of the error.
func (c *cluster) get(t *testing.T, kind, namespace, name string) object {
	t.Helper()
	_, _, answer, err := c.ask(t, http.MethodGet, fmt.Sprintf(resources[kind], namespace)+"/"+name, "", nil)
	var o object
	if err != nil || json.Unmarshal(answer, &o) != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	return o
}

// helm calls a release of Helm on the cluster.
func (c *cluster) helm(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	return helmOf(t, program, append(args, "--kubeconfig="+c.kubeconfig, "--namespace=helm")...)
}

// testHelm installs, upgrades, tests and removes a release.
func (c *cluster) testHelm(t *testing.T, program string) {
	with := func(args ...string) {
		t.Helper()
		if out, err := c.helm(t, program, args...); err != nil {
			t.Fatalf("helm %s: %v\n%s", args[0], err, out)
		}
	}
	capabilities := func() string {
		t.Helper()
		containers, _ := c.get(t, "DaemonSet", "helm", release).field("spec", "template", "spec", "containers").([]any)
		if len(containers) != 1 {
			return "no DaemonSet"
		}
		return fmt.Sprint(object(containers[0].(map[string]any)).field("securityContext", "capabilities", "add"))
	}
	with("install", release, chart, "--set=podMonitor.enabled=true,prometheusRule.enabled=true,dashboards.enabled=true")
	if got := capabilities(); got != "<nil>" {
		t.Errorf("capabilities %s", got)
	}
	with("upgrade", release, chart, "--reuse-values", "--set=tiers.bus=true")
	if got := capabilities(); got != "[SYS_ADMIN]" {
		t.Errorf("with the tier bus: capabilities %s", got)
	}
	with("rollback", release, "1")
	if got := capabilities(); got != "<nil>" {
		t.Errorf("after the rollback: capabilities %s", got)
	}
	c.testHook(t, program)
	c.testTwo(t, program)
	with("uninstall", release)
	if got := capabilities(); got != "no DaemonSet" {
		t.Errorf("after the removal: capabilities %s", got)
	}
}

// testHook wants helm test to say what the pod of the chart found. No kubelet runs it: the test sets how it ended.
func (c *cluster) testHook(t *testing.T, program string) {
	for phase, fails := range map[string]bool{"Succeeded": false, "Failed": true} {
		said := make(chan error, 1)
		go func() {
			out, err := c.helm(t, program, "test", release, "--timeout=1m")
			t.Log(out)
			said <- err
		}()
		path := fmt.Sprintf(resources["Pod"], "helm") + "/" + release + "-ready/status"
		for ended := false; !ended; {
			select {
			case err := <-said:
				if ended = true; (err != nil) != fails {
					t.Errorf("the pod %s: helm test: %v", phase, err)
				}
			case <-time.After(100 * time.Millisecond):
				_, _, _, _ = c.ask(t, http.MethodPatch, path, "application/merge-patch+json", []byte(`{"status":{"phase":"`+phase+`"}}`))
			}
		}
	}
}

// testTwo installs more releases beside the first: one for other nodes, and one that would have the rules a
// second time, which is refused as a whole.
func (c *cluster) testTwo(t *testing.T, program string) {
	if out, err := c.helm(t, program, "install", "storage", chart, "--set=podMonitor.enabled=true,nodeSelector.pool=storage"); err != nil {
		t.Fatalf("a second release: %v\n%s", err, out)
	}
	const second = "storage-gpufabric-exporter"
	for _, kind := range []string{"DaemonSet", "PodMonitor"} {
		one, two := c.get(t, kind, "helm", release), c.get(t, kind, "helm", second)
		selector := []string{"spec", "selector", "matchLabels", "app.kubernetes.io/instance"}
		if one.field(selector...) != release || two.field(selector...) != "storage" {
			t.Errorf("%s: the releases select pods of %v and %v", kind, one.field(selector...), two.field(selector...))
		}
	}
	out, err := c.helm(t, program, "install", "third", chart, "--set=prometheusRule.enabled=true")
	if err == nil || !strings.Contains(out, `"gpufabric-`) || !strings.Contains(out, "exists and cannot be imported into the current release") {
		t.Errorf("rules a second time: %v\n%s", err, out)
	}
	if c.get(t, "DaemonSet", "helm", "third-gpufabric-exporter").kind() == "DaemonSet" {
		t.Error("half of the refused release is installed")
	}
	if out, err := c.helm(t, program, "uninstall", "storage"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	_, _ = c.helm(t, program, "uninstall", "third") // Helm keeps a record of the failure
}

// TestDocumentedCommands runs the commands of docs/KUBERNETES.md in order, those of Helm and those of kubectl
// on a cluster each, which are two ways to install. What needs running pods, or files that other commands
// write, is left out.
func TestDocumentedCommands(t *testing.T) {
	text, err := os.ReadFile("../../docs/KUBERNETES.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, file := range []string{"web.yml", "tls.crt", "tls.key"} {
		write(t, filepath.Join(dir, file), "x\n")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "deploy"), filepath.Join(dir, "deploy")); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"helm", "kubectl"} {
		c := start(t)
		c.prepare(t)
		done := 0
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", "")) {
			if !strings.HasPrefix(line, "    "+program+" ") || strings.Contains(line, " test ") || strings.Contains(line, "/tmp/") {
				continue
			}
			command := exec.CommandContext(t.Context(), filepath.Join(root, "bin", program), strings.Fields(line)[1:]...)
			command.Dir, command.Env = dir, append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", strings.TrimSpace(line), err, out)
			}
			done++
		}
		if done < 2 {
			t.Errorf("%d commands of %s", done, program)
		}
	}
}

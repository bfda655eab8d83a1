// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/test/prometheus"
)

// examples runs the scripts of deploy/cluster as jobs: the nightly one drains the slow node, and its result goes through a
// Pushgateway and Prometheus to an alert; the other one finds nothing, which ends both.
func (r rig) examples(w table) {
	gateway := r.pushgateway()
	server := r.prometheus(gateway)
	script := strings.Replace(r.wrapped("", []string{`"$@"`})[4], `"$0" probe`, r.path("gpufabric_exporter")+" probe", 1)
	r.write("probe.sh", "#!/bin/sh\n[ \"$1\" = inside ] || exec unshare --mount \"$0\" inside \"$@\"\nshift\n"+strings.ReplaceAll(script, "$1", r.dir)+"\n")
	r.must("chmod", "755", r.path("probe.sh"))
	for _, c := range []struct {
		script  string
		machine []string
		drained bool
		code    int
	}{{"nightly.sbatch", []string{"host cn2 slow 1.3"}, true, 1}, {"preemptible.sbatch", nil, false, 0}} {
		r.machine(c.machine...)
		cmd := r.slurmCommand(r.t.Context(), "sbatch", "--wait", "--output="+r.path(c.script+".out"), "../../deploy/cluster/"+c.script)
		cmd.Env = append(cmd.Env, "FOLDER="+r.dir, "PROBE="+r.path("probe.sh"), "PUSH=http://"+gateway)
		o := r.run(cmd, nil)
		out, err := r.slurmCommand(r.t.Context(), "sinfo", "-h", "-n", "cn2", "-p", "all", "-o", "%T %E").Output()
		if err != nil {
			r.t.Fatal(err)
		}
		state := strings.TrimSpace(string(out))
		pushed := r.get("http://" + gateway + "/metrics")
		fault := strings.Contains(pushed, `gpufabric_cluster_probe_fault_ratio{device="",instance="",job="gpufabric_cluster_probe",level="bad",partner="",probed_node="cn2"`)
		w.row(c.script, state, "", fmt.Sprintf("%.0f", o.took.Seconds()), o.code)
		if o.code != c.code || strings.Contains(state, "fabric-probe") != c.drained || fault != c.drained {
			r.t.Errorf("%s: exit code %d, cn2 is %s, pushed fault %v\n%s\n%s", c.script, o.code, state, fault, r.log(c.script+".out"), pushed)
		}
		r.alerts(server, c.drained)
		if c.drained {
			_ = r.slurmCommand(r.t.Context(), "scontrol", "update", "nodename=cn2", "state=resume").Run()
		}
		r.nothingLeft()
	}
	for _, name := range []string{"fabric.history", "fabric-*.html"} {
		if found, err := filepath.Glob(r.path(name)); err != nil || len(found) != 1 {
			r.t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

// pushgateway starts that of Debian, at an address that nodes reach, and returns it.
func (r rig) pushgateway() string {
	r.t.Helper()
	const address = "10.77.0.254:9091"
	fetch := exec.Command("sh", "-c", "apt-get -qq download prometheus-pushgateway && dpkg -x prometheus-pushgateway_*.deb .")
	fetch.Dir = r.dir
	if out, err := fetch.CombinedOutput(); err != nil {
		r.t.Fatalf("Debian's prometheus-pushgateway: %v\n%s", err, out)
	}
	r.daemon("pushgateway.log", r.path("usr/bin/prometheus-pushgateway"), "--web.listen-address="+address)
	return address
}

// prometheus reads the Pushgateway with the shipped rules, each second.
func (r rig) prometheus(gateway string) *prometheus.Server {
	r.t.Helper()
	rules, err := os.ReadFile("../../alerts/cluster.rules.yml")
	if err != nil {
		r.t.Fatal(err)
	}
	r.write("cluster.rules.yml", strings.Replace(string(rules), "interval: 1m", "interval: 1s", 1))
	return prometheus.Serve(r.t, prometheus.Fetch(r.t), r.dir, r.write("prometheus.yml", fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\n"+
		"rule_files: [%s]\nscrape_configs: [{job_name: push, honor_labels: true, static_configs: [{targets: ['%s']}]}]\n", r.path("cluster.rules.yml"), gateway)))
}

// alerts waits until the alert on the slow node fires, or no longer does; it is kept for two minutes then.
func (r rig) alerts(server *prometheus.Server, fires bool) {
	r.t.Helper()
	const expr = `ALERTS{alertname="GpuFabricClusterProbeNodeSlow",alertstate="firing",probed_node="cn2"}`
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(time.Second) {
		samples := server.Query(r.t, expr)
		if (len(samples) > 0) == fires {
			return
		}
		if time.Now().After(end) {
			r.t.Errorf("%s: %v, expected it to fire: %v", expr, samples, fires)
			return
		}
	}
}

func (r rig) get(url string) string {
	r.t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// TestExamples is TestSlurm with the scripts of deploy/cluster.
func TestExamples(t *testing.T) {
	w := newTable(t)
	w.row("script", "cn2", "", "seconds", "exit code")
	defer w.Flush()
	newRig(t).examples(w)
}

// TestTranscript prints a run with a slow node, as docs/PROBES.md has it, and leaves its page in FOLDER.
func TestTranscript(t *testing.T) {
	folder := os.Getenv("FOLDER")
	if folder == "" {
		t.Skip("FOLDER, where the page of the run goes, is not set")
	}
	r := newRig(t)
	r.machine("host cn2 slow 1.3")
	o := r.run(r.slurmCommand(t.Context(), slices.Concat(pmi, r.wrapped("", []string{"--html=" + filepath.Join(folder, "fabric.html")}))...), nil)
	fmt.Fprintf(t.Output(), "%s%sexit code %d\n", o.stderr, o.stdout, o.code)
}

// SPDX-License-Identifier: Apache-2.0

package job_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/stage"
)

var update = flag.Bool("update", false, "write the table of deployments into docs/JOBS.md")

// deployments are the ways in which jobs are run that must be judged rightly, with the scenarios that stand
// for them: as it should be, and fallen back to TCP.
var deployments = []struct{ name, good, fallback string }{
	{"Slurm on bare metal", "job-slurm", "job-tcp"},
	{"Slurm with pyxis and enroot, HPC-X in the image", "job-pyxis", ""},
	{"Kubernetes, macvlan or shared SR-IOV devices", "job-kubernetes", "job-tcp-no-devices"},
	{"Kubernetes, devices moved into the pod", "job-kubernetes-moved", "job-tcp-hidden"},
	{"AWS EFA", "job-efa", "job-efa-fallback"},
	{"Google TCPX (A3 High)", "job-tcpx", ""},
	{"Google FasTrak (A3 Mega)", "job-fastrak", ""},
	{"Google gIB (A3 Ultra)", "job-gib", ""},
	{"HPE Slingshot", "job-slingshot", ""},
}

// TestDeployments wants docs/JOBS.md to say what is seen and said of each kind of deployment, as it comes out.
func TestDeployments(t *testing.T) {
	const path, begin, end = "../../../docs/JOBS.md", "| Deployment | Transport | Way | Seen |\n|---|---|---|---|\n", "\n\n"
	var rows strings.Builder
	on := stage.New(t)
	for _, d := range deployments {
		rows.WriteString(deploymentRow(t, on, d.name, d.good))
		if d.fallback != "" {
			rows.WriteString(deploymentRow(t, on, d.name+", fallen back", d.fallback))
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	table, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s has no table %q", path, begin)
	}
	want := strings.TrimSuffix(rows.String(), "\n")
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("the table of deployments in %s is not what comes out (go test ./internal/jobs/job -run TestDeployments -update)\ngot:\n%s\nwant:\n%s", path, table, want)
	}
}

// deploymentRow is a row of the table: what is said of the only job of a scenario.
func deploymentRow(t *testing.T, on *stage.Stage, name, scenario string) string {
	t.Helper()
	s, err := simulator.Find(scenario)
	if err != nil {
		t.Fatal(err)
	}
	all := follow(t, on, s, 15*time.Second, 3)
	last := all[len(all)-1]
	if len(last.List) != 1 {
		t.Fatalf("%s: %d jobs", scenario, len(last.List))
	}
	v := &last.List[0].Verdict
	seen := append([]string{}, v.Evidence...)
	for _, why := range []string{v.Reason.Text(), v.Cause.Text()} {
		if why != "" {
			seen = append(seen, "because "+why)
		}
	}
	return fmt.Sprintf("| %s (`%s`) | %s | %s | %s |\n", name, scenario, v.State(), cmp.Or(string(v.Way), "-"), rates.ReplaceAllString(strings.Join(seen, "; "), "N"))
}

// rates are figures of the simulated traffic, which say nothing.
var rates = regexp.MustCompile(`[0-9.]+ [kMG]?B/s`)

// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"cmp"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/simulator"
)

func TestDemoList(t *testing.T) {
	var stdout output
	if code := Run(t.Context(), []string{"demo", "--list"}, Options{Stdout: &stdout}); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	for _, s := range simulator.Scenarios() {
		contains(t, stdout.String(), s.Name, s.Summary)
	}
}

// TestDemo runs every scenario through the real pipeline.
func TestDemo(t *testing.T) {
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm") // thousands of small files
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Cleanup(func() { // after all demos, which run beside each other
		if left, _ := filepath.Glob(temp + "/*"); len(left) > 0 {
			t.Errorf("leaves %v", left)
		}
	})
	for _, s := range simulator.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			if testing.Short() && s.Name != "healthy" && s.Name != "pfc-storm" {
				t.Skip("-short: too slow under the race detector; make test runs it without")
			}
			t.Parallel()
			p := start(t, nil, "demo", "--scenario="+s.Name)
			p.ready()
			// Nothing hangs here, but a loaded machine may not read the node within the time after which a read counts as stuck.
			for try := 1; try < 5 && strings.Contains(p.stderr.String(), "has not returned"); try++ {
				p.stop()
				p = start(t, nil, "demo", "--scenario="+s.Name)
				p.ready()
			}
			contains(t, p.stdout.String(), s.Name, s.Summary, s.Truth, p.url+"/metrics")
			if probed := len(s.Build().GPUs) > 0; strings.Contains(p.stdout.String(), p.url+"/probes ") != probed {
				t.Errorf("probed: %v: %s", probed, p.stdout.String())
			}
			if s.Name == "statistics-refused" { // which is what the log is for
				contains(t, p.stderr.String(), `level=warn msg="source failed" source=netstats device=enp79s0np0`)
			} else {
				lacks(t, p.stderr.String(), "level=warn", "level=error")
			}

			_, body, _ := p.get("/metrics")
			contains(t, body, "gpufabric_node_compute_ports_expected ", "go_goroutines")
			lacks(t, body, "\nprocess_") // those are of this host
			status, page, _ := p.get("/")
			if status != http.StatusOK {
				t.Errorf("page: %d", status)
			}
			contains(t, page, "This node is made up")
			rate := func(f simulator.GPUFinding) bool { return f.What == "nvlink_errors" }                                                   // an alert rule finds it
			quiet := len(s.Expect) == 0 && !slices.ContainsFunc(s.GPUs, func(f simulator.GPUFinding) bool { return !rate(f) }) || s.OverTime // which one look does not see
			if quiet != strings.Contains(page, "Nothing looks wrong") {
				t.Errorf("expected %v:\n%.4000s", s.Expect, page)
			}
			where := strings.Join(regexp.MustCompile(`<strong>[^<]*`).FindAllString(page, -1), " ")
			for _, e := range s.Expect {
				place := cmp.Or(e.Device, "node")
				if strings.HasPrefix(e.What, "nccl_") || e.What == "rdma_switched_off" || strings.HasPrefix(e.What, "socket_interface") {
					place = "/etc/nccl.conf"
				}
				if !quiet {
					contains(t, where, place)
				}
			}
			p.stop()
		})
	}
}

// TestDemoBreaks watches a port go down and come back.
func TestDemoBreaks(t *testing.T) {
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm") // thousands of small files
	}
	p := start(t, nil, "demo", "--scenario=port-down", "--break-after=2s", "--mend-after=2s", "--observer.fast-interval=1ms")
	contains(t, p.stdout.String(), "It is healthy for 2s, and again 2s later.")
	for _, says := range []string{"1", "0", "1"} {
		line := `gpufabric_hca_port_state{device="mlx5_3",port="1",state="active"} ` + says + "\n"
		for deadline := time.Now().Add(time.Minute); ; {
			if _, body, _ := p.get("/metrics?collect[]=hca"); strings.Contains(body, line) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("never %s:\n%s", line, p.stderr.String())
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	contains(t, p.stderr.String(), "the simulated node breaks", "the simulated node is mended")
}

func TestDemoNeedsRoom(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nosuch"))
	var stderr output
	if code := Run(t.Context(), []string{"demo", "--web.listen-address=127.0.0.1:0"}, Options{Stderr: &stderr}); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	contains(t, stderr.String(), "cannot serve")
	if _, err := os.Stat(os.Getenv("TMPDIR")); err == nil {
		t.Error("made the folder")
	}
}

// The first page that a reader sees says that probes complain, and where of what.
func TestLandingTellsOfProbes(t *testing.T) {
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm") // thousands of small files
	}
	p := start(t, nil, "demo", "--scenario=probe-wrong-result")
	p.ready()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		_, page, _ := p.get("/")
		// A loaded machine may not read the node in time at first; then something is unchecked.
		if strings.Contains(page, "One probe tells of trouble") && strings.Contains(page, "Nothing looks wrong but what probes found") {
			contains(t, page, `<a href="probes">`, "Its probes are made up, too")
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the page does not tell of probes:\n%.4000s", page)
		}
	}
	_, page, _ := p.get("/probes")
	contains(t, page, "simulated node", "elements are wrong")
	_, metrics, _ := p.get("/metrics")
	contains(t, metrics, `gpufabric_probe_failing{device="",kind="node",port="",reason="wrong_result"} 1`, `gpufabric_probe_transport{device="",kind="transport",port="",transport="ib"} 1`)
}

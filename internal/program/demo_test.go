// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/exporter"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/simulatortest"
	"gpufabric_exporter/internal/site"
)

func TestDemoList(t *testing.T) {
	var stdout commandtest.Output
	if code := run(t, Options{}, &stdout, &stdout, "demo", "--list"); code != command.OK {
		t.Errorf("exit code %d", code)
	}
	for _, s := range simulator.Scenarios() {
		commandtest.Contains(t, stdout.String(), s.Name, s.Summary)
	}
}

// TestDemo runs a scenario of each layout through the real pipeline; FULL=1: every scenario.
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
	layout := func(s simulator.Scenario) []string {
		if s.Name == "pfc-storm" || s.Name == "statistics-refused" || len(s.Probed) > 0 { // more than one reading, a log, probes
			return append(simulatortest.Layout(s), s.Name)
		}
		return simulatortest.Layout(s)
	}
	for _, s := range simulatortest.Kinds(layout) {
		t.Run(s.Name, func(t *testing.T) {
			if testing.Short() && s.Name != "healthy" && s.Name != "pfc-storm" {
				t.Skip("-short: too slow under the race detector; make test runs it without")
			}
			t.Parallel()
			p := start(t, Options{}, "demo", "--scenario="+s.Name)
			p.Ready()
			// Nothing hangs here, but a loaded machine may not read the node within the time after which a read counts as stuck.
			logged := regexp.MustCompile(`(?m)^.* has not returned"$`).ReplaceAllString(p.Stderr.String(), "")
			commandtest.Contains(t, p.Stdout.String(), s.Name, s.Summary, s.Truth, p.URL+"/metrics")
			if probed := len(s.Build().GPUs) > 0; strings.Contains(p.Stdout.String(), p.URL+"/probes ") != probed {
				t.Errorf("probed: %v: %s", probed, p.Stdout.String())
			}
			if s.Name == "statistics-refused" { // which is what the log is for
				commandtest.Contains(t, logged, `level=warn msg="source failed" source=netstats device=enp79s0np0`)
			} else {
				commandtest.Lacks(t, logged, "level=warn", "level=error")
			}

			_, body, _ := p.Get("/metrics")
			commandtest.Contains(t, body, "gpufabric_node_compute_ports_expected ", "go_goroutines")
			commandtest.Lacks(t, body, "\nprocess_") // those are of this host
			status, page, _ := p.Get("/")
			if status != http.StatusOK {
				t.Errorf("page: %d", status)
			}
			commandtest.Contains(t, page, "This node is simulated")
			rate := func(f simulator.GPUFinding) bool { return f.What == "nvlink_errors" }                                                   // an alert rule finds it
			quiet := len(s.Expect) == 0 && !slices.ContainsFunc(s.GPUs, func(f simulator.GPUFinding) bool { return !rate(f) }) || s.OverTime // which one look does not see
			// The verdict of the page counts jobs and probes, too, of which these labels say nothing.
			beside := len(s.Jobs) > 0 || len(s.Probed) > 0
			var places []string // that the page names
			for _, e := range s.Expect {
				place := cmp.Or(e.Device, "node")
				if strings.HasPrefix(e.What, "nccl_") || e.What == "rdma_switched_off" || strings.HasPrefix(e.What, "socket_interface") {
					place = "/etc/nccl.conf"
				}
				if !quiet {
					places = append(places, place)
				}
			}
			where := func() string {
				return strings.Join(regexp.MustCompile(`<strong>.*?</strong>`).FindAllString(page, -1), " ")
			}
			found := func() bool {
				if quiet {
					return beside || allClear(page)
				}
				return !slices.ContainsFunc(places, func(place string) bool { return !strings.Contains(where(), place) })
			}
			for end := time.Now().Add(2 * time.Minute); !found() && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
				_, page, _ = p.Get("/") // what a loaded machine was late to read is unknown until it is read
			}
			if allClear(page) && !quiet || !allClear(page) && quiet && !beside {
				t.Errorf("expected %v:\n%.4000s", s.Expect, page)
			}
			commandtest.Contains(t, where(), places...)
			p.Stop()
		})
	}
}

// TestDemoBreaks watches a port go down and come back.
func TestDemoBreaks(t *testing.T) {
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm") // thousands of small files
	}
	p := start(t, Options{}, "demo", "--scenario=port-down", "--break-after=8s", "--mend-after=8s", "--observer.fast-interval=1ms") // a loaded machine takes long to start and to answer
	commandtest.Contains(t, p.Stdout.String(), "It is healthy for 8s, and again 8s later.")
	for _, says := range []string{"1", "0", "1"} {
		line := `gpufabric_hca_port_state{device="mlx5_3",port="1",state="active"} ` + says + "\n"
		for deadline := time.Now().Add(time.Minute); ; {
			if _, body, _ := p.Get("/metrics?collect[]=hca"); strings.Contains(body, line) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("never %s:\n%s", line, p.Stderr.String())
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	p.Logs("the simulated node breaks", "the simulated node is mended")
}

func TestDemoNeedsRoom(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nosuch"))
	var stderr commandtest.Output
	if code := run(t, Options{}, io.Discard, &stderr, "demo", "--web.listen-address=127.0.0.1:0"); code != command.Failure {
		t.Errorf("exit code %d", code)
	}
	commandtest.Contains(t, stderr.String(), "cannot serve")
	if _, err := os.Stat(os.Getenv("TMPDIR")); err == nil {
		t.Error("made the folder")
	}
}

// The first page that a reader sees says that probes complain, and where of what.
func TestLandingShowsProbes(t *testing.T) {
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm") // thousands of small files
	}
	p := start(t, Options{}, "demo", "--scenario=probe-wrong-result")
	p.Ready()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		_, page, _ := p.Get("/")
		// A loaded machine may not read the node in time at first; then something is unchecked.
		if strings.Contains(page, "1 problem found") && strings.Contains(page, "failed: wrong result") {
			commandtest.Contains(t, page, `<a href="probes">`, "Its probes are simulated, too")
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the page does not show probes:\n%.4000s", page)
		}
	}
	_, page, _ := p.Get("/probes")
	commandtest.Contains(t, page, "simulated node", "elements are wrong")
	_, metrics, _ := p.Get("/metrics")
	commandtest.Contains(t, metrics, `gpufabric_probe_failing{device="",kind="node",port="",reason="wrong_result"} 1`, `gpufabric_probe_transport{device="",kind="transport",port="",transport="ib"} 1`)
}

// The GPUs of this host are none of a demo's business.
func TestDemoAsksNoDriver(t *testing.T) {
	p := start(t, Options{Site: site.Site{Worker: func(site.GPUOptions) site.GPUWorker {
		t.Error("a worker for NVML")
		return nil
	}}}, "demo")
	p.Ready()
}

// allClear reports whether a landing page says that it found no problem.
func allClear(page string) bool { return strings.Contains(page, "No problems found") }

// A demo that is stopped removes the folder of its node: before it has begun, while it lays out the files,
// and while it serves.
func TestDemoLeavesNoFolder(t *testing.T) {
	for name, stop := range map[string]func(cancel func(), folder string) (onListen func([]net.Addr)){
		"before": func(cancel func(), _ string) func([]net.Addr) { cancel(); return nil },
		"while it lays out files": func(cancel func(), folder string) func([]net.Addr) {
			go func() {
				defer cancel()
				for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
					if list, err := os.ReadDir(folder); err != nil || len(list) > 0 {
						return
					}
				}
			}()
			return func([]net.Addr) { cancel() }
		},
		"while it serves": func(cancel func(), _ string) func([]net.Addr) { return func([]net.Addr) { cancel() } },
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			t.Setenv("TMPDIR", folder)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := Options{Exporter: exporter.Exporter{OnListen: stop(cancel, folder)}}
			var stderr bytes.Buffer
			if code := New(&o).Run(ctx, []string{"demo", "--scenario=healthy-128-ports", "--web.listen-address=127.0.0.1:0"}, io.Discard, &stderr); code != command.OK {
				t.Errorf("exit code %d: %s", code, stderr.String())
			}
			if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

var listening = regexp.MustCompile(`(?i)msg="?listening(?: on)?"? .*\baddress="?([^ "]+)`)

// An exporter is a running gpufabric_exporter.
type exporter struct {
	cmd  *exec.Cmd
	url  string
	done chan error // its end

	mu  sync.Mutex
	log []string
}

// start runs an exporter as user uid until the test ends. Its intervals are short: what changes is seen soon.
func start(t *testing.T, uid uint32) *exporter {
	t.Helper()
	cmd := exporterCommand("./gpufabric_exporter", "--observer.fast-interval=100ms", "--observer.slow-interval=1s")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return startCommand(t, cmd)
}

// startWith runs an exporter with other flags.
func startWith(t *testing.T, flags ...string) *exporter {
	t.Helper()
	return startCommand(t, exporterCommand("./gpufabric_exporter", flags...))
}

func exporterCommand(program string, args ...string) *exec.Cmd {
	return exec.Command(program, append(args, "--web.listen-address=127.0.0.1:0")...)
}

func startCommand(t *testing.T, cmd *exec.Cmd) *exporter {
	t.Helper()
	x := &exporter{cmd: cmd, done: make(chan error, 1)}
	stderr, err := x.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			x.mu.Lock()
			x.log = append(x.log, lines.Text())
			x.mu.Unlock()
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				address <- m[1]
			}
		}
		x.done <- x.cmd.Wait()
	}()
	t.Cleanup(func() { x.cmd.Process.Kill() })
	select {
	case a := <-address:
		x.url = "http://" + a
	case err := <-x.done:
		t.Fatalf("exporter ended: %v\n%s", err, strings.Join(x.lines(), "\n"))
	case <-time.After(3 * time.Minute): // the host may be busy
		t.Fatalf("exporter does not say where it listens\n%s", strings.Join(x.lines(), "\n"))
	}
	return x
}

// lines is what it has logged.
func (x *exporter) lines() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.log)
}

func (x *exporter) get(path string) (string, error) { return x.getWithin(path, 30*time.Second) }

// getWithin asks as a Prometheus does that has a timeout.
func (x *exporter) getWithin(path string, timeout time.Duration) (string, error) {
	request, err := http.NewRequest(http.MethodGet, x.url+path, http.NoBody)
	if err != nil {
		return "", err
	}
	request.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", fmt.Sprint(timeout.Seconds()))
	client := http.Client{Timeout: timeout}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s\n%s", path, response.Status, body)
	}
	return string(body), err
}

// A sample is one series of a scrape.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

func (s sample) String() string { return fmt.Sprintf("%s%v", s.name, s.labels) }

// port is the label pair of ports in the form of port.name.
func (s sample) port() string { return s.labels["device"] + "/" + s.labels["port"] }

// counts reports whether it is what a device counts, which changes from one scrape to the next.
func (s sample) counts() bool {
	return strings.HasSuffix(s.name, "_total") || s.name == "hca_hw_counters_value"
}

type scrape []sample

// scrape gets and parses the metrics of this project, without their prefix.
func (x *exporter) scrape() (scrape, error) { return x.scrapeWithin(30 * time.Second) }

func (x *exporter) scrapeWithin(timeout time.Duration) (scrape, error) {
	text, err := x.getWithin("/metrics", timeout)
	if err != nil {
		return nil, err
	}
	return parse(text)
}

// parse leaves out what is not of this project.
func parse(text string) (scrape, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	var all scrape
	seen := make(map[string]bool)
	for name, family := range families {
		name, ours := strings.CutPrefix(name, "gpufabric_")
		if !ours {
			continue
		}
		for _, m := range family.GetMetric() {
			s := sample{name: name, labels: make(map[string]string)}
			for _, l := range m.GetLabel() {
				s.labels[l.GetName()] = l.GetValue()
			}
			s.value = m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
			if seen[s.String()] {
				return nil, fmt.Errorf("%v is there twice", s)
			}
			seen[s.String()] = true
			all = append(all, s)
		}
	}
	return all, nil
}

// find returns the series of a metric with the given label values.
func (s scrape) find(name string, labels ...string) scrape {
	var found scrape
next:
	for _, m := range s {
		if m.name != name {
			continue
		}
		for i := 0; i < len(labels); i += 2 {
			if m.labels[labels[i]] != labels[i+1] {
				continue next
			}
		}
		found = append(found, m)
	}
	return found
}

// one is the value of the only series that find returns.
func (s scrape) one(name string, labels ...string) (float64, error) {
	found := s.find(name, labels...)
	if len(found) != 1 {
		return 0, fmt.Errorf("%d series %s%q, want 1", len(found), name, labels)
	}
	return found[0].value, nil
}

// agrees waits until all checks pass on one and the same scrape.
func (x *exporter) agrees(t *testing.T, checks ...func(scrape) error) scrape {
	t.Helper()
	var s scrape
	eventually(t, "exporter and kernel agree", func() (err error) {
		if s, err = x.scrape(); err != nil {
			return err
		}
		var errs []error
		for _, check := range checks {
			errs = append(errs, check(s))
		}
		return errors.Join(errs...)
	})
	return s
}

// stop ends the exporter as systemd does and returns how long that took.
func (x *exporter) stop(t *testing.T) time.Duration {
	t.Helper()
	begin := time.Now()
	if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-x.done:
		if err != nil {
			t.Fatalf("exporter ended with %v\n%s", err, strings.Join(x.lines(), "\n"))
		}
	case <-time.After(30 * time.Second):
		t.Fatal("exporter does not end")
	}
	return time.Since(begin)
}

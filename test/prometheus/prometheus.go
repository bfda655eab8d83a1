// SPDX-License-Identifier: Apache-2.0

// Package prometheus runs real Prometheus servers, Alertmanagers and other programs for tests, on loopback and with
// ports that were free a moment ago. Only tests import it.
//
// Its functions belong to the goroutine of the test. A failure ends the test, with the last output of the program that
// failed.
package prometheus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/alerts"
)

// Fetch returns the folder with the programs prometheus and alertmanager. The test is skipped where they
// cannot be had.
func Fetch(t *testing.T) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	out, err := exec.Command(filepath.Join(filepath.Dir(here), "fetch.sh")).Output()
	said := strings.TrimSpace(string(out))
	var failed *exec.ExitError
	if errors.As(err, &failed) && failed.ExitCode() == 77 {
		t.Skip(said)
	}
	if err != nil {
		t.Fatalf("fetch.sh: %v\n%s", err, said)
	}
	return said
}

// Version is what the program prometheus of a folder calls itself.
func Version(t *testing.T, programs string) string {
	t.Helper()
	out, err := exec.Command(filepath.Join(programs, "prometheus"), "--version").Output()
	if err != nil {
		t.Fatalf("prometheus --version: %v", err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return first
}

// Rules returns the shipped rule files, by their paths.
func Rules(t *testing.T) []string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	all, err := filepath.Glob(filepath.Join(filepath.Dir(here), "../../alerts/*.rules.yml"))
	if err != nil || len(all) == 0 {
		t.Fatalf("no rule files (%v)", err)
	}
	return all
}

// Intervals returns how often the groups of the shipped rules are evaluated, by their names.
func Intervals(t *testing.T) map[string]time.Duration {
	t.Helper()
	groups, err := alerts.Groups()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]time.Duration{}
	for _, g := range groups {
		if all[g.Name], err = time.ParseDuration(g.Interval); err != nil {
			t.Fatalf("group %s: interval: %v", g.Name, err)
		}
	}
	return all
}

// FreeAddress returns an address of loopback on which no process listens.
func FreeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Program is a running program. What it writes is in the file Log.
type Program struct {
	Log    string
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has
}

// Start starts a program, which is stopped when the test ends. env is added to the environment.
func Start(t *testing.T, log string, env []string, path string, args ...string) *Program {
	t.Helper()
	f, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() // the program has its own
	p := &Program{Log: log, cmd: exec.Command(path, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = f, f, append(os.Environ(), env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its log
		close(p.exited)
	}()
	t.Cleanup(func() { p.Stop(t) })
	return p
}

// Stop ends the program if it still runs, and waits until it has ended.
func (p *Program) Stop(t *testing.T) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.exited:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
		t.Errorf("%s had to be killed", filepath.Base(p.cmd.Path))
	}
}

// Wrote returns what the program has written.
func (p *Program) Wrote(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(p.Log)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Reload makes the program read its configuration again.
func (p *Program) Reload(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// CPU is the processor time that the program has had.
func (p *Program) CPU(t *testing.T) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(after)
	var user, system int64
	if _, err := fmt.Sscan(f[11]+" "+f[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on all platforms of Go
}

// Server is a Prometheus.
type Server struct {
	*Program
	Address string
}

// Serve starts a Prometheus with a configuration file and waits until it is ready. Its data goes to a folder in dir.
func Serve(t *testing.T, programs, dir, config string) *Server {
	t.Helper()
	s := &Server{Address: FreeAddress(t)}
	s.Program = Start(t, filepath.Join(dir, "prometheus.log"), nil, filepath.Join(programs, "prometheus"),
		"--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+s.Address)
	s.Ready(t, s.Address)
	return s
}

// Ready waits until the program answers at /-/ready of the address.
func (p *Program) Ready(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		answer, err := http.Get("http://" + address + "/-/ready")
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			said := p.Wrote(t)
			t.Fatalf("%s is not ready (%v):\n%s", p.cmd.Path, err, said[max(0, len(said)-4000):])
		}
	}
}

// Sample is a series with its value, as a query returns it.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Query asks for an instant vector.
func (s *Server) Query(t *testing.T, expr string) []Sample {
	t.Helper()
	var answer struct {
		Error string
		Data  struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := get("http://"+s.Address+"/api/v1/query?query="+url.QueryEscape(expr), &answer); err != nil ||
		answer.Error != "" {
		t.Fatalf("query %s: %v %s", expr, err, answer.Error)
	}
	var all []Sample
	for _, r := range answer.Data.Result {
		v := Sample{Labels: r.Metric}
		if _, err := fmt.Sscan(fmt.Sprint(r.Value[1]), &v.Value); err != nil {
			t.Fatalf("query %s: value %v", expr, r.Value[1])
		}
		all = append(all, v)
	}
	return all
}

// Group is a rule group as Prometheus has evaluated it last.
type Group struct {
	Name           string
	EvaluationTime float64 // seconds
	LastEvaluation time.Time
	Rules          []Rule
}

// Rule is a rule of a group. Groups has looked at its errors.
type Rule struct {
	Name           string
	LastError      string
	EvaluationTime float64 // seconds
}

// Groups returns the rule groups.
func (s *Server) Groups(t *testing.T) []Group {
	t.Helper()
	var answer struct {
		Data struct{ Groups []Group }
	}
	if err := get("http://"+s.Address+"/api/v1/rules", &answer); err != nil {
		t.Fatalf("rules: %v", err)
	}
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			if r.LastError != "" {
				t.Errorf("rule %s of group %s: %s", r.Name, g.Name, r.LastError)
			}
		}
	}
	return answer.Data.Groups
}

func get(url string, into any) error {
	answer, err := http.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

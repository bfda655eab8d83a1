// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// farm runs simulated nodes and a Prometheus, all on loopback.
type farm struct {
	exporter, programs, rules string
	settle, scrape            time.Duration

	dir     string
	running []*exec.Cmd
	ended   chan string // their names, as they end
}

// nodes are a small fabric: mostly healthy, and one of each trouble that the dashboards are about.
func nodes() []struct{ instance, scenario string } {
	return []struct{ instance, scenario string }{
		{"gpu-01", "healthy"},
		{"gpu-02", "healthy"},
		{"gpu-03", "healthy"},
		{"gpu-04", "pfc-storm"},
		{"gpu-05", "gid-missing"},
		{"gpu-06", "port-down"},
		{"gpu-07", "probe-tcp-fallback"},
		{"gpu-08", "probe-slow"},
	}
}

// start starts everything and returns the address of the Prometheus once it has data of all nodes.
func (f *farm) start(ctx context.Context, stdout io.Writer) (string, error) {
	f.ended = make(chan string, len(nodes())+1)
	known, err := exec.CommandContext(ctx, f.exporter, "demo", "--list").Output()
	if err != nil {
		return "", fmt.Errorf("%s demo --list: %w", f.exporter, err)
	}
	scratch := ""
	if _, err := os.Stat("/dev/shm"); err == nil {
		scratch = "/dev/shm" // a simulated node is thousands of small files that change each second
	}
	if f.dir, err = os.MkdirTemp(scratch, "gpufabric_preview_"); err != nil {
		return "", err
	}
	rules, err := filepath.Abs(filepath.Join(f.rules, "*.rules.yml"))
	if err != nil {
		return "", err
	}
	var config strings.Builder
	fmt.Fprintf(&config, "global: {scrape_interval: %s, scrape_timeout: 10s, evaluation_interval: 15s}\nrule_files: [%q]\n", f.scrape, rules)
	config.WriteString("scrape_configs:\n  - job_name: gpufabric\n    static_configs:\n")
	count := 0
	for _, n := range nodes() {
		if !strings.Contains("\n"+string(known), "\n"+n.scenario+" ") {
			fmt.Fprintf(stdout, "LEFT OUT: %s, because this exporter has no scenario %s\n", n.instance, n.scenario)
			continue
		}
		address, err := freeAddress()
		if err != nil {
			return "", err
		}
		args := []string{"demo", "--scenario=" + n.scenario, "--web.listen-address=" + address}
		if n.scenario != "healthy" {
			args = append(args, "--break-after="+f.settle.String())
		}
		if err := f.run(n.instance, f.exporter, args...); err != nil {
			return "", err
		}
		count++
		fmt.Fprintf(&config, "      - {targets: [%q], labels: {instance: %q, cluster: training}}\n", address, n.instance)
	}
	path := filepath.Join(f.dir, "prometheus.yml")
	if err := os.WriteFile(path, []byte(config.String()), 0o600); err != nil {
		return "", err
	}
	address, err := freeAddress()
	if err != nil {
		return "", err
	}
	if err := f.run("prometheus", filepath.Join(f.programs, "prometheus"), "--config.file="+path,
		"--storage.tsdb.path="+filepath.Join(f.dir, "data"), "--web.listen-address="+address); err != nil {
		return "", err
	}
	fmt.Fprintf(stdout, "%d simulated nodes and Prometheus on http://%s run\n", count, address)
	return "http://" + address, f.wait(ctx, client{"http://" + address}, count)
}

// run starts a program that ends with this one.
func (f *farm) run(name, program string, args ...string) error {
	log, err := os.Create(filepath.Join(f.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close() // the program has its own
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2", "TMPDIR="+f.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	f.running = append(f.running, cmd)
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		f.ended <- name
	}()
	return nil
}

// wait waits until all nodes have been scraped.
func (f *farm) wait(ctx context.Context, c client, count int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		all, err := c.query(ctx, "up == 1", time.Now())
		if err == nil && len(all) == count {
			return nil
		}
		select {
		case name := <-f.ended:
			f.ended <- name // for stop
			return fmt.Errorf("%s ended:\n%s", name, f.logs())
		case <-ctx.Done():
			return fmt.Errorf("%d of %d nodes were scraped (%w):\n%s", len(all), count, errors.Join(ctx.Err(), err), f.logs())
		case <-tick.C:
		}
	}
}

// logs are the last words of all programs.
func (f *farm) logs() string {
	paths, _ := filepath.Glob(filepath.Join(f.dir, "*.log")) // the pattern is well formed
	var b strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(&b, "%s:\n%s\n", filepath.Base(path), text[max(0, len(text)-1000):])
	}
	return b.String()
}

// stop ends what was started, and removes what it left.
func (f *farm) stop() {
	for _, cmd := range f.running {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	patience := time.After(20 * time.Second)
	for range f.running {
		select {
		case <-f.ended:
		case <-patience:
			for _, cmd := range f.running {
				_ = cmd.Process.Kill() // it may have ended
			}
			patience = nil
			<-f.ended
		}
	}
	os.RemoveAll(f.dir)
}

// freeAddress is an address of loopback that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

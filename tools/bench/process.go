// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// program is what to run and what to request from it.
type program struct {
	name       string
	args       []string
	query      string
	processors int // GOMAXPROCS in its environment; 0: not set
}

// request is the request of a scraper.
type request struct{ accept, encoding string }

// prometheus is the request that Prometheus 3 sends by default.
var prometheus = request{"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5," +
	"text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2", "gzip"}

// process is a program under measurement.
type process struct {
	cmd *exec.Cmd
	url string
}

func start(what program) (*process, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	l.Close()
	p := &process{
		cmd: exec.Command(what.args[0], append(what.args[1:], "--web.listen-address="+addr)...),
		url: "http://" + addr + "/metrics" + what.query,
	}
	if what.processors > 0 {
		p.cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(what.processors))
	}
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for range 200 {
		if _, err = p.scrape(request{}); err == nil {
			return p, nil
		}
		time.Sleep(25 * time.Millisecond)
	}
	p.stop()
	return nil, fmt.Errorf("%s does not answer: %w", what.args[0], err)
}

// stop ends the program; a tracer around it ignores signals and ends with it.
func (p *process) stop() {
	pid := p.cmd.Process.Pid
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)); err == nil {
		if child, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			pid = child
		}
	}
	_ = syscall.Kill(pid, syscall.SIGTERM)
	_ = p.cmd.Wait() // node_exporter ends by the signal
}

// scrape returns how many series an answer has.
func (p *process) scrape(how request) (int, error) {
	req, err := http.NewRequest(http.MethodGet, p.url, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept-Encoding", how.encoding)
	req.Header.Set("Accept", how.accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return 0, errors.Join(err, errors.New(resp.Status))
	}
	if how.encoding == "gzip" {
		if b, err = gunzip(b); err != nil {
			return 0, err
		}
	}
	n := 0
	for line := range bytes.Lines(b) {
		if line[0] != '#' {
			n++
		}
	}
	return n, nil
}

// usage is what a process has used since it was started.
type usage struct {
	cpu      time.Duration
	faults   int // minor page faults
	switches int // context switches of its present threads
}

func (u usage) since(before usage) usage {
	return usage{u.cpu - before.cpu, u.faults - before.faults, u.switches - before.switches}
}

func (p *process) usage() (u usage, err error) {
	if u.cpu, err = p.cpu(); err != nil {
		return u, err
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return u, err
	}
	const minorFaults = 10 - 3 // proc(5) counts from 1; the first two fields end with the name
	_, fields, _ := strings.Cut(string(b), ") ")
	if u.faults, err = strconv.Atoi(strings.Fields(fields)[minorFaults]); err != nil {
		return u, err
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.cmd.Process.Pid))
	for _, thread := range threads {
		b, _ := os.ReadFile(thread) // a thread may have ended
		for line := range strings.Lines(string(b)) {
			if name, count, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "voluntary_ctxt_switches") {
				n, _ := strconv.Atoi(strings.TrimSpace(count))
				u.switches += n
			}
		}
	}
	return u, err
}

// cpu is the time that all threads of the process have run, those that ended among them.
func (p *process) cpu() (time.Duration, error) {
	const scheduled = 2 // the clock of a process that counts the time it ran, clock_getcpuclockid(3)
	var t unix.Timespec
	err := unix.ClockGettime(int32(^p.cmd.Process.Pid<<3|scheduled), &t)
	return time.Duration(t.Nano()), err
}

// resident is the memory of the process in MiB.
func (p *process) resident() int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(b))[1])
	return pages * os.Getpagesize() >> 20
}

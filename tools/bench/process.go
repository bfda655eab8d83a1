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
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// shortest is the time between scrapes when nothing calls for more: long enough for two programs to take turns.
const shortest = 20 * time.Millisecond

// program is what to run and what to ask it.
type program struct {
	args  []string
	query string
}

// request is how a scraper asks.
type request struct{ name, accept, encoding string }

// prometheus asks as Prometheus 3 does unless it is told otherwise.
var prometheus = request{"Prometheus 3", "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5," +
	"text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2", "gzip"}

// measure runs programs, scrapes them in turns, and divides what each used.
func measure(programs []program, how request, scrapes int, every time.Duration) ([]cost, error) {
	costs, running := make([]cost, len(programs)), make([]*process, len(programs))
	for i, p := range programs {
		r, err := start(p)
		if err != nil {
			return nil, err
		}
		defer r.stop()
		running[i] = r
	}
	const warmUp = 10 // the first ones open files and build what is kept
	before := make([]time.Duration, len(programs))
	err := inTurns(running, how, warmUp+scrapes, every, func(turn, i, series int) (err error) {
		if turn == warmUp-1 {
			before[i], err = running[i].cpu()
			costs[i].series = series
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, r := range running {
		used, err := r.cpu()
		if err != nil {
			return nil, err
		}
		costs[i].cpu, costs[i].rss = (used-before[i])/time.Duration(scrapes), r.rss()
	}
	return costs, nil
}

// inTurns scrapes every process once a tick, and calls after with the number of series.
func inTurns(running []*process, how request, turns int, every time.Duration, after func(turn, i, series int) error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for turn := range turns {
		for i, r := range running {
			series, err := r.scrape(how)
			if err == nil {
				err = after(turn, i, series)
			}
			if err != nil {
				return err
			}
		}
		<-tick.C
	}
	return nil
}

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
	p := &process{cmd: exec.Command(what.args[0], append(what.args[1:], "--web.listen-address="+addr)...), url: "http://" + addr + "/metrics" + what.query}
	p.cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
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

// cpu is the time that all threads of the process have run, those that ended among them.
func (p *process) cpu() (time.Duration, error) {
	const scheduled = 2 // the clock of a process that counts the time it ran, clock_getcpuclockid(3)
	var t unix.Timespec
	err := unix.ClockGettime(int32(^p.cmd.Process.Pid<<3|scheduled), &t)
	return time.Duration(t.Nano()), err
}

func (p *process) rss() int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(b))[1])
	return pages * os.Getpagesize() >> 20
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// programs are those that were started. They write to a log each, and end with stop, or with the thread that
// started them. Not safe for concurrent use.
type programs struct {
	dir     string
	running []*exec.Cmd
	ended   chan string // their names, as they end

	host string // address of loopback that no other run has
	port int    // the last one that was given to a program
}

const most = 64 // programs

// Ports of programs are above firstPort and below those that the kernel chooses for port 0 (Linux's default of
// net.ipv4.ip_local_port_range).
const firstPort, firstEphemeral = 20000, 32768

func newPrograms(dir string) *programs {
	// One of the 16 million addresses of loopback: two runs hardly ever choose the same.
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	return &programs{dir: dir, ended: make(chan string, most), host: host, port: firstPort}
}

// start starts a program. env is added to the environment.
func (p *programs) start(name string, env []string, program string, args ...string) error {
	log, err := os.Create(filepath.Join(p.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close() // the program has its own
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(append(os.Environ(), "TMPDIR="+p.dir), env...)
	// a wrapper script is ended with its program
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	p.running = append(p.running, cmd)
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		p.ended <- name
	}()
	return nil
}

// watch returns after d, or earlier with an error when a program ends or the context does.
func (p *programs) watch(ctx context.Context, d time.Duration) error {
	select {
	case name := <-p.ended:
		p.ended <- name // for stop
		return fmt.Errorf("%s has ended by itself:\n%s", name, p.log(name))
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// until calls ready every half second until it returns nil. After limit, or when a program ends, its last error is
// returned.
func (p *programs) until(ctx context.Context, limit time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		failed := ready(ctx)
		if failed == nil {
			return nil
		}
		if err := p.watch(ctx, 500*time.Millisecond); err != nil {
			return errors.Join(failed, err)
		}
	}
}

// log is the end of what a program wrote.
func (p *programs) log(name string) string {
	text, err := os.ReadFile(filepath.Join(p.dir, name+".log"))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-2000):]))
}

// stop ends all programs, by force after 20 s, and returns when they have ended.
func (p *programs) stop() {
	signal := func(s syscall.Signal) {
		for _, cmd := range p.running {
			_ = syscall.Kill(-cmd.Process.Pid, s) // it may have ended
		}
	}
	signal(syscall.SIGTERM)
	patience := time.After(20 * time.Second)
	for left := len(p.running); left > 0; {
		select {
		case <-p.ended:
			left--
		case <-patience:
			signal(syscall.SIGKILL)
		}
	}
	p.running = nil
}

// address returns an address for a program to listen on. No other process takes it before the program does:
// the host is of this run alone, and the kernel does not choose such a port by itself. Ports on which
// something listens on all addresses are left out.
func (p *programs) address() (string, error) {
	for p.port < firstEphemeral-1 {
		p.port++
		address := net.JoinHostPort(p.host, strconv.Itoa(p.port))
		l, err := net.Listen("tcp", address)
		if err == nil {
			return address, l.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return "", err
		}
	}
	return "", fmt.Errorf("no port of %s is free", p.host)
}

// get returns the body of an HTTP answer, of 1 MiB at most. Any status but 200 is an error.
func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.300s", url, answer.Status, body)
	}
	return body, err
}

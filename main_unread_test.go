// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fullPipe is a pipe that nobody reads, and that takes no more.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(ends[0]) })
	if err := syscall.SetNonblock(ends[1], true); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := syscall.Write(ends[1], make([]byte, 4096)); errors.Is(err, syscall.EAGAIN) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.SetNonblock(ends[1], false); err != nil {
		t.Fatal(err)
	}
	w := os.NewFile(uintptr(ends[1]), "full pipe")
	t.Cleanup(func() { w.Close() })
	return w
}

// hangsInPipe reports whether a thread of a process waits until a pipe takes what it writes.
func hangsInPipe(t *testing.T, pid int) bool {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if where, err := os.ReadFile(task); err == nil && bytes.Contains(where, []byte("pipe_write")) {
			return true
		}
	}
	return false
}

// Standard streams that nobody reads do not keep a process from ending when it is told to.
func TestEndsAlthoughNobodyReads(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close() // for serve, which cannot say where it listens
	for name, args := range map[string][]string{
		"serve": {"serve", "--web.listen-address=" + address, "--collector.disable-defaults", "--collector.hca"},
		"demo":  {"demo", "--web.listen-address=127.0.0.1:0"},
		"check": {"check", "--scenario=healthy"},
	} {
		t.Run(name, func(t *testing.T) {
			program, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), program, args...)
			cmd.Stdout, cmd.Stderr = fullPipe(t), fullPipe(t)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			for end := time.Now().Add(eventually); !hangsInPipe(t, cmd.Process.Pid); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("it writes nothing")
				}
			}
			if name == "serve" {
				until(t, "http://"+address+"/-/ready")
				get(t, "http://"+address+"/metrics")
			}
			begin := time.Now()
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				t.Logf("ended after %s: %v", time.Since(begin).Round(time.Millisecond), err)
				if name == "serve" && err != nil {
					t.Error(err)
				}
			case <-time.After(10 * lastResort):
				t.Error("does not end")
			}
		})
	}
}

// An exporter whose log loses its reader, journald for one, serves on, and ends as usual.
func TestServesWithoutAReaderOfItsLog(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "serve", "--web.listen-address="+address, "--collector.disable-defaults", "--collector.hca")
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	until(t, "http://"+address+"/-/ready")
	r.Close()
	for range 2 {
		answer, err := http.Post("http://"+address+"/-/reload", "", nil) // writes a line
		if err != nil {
			t.Fatal(err, cmd.Wait())
		}
		answer.Body.Close()
	}
	if text := get(t, "http://"+address+"/metrics"); !strings.Contains(text, "gpufabric_exporter_log_lines_dropped_total 2\n") {
		t.Error("what nobody can read does not count as dropped")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// Where profiles are served, that of the heap is one of them, and has what was allocated.
func TestHeapProfile(t *testing.T) {
	h := startHost(t, self, append(gpusAlone, "--web.enable-pprof")...)
	h.scrape()
	text := h.get("/debug/pprof/heap?debug=1&gc=1")
	if !bytes.HasPrefix([]byte(text), []byte("heap profile: ")) || bytes.HasPrefix([]byte(text), []byte("heap profile: 0: 0 [0: 0]")) || !bytes.Contains([]byte(text), []byte("gpufabric_exporter/")) {
		t.Errorf("%.300s", text)
	}
	without := startHost(t, self, gpusAlone...)
	if answer, err := without.client.Get(without.url + "/debug/pprof/heap"); err != nil || answer.StatusCode != http.StatusNotFound {
		t.Errorf("without it: %v, %v", answer, err)
	}
}

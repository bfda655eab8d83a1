// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// forked waits for the processes that the stand-in for NVML starts in sessions of their own, and returns them.
func (h *host) forked() (pids []int) {
	h.t.Helper()
	for begin := time.Now(); len(pids) < 2; time.Sleep(5 * time.Millisecond) {
		text, _ := os.ReadFile(h.nvml + ".forked")
		pids = nil
		for line := range strings.Lines(string(text)) {
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
				pids = append(pids, pid)
			}
		}
		if time.Since(begin) > eventually {
			h.t.Fatalf("forked %v, expected two", pids)
		}
	}
	h.t.Cleanup(func() {
		for _, pid := range pids {
			if alive(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL) // this test started it
			}
		}
	})
	return pids
}

// offspring returns the children of a process and theirs: guards, and what they guard.
func offspring(pid int) (all []int) {
	for _, child := range childrenOf(pid) {
		all = append(append(all, child), childrenOf(child)...)
	}
	return all
}

// What NVML starts ends with its worker, however that ends, also in sessions of its own and where it ignores SIGTERM.
func TestWhatNVMLStartsEndsWithIt(t *testing.T) {
	const asked = "nvmlDeviceGetUtilizationRates"
	for name, end := range map[string]func(h *host){
		"crash":                   func(h *host) { h.describe("crash " + asked); h.scrape() },
		"hang":                    func(h *host) { h.describe("hang " + asked); h.scrape() },
		"release":                 func(h *host) { touch(t, h.maintenance) },
		"SIGKILL of the worker":   func(h *host) { _ = syscall.Kill(h.worker(), syscall.SIGKILL) },
		"SIGTERM of the exporter": func(h *host) { _ = h.exporter.Process.Signal(syscall.SIGTERM) },
		"SIGKILL of the exporter": func(h *host) { _ = h.exporter.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHost(t, self, gpusAlone...)
			h.describe("fork " + asked)
			h.until("at first", 8)
			worker, pids := h.worker(), h.forked()
			for _, pid := range append(pids, worker) {
				if !alive(pid) {
					t.Fatalf("%d ended by itself", pid)
				}
			}
			end(h)
			took := h.ends(name, worker)
			for _, pid := range pids {
				took += h.ends(name, pid)
			}
			t.Logf("all ended after %s", took.Round(time.Millisecond))
			if took > noWait+10*time.Second {
				t.Errorf("all ended after %s", took)
			}
		})
	}
}

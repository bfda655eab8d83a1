// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	tracing    = "/sys/kernel/tracing"
	sysEnter   = tracing + "/events/raw_syscalls/sys_enter"
	everyCall  = "hist:keys=common_pid,id.syscall:size=4096"
	mostCalls  = 40 // system calls for each port
	mostAsked  = 1  // get_hw_stats for each port
	costRounds = 10
)

// What a scrape costs that reads anew: system calls and what drivers are asked, for each port, beside node_exporter's
// infiniband collector in the same guest. The kernel counts both itself, so nothing slows down what is measured.
func testCost(t *testing.T, _ *exporter) {
	ports, err := kernelPorts()
	if err != nil {
		t.Fatal(err)
	}
	command(t, "mount -t tracefs tracefs "+tracing)
	t.Cleanup(func() { command(t, "umount "+tracing) })
	write(t, sysEnter+"/trigger", everyCall)
	t.Cleanup(func() { write(t, sysEnter+"/trigger", "!"+everyCall) })

	const query = "/metrics?collect[]=hca&collect[]=counters"
	var table strings.Builder
	fmt.Fprintf(&table, "%-32s %9s %9s %13s %11s %12s\n", "a scrape, for each port", "syscalls", "in all", "get_hw_stats", "query_port", "process_mad")
	measure := func(name, path, program string, args ...string) scrapeCost {
		x := startCommand(t, exporterCommand(program, args...))
		defer x.cmd.Process.Kill()
		c := x.cost(t, path)
		perPort := func(n int, of int) float64 { return float64(n) / costRounds / float64(of) }
		fmt.Fprintf(&table, "%-32s %9.1f %9.1f %13.2f %11.2f %12.2f\n", name, perPort(c.reading(), len(ports)), perPort(c.all(), len(ports)),
			perPort(c.asked.sum("get_hw_stats"), len(c.asked)), perPort(c.asked.sum("query_port"), len(c.asked)), perPort(c.asked.sum("process_mad"), len(c.asked)))
		return c
	}
	const ours = "./gpufabric_exporter"
	anew := []string{"--web.disable-exporter-metrics", "--observer.fast-interval=1ms"}
	usual := measure("ours, usual", query, ours, append(anew, "--observer.slow-interval=1h")...)
	measure("ours, slow facts too (1/min)", query, ours, append(anew, "--observer.slow-interval=1ms")...)
	if _, err := os.Stat("node_exporter"); err == nil {
		measure("node_exporter", "/metrics", "./node_exporter", "--web.disable-exporter-metrics", "--collector.disable-defaults", "--collector.infiniband")
	} else {
		fmt.Fprintf(&table, "node_exporter is not here: FULL=1 ./test/lab/test.sh builds it\n")
	}
	t.Logf("%d ports, drivers that count on %d of them; without what the Go runtime waits and is woken with, and in all\n%sours, usual, in a scrape: %s",
		len(ports), len(usual.asked), &table, usual)
	if n := usual.reading(); n > mostCalls*costRounds*len(ports) {
		t.Errorf("%d system calls in %d scrapes of %d ports, want at most %d for each", n, costRounds, len(ports), mostCalls)
	}
	for device, n := range usual.asked {
		if n["get_hw_stats"] != mostAsked*costRounds {
			t.Errorf("%s was asked %d times for its counters in %d scrapes", device, n["get_hw_stats"], costRounds)
		}
	}
}

// scrapeCost is what costRounds scrapes cost.
type scrapeCost struct {
	syscalls map[string]int
	asked    callCounts
}

// cost scrapes some times, once what is opened only once is open.
func (x *exporter) cost(t *testing.T, path string) scrapeCost {
	t.Helper()
	get := func() {
		if _, err := x.get(path); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		get()
	}
	asked, before := calls(t), x.syscalls(t)
	for range costRounds {
		get()
	}
	c := scrapeCost{syscalls: x.syscalls(t), asked: calls(t).since(asked)}
	for name, n := range before {
		c.syscalls[name] -= n
	}
	return c
}

var histogram = regexp.MustCompile(`common_pid: +(\d+), id: (\S+) +\[ *\d+\] } hitcount: +(\d+)`)

// syscalls is how many of each kind the exporter has made.
func (x *exporter) syscalls(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile(sysEnter + "/hist")
	if err != nil {
		t.Fatal(err)
	}
	sum := make(map[string]int)
	for _, m := range histogram.FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(filepath.Join(x.proc("task"), m[1])); err != nil {
			continue // a thread of another process
		}
		n, err := strconv.Atoi(m[3])
		if err != nil {
			t.Fatal(err)
		}
		sum[strings.TrimPrefix(m[2], "sys_")] += n
	}
	if len(sum) == 0 {
		t.Fatalf("nothing was histogram:\n%.2000s", text)
	}
	return sum
}

func (c scrapeCost) all() (sum int) {
	for _, n := range c.syscalls {
		sum += n
	}
	return sum
}

// reading is all without waiting, and without the signals that the Go runtime sends to its own threads: slow emulation
// makes it believe that they do not answer.
func (c scrapeCost) reading() int {
	sum := c.all()
	for _, name := range []string{"futex", "nanosleep", "epoll_pwait", "sched_yield", "tgkill", "getpid", "rt_sigreturn"} {
		sum -= c.syscalls[name]
	}
	return sum
}

func (c scrapeCost) String() string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(c.syscalls)) {
		if n := c.syscalls[name]; n > 0 {
			words = append(words, fmt.Sprintf("%s %.1f", name, float64(n)/costRounds))
		}
	}
	return strings.Join(words, ", ")
}

// SPDX-License-Identifier: Apache-2.0

// Command bench measures what a scrape costs: CPU time of the process, system calls and memory, side by side
// with node_exporter's infiniband collector over the same sysfs tree. It prints tables and judges nothing:
// machines are noisy, ratios within one run are what to quote.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gpufabric_exporter/internal/simulator"
)

func main() {
	log.SetFlags(0)
	exporter := flag.String("exporter", "", "our binary")
	peer := flag.String("peer", "", "node_exporter")
	scrapes := flag.Int("scrapes", 200, "scrapes per measurement")
	flag.Parse()
	if err := run(*exporter, *peer, *scrapes); err != nil {
		log.Fatal("bench: ", err)
	}
}

func run(exporter, peer string, scrapes int) error {
	dir, err := os.MkdirTemp(scratch(), "gpufabric_bench_")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := simulator.Find("healthy")
	if err != nil {
		return err
	}
	eight := keep(s.Build(), 8)
	tree, err := eight.Materialise(filepath.Join(dir, "eight"))
	if err != nil {
		return err
	}
	ours := []string{
		exporter, "--web.disable-exporter-metrics", "--log.level=error", "--observer.fast-interval=1ms",
		"--path.sysfs=" + tree.Sysfs(), "--path.procfs=" + tree.Procfs(), "--path.rootfs=" + tree.Rootfs(),
	}
	theirs := []string{
		peer, "--web.disable-exporter-metrics", "--log.level=error", "--collector.disable-defaults", "--collector.infiniband",
		"--path.sysfs=" + tree.Sysfs(),
	}
	const query = "?collect[]=hca&collect[]=counters"
	fmt.Printf("8 mlx5 devices, %d scrapes each; ours with collectors hca and counters, every scrape reads anew\n\n", scrapes)
	fmt.Printf("%-10s %-10s %8s %12s %12s %10s %8s\n", "encoding", "program", "series", "CPU/scrape", "CPU/series", "syscalls", "RSS")
	for _, encoding := range []string{"identity", "gzip"} {
		var cost [2]cost
		for i, c := range []struct {
			name, query string
			args        []string
		}{{"ours", query, ours}, {"peer", "", theirs}} {
			if cost[i], err = measure(c.args, c.query, encoding, scrapes); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			cost[i].print(encoding, c.name)
		}
		fmt.Printf("%-10s %-10s %8.2f %12.2f %12.2f %10s\n\n", encoding, "ratio", float64(cost[0].series)/float64(cost[1].series),
			float64(cost[0].cpu)/float64(cost[1].cpu), cost[0].perSeries()/cost[1].perSeries(), ratio(cost[0].syscalls, cost[1].syscalls))
	}
	fmt.Printf("whole product, all default collectors\n\n%-10s %-10s %8s %12s %12s %10s %8s\n", "devices", "", "series", "CPU/scrape", "CPU/series", "", "RSS")
	for _, n := range []int{1, 8, 32, 128} {
		tree, err := multiply(s.Build(), n).Materialise(filepath.Join(dir, strconv.Itoa(n)))
		if err != nil {
			return err
		}
		args := append(ours[:4:4], "--path.sysfs="+tree.Sysfs(), "--path.procfs="+tree.Procfs(), "--path.rootfs="+tree.Rootfs())
		c, err := measure(args, "", "identity", max(scrapes/n, 20))
		if err != nil {
			return err
		}
		c.syscalls = 0
		c.print(strconv.Itoa(n), "ours")
	}
	return nil
}

// scratch is where thousands of small files are cheap.
func scratch() string {
	if _, err := os.Stat("/dev/shm"); err == nil {
		return "/dev/shm"
	}
	return ""
}

// cost is what one scrape costs.
type cost struct {
	series   int
	cpu      time.Duration
	syscalls float64 // 0: not counted
	rss      int     // MiB
}

func (c cost) perSeries() float64 { return float64(c.cpu) / float64(c.series) }

func (c cost) print(a, b string) {
	calls := ""
	if c.syscalls > 0 {
		calls = fmt.Sprintf("%.0f", c.syscalls)
	}
	fmt.Printf("%-10s %-10s %8d %12s %12s %10s %7dM\n", a, b, c.series, c.cpu.Round(time.Microsecond), time.Duration(c.perSeries()).Round(10*time.Nanosecond), calls, c.rss)
}

func ratio(a, b float64) string {
	if a == 0 || b == 0 {
		return ""
	}
	return fmt.Sprintf("1/%.1f", b/a)
}

// measure runs a program, scrapes it, and divides what it used; once for CPU time and once under strace.
func measure(args []string, query, encoding string, scrapes int) (cost, error) {
	var c cost
	p, err := start(args)
	if err != nil {
		return c, err
	}
	defer p.stop()
	for range 10 { // the first ones open files and build what is kept
		if c.series, err = p.scrape(query, encoding); err != nil {
			return c, err
		}
	}
	before := p.cpu()
	for range scrapes {
		if _, err := p.scrape(query, encoding); err != nil {
			return c, err
		}
		time.Sleep(2 * time.Millisecond) // longer than what scrapes share
	}
	c.cpu = (p.cpu() - before) / time.Duration(scrapes)
	c.rss = p.rss()
	if encoding == "identity" {
		c.syscalls, err = countSyscalls(args, query, encoding)
	}
	return c, err
}

// countSyscalls compares a short and a longer run under strace. It returns 0 where strace is not installed.
func countSyscalls(args []string, query, encoding string) (float64, error) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		fmt.Println("strace is not installed: system calls are not counted")
		return 0, nil
	}
	const few, many = 5, 45
	var total [2]float64
	for i, n := range []int{few, many} {
		out, err := os.CreateTemp("", "strace")
		if err != nil {
			return 0, err
		}
		out.Close()
		defer os.Remove(out.Name())
		p, err := start(append([]string{strace, "-f", "-c", "-o", out.Name()}, args...))
		if err != nil {
			return 0, err
		}
		for range n {
			if _, err := p.scrape(query, encoding); err != nil {
				p.stop()
				return 0, err
			}
			time.Sleep(2 * time.Millisecond)
		}
		p.stop()
		if total[i], err = straceTotal(out.Name()); err != nil {
			return 0, err
		}
	}
	return (total[1] - total[0]) / (many - few), nil
}

// straceTotal adds up the column "calls", without what the runtime waits with.
func straceTotal(path string) (float64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 5 || f[len(f)-1] == "total" || f[len(f)-1] == "futex" || f[len(f)-1] == "nanosleep" || strings.Contains(f[len(f)-1], "epoll_pwait") {
			continue
		}
		if n, err := strconv.ParseFloat(f[3], 64); err == nil {
			sum += n
		}
	}
	return sum, nil
}

// process is a program under measurement.
type process struct {
	cmd *exec.Cmd
	url string
}

func start(args []string) (*process, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	l.Close()
	p := &process{cmd: exec.Command(args[0], append(args[1:], "--web.listen-address="+addr)...), url: "http://" + addr + "/metrics"}
	p.cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for range 200 {
		if _, err = p.scrape("", "identity"); err == nil {
			return p, nil
		}
		time.Sleep(25 * time.Millisecond)
	}
	p.stop()
	return nil, fmt.Errorf("%s does not answer: %w", args[0], err)
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

// scrape returns how many series an answer has; of a compressed one it counts nothing but bytes.
func (p *process) scrape(query, encoding string) (int, error) {
	req, err := http.NewRequest(http.MethodGet, p.url+query, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept-Encoding", encoding)
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return 0, errors.Join(err, errors.New(resp.Status))
	}
	if encoding == "gzip" {
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

// cpu is the time the process has run, in ticks of 10 ms.
func (p *process) cpu() time.Duration {
	f := p.stat("stat")
	user, _ := strconv.Atoi(f[13])
	system, _ := strconv.Atoi(f[14])
	return time.Duration(user+system) * 10 * time.Millisecond
}

func (p *process) rss() int {
	pages, _ := strconv.Atoi(p.stat("statm")[1])
	return pages * os.Getpagesize() >> 20
}

func (p *process) stat(name string) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, name))
	if err != nil {
		return make([]string, 20)
	}
	return strings.Fields(string(b))
}

// SPDX-License-Identifier: Apache-2.0

// Command bench measures what a scrape costs: CPU time of the process, system calls and memory, side by side
// with node_exporter's infiniband collector over the same sysfs tree. It prints tables and judges nothing:
// machines are noisy, ratios within one run are what to quote.
//
// Programs that are compared take turns, scrape by scrape, so that whatever else the machine does costs both.
// Every scrape reads the hardware anew, and facts that the exporter reads once a minute are read with one scrape
// in four, as they are when Prometheus scrapes every 15 s.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/internal/simulator"
)

func main() {
	log.SetFlags(0)
	exporter := flag.String("exporter", "", "our binary")
	peer := flag.String("peer", "", "node_exporter")
	scrapes := flag.Int("scrapes", 250, "scrapes per measurement")
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
	installed, err := os.MkdirTemp("", "gpufabric_bench_")
	if err != nil {
		return err
	}
	defer os.RemoveAll(installed)
	for _, program := range []*string{&exporter, &peer} {
		if *program, err = install(*program, installed); err != nil {
			return err
		}
	}
	s, err := simulator.Find("healthy")
	if err != nil {
		return err
	}
	tree, err := keep(s.Build(), 8).Materialise(filepath.Join(dir, "eight"))
	if err != nil {
		return err
	}
	if err := beside(exporter, peer, tree, scrapes); err != nil {
		return err
	}
	fmt.Printf("whole product: default flags, asked the way Prometheus 3 asks (OpenMetrics, gzip)\n\n%s\n", header)
	for _, n := range []int{1, 8, 32, 128} {
		tree, err := multiply(s.Build(), n).Materialise(filepath.Join(dir, strconv.Itoa(n)))
		if err != nil {
			return err
		}
		every := max(shortest, time.Duration(n)*2*time.Millisecond)
		c, err := measure([]program{{args: append(ours(exporter, every), over(tree)...)}}, prometheus, max(scrapes/n, 50), every)
		if err != nil {
			return err
		}
		c[0].print(strconv.Itoa(n)+" devices", "ours")
	}
	return nil
}

// beside prints what the exporter costs and what node_exporter does: for the series that both have, and for all that the
// collectors hca and counters have.
func beside(exporter, peer string, tree *simulator.Tree, scrapes int) error {
	const collectors = "?collect[]=hca&collect[]=counters"
	programs := func(query string, every time.Duration) []program {
		return []program{
			{query: query, args: append(ours(exporter, every, "--web.disable-exporter-metrics"), over(tree)...)},
			{args: []string{
				peer, "--web.disable-exporter-metrics", "--log.level=error", "--collector.disable-defaults", "--collector.infiniband",
				"--path.sysfs=" + tree.Sysfs(),
			}},
		}
	}
	for _, t := range []struct{ what, query string }{
		{"the series that both have (a state has one series for each value it can take)", collectors + "&name[]=" + strings.Join(shared(), "&name[]=")},
		{"all that collectors hca and counters have", collectors},
	} {
		fmt.Printf("8 mlx5 devices, %s\n\n%s\n", t.what, header)
		for _, how := range []request{{"text", "text/plain;version=0.0.4", "identity"}, {"text, gzip", "text/plain;version=0.0.4", "gzip"}, prometheus} {
			c, err := measure(programs(t.query, shortest), how, scrapes, shortest)
			if err != nil {
				return err
			}
			c[0].print(how.name, "ours")
			c[1].print(how.name, "peer")
			fmt.Printf("%-12s %-8s %8.2f %12.2f %12.2f\n\n", how.name, "ratio", float64(c[0].series)/float64(c[1].series), float64(c[0].cpu)/float64(c[1].cpu), c[0].perSeries()/c[1].perSeries())
		}
	}
	calls, err := countSyscalls(programs(collectors, traced))
	if err != nil || calls == nil {
		return err
	}
	fmt.Printf("system calls a scrape, of all: ours %.0f, peer %.0f, 1/%.1f\n\n", calls[0], calls[1], calls[1]/calls[0])
	return nil
}

// ours is how the exporter is run to be scraped that often.
func ours(exporter string, every time.Duration, more ...string) []string {
	return append([]string{exporter, "--log.level=error", "--observer.fast-interval=1ms", "--observer.slow-interval=" + (7 * every / 2).String()}, more...)
}

func over(tree *simulator.Tree) []string {
	return []string{"--path.sysfs=" + tree.Sysfs(), "--path.procfs=" + tree.Procfs(), "--path.rootfs=" + tree.Rootfs()}
}

// install copies a program, as whoever installs it does: the page cache maps larger pieces of a file that was just linked,
// which counts as memory of the process.
func install(program, dir string) (string, error) {
	b, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, filepath.Base(program))
	return to, os.WriteFile(to, b, 0o755)
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
	series int
	cpu    time.Duration
	rss    int // MiB
}

var header = fmt.Sprintf("%-12s %-8s %8s %12s %12s %8s", "", "program", "series", "CPU/scrape", "CPU/series", "RSS")

func (c cost) perSeries() float64 { return float64(c.cpu) / float64(c.series) }

func (c cost) print(what, program string) {
	fmt.Printf("%-12s %-8s %8d %12s %12s %7dM\n", what, program, c.series, c.cpu.Round(10*time.Microsecond), time.Duration(c.perSeries()).Round(10*time.Nanosecond), c.rss)
}

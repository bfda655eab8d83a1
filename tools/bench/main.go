// SPDX-License-Identifier: Apache-2.0

// Command bench measures what a scrape costs: CPU time of the process, page faults, context switches, system calls and
// memory, side by side with node_exporter's infiniband collector over the same sysfs tree. It prints tables and judges
// nothing: machines are noisy, ratios within one run are what to quote.
//
// Programs that are compared are scraped in one run, one at a time, at the distances that Prometheus keeps as
// well as at one so short that all code and data stay in the processor's caches. Every scrape reads the
// hardware anew. What the exporter reads once a minute is read with one scrape in four at 20 ms and 15 s, one
// in twelve at 5 s.
//
// Both exporters use one of Go's processors by default, however many the machine has. With GOMAXPROCS=64 in their
// environment they use what Go's runtime would on a machine with 64 processors.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/internal/simulator"
)

const peerName = "node_exporter"

// hot is the shortest distance: it is just enough to scrape the programs one after the other.
const hot = 20 * time.Millisecond

func main() {
	log.SetFlags(0)
	exporter := flag.String("exporter", "", "our binary")
	peer := flag.String("peer", "", "node_exporter")
	length := flag.Duration("length", 5*time.Minute, "how long to scrape at 5 s and 15 s")
	flag.Parse()
	if err := run(*exporter, *peer, *length); err != nil {
		log.Fatal("bench: ", err)
	}
}

func run(exporter, peer string, length time.Duration) error {
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
	if err := beside(exporter, peer, tree, length); err != nil {
		return err
	}
	fmt.Printf("whole product by devices\n\n%s", header)
	var all []*turns
	for _, n := range []int{1, 8, 32, 128} {
		tree, err := multiply(s.Build(), n).Materialise(filepath.Join(dir, strconv.Itoa(n)))
		if err != nil {
			return err
		}
		every := max(hot, time.Duration(n)*2*time.Millisecond)
		one, err := measure([]program{{name: strconv.Itoa(n) + " device(s)", args: ours(exporter, tree, every)}},
			[]time.Duration{every}, prometheus, 120*every)
		if err != nil {
			return err
		}
		all = append(all, one...)
	}
	show(all)
	return nil
}

// beside prints what the exporter costs and what node_exporter does: for the series that both have, for all that the
// collectors hca and counters have, and the whole product.
func beside(exporter, peer string, tree *simulator.Tree, length time.Duration) error {
	const collectors = "?collect[]=hca&collect[]=counters"
	programs := func(every time.Duration, processors int) []program {
		mine := ours(exporter, tree, every)
		only := append(slices.Clip(mine), "--web.disable-exporter-metrics")
		return []program{
			{name: "same series", query: collectors + "&name[]=" + strings.Join(shared(), "&name[]="), args: only, processors: processors},
			{name: "hca, counters", query: collectors, args: only, processors: processors},
			{name: "whole product", args: mine, processors: processors},
			{name: peerName, args: []string{
				peer, "--web.disable-exporter-metrics", "--log.level=error", "--collector.disable-defaults",
				"--collector.infiniband",
				"--path.sysfs=" + tree.Sysfs(),
			}, processors: processors},
		}
	}
	fmt.Printf("8 mlx5 devices, asked as Prometheus 3 asks (OpenMetrics, gzip)\n\n%s", header)
	for _, processors := range []int{0, 64} {
		all, err := measure(programs(hot, processors), []time.Duration{hot}, prometheus, 10*time.Second)
		if err != nil {
			return err
		}
		show(all)
	}
	all, err := measure(append(programs(5*time.Second, 0), programs(5*time.Second, 64)...),
		[]time.Duration{5 * time.Second, 15 * time.Second}, prometheus, length)
	if err != nil {
		return err
	}
	show(all)
	both := programs(traced, 0)
	calls, err := countSyscalls([]program{both[1], both[3]})
	if err != nil || calls == nil {
		return err
	}
	fmt.Printf("system calls a scrape, hca and counters: ours %.0f, peer %.0f, 1/%.1f\n\n", calls[0], calls[1],
		calls[1]/calls[0])
	return nil
}

// ours is how the exporter is run to be scraped that often. From 5 s on it has its default cadences, but for readings
// that two scrapes share: a scrape that comes a little early is to be measured, too.
func ours(exporter string, tree *simulator.Tree, every time.Duration) []string {
	args := []string{
		exporter, "--log.level=error", "--observer.fast-interval=1ms", "--path.sysfs=" + tree.Sysfs(),
		"--path.procfs=" + tree.Procfs(), "--path.rootfs=" + tree.Rootfs(),
	}
	if every < 5*time.Second {
		args = append(args, "--observer.slow-interval="+(7*every/2).String())
	}
	return args
}

// install copies a program piece by piece, as installers do: of a file that was just linked, or written at
// once, the page cache maps larger pieces, which count as memory of the process.
func install(program, dir string) (string, error) {
	from, err := os.Open(program)
	if err != nil {
		return "", err
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(dir, filepath.Base(program)), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 64<<10))
	return to.Name(), errors.Join(err, to.Close())
}

// scratch is where thousands of small files are cheap.
func scratch() string {
	if _, err := os.Stat("/dev/shm"); err == nil {
		return "/dev/shm"
	}
	return ""
}

const columns = "%-9s %-10v %-14s %7v %9v %9v %9v %9v %7v %9v %5v %6v\n"

var header = "CPU: all CPU time of the process, for each scrape; median and mean: of the scrapes; between: mean from one to the next\n\n" +
	fmt.Sprintf(columns, "distance", "GOMAXPROCS", "", "series", "CPU", "median", "mean", "between", "faults",
		"switches", "MiB", "ratio")

// show prints costs, and the ratio to node_exporter with the same settings.
func show(all []*turns) {
	for _, t := range all {
		c, ratio, processors := t.cost(), "", "default"
		for _, other := range all {
			if other.name == peerName && t.name != peerName && other.distance == t.distance && other.processors == t.processors {
				ratio = fmt.Sprintf("%.2f", float64(c.total)/float64(other.cost().total))
			}
		}
		if t.processors > 0 {
			processors = strconv.Itoa(t.processors)
		}
		round := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
		fmt.Printf(columns, t.distance, processors, t.name, c.series, round(c.total), round(c.median), round(c.mean),
			round(c.between),
			fmt.Sprintf("%.1f", c.faults), fmt.Sprintf("%.1f", c.switches), c.rss, ratio)
	}
	fmt.Println()
}

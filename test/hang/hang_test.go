// SPDX-License-Identifier: Apache-2.0

//go:build hang

// Package hang runs the whole program over a sysfs that hangs, fails and moves: a simulated node behind a small
// FUSE server (fuse_test.go) that does to single files what drivers do to theirs. What it cannot show is the
// kernel's side, such as a lock that a hanging driver holds; that is for test/lab.
//
// It needs root and /dev/fuse; where either is missing, all but the FIFOs is skipped.
package hang

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// report is what one case found out, as a line of the table.
type report struct {
	p             *product
	before, after usage
	note          string
}

func TestHang(t *testing.T) {
	var table strings.Builder
	fmt.Fprintf(&table, "%-22s %7s %9s %9s %9s  %s\n", "case", "scrapes", "slowest", "threads", "fds", "")
	run := func(name string, test func(*testing.T) report) {
		t.Run(name, func(t *testing.T) {
			r := test(t)
			fmt.Fprintf(&table, "%-22s %7d %9s %4d→%-4d %4d→%-4d  %s\n", name, r.p.scrapes, r.p.slowest.Round(time.Millisecond),
				r.before.threads, r.after.threads, r.before.fds, r.after.fds, r.note)
		})
	}
	for _, c := range stuckCases {
		run(c.name, func(t *testing.T) report { return testStuck(t, c, start) })
	}
	run("one processor", func(t *testing.T) report { return testStuck(t, oneProcessor, startChild) })
	run("rtnl lock", testRTNL)
	run("refused", testRefused)
	run("FIFO", testFIFO)
	run("ticks", testTicks)
	t.Logf("results:\n%s", table.String())
}

type stuckCase struct {
	name, file string // of the device
	op         uint32
	scrapes    int
}

// long is how many scrapes show that nothing grows, even by one in a hundred.
const long = 1000

// stuckCases are files of a device whose reads hang. A file that is open already is opened again after a read of
// it said that the device is gone.
var stuckCases = []stuckCase{
	{"read state", "ports/1/state", opRead, long},
	{"open state", "ports/1/state", opOpen, 50},
	{"look up state", "ports/1/state", opLookup, 50},
	{"read counter", "ports/1/counters/port_xmit_data", opRead, 50},
	{"open hardware counter", "ports/1/hw_counters/out_of_sequence", opOpen, 50},
}

// oneProcessor is the case for a process that has one of Go's processors: the read that hangs must not keep it.
var oneProcessor = stuckCase{"one processor", "ports/1/state", opOpen, 50}

func testStuck(t *testing.T, c stuckCase, start starter) report {
	const (
		device = "mlx5_3"
		netdev = "enp94s0np0"
		stuck  = `gpufabric_hca_stuck{device="` + device + `"}`
	)
	// Which interface is the device's only the device says.
	own := regexp.MustCompile(`(device|netdev)="(` + device + `|` + netdev + `)"|gpufabric_exporter_facts_unknown`)
	facts := regexp.MustCompile(`gpufabric_(hca_port_state|gid_info|hca_port_received_data_bytes_total){device="` + device + `"`)

	tree, dir := layOut(t)
	s := mount(t, tree.Sysfs(), dir)
	p := start(t, tree, dir)
	healthy := p.scrape()
	if healthy[stuck] != "0" || !healthy.any(facts) {
		t.Fatalf("does not begin well: %v", healthy)
	}
	begin := time.Now()
	for range 10 {
		p.scrape()
	}
	usual := time.Since(begin) / 10 // with all devices well; the race detector makes it long

	file := "class/infiniband/" + device + "/" + c.file
	what := s.request(t, c.op, file)
	rules, release := hanging(t, s, what)
	if c.op != opRead {
		rules[s.request(t, opRead, file)] = fail(unix.ENODEV)
	}
	s.set(rules)
	p.until("entered", func() bool { p.scrape(); return s.count(what) > 0 })
	begin = time.Now()
	p.until("stuck", func() bool { return p.scrape()[stuck] == "1" })
	if d := time.Since(begin); d < 4*time.Second || d > 8*time.Second {
		t.Errorf("stuck after %s, expected 5 s", d)
	}
	named := time.Since(begin)

	for range 20 { // connections and threads come to their usual number
		p.scrape()
	}
	before := p.used()
	begin = time.Now()
	for range c.scrapes {
		now := p.scrape()
		if lost := now.lost(healthy, own); len(lost) > 0 || now[stuck] != "1" || now.any(facts) {
			t.Fatalf("scrape %d: stuck %s, own facts %t, lost of others: %q", p.scrapes, now[stuck], now.any(facts), lost)
		}
	}
	each := time.Since(begin) / time.Duration(c.scrapes)
	if each > usual+patience/8 { // half of what a scrape would wait for a device that may still answer
		t.Errorf("a scrape takes %s, %s while all are well: it waits for the stuck device", each, usual)
	}
	if n := s.count(what); n != 1 {
		t.Errorf("the file that hangs was asked %d times", n)
	}
	var after usage
	p.until(fmt.Sprintf("back to %+v", before), func() bool { after = p.used(); return after.noMoreThan(before) })

	release()
	p.until("healthy again", func() bool {
		now := p.scrape()
		return now[stuck] == "0" && len(now.lost(healthy, regexp.MustCompile(`gpufabric_exporter_facts_unknown`))) == 0
	})
	return report{p, before, after, fmt.Sprintf("named after %.1f s, then %s each", named.Seconds(), each.Round(time.Millisecond))}
}

// hanging returns rules by which a request hangs until release is called, at the latest when the test ends.
func hanging(t *testing.T, s *server, r request) (rules map[request]behaviour, release func()) {
	released := make(chan struct{})
	rules = map[request]behaviour{r: hang(released)}
	release = func() {
		s.set(nil)
		select {
		case <-released:
		default:
			close(released)
		}
	}
	t.Cleanup(release)
	return rules, release
}

// testRTNL lets a read under the kernel's rtnl lock hang.
func testRTNL(t *testing.T) report {
	const netdev = `gpufabric_exporter_source_up{device="",netdev="",source="netdev"}`
	tree, dir := layOut(t)
	s := mount(t, tree.Sysfs(), dir)
	p := start(t, tree, dir)
	healthy := p.scrape()
	what := s.request(t, opRead, "class/net/enp24s0np0/speed")
	rules, _ := hanging(t, s, what)
	// Interfaces are read anew when a link has changed.
	link := s.request(t, opRead, "class/infiniband/mlx5_4/ports/1/phys_state")
	rules[link] = fail(unix.ENODEV)
	s.set(rules)
	p.until("entered", func() bool { p.scrape(); return s.count(what) > 0 })
	s.drop(link)
	p.until("down", func() bool { return p.scrape()[netdev] == "0" })
	before := p.used()
	// What a port should do is compared with its interface, and how RoCE is treated is the interface's.
	needs := regexp.MustCompile(`gpufabric_hca_port_rate_mismatch|gpufabric_exporter_facts_unknown|gpufabric_(roce|ethernet)_|source="(qos|netstats)"`)
	for range long {
		now := p.scrape()
		if lost := now.lost(healthy, needs); len(lost) > 0 || now[netdev] != "0" {
			t.Fatalf("scrape %d: netdev %s, lost %q", p.scrapes, now[netdev], lost)
		}
	}
	if n := s.count(what); n != 1 {
		t.Errorf("the file that hangs was asked %d times", n)
	}
	after := p.used()
	took := p.stop()
	if took > 2*time.Second {
		t.Errorf("took %s to stop", took)
	}
	return report{p, before, after, "stops in " + took.Round(time.Millisecond).String()}
}

// testRefused lets drivers refuse to answer single questions.
func testRefused(t *testing.T) report {
	cases := []struct {
		device, file string
		err          unix.Errno
		gone         string // what is unknown now
	}{
		{"mlx5_0", "ports/1/state", unix.EIO, `gpufabric_hca_port_(state|rate_mismatch)`},
		{"mlx5_1", "ports/1/phys_state", unix.EINVAL, `gpufabric_hca_port_(physical_state|rate)`},
		{"mlx5_2", "ports/1/counters/port_rcv_data", unix.EINVAL, `gpufabric_hca_port_received_data_bytes_total`},
		{"mlx5_4", "ports/1/hw_counters/out_of_sequence", unix.EIO, `gpufabric_hca_out_of_sequence_total`},
		{"mlx5_5", "ports/1/counters/port_xmit_packets", unix.EOPNOTSUPP, `gpufabric_hca_port_transmitted_packets_total`},
	}
	tree, dir := layOut(t)
	s := mount(t, tree.Sysfs(), dir)
	p := start(t, tree, dir)
	healthy := p.scrape()
	before := p.used()

	rules, questions, gone := map[request]behaviour{}, []request{}, []string{}
	for _, c := range cases {
		r := s.request(t, opRead, "class/infiniband/"+c.device+"/"+c.file)
		rules[r] = fail(c.err)
		questions, gone = append(questions, r), append(gone, c.gone+`.*device="`+c.device+`"`)
	}
	s.set(rules)
	may := regexp.MustCompile(strings.Join(gone, "|") + "|gpufabric_exporter_facts_unknown")
	for _, pattern := range gone {
		p.until("without "+pattern, func() bool { return !p.scrape().any(regexp.MustCompile(pattern)) })
	}
	for begin := time.Now(); time.Since(begin) < 3*time.Second; { // twelve times the interval of reading
		now := p.scrape()
		if lost := now.lost(healthy, may); len(lost) > 0 {
			t.Fatalf("lost %q", lost)
		}
	}
	for _, r := range questions {
		if n := s.count(r); n != 1 {
			t.Errorf("%s was asked %d times, expected once a minute", r.path, n)
		}
	}
	return report{p, before, p.used(), "each asked once"}
}

// testFIFO puts FIFOs where files should be, which would block a plain open.
func testFIFO(t *testing.T) report {
	tree, _ := layOut(t)
	first := start(t, tree, tree.Sysfs())
	healthy := first.scrape()
	first.stop()
	for _, file := range []string{
		"class/infiniband/mlx5_0/ports/1/state", "class/infiniband/mlx5_1/fw_ver", "class/infiniband/mlx5_2/ports/1/hw_counters/out_of_sequence",
		"class/infiniband/mlx5_4/ports/1/counters/port_xmit_data", "class/net/enp24s0np0/speed",
	} {
		file = filepath.Join(tree.Sysfs(), file)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, tree, tree.Sysfs())
	before := p.used()
	// A port whose state was never read had no link that could be expected again.
	may := regexp.MustCompile(`gpufabric_hca_port_state{device="mlx5_0"|gpufabric_hca_port_(rate_mismatch|expected_rate_bytes_per_second){device="mlx5_0"|gpufabric_hca_info.*device="mlx5_1"|` +
		`gpufabric_hca_out_of_sequence_total{device="mlx5_2"|gpufabric_hca_port_transmitted_data_bytes_total{device="mlx5_4"|gpufabric_exporter_facts_unknown`)
	for range 50 {
		now := p.scrape()
		if lost := now.lost(healthy, may); len(lost) > 0 {
			t.Fatalf("lost %q", lost)
		}
		for name, value := range now {
			if strings.HasPrefix(name, "gpufabric_exporter_source_up") && value != "1" || strings.HasPrefix(name, "gpufabric_hca_stuck") && value != "0" {
				t.Fatalf("%s %s", name, value)
			}
		}
	}
	return report{p: p, before: before, after: p.used()}
}

// testTicks looks at counters that move, one of them behind a driver that takes its time.
func testTicks(t *testing.T) report {
	tree, dir := layOut(t)
	s := mount(t, tree.Sysfs(), dir)
	p := start(t, tree, dir)
	healthy := p.scrape()
	before := p.used()
	read := func(file string) request { return s.request(t, opRead, "class/infiniband/"+file) }
	s.set(map[request]behaviour{
		read("mlx5_0/ports/1/counters/port_xmit_packets"):  tick(),
		read("mlx5_1/ports/1/hw_counters/out_of_sequence"): tick(),
		read("mlx5_1/ports/1/counters/port_rcv_data"):      slow(100 * time.Millisecond),
	})
	for _, name := range []string{
		`gpufabric_hca_port_transmitted_packets_total{device="mlx5_0",port="1"}`,
		`gpufabric_hca_out_of_sequence_total{device="mlx5_1",port="1"}`,
	} {
		last, _ := strconv.ParseFloat(healthy[name], 64)
		for range 8 {
			p.until("moved: "+name, func() bool {
				now := p.scrape()
				if lost := now.lost(healthy, regexp.MustCompile("^$")); len(lost) > 0 {
					t.Fatalf("lost %q", lost)
				}
				v, err := strconv.ParseFloat(now[name], 64)
				if err != nil || v < last {
					t.Fatalf("%s went from %f to %q", name, last, now[name])
				}
				moved := v > last
				last = v
				return moved
			})
		}
	}
	return report{p, before, p.used(), "2 counters moved 8 times each"}
}

// SPDX-License-Identifier: Apache-2.0

//go:build load && linux && amd64

package safety

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

const (
	scrapers    = 50
	slowClients = 200
	under       = time.Minute // how long the load lasts
	each        = time.Second // how long a scraper waits after a scrape
	fast        = 5 * time.Second
	mostMemory  = 256 << 20 // MemoryMax of the unit
	manyScrapes = 20_000
	mostGrowth  = 8 << 20 // bytes over manyScrapes
)

// serving is the exporter, with its defaults, over a node in files.
type serving struct {
	t   *testing.T
	pid int
	url string
	log string // file

	client *http.Client // that it trusts, and that trusts it
}

func serve(t *testing.T, n *node, args ...string) *serving {
	t.Helper()
	out := n.file()
	args = slices.Concat([]string{"serve", "--web.listen-address=127.0.0.1:0", "--observer.fast-interval=" + fast.String()}, n.paths, args)
	cmd := exec.CommandContext(t.Context(), n.binary, args...)
	cmd.Stderr = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); <-ended })
	s := &serving{t: t, pid: cmd.Process.Pid, url: n.listening(ended, out.Name()), log: out.Name(), client: http.DefaultClient}
	if n.trusted != nil {
		s.url = strings.Replace(s.url, "http://", "https://", 1)
		s.client = &http.Client{Timeout: eventually, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: n.trusted, ServerName: "server"}}}
	}
	for end := time.Now().Add(eventually); ; time.Sleep(100 * time.Millisecond) {
		if status, _, _ := s.scrape(s.client); status == http.StatusOK {
			return s
		}
		if time.Now().After(end) {
			t.Fatal("it answers no scrape")
		}
	}
}

// scrape scrapes once.
func (s *serving) scrape(c *http.Client) (status int, text string, err error) {
	answer, err := c.Get(s.url + "/metrics")
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}

// size is what the process takes.
type size struct{ memory, files int }

func (s *serving) size() size {
	s.t.Helper()
	status := read(s.t, fmt.Sprintf("/proc/%d/status", s.pid))
	m := regexp.MustCompile(`VmRSS:\s*(\d+) kB`).FindStringSubmatch(status)
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.pid))
	if m == nil || err != nil {
		s.t.Fatal(status, err)
	}
	kib, _ := strconv.Atoi(m[1])
	return size{kib << 10, len(files)}
}

// counterReads counts how often a counter of each device is read.
func counterReads(t *testing.T, n *node) *atomic.Int64 {
	t.Helper()
	sysfs := strings.TrimPrefix(n.paths[0], "--path.sysfs=")
	counters, err := filepath.Glob(sysfs + "/class/infiniband/*/ports/1/counters/port_xmit_data")
	if err != nil || len(counters) < 2 {
		t.Fatal(counters, err)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	t.Cleanup(func() { events.Close() })
	for _, c := range counters {
		if _, err := unix.InotifyAddWatch(fd, c, unix.IN_ACCESS); err != nil {
			t.Fatal(err)
		}
	}
	var seen atomic.Int64
	last := make(map[string]time.Time) // by device: a file may be read in two steps
	go func() {
		for b := make([]byte, 4096); ; {
			size, err := events.Read(b)
			if err != nil {
				return
			}
			for at := 0; at+unix.SizeofInotifyEvent <= size; at += unix.SizeofInotifyEvent { // a watch of a file has events without names
				if key := string(b[at : at+4]); time.Since(last[key]) > fast/5 {
					last[key] = time.Now()
					seen.Add(1)
				}
			}
		}
	}()
	t.Logf("%d devices are watched", len(counters))
	return &seen
}

// slow is a client that is as slow as possible: it sends half a request, reads nothing of an answer, or reads
// one byte in a second.
func (s *serving) slow(i int, stop <-chan struct{}) {
	address := strings.TrimPrefix(s.url, "http://")
	for {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.(*net.TCPConn).SetReadBuffer(4096)
			request := "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
			if i%3 == 0 {
				request = request[:20]
			}
			_, err = io.WriteString(c, request)
		}
		for err == nil {
			select {
			case <-stop:
				c.Close()
				return
			case <-time.After(time.Second):
			}
			switch i % 3 {
			case 0:
				_, err = io.WriteString(c, "a") // of a header that does not end
			case 1:
				_, err = c.Read(make([]byte, 1))
			}
		}
		if c != nil {
			c.Close()
		}
		select {
		case <-stop:
			return
		case <-time.After(time.Second):
		}
	}
}

// load has the results of the scrapers.
type load struct {
	took           []time.Duration
	refused, other int
	reads          int64
	most           size
}

// under runs the clients for a while.
func (s *serving) under(seen *atomic.Int64, scrapers, slowClients int) load {
	s.t.Helper()
	var l load
	var mu sync.Mutex
	var all sync.WaitGroup
	stop := make(chan struct{})
	for i := range slowClients {
		all.Go(func() { s.slow(i, stop) })
	}
	before := seen.Load()
	for i := range scrapers {
		all.Go(func() {
			client := &http.Client{Timeout: eventually, Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for next := time.After(time.Duration(i) * each / time.Duration(scrapers)); ; next = time.After(each) {
				select {
				case <-stop:
					return
				case <-next:
				}
				begin := time.Now()
				status, text, err := s.scrape(client)
				mu.Lock()
				switch {
				case err == nil && status == http.StatusOK && strings.Contains(text, "\ngpufabric_hca_port_state{"):
					l.took = append(l.took, time.Since(begin))
				case status == http.StatusServiceUnavailable:
					l.refused++
				default:
					l.other++
				}
				mu.Unlock()
			}
		})
	}
	for end := time.Now().Add(under); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		now := s.size()
		l.most = size{max(l.most.memory, now.memory), max(l.most.files, now.files)}
	}
	l.reads = seen.Load() - before
	close(stop)
	all.Wait()
	slices.Sort(l.took)
	return l
}

// TestLoad compares one scraper with many, among clients that are as slow as they can be: each scraper is
// answered, the devices are read no more often, and memory and descriptors are bounded and come back.
func TestLoad(t *testing.T) {
	n := layOut(t)
	s := serve(t, n)
	seen := counterReads(t, n)
	before := s.size()
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "scrapers\tslow clients\tscrapes\tp50\tp99\tmost\t503\tfailed\treads of counters\tRSS MiB\tdescriptors")
	var loads []load
	for _, clients := range [][2]int{{1, 0}, {scrapers, slowClients}} {
		l := s.under(seen, clients[0], clients[1])
		if len(l.took) == 0 {
			t.Fatal("no scrape succeeded")
		}
		at := func(share float64) time.Duration {
			return l.took[int(share*float64(len(l.took)-1))].Round(time.Millisecond)
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%s\t%s\t%s\t%d\t%d\t%d\t%.1f\t%d\n", clients[0], clients[1], len(l.took), at(0.5), at(0.99), at(1), l.refused, l.other, l.reads, float64(l.most.memory)/(1<<20), l.most.files)
		if l.other > 0 || at(0.99) > 10*time.Second {
			t.Errorf("%d scrapes failed, p99 %s: expected an answer to each within 10 s", l.other, at(0.99))
		}
		if l.most.memory > mostMemory {
			t.Errorf("RSS %d: expected at most %d", l.most.memory, mostMemory)
		}
		loads = append(loads, l)
	}
	_ = w.Flush()
	t.Log("\n" + table.String())
	devices, err := filepath.Glob(strings.TrimPrefix(n.paths[0], "--path.sysfs=") + "/class/infiniband/*/ports/1/counters/port_xmit_data")
	if err != nil {
		t.Fatal(err)
	}
	if most := int64(len(devices)) * int64(under/fast+2); loads[0].reads == 0 || loads[1].reads > most {
		t.Errorf("counters were read %d and %d times, expected at most %d, as with one scraper", loads[0].reads, loads[1].reads, most)
	}
	for end := time.Now().Add(eventually); s.size().files > before.files+16; time.Sleep(time.Second) {
		if time.Now().After(end) {
			t.Fatalf("%d descriptors after the load, %d before", s.size().files, before.files)
		}
	}
}

// TestManyScrapes scrapes again and again, and prints by how much the process grows.
func TestManyScrapes(t *testing.T) {
	s := serve(t, layOut(t))
	client := &http.Client{Timeout: eventually}
	goroutines := regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)
	var at, memory, files, routines []float64
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "scrapes\tRSS MiB\tdescriptors\tgoroutines")
	for i := range manyScrapes + 1 {
		status, text, err := s.scrape(client)
		if err != nil || status != http.StatusOK {
			t.Fatal(i, status, err)
		}
		if i%1000 != 0 {
			continue
		}
		m := goroutines.FindStringSubmatch(text)
		if m == nil {
			t.Fatal("no go_goroutines")
		}
		g, _ := strconv.ParseFloat(m[1], 64)
		now := s.size()
		fmt.Fprintf(w, "%d\t%.1f\t%d\t%g\n", i, float64(now.memory)/(1<<20), now.files, g)
		if i >= manyScrapes/4 { // by then caches and heap have their size
			at, memory, files, routines = append(at, float64(i)), append(memory, float64(now.memory)), append(files, float64(now.files)), append(routines, g)
		}
	}
	_ = w.Flush()
	m, f, g := slope(at, memory)*manyScrapes, slope(at, files)*manyScrapes, slope(at, routines)*manyScrapes
	t.Logf("\n%sgrowth over %d scrapes: %.2f MiB, %.2f descriptors, %.2f goroutines (limits: %d MiB, 5, 5)", table.String(), manyScrapes, m/(1<<20), f, g, mostGrowth>>20)
	if m > mostGrowth || f > 5 || g > 5 {
		t.Error("it grows")
	}
}

// slope is that of the line through points by least squares.
func slope(x, y []float64) float64 {
	mx, my := mean(x), mean(y)
	var above, below float64
	for i := range x {
		above += (x[i] - mx) * (y[i] - my)
		below += (x[i] - mx) * (x[i] - mx)
	}
	return above / below
}

func mean(list []float64) (m float64) {
	for _, v := range list {
		m += v / float64(len(list))
	}
	return m
}

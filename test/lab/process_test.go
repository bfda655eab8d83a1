// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What a human looks at stays in the job folder.
func testPages(t *testing.T, x *exporter) {
	for path, file := range map[string]string{"/": "landing.html", "/metrics": "scrape.prom"} {
		page, err := x.get(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(page, "gpufabric") {
			t.Errorf("%s: %s", path, page)
		}
		write(t, file, page)
	}
}

// An exporter without any privilege shows the same as root's.
func testUnprivileged(t *testing.T, x *exporter) {
	nobody := start(t, 65534)
	lines := func(s scrape) (lines []string) {
		for _, m := range s {
			if !m.counts() && (strings.HasPrefix(m.name, "hca_") || strings.HasPrefix(m.name, "gid_")) {
				lines = append(lines, fmt.Sprint(m, m.value))
			}
		}
		return lines
	}
	eventually(t, "nobody sees what root sees", func() error {
		want, err := x.scrape()
		if err != nil {
			return err
		}
		got, err := nobody.scrape()
		if err != nil {
			return err
		}
		return diff("series", lines(want), lines(got))
	})
	nobody.agrees(t, everything...)
}

// While it is scraped the exporter has no file open for writing but its log.
func testReadOnly(t *testing.T, x *exporter) {
	stop := make(chan struct{})
	done := make(chan error)
	go func() {
		var err error
		for {
			select {
			case <-stop:
				done <- err
				return
			default:
				if _, e := x.scrape(); e != nil {
					err = e
				}
			}
		}
	}()
	seen := make(map[string]bool)
	for range 20 {
		for fd, target := range x.open(t) {
			flags, err := x.flags(fd)
			if err != nil || fd <= 2 || !strings.HasPrefix(target, "/") {
				continue // closed meanwhile, standard stream, or socket, pipe, anonymous inode
			}
			if link(x.proc("fd"), strconv.Itoa(fd)) != filepath.Base(target) {
				continue // the number is another file's by now: these flags may be a socket's
			}
			seen[target] = true
			if flags&syscall.O_ACCMODE != syscall.O_RDONLY {
				t.Errorf("%s is open with flags %#o", target, flags)
			}
		}
		time.Sleep(50 * time.Millisecond) // samples, spread over several scrapes
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
	inSysfs := 0
	for target := range seen {
		if strings.HasPrefix(target, "/sys/") {
			inSysfs++
		}
	}
	t.Logf("%d files of sysfs were seen open", inSysfs)
	if inSysfs == 0 {
		t.Errorf("no file of sysfs was seen open, this test is of no use: %v", seen)
	}
}

// open are the open files of the exporter.
func (x *exporter) open(t *testing.T) map[int]string {
	t.Helper()
	dir := x.proc("fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[int]string)
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		files[fd] = target
	}
	return files
}

// files is the number of open files in sysfs and proc: connections come and go.
func (x *exporter) files(t *testing.T) int {
	t.Helper()
	n := 0
	for _, target := range x.open(t) {
		if strings.HasPrefix(target, "/") {
			n++
		}
	}
	return n
}

// flags are those of open(2).
func (x *exporter) flags(fd int) (int64, error) {
	for line := range strings.Lines(read(x.proc("fdinfo"), strconv.Itoa(fd))) {
		if text, ok := strings.CutPrefix(line, "flags:"); ok {
			return strconv.ParseInt(strings.TrimSpace(text), 8, 64)
		}
	}
	return 0, fs.ErrNotExist
}

func (x *exporter) proc(name string) string {
	return filepath.Join("/proc", strconv.Itoa(x.cmd.Process.Pid), name)
}

func testTerminate(t *testing.T, _ *exporter) {
	x := start(t, 0)
	x.agrees(t, everything...)
	// It is two seconds at most (test/hang); this guest is emulated, and its host may be busy.
	if took := x.stop(t); took > 10*time.Second {
		t.Errorf("SIGTERM to end: %v", took)
	}
}

// While nothing changes the same series are there with every scrape, whichever facts were just read.
func testSteady(t *testing.T, x *exporter) {
	series := func(s scrape) (names []string) {
		for _, m := range s {
			names = append(names, m.String())
		}
		return names
	}
	first := series(x.agrees(t, append(everything, addresses)...))
	for range 12 { // more than a second: fast and slow readings
		time.Sleep(150 * time.Millisecond)
		s, err := x.scrape()
		if err != nil {
			t.Fatal(err)
		}
		if err := diff("series", first, series(s)); err != nil {
			t.Fatal(err)
		}
	}
}

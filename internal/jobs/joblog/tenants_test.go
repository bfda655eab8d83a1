// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/owned"
)

// tenants is a folder of a site in which two users have folders of their own.
func tenants(t *testing.T) *site {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: the files of several users")
	}
	s := start(t, "*/*.log")
	for name, uid := range map[string]int{"aaa": 1001, "job": 1002} {
		s.do(os.Mkdir(s.path(name), 0o755))
		s.do(os.Chown(s.path(name), uid, uid))
	}
	return s
}

// Whatever one user does, the logs of another are read, and the reading says who lost something.
func TestTenants(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(s *site)
		lost  bool
	}{
		"dates in the future": {func(s *site) {
			for i := range 3 * maxFiles {
				file := fmt.Sprintf("aaa/%d.log", i)
				s.append(file, "x\n")
				s.do(os.Chtimes(s.path(file), s.now.Add(24*time.Hour), s.now.Add(24*time.Hour)))
			}
		}, true},
		"names": {func(s *site) {
			for i := range 2500 {
				s.append(fmt.Sprintf("aaa/%d.log", i), "")
			}
		}, true},
		"folders": {func(s *site) {
			for i := range 300 {
				s.do(os.Mkdir(s.path(fmt.Sprintf("a%d", i)), 0o755))
				s.do(os.Chown(s.path(fmt.Sprintf("a%d", i)), 1001, 1001))
				s.append(fmt.Sprintf("a%d/0.log", i), "x\n")
			}
		}, true},
		"bytes": {func(s *site) {
			for i := range 8 {
				s.append(fmt.Sprintf("aaa/%d.log", i), strings.Repeat("x\n", 4<<20))
			}
		}, false},
		"one large file": {func(s *site) { s.append("aaa/0.log", strings.Repeat("x\n", maxBehind)) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := tenants(t)
			s.append("job/rank0.log", overGDR)
			s.expect("nothing", map[string]uint64{})
			c.plant(s)
			s.append("job/rank0.log", retryExceeded)
			s.append("job/rank1.log", overTCP+retryExceeded)
			v := s.expect("planted", count(retries, 2))
			known := 0
			for _, f := range v.Files {
				if f.Transport == fabric.LogGDR || f.Transport == fabric.LogTCP {
					known++
				}
			}
			if known != 2 || len(v.Files) > maxFiles {
				t.Errorf("%d of 2 logs of the other user, %d in all", known, len(v.Files))
			}
			if lost := v.Shortage.Any(); lost != c.lost || lost && v.Shortage.Most != (fabric.FileOwner{UID: 1001}) {
				t.Errorf("%+v", v.Shortage)
			}
		})
	}
}

// Processor time that lines of one user take is not that of others, and what was not read is read later.
func TestTimeIsShared(t *testing.T) {
	s := tenants(t)
	s.expect("nothing", map[string]uint64{})
	s.append("aaa/0.log", strings.Repeat("x\n", 2<<20)+retryExceeded)
	for i := range 8 {
		s.append(fmt.Sprintf("job/%d.log", i), watchdog)
	}
	now := time.Duration(0)
	s.reader.spent = func() time.Duration { now += ownTime / 50; return now }
	v := s.expect("the others first", count(timeout, 8))
	if v.Shortage.Most != (fabric.FileOwner{UID: 1001}) {
		t.Errorf("%+v", v.Shortage)
	}
	for range 20 {
		if v = s.read(); v.Failures.Of(retries).Count == 1 {
			return
		}
	}
	t.Errorf("the end was not read: %+v", v)
}

// Empty lines and lines of a few bytes take no more time than as many bytes of lines of NCCL: they took five
// times as long.
func TestShortLines(t *testing.T) {
	took := func(line string) time.Duration {
		text := []byte(strings.Repeat(line, 1<<20/len(line)))
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		least := time.Hour
		for range 5 {
			f, begun := file{}, owned.Spent()
			if _, err := f.read(partOf(text, int64(len(text)), make([]byte, piece), func(string) {}), int64(len(text))); err != nil {
				t.Fatal(err)
			}
			least = min(least, owned.Spent()-begun)
		}
		return least
	}
	usual := took(overGDR + "step 100 loss 2.31 tokens/s 123456 grad_norm 0.41\n")
	for _, line := range []string{"\n", "\r\n", "x\n", "NCCL\n", "\x00\n"} {
		if cost := took(line); cost > 5*usual {
			t.Errorf("%q: %s, and %s for as many bytes of NCCL", line, cost, usual)
		}
	}
}

// A log whose read does not return costs its owner and nobody else, and what the read found counts when it
// has returned.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tenants(t)
		s.expect("nothing", map[string]uint64{})
		hang := make(chan struct{})
		s.reader.open = func(f *owned.File) (*os.File, error) {
			if f.Owner.UID == 1001 {
				<-hang
			}
			return f.Open()
		}
		at := s.now
		stamp := func(name string) { // the times of files are not those of the test
			t.Helper()
			s.do(os.Chtimes(s.path(name), at, at))
		}
		for i := range 3 {
			s.append("aaa/0.log", retryExceeded)
			s.append("job/0.log", watchdog)
			stamp("aaa/0.log")
			stamp("job/0.log")
			begun := time.Now()
			v := s.expect("the other", count(timeout, uint64(i+1)))
			if v.Shortage.Most != (fabric.FileOwner{UID: 1001}) || len(v.Files) != 2 {
				t.Errorf("look %d: %+v", i, v)
			}
			if took := time.Since(begun); took > 0 != (i == 0) {
				t.Errorf("look %d waits for %s", i, took)
			}
		}
		close(hang)
		synctest.Wait()
		if v := s.expect("all", map[string]uint64{timeout: 3, retries: 3}); v.Shortage.Any() {
			t.Errorf("%+v", v.Shortage)
		}
	})
}

// A reload makes another Reader. The read that the one before it began is still the only one of the files of
// that owner.
func TestReloadWhileALogHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tenants(t)
		s.expect("nothing", map[string]uint64{})
		hang := make(chan struct{})
		inFlight, most := 0, 0
		open := func(f *owned.File) (*os.File, error) {
			if f.Owner.UID == 1001 {
				inFlight++
				most = max(most, inFlight)
				<-hang
				inFlight--
			}
			return f.Open()
		}
		for i := range 5 {
			s.reader = s.another()
			s.reader.open = open
			for _, name := range []string{"aaa/0.log", "job/0.log"} {
				s.append(name, watchdog)
				s.do(os.Chtimes(s.path(name), s.now, s.now)) // the times of files are not those of the test
			}
			if v := s.read(); i > 0 && v.Shortage.Most != (fabric.FileOwner{UID: 1001}) {
				t.Errorf("reload %d: %+v", i, v.Shortage)
			}
		}
		if most != 1 {
			t.Errorf("%d reads at once of files that hang, expected one", most)
		}
		close(hang)
		synctest.Wait()
		if v := s.read(); v.Shortage.Any() {
			t.Errorf("after the read returned: %+v", v.Shortage)
		}
	})
}

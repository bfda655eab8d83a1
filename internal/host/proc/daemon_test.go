// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

const limitsHeader = "Limit                     Soft Limit           Hard Limit           Units     \n"

func limitsRow(soft, hard string) string {
	return limitsHeader + fmt.Sprintf("%-25s %-20s %-20s %-10s\n", "Max locked memory", soft, hard, "bytes") + "Max nice priority         0                    0                              \n"
}

func process(files map[string]string, pid, user int, name, soft, hard string) {
	dir := strconv.Itoa(pid)
	files[dir+"/comm"] = name + "\n"
	files[dir+"/status"] = fmt.Sprintf("Name:\t%s\nPid:\t%d\nUid:\t%[3]d\t%[3]d\t%[3]d\t%[3]d\n", name, pid, user)
	files[dir+"/limits"] = limitsRow(soft, hard)
}

func TestDaemons(t *testing.T) {
	files := map[string]string{"meminfo": "", "999/notcomm": ""}
	process(files, 1, 0, "systemd", "67108864", "67108864")
	process(files, 41, 0, "slurmd", "8388608", "unlimited")
	process(files, 77, 1000, "slurmd", "65536", "65536") // of a user
	process(files, 7, 0, "containerd", "unlimited", "unlimited")
	process(files, 8, 0, "containerd-shim", "1", "1")
	process(files, 9, 0, "slurmd", "65536", "65536") // root of a container calls itself so
	files["9/status"] += "NSpid:\t9\t1\n"
	files["41/status"] += "NSpid:\t41\n"
	f, root := open(t, files)
	d := f.Daemons()
	want := []fabric.Daemon{
		{Name: "containerd", PID: 7, Memlock: fabric.Known(fabric.Memlock{Soft: fabric.NoLimit, Hard: fabric.NoLimit}, "7/limits", now)},
		{Name: "slurmd", PID: 41, Memlock: fabric.Known(fabric.Memlock{Soft: 8388608, Hard: fabric.NoLimit}, "41/limits", now)},
	}
	if got := d.Read(now); got.State != fabric.OK || !reflect.DeepEqual(got.Value, want) {
		t.Fatalf("got %+v", got)
	}

	// A new one is found with the next search, at once if one that was known is gone.
	more := map[string]string{}
	process(more, 90, 0, "pbs_mom", "1024", "2048")
	write := func(files map[string]string) {
		t.Helper()
		for name, content := range files {
			p := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(more)
	names := func(at time.Time) (names []string) {
		for _, d := range d.Read(at).Value {
			names = append(names, d.Name+" "+strconv.Itoa(d.PID))
		}
		return names
	}
	if got := names(now.Add(time.Minute)); !reflect.DeepEqual(got, []string{"containerd 7", "slurmd 41"}) {
		t.Errorf("searched at once: %v", got)
	}
	if got := names(now.Add(time.Hour)); !reflect.DeepEqual(got, []string{"containerd 7", "pbs_mom 90", "slurmd 41"}) {
		t.Errorf("not searched after an hour: %v", got)
	}
	if err := os.RemoveAll(filepath.Join(root, "41")); err != nil {
		t.Fatal(err)
	}
	again := map[string]string{}
	process(again, 97, 0, "slurmd", "unlimited", "unlimited")
	write(again)
	if got := names(now.Add(time.Hour + time.Minute)); !reflect.DeepEqual(got, []string{"containerd 7", "pbs_mom 90", "slurmd 97"}) {
		t.Errorf("a restart was not seen: %v", got)
	}

	// A limit that cannot be read is one fact.
	if err := os.Remove(filepath.Join(root, "97/limits")); err != nil {
		t.Fatal(err)
	}
	got := d.Read(now.Add(time.Hour + 2*time.Minute)).Value
	if len(got) != 3 || got[2].Memlock.State != fabric.Unknown || got[2].Memlock.Reason != fabric.ReasonMissing {
		t.Errorf("without limits: %+v", got)
	}
}

// Where process 1 is hidden (hidepid), so are the others: the result must not be that there is none.
func TestDaemonsHidden(t *testing.T) {
	files := map[string]string{}
	process(files, 41, 0, "slurmd", "unlimited", "unlimited")
	f, _ := open(t, files)
	if got := f.Daemons().Read(now); got.State != fabric.Unknown || got.Source != "1/comm" || got.Reason != fabric.ReasonMissing {
		t.Errorf("got %+v", got) // of a copy; make systemd-test has the kernel hide processes
	}
	process(files, 1, 0, "systemd", "unlimited", "unlimited")
	for i := range 40 {
		process(files, 100+i, 0, "slurmd", "unlimited", "unlimited")
	}
	f, _ = open(t, files)
	if got := f.Daemons().Read(now); len(got.Value) != maxDaemons {
		t.Errorf("%d daemons", len(got.Value))
	}
}

func TestParseMemlock(t *testing.T) {
	for text, want := range map[string]fabric.Memlock{
		limitsRow("65536", "65536"):                    {Soft: 65536, Hard: 65536},
		limitsRow("0", "unlimited"):                    {Hard: fabric.NoLimit},
		limitsRow("unlimited", "unlimited"):            {Soft: fabric.NoLimit, Hard: fabric.NoLimit},
		limitsRow("18446744073709551614", "unlimited"): {Soft: fabric.NoLimit - 1, Hard: fabric.NoLimit},
	} {
		if got, ok := parseMemlock([]byte(text)); !ok || got != want {
			t.Errorf("%q: %+v, %t", text, got, ok)
		}
	}
	for _, text := range []string{
		"", limitsHeader, limitsRow("2", "1"), limitsRow("unlimited", "1"), limitsRow("-1", "1"), limitsRow("", "1"), limitsRow("18446744073709551615", "unlimited"),
		"Max locked memory 1 2 pages\n", "Max locked memory",
	} {
		if got, ok := parseMemlock([]byte(text)); ok {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func FuzzParseMemlock(f *testing.F) {
	for _, s := range []string{limitsRow("65536", "unlimited"), limitsHeader, "Max locked memory 1 2 bytes"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, ok := parseMemlock(b); ok && v.Soft > v.Hard || !ok && v != (fabric.Memlock{}) {
			t.Errorf("parseMemlock(%q) = %+v, %t", b, v, ok)
		}
	})
}

func BenchmarkDaemonsSearch(b *testing.B) {
	f, err := Open("/proc")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	pids, err := f.processes()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		f.Daemons().Read(now)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(pids)), "ns/process")
}

// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

var now = time.Date(2026, 11, 21, 2, 9, 0, 0, time.UTC)

// open writes files and opens the directory they are in.
func open(t *testing.T, files map[string]string) (*FS, string) {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, root
}

const (
	stat     = "cpu  1 2 3 4\nintr 5 0 0\nctxt 6\nbtime 1795226940\nprocesses 7\n"
	header   = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT      \n"
	v4eno1   = "eno1\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0      \n"
	v4half   = "tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0      \n" // 0.0.0.0/1 of a VPN
	v4subnet = "eno1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0      \n"
	v4reject = "*\t00000000\t00000000\t0200\t0\t0\t0\t00000000\t0\t0\t0      \n"
	zero     = "00000000000000000000000000000000"
	v6eno2   = zero + " 00 " + zero + " 00 fd000000000000000000000000000001 00000400 00000002 00000000 00000003     eno2\n"
	v6subnet = "fd000000000000000000000000000000 40 " + zero + " 00 " + zero + " 00000100 00000001 00000000 00000001     eno3\n"
	v6reject = zero + " 00 " + zero + " 00 " + zero + " ffffffff 00000001 00000000 00200200       lo\n"
	v6bhole  = zero + " 00 " + zero + " 00 " + zero + " ffffffff 00000001 00000000 00000201     eno4\n"
)

// What threads waited for is added up; a copy of procfs, and a kernel that does not count, have nothing.
func TestStarved(t *testing.T) {
	f, root := open(t, map[string]string{"7/task/7/schedstat": "60 1500000000 4\n", "7/task/9/schedstat": "5 500000000 1\n", "7/task/8/schedstat": "0 0"})
	if waited := f.Starved(); waited != 0 {
		t.Errorf("no process is this one, and it waited %s", waited)
	}
	if err := os.Symlink("7", filepath.Join(root, "self")); err != nil {
		t.Fatal(err)
	}
	if waited := f.Starved(); waited != 2*time.Second {
		t.Errorf("waited %s, want 2s", waited)
	}
}

func TestHost(t *testing.T) {
	f, _ := open(t, map[string]string{"stat": stat, "sys/kernel/osrelease": "6.1.0-56-amd64\n"})
	h := f.Host(fabric.Host{}, now)
	if want := fabric.Known(time.Unix(1795226940, 0), "stat", now); h.BootTime != want {
		t.Errorf("BootTime = %+v, want %+v", h.BootTime, want)
	}
	if want := fabric.Known("6.1.0-56-amd64", "sys/kernel/osrelease", now); h.Kernel != want {
		t.Errorf("Kernel = %+v, want %+v", h.Kernel, want)
	}
}

// What cannot change while the kernel runs is read until it is known; the boot time follows the clock, which
// may be set.
func TestHostIsReadOnce(t *testing.T) {
	const release = "sys/kernel/osrelease"
	f, root := open(t, map[string]string{"stat": stat, release: "6.1.0-56-amd64\n", "cpuinfo": "processor\t: 0\n"})
	h := f.Host(fabric.Host{}, now)
	for name, text := range map[string]string{"stat": "btime 1795226941\n", release: "", "cpuinfo": "flags\t\t: fpu hypervisor\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	next := f.Host(h, now.Add(time.Minute))
	if next.Kernel != h.Kernel {
		t.Errorf("Kernel = %+v, want %+v", next.Kernel, h.Kernel)
	}
	if !next.Hypervisor.Or(false) {
		t.Errorf("Hypervisor = %+v: it was not known", next.Hypervisor)
	}
	if !next.BootTime.Or(time.Time{}).Equal(time.Unix(1795226941, 0)) {
		t.Errorf("BootTime = %+v", next.BootTime)
	}
}

func TestHypervisor(t *testing.T) {
	guest := "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vme hypervisor lahf_lm\n"
	for text, want := range map[string]fabric.Fact[bool]{
		guest: fabric.Known(true, "cpuinfo", now),
		strings.Replace(guest, "hypervisor ", "", 1):     fabric.Known(false, "cpuinfo", now),
		"processor\t: 0\nFeatures\t: fp asimd evtstrm\n": fabric.UnknownFact[bool](fabric.ReasonMissing, "cpuinfo", now), // ARM
		strings.TrimSuffix(guest, "\n"):                  fabric.UnknownFact[bool](fabric.ReasonMissing, "cpuinfo", now), // cut short
		guest + strings.Repeat("x", maxSize):             fabric.Known(true, "cpuinfo", now),
		strings.Repeat("x", 16<<10) + "\n" + guest:       fabric.UnknownFact[bool](fabric.ReasonMissing, "cpuinfo", now),
	} {
		f, _ := open(t, map[string]string{"cpuinfo": text})
		if got := f.Host(fabric.Host{}, now).Hypervisor; got != want {
			t.Errorf("%.80q: %+v, want %+v", text, got, want)
		}
	}
}

func FuzzParseHypervisor(f *testing.F) {
	f.Add([]byte("flags\t\t: fpu hypervisor\n"))
	f.Fuzz(func(_ *testing.T, b []byte) { parseHypervisor(b) })
}

func TestHostUnreadable(t *testing.T) {
	for name, c := range map[string]struct {
		stat, release string
		want          fabric.Reason
	}{
		"empty":      {"", "", fabric.ReasonMalformed},
		"no btime":   {"cpu 1\n", "\n", fabric.ReasonMalformed},
		"garbage":    {"btime x\n", "a\x00b\n", fabric.ReasonMalformed},
		"binary":     {"\xff\xfe\x00", "\xff\xfe\n", fabric.ReasonMalformed},
		"negative":   {"btime -1\n", "a\tb\n", fabric.ReasonMalformed},
		"unset":      {"btime 0\n", strings.Repeat("a", 65), fabric.ReasonMalformed},
		"far future": {"btime 999999999999\n", "a\nb\n", fabric.ReasonMalformed},
		"huge":       {strings.Repeat("x\n", maxSize) + stat, strings.Repeat("a", maxSize+1), fabric.ReasonMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := open(t, map[string]string{"stat": c.stat, "sys/kernel/osrelease": c.release})
			h := f.Host(fabric.Host{}, now)
			if m := h.BootTime.Meta(); m.State != fabric.Unknown || m.Reason != c.want {
				t.Errorf("BootTime = %+v, want unknown: %s", h.BootTime, c.want)
			}
			if m := h.Kernel.Meta(); m.State != fabric.Unknown || m.Reason != c.want {
				t.Errorf("Kernel = %+v, want unknown: %s", h.Kernel, c.want)
			}
		})
	}
}

func TestHostOddFiles(t *testing.T) {
	f, root := open(t, map[string]string{"sys/kernel/other": ""})
	if r := f.Host(fabric.Host{}, now).Kernel.Reason; r != fabric.ReasonMissing {
		t.Errorf("missing file: %s", r)
	}
	if err := os.Mkdir(filepath.Join(root, "stat"), 0o755); err != nil {
		t.Fatal(err)
	}
	if r := f.Host(fabric.Host{}, now).BootTime.Reason; r != fabric.ReasonIO {
		t.Errorf("directory: %s", r)
	}
	if err := unix.Mkfifo(filepath.Join(root, "sys/kernel/osrelease"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := f.Host(fabric.Host{}, now).Kernel.Reason; r != fabric.ReasonMalformed {
		t.Errorf("fifo: %s", r)
	}
	outside := filepath.Join(t.TempDir(), "osrelease")
	if err := os.WriteFile(outside, []byte("6.1.0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(root, "sys/kernel/osrelease"))
	if err := os.Symlink(outside, filepath.Join(root, "sys/kernel/osrelease")); err != nil {
		t.Fatal(err)
	}
	if k := f.Host(fabric.Host{}, now).Kernel; k.State != fabric.Unknown {
		t.Errorf("link out of the root was followed: %+v", k)
	}
}

func TestDefaultRoutes(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"IPv4":                      {map[string]string{"1/net/route": header + v4eno1 + v4half + v4subnet, "1/net/ipv6_route": v6subnet}, []string{"eno1"}},
		"higher metric":             {map[string]string{"1/net/route": header + v4eno1 + strings.NewReplacer("eno1", "eno5", "\t100\t", "\t101\t").Replace(v4eno1)}, []string{"eno1", "-eno5"}},
		"several of IPv6":           {map[string]string{"1/net/route": header, "1/net/ipv6_route": strings.NewReplacer("eno2", "eno5", " 00000400 ", " 00000401 ").Replace(v6eno2) + v6eno2}, []string{"-eno2", "-eno5"}},
		"one IPv6 twice":            {map[string]string{"1/net/route": header, "1/net/ipv6_route": v6eno2 + strings.ReplaceAll(v6eno2, " 00000400 ", " 00000401 ")}, []string{"eno2"}},
		"IPv6 of equal metric":      {map[string]string{"1/net/route": header, "1/net/ipv6_route": v6eno2 + strings.ReplaceAll(v6eno2, "eno2", "eno5")}, []string{"-eno2", "-eno5"}},
		"several":                   {map[string]string{"1/net/route": header + v4eno1 + strings.ReplaceAll(v4eno1, "eno1", "eno5"), "1/net/ipv6_route": ""}, []string{"eno1", "eno5"}},
		"IPv6":                      {map[string]string{"1/net/route": header + v4subnet, "1/net/ipv6_route": v6subnet + v6eno2 + v6reject}, []string{"eno2"}},
		"IPv4 wins":                 {map[string]string{"1/net/route": header + v4eno1, "1/net/ipv6_route": v6eno2}, []string{"eno1"}},
		"rejecting":                 {map[string]string{"1/net/route": header + v4reject, "1/net/ipv6_route": v6reject + v6bhole}, nil},
		"kernel without IPv6":       {map[string]string{"1/net/route": header + v4subnet}, nil},
		"namespace without routes":  {map[string]string{"1/net/route": "", "1/net/ipv6_route": ""}, nil},
		"own namespace":             {map[string]string{"net/route": header + v4eno1, "net/ipv6_route": v6eno2}, []string{"eno1"}},
		"process 1 wins":            {map[string]string{"1/net/route": header + v4eno1, "net/route": header + strings.ReplaceAll(v4eno1, "eno1", "eth0")}, []string{"eno1"}},
		"strange name":              {map[string]string{"1/net/route": header + strings.ReplaceAll(v4eno1, "eno1", `"é\u2003`)}, []string{`"é\u2003`}},
		"name that is no label":     {map[string]string{"1/net/route": header + strings.ReplaceAll(v4eno1, "eno1", "e\xff")}, nil},
		"process 1 has no routes":   {map[string]string{"1/net/route": header, "net/route": header + v4eno1}, nil},
		"last line without newline": {map[string]string{"1/net/route": strings.TrimSuffix(header+v4eno1, "\n")}, []string{"eno1"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := open(t, c.files)
			got, err := f.DefaultRoutes()
			want := map[string]bool{}
			for _, n := range c.want {
				name, higher := strings.CutPrefix(n, "-")
				want[name] = !higher
			}
			if err != nil || got == nil || !maps.Equal(got, want) {
				t.Errorf("DefaultRoutes() = %v, %v, want %v", got, err, want)
			}
		})
	}
}

// A folder that is no procfs is not one without routes.
func TestNoProcfs(t *testing.T) {
	f, root := open(t, map[string]string{"something": ""})
	const says = "it has neither self nor stat"
	if routes, err := f.DefaultRoutes(); routes != nil || fabric.ReasonOf(err) != fabric.ReasonMalformed || !strings.HasPrefix(err.Error(), root) || !strings.Contains(err.Error(), says) {
		t.Errorf("%v, %v", routes, err)
	}
	write(t, root, "stat", stat)
	if routes, err := f.DefaultRoutes(); routes != nil || fabric.ReasonOf(err) != fabric.ReasonMissing {
		t.Errorf("a procfs without routes: %v, %v", routes, err)
	}
}

func TestDefaultRoutesUnreadable(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"missing":          {"stat": ""},
		"garbage":          {"net/route": "garbage\n"},
		"truncated":        {"net/route": header + v4eno1[:20]},
		"wrong metric":     {"net/route": header + strings.Replace(v4eno1, "\t100\t", "\t-1\t", 1)},
		"wrong digits":     {"net/route": header + strings.Replace(v4eno1, "0003", "00x3", 1)},
		"huge":             {"net/route": header + strings.Repeat(v4eno1, maxSize/len(v4eno1)+1)},
		"IPv6 garbage":     {"net/route": header, "net/ipv6_route": "garbage\n"},
		"IPv6 truncated":   {"net/route": header, "net/ipv6_route": v6eno2[:100]},
		"IPv6 wrong flags": {"net/route": header, "net/ipv6_route": strings.Replace(v6eno2, "00000003", "+0000003", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := open(t, files)
			got, err := f.DefaultRoutes()
			if got != nil || err == nil {
				t.Errorf("DefaultRoutes() = %v, %v, want an error", got, err)
			}
			if name == "missing" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("error %v does not say that the file is missing", err)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of a missing directory: %v", err)
	}
}

// TestKernel reads the running kernel's own procfs.
func TestKernel(t *testing.T) {
	f, err := Open("/proc")
	if err != nil {
		t.Skip("no procfs here")
	}
	defer f.Close()
	h := f.Host(fabric.Host{}, time.Now())
	if boot, ok := h.BootTime.Get(); !ok || boot.After(time.Now()) {
		t.Errorf("BootTime = %+v", h.BootTime)
	}
	if _, ok := h.Kernel.Get(); !ok {
		t.Errorf("Kernel = %+v", h.Kernel)
	}
	if routes, err := f.DefaultRoutes(); err != nil || routes == nil {
		t.Errorf("DefaultRoutes() = %v, %v", routes, err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
	"gpufabric_exporter/internal/host/sysfs"
	"gpufabric_exporter/internal/nccl/settings"
)

// TestNewFileIsCaptured: what a reader reads that nothing here knows of is in the archive, and its words are not. A new
// counter of a driver is such a file, and so is every file that a reader reports to the recorder.
func TestNewFileIsCaptured(t *testing.T) {
	tree := materialise(t, find(t, "healthy"), nil)
	device := filepath.Join(tree.Sysfs(), rdmaClass, "mlx5_0")
	files := map[string]struct{ text, want, why string }{
		"ports/1/hw_counters/made_up_counter": {"123456789012345\n", "123456789012345\n", ""},
		"ports/1/hw_counters/made_up_text":    {"acme\n", "", "of no known kind: words in it were replaced"},
		"made_up/state":                       {"acme\n", "", "of no known kind: words in it were replaced"},
		"made_up/level":                       {"42\n", "42\n", ""},
		"made_up/mode":                        {"0x1f NVIDIA auto\n", "0x1f NVIDIA auto\n", ""},
		"made_up/label":                       {"rack7-of-acme MT2413X00042\n", "", "of no known kind: words in it were replaced"},
		"made_up/asset":                       {"1321020012345\n", "", "of no known kind: words in it were replaced"},
		"made_up/blob":                        {"SN\x00\x01acme", "", "of no known kind, and no text: it is empty here"},
		"made_up/address":                     {"0c:42:a1:d3:5e:77\n", "", "of no known kind: words in it were replaced"},
	}
	for name, f := range files {
		p := filepath.Join(device, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(f.text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(tree.Sysfs())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	s := &session{o: options(tree), all: newCollection(), root: map[string]*os.Root{sysPart: root}}
	u := &unit{all: s.all}
	var reader openat.Recorder = s.tree(u, sysPart)
	for name := range files {
		p := rdmaClass + "/mlx5_0/" + name
		if strings.Contains(name, "hw_counters") {
			continue // package sysfs reads it
		}
		if err := reader.Begin(p); err != nil {
			t.Error(err)
		}
		b, err := os.ReadFile(filepath.Join(tree.Sysfs(), p))
		reader.Text(p, b, err)
	}
	err = s.recorded(u, func(sys *sysfs.FS) error {
		d, err := sys.Device("mlx5_0")
		if err != nil {
			return err
		}
		defer d.Close()
		return d.ReadOnce(&fabric.HCA{}, time.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	why := map[string]string{}
	for _, p := range c.Manifest.LeftOut {
		why[filepath.Base(p.Path)] = p.Reason
	}
	for name, f := range files {
		got, found := "", false
		for p, e := range c.entries {
			if strings.HasSuffix(p, "/infiniband/mlx5_0/"+name) {
				got, found = e.text, true
			}
		}
		if !found || f.want != "" && got != f.want || why[filepath.Base(name)] != f.why {
			t.Errorf("%s: %q (%t), %q; want %q, %q", name, got, found, why[filepath.Base(name)], f.want, f.why)
		}
		for _, secret := range []string{"acme", "rack7", "MT2413", "1321020012345", "SN", "d3:5e:77"} {
			if strings.Contains(got, secret) {
				t.Errorf("%s: %q has %q", name, got, secret)
			}
		}
	}
}

// TestUnnamedFileStays: a file of procfs or the root file system that a reader reads and that has no
// redaction is not in the archive, not even by its name, and the manifest says so. What other processes are
// called is not in it either.
func TestUnnamedFileStays(t *testing.T) {
	tree := materialise(t, find(t, "healthy"), nil)
	write(t, tree.Procfs(), map[string]string{
		"4711/environ": "AWS_SECRET_ACCESS_KEY=hunter2\x00NCCL_IB_HCA=mlx5_0\x00", "4711/comm": "train-acme\n", "4711/status": "Name:\ttrain-acme\nUid:\t1001\t1001\t1001\t1001\n",
		"4712/comm": "slurmd\n", "4712/status": "Name:\tslurmd\nUid:\t1001\t1001\t1001\t1001\n", // a user may call a process so
		"4713/comm": "slurmd\n", "4713/status": "Name:\tslurmd\nUid:\t0\t0\t0\t0\nGroups:\t1001 acme\n", "4713/limits": "Max locked memory         unlimited            unlimited            bytes     \nMax acme 1 1 bytes\n",
		"stat": "cpu 1 2 acme\nbtime 1700000000\nacme\n", "cpuinfo": "vendor_id\t: acme\nflags\t\t: fpu hypervisor\n",
	})
	write(t, tree.Rootfs(), map[string]string{"home/acme/.nccl.conf": "NCCL_DEBUG=INFO\n"})
	recorded := func(o Options, read func(*session, *unit)) (*Capture, string) {
		s := &session{o: o, all: newCollection(), root: map[string]*os.Root{}}
		for part, dir := range map[string]string{procPart: o.Procfs, rootPart: o.Rootfs} {
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			s.root[part] = root
		}
		read(s, &unit{all: s.all})
		c, err := s.finish(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c, string(decompress(t, archive(t, c)))
	}
	c, all := recorded(options(tree), func(s *session, u *unit) {
		for _, file := range []string{"4711/environ", "4711/comm", "4711/status"} {
			b, err := os.ReadFile(filepath.Join(tree.Procfs(), file))
			s.tree(u, procPart).Text(file, b, err) // as a reader does that is new
		}
		for _, err := range []error{s.daemons(u), s.procfs(host)(u)} {
			if err != nil {
				t.Error(err)
			}
		}
		r := settings.New(tree.Rootfs(), "", "/home/acme")
		r.Record(s.tree(u, rootPart))
		if _, err := r.Read(time.Now()); err != nil {
			t.Error(err)
		}
	})
	for _, secret := range []string{"acme", "hunter2", "NCCL_IB_HCA=mlx5_0\x00", "1001", "AWS"} {
		if strings.Contains(all, secret) {
			t.Errorf("has %q in it", secret)
		}
	}
	for p := range c.entries {
		if strings.HasPrefix(p, procPart+"/4711/") || strings.HasPrefix(p, procPart+"/4712/") {
			t.Errorf("has %s, of a process that starts no jobs", p)
		}
	}
	for p, want := range map[string]string{
		"proc/4713/comm": "slurmd\n", "proc/4713/status": "Uid:\t0\t0\t0\t0\n", "proc/stat": "btime 1700000000\n", "proc/cpuinfo": "flags\t\t: fpu hypervisor\n",
		"proc/4713/limits": "Max locked memory         unlimited            unlimited            bytes     \n",
	} {
		if got := c.entries[p].text; got != want {
			t.Errorf("%s: %q, want %q", p, got, want)
		}
	}
	var stayed []string
	for _, p := range c.Manifest.LeftOut {
		if p.Reason == noRule {
			stayed = append(stayed, filepath.Base(p.Path))
		}
	}
	if len(stayed) != 2 || !slices.Contains(stayed, "environ") {
		t.Errorf("%q stayed without a redaction, want environ and .nccl.conf: %+v", stayed, c.Manifest.LeftOut)
	}
}

// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/beneath"
	"gpufabric_exporter/internal/host/sysfs"
)

// TestNewFileIsCaptured: what a reader reads that nothing here knows of is in the archive, and its words are not. A new
// counter of a driver is such a file, and so is whatever a reader tells the recorder of.
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
	var reader beneath.Recorder = s.tree(u, sysPart)
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

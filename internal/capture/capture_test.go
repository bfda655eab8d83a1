// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/simulator"
)

// materialise lays a scenario out.
func materialise(t *testing.T, s simulator.Scenario, edit func(*simulator.Node)) *simulator.Tree {
	t.Helper()
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm") // thousands of small files
	}
	n := s.Build()
	if edit != nil {
		edit(n)
	}
	tree, err := n.Materialise(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func find(t *testing.T, name string) simulator.Scenario {
	t.Helper()
	s, err := simulator.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func options(tree *simulator.Tree) Options {
	return Options{Sysfs: tree.Sysfs(), Procfs: tree.Procfs(), Rootfs: tree.Rootfs(), Version: "1.2.3", limit: 5 * time.Minute}
}

func take(t *testing.T, o Options) *Capture {
	t.Helper()
	c, err := Take(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// archive returns the archive of a capture.
func archive(t *testing.T, c *Capture) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var identifying = regexp.MustCompile(`(?:[0-9a-f]{4}:){3,7}[0-9a-f]{4}|[0-9a-f]*::[0-9a-f:.]+|\d+\.\d+\.\d+\.\d+`)

// metrics returns what the exporter serves of a node, without identifiers and what depends on the moment.
func metrics(t *testing.T, sysfs, procfs, rootfs, netlink string, gpus observer.GPUs) []string {
	t.Helper()
	ob, err := observer.New(observer.Options{
		Sysfs: sysfs, Procfs: procfs, Rootfs: rootfs, Netlink: netlink, GPUs: gpus, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer ob.Close()
	var names []string
	for _, c := range collector.Collectors() {
		names = append(names, c.Name)
	}
	set, err := collector.NewSet(names)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var lines []string
	for _, family := range set.Gather(ob.Observe(ctx, set.Want()), collector.ConfigState{}) {
		f := family.Proto()
		if strings.Contains(f.GetName(), "duration") || strings.Contains(f.GetName(), "driver_commands") {
			continue
		}
		for _, m := range f.Metric {
			labels := []string{f.GetName()}
			for _, l := range m.Label {
				v := l.GetValue()
				switch l.GetName() {
				case "gid":
					v = "ID"
				case "firmware":
				default:
					v = uuids().ReplaceAllString(identifying.ReplaceAllString(v, "ID"), "UUID")
				}
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), v))
			}
			lines = append(lines, fmt.Sprint(labels, " ", m.GetGauge().GetValue(), m.GetCounter().GetValue(), m.GetUntyped().GetValue()))
		}
	}
	slices.Sort(lines)
	return lines
}

// TestReplay sees the same in a capture of each simulated platform as in the node itself, and in some that are not
// well.
func TestReplay(t *testing.T) {
	for _, s := range simulator.Scenarios() {
		if !slices.Contains([]string{"healthy", "healthy-ib", "healthy-efa", "healthy-two-port", "healthy-sriov-vf", "no-rdma", "peermem-unbound", "gpu-lost", "healthy-gb200"}, s.Name) {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			tree := materialise(t, s, nil)
			answers := answersOf(t, tree)
			o := options(tree)
			o.dial = answers.dial
			o.GPUs = func(now time.Time) (fabric.GPUDriver, error) { return tree.GPUs().Read(fabric.GPUDriver{}, true, now) }
			c := take(t, o)
			for _, p := range c.Manifest.LeftOut {
				if strings.Contains(p.Reason, "no known kind") {
					where := map[string]string{sysPart: "knownFiles of rewrite.go", procPart: "Redactions of package proc", rootPart: "Redactions of package ncclconf"}
					part, _, _ := strings.Cut(p.Path, "/")
					t.Errorf("%s is read, and %s: say in %s what of it may leave the node", p.Path, p.Reason, where[part])
				}
			}
			dir := t.TempDir()
			m, err := Unpack(bytes.NewReader(archive(t, c)), dir)
			if err != nil {
				t.Fatal(err)
			}
			if m.Files != c.Manifest.Files || m.Version != "1.2.3" || !m.Time.Equal(c.Manifest.Time) {
				t.Errorf("manifest %+v, expected %+v", m, c.Manifest)
			}
			gpus, err := ReplayGPUs(filepath.Join(dir, NetlinkFolder))
			if err != nil {
				t.Fatal(err)
			}
			was := metrics(t, tree.Sysfs(), tree.Procfs(), tree.Rootfs(), answers.folder(t), tree.GPUs())
			is := metrics(t, filepath.Join(dir, "sys"), filepath.Join(dir, "proc"), filepath.Join(dir, "root"), filepath.Join(dir, NetlinkFolder), gpus)
			for _, prefix := range []string{"[gpufabric_gpu_", "[gpufabric_nvlink_", "[gpufabric_gpudirect_", "[gpufabric_pcie_acs", "[gpufabric_roce_pfc_enabled ", "[gpufabric_ethernet_", "[gpufabric_roce_traffic_class"} {
				if s.Name == "healthy" && !slices.ContainsFunc(was, func(l string) bool { return strings.HasPrefix(l, prefix) }) {
					t.Errorf("no series begins with %s", prefix)
				}
			}
			for _, l := range lacking(is, was) {
				t.Errorf("lost: %s", l)
			}
			for _, l := range lacking(was, is) {
				t.Errorf("new:  %s", l)
			}
			if len(was) < 20 || len(was) != len(is) {
				t.Errorf("%d series, were %d", len(is), len(was))
			}
		})
	}
}

// lacking returns the lines that are in all but not in some.
func lacking(some, all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(l string) bool {
		_, found := slices.BinarySearch(some, l)
		return found
	})
}

func TestLeavesDevicesAlone(t *testing.T) {
	tree := materialise(t, find(t, "healthy"), nil)
	bridge := filepath.Join(tree.Sysfs(), "class/infiniband/mlx5_2/device/vpd")
	if err := os.WriteFile(bridge, []byte("\x82...SW_MNG..."), 0o644); err != nil {
		t.Fatal(err)
	}
	lifespans, err := filepath.Glob(filepath.Join(tree.Sysfs(), "class/infiniband/*/ports/*/hw_counters/lifespan"))
	if err != nil || len(lifespans) == 0 {
		t.Fatalf("%v, %v", lifespans, err)
	}
	for _, file := range lifespans { // after which the driver is asked again: a loaded machine takes longer than 10 ms
		if err := os.WriteFile(file, []byte("10000\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := options(tree)
	o.Devices.Exclude = regexp.MustCompile("^mlx5_0$")
	o.Policy = &fabric.Policy{Restricted: regexp.MustCompile("^mlx5_1$")}
	var read []string
	o.begin = func(p string) error {
		read = append(read, p)
		return nil
	}
	c := take(t, o)
	for i, why := range []string{"excluded by flags", "restricted by the configuration", errRestricted.Error()} {
		name := fmt.Sprintf("mlx5_%d", i)
		if slices.Contains(c.Manifest.Devices, name) || !slices.Contains(c.Manifest.LeftOut, Problem{name, why}) {
			t.Errorf("%s: devices %v, left out %v", name, c.Manifest.Devices, c.Manifest.LeftOut)
		}
		for p := range c.entries {
			if strings.Contains(p, "/"+name) {
				t.Errorf("captured %s", p)
			}
		}
	}
	for i, name := range read {
		if strings.HasSuffix(name, "/vpd") || strings.Contains(name, "counters/") && slices.Contains(read[:i], name) {
			t.Errorf("captured %s, or read it twice", name)
		}
		if strings.HasSuffix(name, "/ports/1/hw_counters/out_of_sequence") && !slices.Contains(read[:i], filepath.Dir(name)+"/rx_write_requests") {
			t.Errorf("read %s first", name)
		}
	}
}

func TestUnreadable(t *testing.T) {
	tree := materialise(t, find(t, "healthy"), nil)
	port := filepath.Join(tree.Sysfs(), "class/infiniband/mlx5_0/ports/1")
	for name, make := range map[string]func(string) error{
		"state":      func(p string) error { return os.WriteFile(p, bytes.Repeat([]byte("x"), maxAttribute+1), 0o644) },
		"phys_state": func(p string) error { return os.Remove(p) }, // nothing to note
		"link_layer": func(p string) error { return syscall.Mkfifo(p, 0o644) },
	} {
		if err := os.RemoveAll(filepath.Join(port, name)); err != nil {
			t.Fatal(err)
		}
		if err := make(filepath.Join(port, name)); err != nil && name != "phys_state" {
			t.Fatal(err)
		}
	}
	o := options(tree)
	o.begin = func(p string) error {
		if strings.HasSuffix(p, "mlx5_0/ports/1/hw_counters/rx_write_requests") {
			return &os.PathError{Op: "read", Path: p, Err: syscall.EIO}
		}
		return nil
	}
	c := take(t, o)
	var found []string
	for _, p := range c.Manifest.Errors {
		found = append(found, filepath.Base(p.Path)+": "+p.Reason)
	}
	expected := []string{"rx_write_requests: input/output error", "link_layer: not what the kernel promises", "state: not what the kernel promises"}
	if !slices.Equal(found, expected) {
		t.Errorf("errors %q, expected %q", found, expected)
	}
	for p, e := range c.entries {
		if strings.Contains(p, "mlx5_0/ports/1/hw_counters/") && !strings.HasSuffix(p, "lifespan") && e.text != "" {
			t.Errorf("read %s after a refusal", p)
		}
	}
}

// TestHang lets one device hang: what was read before stays, and so do all other devices.
func TestHang(t *testing.T) {
	tree := materialise(t, find(t, "healthy"), nil)
	o := options(tree)
	o.limit = 5 * time.Second
	block := make(chan struct{})
	defer close(block)
	o.begin = func(p string) error {
		if strings.HasSuffix(p, "mlx5_3/ports/1/rate") {
			<-block
		}
		return nil
	}
	c := take(t, o)
	if len(c.Manifest.Devices) != 11 || len(c.Manifest.LeftOut) != 1 {
		t.Fatalf("%+v", c.Manifest)
	}
	if p := c.Manifest.LeftOut[0]; p.Path != "mlx5_3" || !strings.Contains(p.Reason, "no answer within 5s from sys/class/") || !strings.Contains(p.Reason, "/rate;") {
		t.Errorf("%+v", p)
	}
	has := func(suffix string) bool {
		for p := range c.entries {
			if strings.HasSuffix(p, suffix) {
				return true
			}
		}
		return false
	}
	if !has("mlx5_3/ports/1/state") || has("mlx5_3/ports/1/gids/0") || !has("mlx5_4/ports/1/gids/0") {
		t.Error("expected what was read before the hang, and the other devices")
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Take(ctx, o); err == nil {
		t.Error("took a capture after its context had ended")
	}
}

func TestLimits(t *testing.T) {
	c := newCollection()
	for i := range maxFiles + 5 {
		c.put(strconv.Itoa(i), entry{kind: regular})
	}
	if len(c.entries) != maxFiles || len(c.leftOut) != 1 {
		t.Errorf("%d files, left out %v", len(c.entries), c.leftOut)
	}
	c = newCollection()
	for i := range 3 {
		c.put(strconv.Itoa(i), entry{kind: regular, text: strings.Repeat("x", maxBytes/2)})
	}
	if len(c.entries) != 2 || len(c.leftOut) != 1 {
		t.Errorf("%d files, left out %v", len(c.entries), c.leftOut)
	}
	if (&unit{all: c}).begin("x") {
		t.Error("reads on when it is full")
	}
}

func TestNoSuchRoot(t *testing.T) {
	if _, err := Take(t.Context(), Options{Sysfs: "/nosuch", Procfs: "/nosuch", Rootfs: "/nosuch"}); err == nil {
		t.Error("no error")
	}
}

// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func materialise(t testing.TB, n *Node) *Tree {
	t.Helper()
	tree, err := n.Materialise(filepath.Join(scratch(t), "node"))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// scratch is a directory in memory where there is one: a tree is thousands of small files, and some file
// systems are slow to create many of them.
func scratch(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "simulator")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func read(t testing.TB, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Error(err)
	}
	return strings.TrimRight(string(b), "\n")
}

// onDisk reads a tree back.
func onDisk(t *testing.T, tree *Tree) files {
	t.Helper()
	f := files{}
	err := filepath.WalkDir(tree.dir, func(file string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(tree.dir, file)
		switch {
		case err != nil || name == ".":
			return err
		case d.IsDir():
			f.dir(name)
		case d.Type() == fs.ModeSymlink:
			to, err := os.Readlink(file)
			f[name] = entry{kind: link, text: to}
			return err
		default:
			f.text(name, read(t, file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// trimmed forgets by how many newlines a text ends, as a reader does.
func (f files) trimmed() files {
	for name, e := range f {
		if e.kind == regular {
			f.text(name, strings.TrimRight(e.text, "\n"))
		}
	}
	return f
}

// sameAs fails the test unless the tree holds what the node says.
func sameAs(t *testing.T, tree *Tree, n *Node) {
	t.Helper()
	if ch := onDisk(t, tree).to(n.layout().trimmed()); len(ch.removed)+len(ch.added)+len(ch.changed) > 0 {
		t.Errorf("what is on disk is not the node: %s", summary(ch))
	}
}

// small is a node with a quarter of the files, for tests that need a tree, but not a whole one.
func small() *Node {
	n := healthyNode(h100)
	for _, name := range []string{"mlx5_1", "mlx5_2", "mlx5_3", "mlx5_6", "mlx5_7", "mlx5_8", "mlx5_9"} {
		n.Unplug(name)
	}
	for i := range n.HCAs {
		n.HCAs[i].Ports[0].GIDSlots = 8
	}
	return n
}

func TestTreesAreComplete(t *testing.T) {
	for _, p := range platforms() {
		n := p.build()
		for i := range n.HCAs {
			for k := range n.HCAs[i].Ports {
				if port := &n.HCAs[i].Ports[k]; p.name != "dgx-h100-roce" {
					port.GIDSlots = min(port.GIDSlots, 16) // more would only take time
				}
			}
		}
		tree := materialise(t, n)
		sameAs(t, tree, n)
		for name, want := range textsOnDisk()[p.name] {
			if got := read(t, tree.dir, name); got != want {
				t.Errorf("%s: %s: %q, want %q", p.name, name, got, want)
			}
		}
		for _, h := range n.HCAs {
			dev := filepath.Join(tree.Sysfs(), "class/infiniband", h.Name)
			names := []string{
				"node_guid", "fw_ver", "device/numa_node", "device/driver/" + h.PCI, "device/infiniband/" + h.Name,
				"ports/1/state", "ports/1/gids/0", "ports/1/gid_attrs/ndevs", "ports/1/pkeys/0",
			}
			if h.Aux.Name != "" {
				names = append(names, "device/"+h.Aux.Name+"/driver/"+h.Aux.Name)
			}
			for _, name := range names {
				if _, err := os.Stat(filepath.Join(dev, name)); err != nil {
					t.Error(err)
				}
			}
			for _, p := range h.Ports {
				port := filepath.Join(dev, "ports", strconv.Itoa(p.Number))
				if gids, _ := os.ReadDir(filepath.Join(port, "gids")); len(gids) != p.GIDSlots {
					t.Errorf("%s: %d GID files", h.Name, len(gids))
				}
				if types, err := os.ReadDir(filepath.Join(port, "gid_attrs/types")); err != nil || len(types) != len(p.GIDs) {
					t.Errorf("%s: %d GID types: %v", h.Name, len(types), err)
				}
				if _, err := os.Stat(filepath.Join(dev, "device/net", p.NetDev)); err != nil && p.LinkLayer != Unspecified && !strings.HasPrefix(h.Name, "mlx5_bond") {
					t.Error(err)
				}
			}
		}
	}
}

func TestLinksStayInSys(t *testing.T) {
	for _, s := range Scenarios() {
		f := built(t, s).layout()
		for name, e := range f {
			if e.kind != link {
				continue
			}
			to := path.Join(path.Dir(name), e.text)
			if target, ok := f[to]; !ok || target.kind != directory || !strings.HasPrefix(to, "sys/") {
				t.Errorf("%s: %s leads to %s", s.Name, name, to)
			}
		}
		if _, ok := f["sys/class/infiniband"]; ok == (s.Name == "no-rdma") {
			t.Errorf("%s: the RDMA class is there: %t", s.Name, ok)
		}
	}
}

// textsOnDisk are samples of what the trees of platforms hold, by path below their directory.
func textsOnDisk() map[string]map[string]string {
	return map[string]map[string]string{
		"dgx-h100-roce": {
			"sys/class/infiniband/mlx5_0/ports/1/rate":                   "400 Gb/sec (4X NDR)",
			"sys/class/infiniband/mlx5_0/ports/1/gids/3":                 "0000:0000:0000:0000:0000:ffff:0a64:0011",
			"sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/3":      "RoCE v2",
			"sys/class/infiniband/mlx5_0/ports/1/hw_counters/lifespan":   "12",
			"sys/class/infiniband/mlx5_0/node_desc":                      "dgx-h100-17 mlx5_0",
			"sys/class/infiniband/mlx5_bond_0/ports/1/gid_attrs/ndevs/3": "bond0",
			"sys/class/infiniband/mlx5_9/sys_image_guid":                 "a088:c203:0071:06ac",
			"sys/class/infiniband/mlx5_9/device/sriov_totalvfs":          "16",
			"sys/bus/pci/devices/0000:1b:00.0/class":                     "0x030200",
			"sys/bus/pci/devices/0000:16:00.0/class":                     "0x060400",
			"sys/class/net/enp24s0np0/device/vendor":                     "0x15b3",
			"sys/class/net/enp41s0f1np1/master/speed":                    "400000",
			"sys/class/net/bond0/lower_enp41s0f0np0/flags":               "0x1803",
			"sys/class/net/lo/type":                                      "772",
			"proc/sys/kernel/osrelease":                                  "6.8.0-1030-nvidia",
		},
		"dgx-a100-ib": {
			"sys/class/infiniband/mlx5_0/ports/1/lid":    "0x45",
			"sys/class/infiniband/mlx5_0/ports/1/gids/0": "fe80:0000:0000:0000:0c42:a103:0055:62a2",
			"sys/class/net/ibp12s0/type":                 "32",
		},
		"bnxt-roce": {
			"sys/class/infiniband/bnxt_re0/hca_type":                     "Broadcom NetXtreme-C/E RoCE Driver HCA",
			"sys/class/infiniband/bnxt_re0/node_guid":                    "8616:0cff:fe2a:1040",
			"sys/class/infiniband/bnxt_re0/ports/1/hw_counters/lifespan": "10",
		},
		"irdma-roce": {
			"sys/class/infiniband/rocep138s0f1/sys_image_guid":            "b696:91ff:fed2:6e41",
			"sys/class/infiniband/rocep138s0f1/ports/1/lid":               "0x1",
			"sys/class/infiniband/rocep138s0f1/ports/1/gid_attrs/types/1": "RoCE v2",
			"sys/class/net/enp138s0f1/device/ice.roce.1/../device":        "0x1592",
		},
		"efa": {
			"sys/class/infiniband/rdmap79s0/node_type":                              "7: unspecified",
			"sys/class/infiniband/rdmap79s0/node_guid":                              "0000:0000:0000:0000",
			"sys/class/infiniband/rdmap201s0/ports/1/link_layer":                    "Unknown",
			"sys/class/infiniband/rdmap201s0/ports/1/lid_mask_count":                "1",
			"sys/class/infiniband/rdmap201s0/hw_counters/keep_alive_rcvd":           "1209600",
			"sys/class/infiniband/rdmap201s0/ports/1/hw_counters/rx_drops":          "0",
			"sys/class/infiniband/rdmap201s0/device/infiniband/../vendor":           "0x1d0f",
			"sys/bus/pci/drivers/efa/0000:c9:00.0/infiniband/../current_link_width": "8",
		},
		"mana": {
			"sys/class/infiniband/mana_0/fw_ver":           "",
			"sys/class/infiniband/mana_0/device/numa_node": "-1",
			"sys/bus/pci/devices/7870:00:00.0/device":      "0x00ba",
		},
		"two-port": {
			"sys/class/infiniband/mlx4_0/device/net/enp97s0/dev_port":   "0",
			"sys/class/infiniband/mlx4_0/device/net/enp97s0d1/dev_port": "1",
			"sys/class/infiniband/mlx4_0/ports/1/gid_attrs/ndevs/3":     "enp97s0",
			"sys/class/infiniband/mlx4_0/ports/2/gid_attrs/ndevs/3":     "enp97s0d1",
			"sys/class/infiniband/mlx4_0/hw_counters/lifespan":          "12",
		},
	}
}

func TestRoutesAndFiles(t *testing.T) {
	f := healthyNode(h100).layout()
	if got := f["proc/1/net/route"].text; !strings.Contains(got, "bond0\t00000000\t0100000A\t0003") {
		t.Errorf("route %q", got)
	}
	if got := f["root/"+ncclConf].text; !strings.Contains(got, "NCCL_IB_TC=106\n") {
		t.Errorf("nccl.conf %q", got)
	}
}

func TestMaterialiseRefusesWhatIsNotEmpty(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := healthyNode(h100).Materialise(dir); err == nil || !strings.HasSuffix(err.Error(), "is not empty") {
		t.Errorf("a directory with a file: %v", err)
	}
	if _, err := healthyNode(h100).Materialise(precious); err == nil {
		t.Error("a file: no error")
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 || read(t, precious) != "data" {
		t.Errorf("it left %v", left)
	}
}

// endsAfter is a context that ends when it was looked at so many times.
type endsAfter struct {
	context.Context
	looks int
}

func (c *endsAfter) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// A node of many ports has tens of thousands of files: what ends meanwhile does not wait for the rest.
func TestMaterialiseEndsBetweenFiles(t *testing.T) {
	dir := filepath.Join(scratch(t), "node")
	if _, err := healthyNode(h100).MaterialiseContext(&endsAfter{t.Context(), 100}, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	found := -1 // the folder itself
	if err := filepath.WalkDir(dir, func(string, fs.DirEntry, error) error { found++; return nil }); err != nil || found != 100 {
		t.Errorf("%d files, want 100; %v", found, err)
	}
}

func TestSet(t *testing.T) {
	tree := materialise(t, small())
	const file = "sys/class/infiniband/mlx5_0/ports/1/state"
	open, err := os.Open(filepath.Join(tree.dir, file))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	for _, want := range []string{"1: DOWN", "5: ACTIVE_DEFER", "x", "", "4: ACTIVE\n"} {
		if err := tree.Set(file, want); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 64)
		n, _ := open.ReadAt(buf, 0)
		if got := string(buf[:n]); strings.TrimSpace(got) != strings.TrimSpace(want) || !strings.HasSuffix(got, "\n") {
			t.Errorf("the open file reads %q, want %q", got, want)
		}
	}
	if err := tree.Set("sys/class/infiniband/mlx5_0/ports/1/stat", "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
	for _, outside := range []string{"../victim", tree.dir + "/" + file, "sys/class", "sys/class/infiniband/../../../../victim"} {
		if err := tree.Set(outside, "x"); err == nil {
			t.Errorf("Set(%q) worked", outside)
		}
	}
	// A text that was set stays until the node moves that very file.
	if err := errors.Join(tree.Set(file, "2: INIT"), tree.Step(3)); err != nil || read(t, tree.dir, file) != "2: INIT" {
		t.Errorf("after a step: %q, %v", read(t, tree.dir, file), err)
	}
}

// TestReadersWhileTheTreeMoves reads through a descriptor kept open while another goroutine writes. A read in
// the very nanoseconds of a write may see parts of two texts (see overwrite); the next one must not.
func TestReadersWhileTheTreeMoves(t *testing.T) {
	tree := materialise(t, small())
	for file, texts := range map[string][]string{
		"sys/class/infiniband/mlx5_0/ports/1/state": {"4: ACTIVE", "1: DOWN"},
		"sys/class/infiniband/mlx5_0/ports/1/rate":  {"400 Gb/sec (4X NDR)", "40 Gb/sec (4X QDR)", "10 Gb/sec (4X SDR)"},
		"sys/class/net/enp24s0np0/speed":            {"400000", "-1"},
	} {
		open, err := os.Open(filepath.Join(tree.dir, file))
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		written := make(chan error, 1)
		go func() {
			var err error
			for i := range 500 {
				err = errors.Join(err, tree.Set(file, texts[i%len(texts)]))
			}
			written <- err
		}()
		buf := make([]byte, 4096)
		reads, torn, again := 0, 0, false
		for done := false; !done; reads++ {
			select {
			case err := <-written:
				if err != nil {
					t.Error(err)
				}
				done = true
			default:
			}
			n, _ := open.ReadAt(buf, 0)
			switch got := strings.TrimRight(string(buf[:n]), "\n"); {
			case got == "":
				t.Fatalf("%s: empty", file)
			case slices.Contains(texts, got):
				again = false
			case again:
				t.Fatalf("%s reads %q twice", file, got)
			default:
				again, torn = true, torn+1
			}
		}
		t.Logf("%s: %d reads, %d overlapped a write", file, reads, torn)
	}
}

func BenchmarkMaterialise(b *testing.B) {
	for _, p := range platforms() {
		b.Run(p.name, func(b *testing.B) {
			n := p.build()
			for b.Loop() {
				tree := materialise(b, n)
				b.ReportMetric(float64(len(tree.current)), "files")
			}
		})
	}
}

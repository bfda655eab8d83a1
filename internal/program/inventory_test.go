// SPDX-License-Identifier: Apache-2.0

package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
)

// inventoried runs check on a tree, with a memory in dir.
func inventoried(t *testing.T, tree *simulator.Tree, dir string, args ...string) (int, string) {
	t.Helper()
	var out commandtest.Output
	args = append([]string{
		"check", "--log.level=warn", "--path.sysfs=" + tree.Sysfs(), "--path.procfs=" + tree.Procfs(), "--path.rootfs=" + tree.Rootfs(), "--only=hardware",
	}, args...)
	code := run(t, Options{Site: site.Site{
		Config: site.Config{Default: dir + "/nosuch.yml"}, Inventory: filepath.Join(dir, "inventory.json"),
	}}, &out, &out, args...)
	return code, out.String()
}

func treeOf(t *testing.T, scenario string) *simulator.Tree {
	t.Helper()
	s, err := simulator.Find(scenario)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := s.Build().Materialise(commandtest.Memory(t))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// A node that has less than when it was looked at before is no all-clear: a GPU that left the bus leaves no
// trace over a reboot.
func TestInventory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "inventory.json")
	whole, without := treeOf(t, "healthy"), treeOf(t, "no-rdma")
	if code, out := inventoried(t, whole, dir); code != command.OK {
		t.Fatalf("first: exit code %d\n%s", code, out)
	}
	info, err := os.Stat(file)
	if err != nil || info.Size() > 4096 {
		t.Fatalf("the inventory: %v, %v", info, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("the folder has %v (%v)", left, err)
	}
	first, _ := os.ReadFile(file)
	for range 2 { // and it stays so
		code, out := inventoried(t, without, dir)
		if code != command.Failure || !strings.Contains(out, "The node has 0 PCI functions with an RDMA device of their own or of their bond; at ") || !strings.Contains(out, " it had 12 (record of this node), including 0000:") || !strings.Contains(out, "on purpose, remove "+file) {
			t.Errorf("without RDMA devices: exit code %d\n%s", code, out)
		}
	}
	if now, _ := os.ReadFile(file); string(now) != string(first) {
		t.Errorf("what is missing was forgotten:\n%s", now)
	}

	gpu := treeOf(t, "healthy")
	links, err := filepath.Glob(gpu.Sysfs() + "/bus/pci/devices/0000:1b:00.0")
	if err != nil || len(links) != 1 {
		t.Fatalf("%v, %v", links, err)
	}
	target, err := filepath.EvalSymlinks(links[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(target); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(links[0]); err != nil {
		t.Fatal(err)
	}
	if code, out := inventoried(t, gpu, dir); code != command.Failure || !strings.Contains(out, "The node has 7 GPUs; at ") || !strings.Contains(out, "it had 8 (record of this node), including 0000:1b:00.0.") || !strings.Contains(out, "check --accept=0000:1b:00.0, as the user") {
		t.Errorf("without a GPU: exit code %d\n%s", code, out)
	}
	p := start(t, Options{Site: site.Site{Inventory: file}}, "--path.sysfs="+gpu.Sysfs(), "--path.procfs="+gpu.Procfs(), "--path.rootfs="+gpu.Rootfs())
	_, metrics, _ := p.Get("/metrics?collect[]=check")
	commandtest.Contains(t, metrics, `gpufabric_check_failed{check="hardware",device="",pci_address="",port="",severity="critical",uuid=""} 1`)
	stated := filepath.Join(t.TempDir(), "stated.yml")
	if err := os.WriteFile(stated, []byte("expected: {gpus: 7}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := inventoried(t, gpu, dir, "--config.file="+stated); code != command.OK {
		t.Errorf("as the site says: exit code %d\n%s", code, out)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if code, out := inventoried(t, gpu, dir); code != command.OK {
			t.Errorf("after the file was removed: exit code %d\n%s", code, out)
		}
	}
}

// What is excluded is not missing, and a node that is simulated is not this one.
func TestInventoryOfAnotherView(t *testing.T) {
	dir := t.TempDir()
	tree := treeOf(t, "healthy")
	if code, out := inventoried(t, tree, dir); code != command.OK {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	if code, out := inventoried(t, tree, dir, "--collector.device-exclude=mlx5_[0-3]"); code != command.OK {
		t.Errorf("with excluded devices: exit code %d\n%s", code, out)
	}
	var out commandtest.Output
	if code := run(t, Options{Site: site.Site{Inventory: filepath.Join(dir, "inventory.json")}}, &out, &out, "check", "--scenario=healthy-cpu-node", "--only=hardware"); code != command.OK {
		t.Errorf("a simulated node: exit code %d\n%s", code, out.String())
	}
}

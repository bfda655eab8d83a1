// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/status"
)

func topologyText(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm") // thousands of small files
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	code, stdout, stderr := commandtest.Run(t, new(site.Site), New, args...)
	if code != command.OK || stderr != "" {
		t.Fatalf("%v: exit code %d: %s", args, code, stderr)
	}
	if left, _ := filepath.Glob(temp + "/*"); len(left) > 0 {
		t.Errorf("leaves %v", left)
	}
	return stdout
}

// words makes lines comparable whatever the width of their columns.
func words(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ")
	}
	return strings.Join(lines, "\n")
}

func TestTopology(t *testing.T) {
	commandtest.Contains(t, words(topologyText(t, "--scenario=healthy")),
		"GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7 mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_7 mlx5_8 mlx5_9 mlx5_bond_0 NUMA rail GPUDirect\n",
		"GPU0 X NV18 NV18 NV18 NV18 NV18 NV18 NV18 PIX NODE NODE NODE SYS SYS SYS SYS SYS SYS NODE 0 0 mlx5_0 yes dmabuf\n",
		"GPU7 NV18 NV18 NV18 NV18 NV18 NV18 NV18 X SYS SYS SYS SYS NODE NODE NODE PIX NODE NODE SYS 1 7 mlx5_7 ",
		"mlx5_8 SYS SYS SYS SYS NODE NODE NODE NODE SYS SYS SYS SYS NODE NODE NODE NODE X PIX SYS 1 storage\n",
		"PIX below one PCIe switch\n", "GPU0 is 0000:1b:00.0")
	commandtest.Contains(t, words(topologyText(t, "--scenario=healthy-ib")), "GPU0 X NV12 ", " 0 mlx5_0 ", " 1 mlx5_1 ")
	commandtest.Contains(t, words(topologyText(t, "--scenario=healthy-mana")), "GPU0 X ? ? ? ? ? ?\n", "? unknown: a hypervisor hides the hardware\n")
	commandtest.Contains(t, words(topologyText(t, "--scenario=pcie-nic-x8")), "mlx5_2 is 0000:4f:00.0; the link below 0000:4e:00.0 runs at x8 instead of x16\n")
	commandtest.Contains(t, words(topologyText(t, "--scenario=pcie-acs-on")), " 0 mlx5_0 slow acs\n", "; GPUDirect RDMA is slow: ACS redirects their traffic through the root complex, at 0000:17:03.0, 0000:17:00.0;")
	commandtest.Contains(t, words(topologyText(t, "--scenario=healthy-gb200")), "GPU0 X NV18 NV18 NV18 P2C ", "P2C through NVLink-C2C")
	commandtest.Contains(t, words(topologyText(t, "--scenario=pcie-nic-shared")), " 2 mlx5_2, shared ")
}

func TestTopologyJSON(t *testing.T) {
	var r status.Topology
	if err := json.Unmarshal([]byte(topologyText(t, "--scenario=pcie-nic-gen3", "--output=json")), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.GPUs) != 8 || len(r.NICs) != 11 || len(r.Distances) != 19*19 || r.Virtual == nil || *r.Virtual {
		t.Fatalf("%+v", r)
	}
	g := r.GPUs[5]
	if g.Name != "GPU5" || g.Class != "PIX" || g.NIC != "mlx5_5" || g.Rail == nil || *g.Rail != 5 || g.Shared || g.ACSRedirect == nil || len(g.ACSRedirect) > 0 {
		t.Errorf("%+v", g)
	}
	if nic := r.NICs[5]; len(nic.Degraded) != 1 || nic.Degraded[0] != (status.DegradedLink{Bridge: "0000:bf:00.0", Text: "8 GT/s instead of 32 GT/s"}) || nic.Role != "compute" {
		t.Errorf("%+v", nic)
	}
	if d := r.Distances[1]; d.From != "GPU0" || d.To != "GPU1" || d.Class != "NODE" || d.NVLinks == nil || *d.NVLinks != 18 || d.Write != "ok" {
		t.Errorf("%+v", d)
	}
	if err := json.Unmarshal([]byte(topologyText(t, "--scenario=healthy-mana", "--output=json")), &r); err != nil {
		t.Fatal(err)
	}
	if g := r.GPUs[0]; g.Rail != nil || g.Reason != "virtual" || g.NUMANode != nil || r.Distances[1].Reason != "virtual" || r.Distances[1].Class != "" {
		t.Errorf("%+v", r)
	}
}

// A host without any is no error, and a link that leads out costs its own function alone.
func TestTopologyOfHosts(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"sys/class", "sys/bus/pci/devices", "proc", "root"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"route", "ipv6_route"} {
		if err := os.MkdirAll(filepath.Join(dir, "proc/net"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "proc/net", f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	host := []string{"--path.sysfs=" + dir + "/sys", "--path.procfs=" + dir + "/proc", "--path.rootfs=" + dir + "/root"}
	commandtest.Contains(t, topologyText(t, host...), "The PCI bus has no GPU and no RDMA NIC.")
	commandtest.Contains(t, topologyText(t, append(host, "--output=json")...), `"gpus": []`, `"virtual_machine": null`)

	if err := os.Symlink("../../../../outside", filepath.Join(dir, "sys/bus/pci/devices/0000:99:00.0")); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := commandtest.Run(t, new(site.Site), New, host...)
	if code != command.OK {
		t.Errorf("exit code %d", code)
	}
	commandtest.Contains(t, stderr, "0000:99:00.0", `leads to \"../../../../outside\"`)

	for says, args := range map[string][]string{
		"no such file":        {"--path.sysfs=/nosuch"},
		"/nosuch":             append(host, "--config.file=/nosuch"),
		"--path.sysfs: topol": {"--scenario=healthy", "--path.sysfs=/sys"},
		"expected text or js": {"--output=xml"},
		"did you mean":        {"--scenario=helthy"},
	} {
		code, stdout, stderr := commandtest.Run(t, new(site.Site), New, args...)
		if code == command.OK {
			t.Errorf("%v: exit code 0", args)
		}
		commandtest.Contains(t, stdout+stderr, says)
	}
}

// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/simulator"
)

// rented gives everything that has a name one that says who rents the node.
func rented(n *simulator.Node) {
	is := map[string]string{"": ""}
	for i := range n.NetDevs {
		d := &n.NetDevs[i]
		switch {
		case d.Name == "lo":
			is[d.Name] = d.Name
		case strings.HasPrefix(d.Name, "bond"):
			is[d.Name] = fmt.Sprintf("tenant-acme%d", i)
		case d.VLAN.Lower != "":
			is[d.Name] = fmt.Sprintf("hca%d.acme", i)
		case strings.HasPrefix(d.Name, "ib"):
			is[d.Name] = fmt.Sprintf("ib-acme%d", i)
		default:
			is[d.Name] = fmt.Sprintf("acme-rail%d", i)
		}
	}
	for i := range n.NetDevs {
		d := &n.NetDevs[i]
		d.Name, d.Master, d.VLAN.Lower = is[d.Name], is[d.Master], is[d.VLAN.Lower]
	}
	for i := range n.Routes {
		n.Routes[i].NetDev = is[n.Routes[i].NetDev]
	}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		h.Name, h.Description = fmt.Sprintf("globex_%d", i), "globex_"+strconv.Itoa(i)+" of xtrainer-zurichx for bob"
		for k := range h.Ports {
			p := &h.Ports[k]
			p.NetDev = is[p.NetDev]
			for g := range p.GIDs {
				p.GIDs[g].NetDev = is[p.GIDs[g].NetDev]
			}
		}
	}
	n.HCAs[0].Firmware += "-acme"
	n.Host.Kernel += "-initech1"
	n.Host.DMI = simulator.DMI{Vendor: "NVIDIA", Product: "DGXH100 of trainer-zurich", AssetTag: "umbrella-4711"}
	delete(n.Files, "etc/nccl.conf")
}

const rentedConf = `NCCL_SOCKET_IFNAME=acme-
NCCL_IB_HCA=^globex_77,globex
NCCL_ACME_ENDPOINT=umbrella
NCCL_UMBRELLA=1
export NCCL_UMBRELLA2=5e:ed:c4:d3:5e:77
nccl_umbrella=3
NCCL_DEBUG_FILE=/home/bobby/umbrella.%h
NCCL_NET_PLUGIN=5eedc4d35e77
NCCL_TOPO_FILE=alice:hunter2@trainer-zurich.vault
`

// plant writes what the simulator does not have.
func plant(t *testing.T, tree *simulator.Tree) {
	t.Helper()
	for name, text := range map[string]string{
		tree.Procfs() + "/sys/kernel/hostname":                "trainer-zurich\n",
		tree.Procfs() + "/sys/kernel/domainname":              "vault.example\n",
		tree.Rootfs() + "/etc/hostname":                       "trainer-zurich.vault.example\n",
		tree.Rootfs() + "/home/bobby/umbrella/nccl.conf":      rentedConf,
		tree.Procfs() + "/1/comm":                             "umbrella-init\n",
		tree.Sysfs() + "/class/net/acme-alone/operstate":      "up\n", // in no way linked with RDMA
		tree.Sysfs() + "/class/net/acme\x1b[\x9b2J/operstate": "up\n",
		tree.Sysfs() + "/module/nvidia/version":               "580.65.06-acme\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../home/bobby/umbrella/nccl.conf", tree.Rootfs()+"/etc/nccl.conf"); err != nil {
		t.Fatal(err)
	}
}

// verdicts returns what the checks report about a node, without names.
func verdicts(t *testing.T, sysfs, procfs, rootfs, netlink string, gpus observer.GPUs) []string {
	t.Helper()
	ob, err := observer.New(observer.Options{
		Sysfs: sysfs, Procfs: procfs, Rootfs: rootfs, Netlink: netlink, GPUs: gpus, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer ob.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all []string
	for _, v := range diagnose.Run(ob.Observe(ctx, fabric.WantHCA|fabric.WantPCI|fabric.WantGPU|fabric.WantNCCL), nil) {
		all = append(all, fmt.Sprintf("%s %s %s %d", v.Check.ID, v.Status, v.Reason, v.Subject.Port))
	}
	slices.Sort(all)
	return all
}

// TestNamesAreReplaced: who rents a node, what hosts and users are called and what is set for others is in no file, no
// path, no link, no answer of the kernel and not in the manifest; and what the checks say stays.
func TestNamesAreReplaced(t *testing.T) {
	for _, scenario := range []string{"healthy", "healthy-ib", "healthy-roce-vlan", "healthy-two-port", "pfc-off"} {
		t.Run(scenario, func(t *testing.T) {
			tree := materialise(t, find(t, scenario), rented)
			plant(t, tree)
			answers := answersOf(t, tree)
			o := options(tree)
			o.dial = answers.dial
			o.Names = []string{"alice", "bob"}
			o.GPUs = func(now time.Time) (fabric.GPUDriver, error) { return tree.GPUs().Read(fabric.GPUDriver{}, true, now) }
			c := take(t, o)
			packed := archive(t, c)
			all := strings.ToLower(string(decompress(t, packed)))
			for _, secret := range []string{
				"acme", "tenant", "globex", "initech", "umbrella", "zurich", "trainer", "vault", "alice", "bobby", " bob", "hunter2", "d35e77", "5eedc4", "5e:ed:c4",
			} {
				for _, s := range []string{secret, hex.EncodeToString([]byte(secret))} {
					if i := strings.Index(all, s); i >= 0 {
						t.Errorf("%q survives: ...%q...", secret, all[max(0, i-60):min(len(all), i+60)])
					}
				}
			}
			dir := t.TempDir()
			if _, err := Unpack(bytes.NewReader(packed), dir); err != nil {
				t.Fatal(err)
			}
			gpus, err := ReplayGPUs(filepath.Join(dir, NetlinkFolder))
			if err != nil {
				t.Fatal(err)
			}
			was := verdicts(t, tree.Sysfs(), tree.Procfs(), tree.Rootfs(), answers.folder(t), tree.GPUs())
			is := verdicts(t, dir+"/sys", dir+"/proc", dir+"/root", dir+"/netlink", gpus)
			if !slices.Equal(was, is) || len(was) < 20 {
				t.Errorf("%d verdicts, lost %q, new %q", len(was), lacking(is, was), lacking(was, is))
			}
		})
	}
}

// TestDevices: names of drivers and systemd stay, all others become different ones of the same length, and what is the
// beginning of one is that of the new one.
func TestDevices(t *testing.T) {
	usualNames := []string{
		"eth0", "ens1f0np0", "enp24s0f0np0", "enP2p1s0", "eno1", "enp231s0f1np1", "enp24s0f0npf0vf3", "ib0", "ib0.8001", "ibp24s0", "ibs1", "bond0", "bond0.100", "hsn0", "lo", "docker0",
		"mlx5_0", "mlx5_bond_0", "bnxt_re0", "bnxt_re_bond0", "rdmap16s27", "rocep24s0f0", "roceo1", "irdma0", "efa_0", "hfi1_0", "rxe0", "siw0", "hns_0", "mana_0", "ionic_0",
	}
	others := []string{
		"tenant-acme0", "tenant-acme1", "acme-rail3", "acme-rail4", "hca0.acme", "Acme0", "acme0", "q0", "br-3f2a9c1b77de", "eth0acme", "local-acme", "ib-acme", "docker-acme",
		"eth\x1b[2J", "eth\x1b[2K", "eth\x9b2J", "é0", "è0", "acme-4711", "acme-4712", "aaaaaaaaaaaaaaa", "a", "enx0c42a1d35e77",
	}
	for key := range byte(20) {
		a := &anonymiser{key: [32]byte{key}}
		if !a.learn(append(slices.Clone(usualNames), others...), nil, false) {
			continue // Take chooses another key
		}
		seen := map[string]string{}
		for _, name := range usualNames {
			if got := a.device(name); got != name {
				t.Errorf("%q became %q", name, got)
			}
			seen[name] = name
		}
		for _, name := range others {
			got := a.device(name)
			if got == name || len(got) != len(name) || !isSafe(got) || seen[got] != "" {
				t.Errorf("%q became %q, as %q", name, got, seen[got])
			}
			seen[got] = name
			for _, p := range []string{"ib", "lo", "docker"} {
				if strings.HasPrefix(name, p) != strings.HasPrefix(got, p) {
					t.Errorf("to NCCL %q is not what %q is", got, name)
				}
			}
			for n := 2; n < len(name); n++ {
				if head := a.device(name[:n]); name[:n] != "ib" && !strings.HasPrefix(got, head) {
					t.Errorf("%q became %q, and its beginning %q %q", name, got, name[:n], head)
				}
			}
		}
		if a.device("tenant-acme0")[:11] != a.device("tenant-acme1")[:11] {
			t.Error("names of one tenant have different beginnings")
		}
	}
	// However unlucky, no two get one name.
	a := &anonymiser{}
	var many []string
	for c := byte(1); c < 255; c++ {
		if c != '/' {
			many = append(many, string([]byte{c}), string([]byte{'z', c}))
		}
	}
	a.learn(many, nil, true)
	seen := map[string]bool{}
	for _, is := range a.devices {
		seen[is] = true
	}
	if len(seen) != len(a.devices) {
		t.Errorf("%d names for %d", len(seen), len(a.devices))
	}
}

func TestScrub(t *testing.T) {
	a := anonymous(8, []string{"tenant-acme0", "mlx5_0"}, "trainer-zurich.vault.example", "bob", "root", "x", "")
	for _, kept := range []string{"mlx5_0", "28.39.1002 (MT_0000000838)", "bobsleigh", "NVIDIA", "root", "x"} {
		if got := a.scrub(kept); got != kept {
			t.Errorf("%q became %q", kept, got)
		}
	}
	for _, secret := range []string{"ACME", "xacmex", "Trainer-Zurich", "zurich", "bob", "at vault.example", "tenant-acme0"} {
		got := strings.ToLower(a.scrub(secret))
		for _, s := range []string{"acme", "zurich", "vault", "example", "tenant"} {
			if strings.Contains(got, s) || got == "bob" {
				t.Errorf("%q became %q", secret, got)
			}
		}
	}
}

// TestMachine: what kind of machine it is survives, and with it the profile of its platform.
func TestMachine(t *testing.T) {
	for scenario, want := range map[string]map[string]string{
		"healthy-oci-h100": {"chassis_asset_tag": "OracleCloud.com\n"},
		"healthy-efa":      {"sys_vendor": "Amazon EC2\n", "product_name": "p5.48xlarge\n"},
	} {
		dir := t.TempDir()
		if _, err := Unpack(bytes.NewReader(archive(t, take(t, options(materialise(t, find(t, scenario), nil))))), dir); err != nil {
			t.Fatal(err)
		}
		for name, text := range want {
			if got, err := os.ReadFile(filepath.Join(dir, "sys/class/dmi/id", name)); string(got) != text {
				t.Errorf("%s: %s is %q, %v", scenario, name, got, err)
			}
		}
	}
}

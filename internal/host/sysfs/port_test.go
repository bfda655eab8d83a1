// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

const mlx5Port = "devices/" + mlx5PCI + "/infiniband/mlx5_0/ports/1/"

func TestPortRoCE(t *testing.T) {
	d, _ := mlx5("mlx5_0", mlx5PCI, "hca0").device(t, "mlx5_0")
	h := all(t, d)
	p := h.Ports[0]
	known(t, "state", p.State, fabric.PortActive)
	known(t, "physical state", p.PhysState, fabric.PhysLinkUp)
	known(t, "link layer", p.LinkLayer, fabric.LinkEthernet)
	known(t, "rate", p.Rate, fabric.Rate{BytesPerSecond: 50e9, Lanes: 4, Generation: "NDR"})
	absent(t, "LID", p.LID)
	absent(t, "SM LID", p.SMLID)
	absent(t, "P_Keys", p.PKeys)
	known(t, "netdev", p.NetDev, "hca0")
	if want := "class/infiniband/mlx5_0/ports/1/state"; p.State.Source != want {
		t.Errorf("source %q, want %q", p.State.Source, want)
	}
}

func TestPortInfiniBand(t *testing.T) {
	d, _ := infiniBand("ibp35s0").device(t, "ibp35s0")
	p := all(t, d).Ports[0]
	known(t, "link layer", p.LinkLayer, fabric.LinkInfiniBand)
	known(t, "LID", p.LID, 0x1a)
	known(t, "SM LID", p.SMLID, 1)
	known(t, "P_Keys", p.PKeys, 128)
	known(t, "netdev", p.NetDev, "ib0")
}

func TestPortEFA(t *testing.T) {
	d, _ := efa("rdmap0s29").device(t, "rdmap0s29")
	h := all(t, d)
	p := h.Ports[0]
	known(t, "node type", h.NodeType, fabric.NodeUnspecified)
	known(t, "driver", h.Driver, "efa")
	unknown(t, "state", p.State, fabric.ReasonDriverConstant)
	unknown(t, "physical state", p.PhysState, fabric.ReasonDriverConstant)
	unknown(t, "rate", p.Rate, fabric.ReasonDriverConstant)
	known(t, "link layer", p.LinkLayer, fabric.LinkUnspecified)
	absent(t, "LID", p.LID)
	absent(t, "P_Keys", p.PKeys)
	absent(t, "netdev", p.NetDev)
	known(t, "GIDs", p.GIDs.Size, 1)
	if g := p.GIDs.Entries.Value; len(g) != 1 || g[0].Type != fabric.GIDOther || g[0].Family != fabric.FamilyLinkLocal {
		t.Errorf("GIDs %+v", g)
	}
}

func TestNetDevOfPort(t *testing.T) {
	const netdevs = "devices/" + mlx5PCI + "/net/"
	noGID := tree{mlx5Port + "gids/0": zeroGID, mlx5Port + "gid_attrs/ndevs/0": "!EINVAL"}
	base := mlx5("mlx5_0", mlx5PCI, "hca0")
	two := roce("100 Gb/sec (4X EDR)", gids(1)).under(strings.Replace(mlx5Port, "/1/", "/2", 1))

	for name, c := range map[string]struct {
		tree tree
		want []string // of the ports; empty: absent
	}{
		"first GID":       {base, []string{"hca0"}},
		"bond":            {base.with(tree{mlx5Port + "gid_attrs/ndevs/0": "bond0\n"}), []string{"bond0"}},
		"dev_port":        {base.with(noGID), []string{"hca0"}},
		"dev_port of two": {base.with(noGID, two, tree{netdevs + "aaa/dev_port": "1\n"}), []string{"hca0", "aaa"}},
		"dev_id":          {base.with(noGID, two, tree{netdevs + "ib1/dev_port": "0\n", netdevs + "ib1/dev_id": "0x1\n"}), []string{"hca0", "ib1"}},
		"none fits":       {base.with(noGID, tree{netdevs + "hca0/dev_port": "3\n", netdevs + "hca0/dev_id": "0x3\n"}), []string{""}},
		"rxe":             {rxe("mlx5_0", 8), []string{"rdma0"}},
		"odd parent":      {rxe("mlx5_0", 8).with(tree{"devices/virtual/infiniband/mlx5_0/parent": "!EINVAL"}), []string{"rdma0"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := c.tree.device(t, "mlx5_0")
			h := all(t, d)
			if len(h.Ports) != len(c.want) {
				t.Fatalf("%d ports", len(h.Ports))
			}
			for i, want := range c.want {
				if want == "" {
					absent(t, "netdev", h.Ports[i].NetDev)
				} else {
					known(t, "netdev", h.Ports[i].NetDev, want)
				}
			}
		})
	}

	stranger := noGID.with(tree{netdevs + "hca0/dev_port": "7\n", netdevs + "hca0/dev_id": "0x7\n"})
	for name, c := range map[string]struct {
		files tree
		want  fabric.Reason
	}{
		"GID":      {stranger.with(tree{mlx5Port + "gid_attrs/ndevs/0": "!EIO"}), fabric.ReasonIO},
		"name":     {stranger.with(tree{mlx5Port + "gid_attrs/ndevs/0": "a b\n"}), fabric.ReasonMalformed},
		"parent":   {stranger.with(tree{"devices/" + mlx5PCI + "/infiniband/mlx5_0/parent": "!EIO"}), fabric.ReasonIO},
		"dev_port": {stranger.with(tree{netdevs + "hca0/dev_port": "!EIO", netdevs + "hca0/dev_id": "0x7\n"}), fabric.ReasonIO},
	} {
		t.Run("unreadable "+name, func(t *testing.T) {
			d, _ := base.with(c.files).device(t, "mlx5_0")
			unknown(t, "netdev", all(t, d).Ports[0].NetDev, c.want)
		})
	}
}

func TestNetDevOfSIW(t *testing.T) {
	d, _ := siw("siw9").device(t, "siw9")
	unknown(t, "netdev", all(t, d).Ports[0].NetDev, fabric.ReasonMissing)
}

// TestLinkDown: drivers invent a rate for a port without link.
func TestLinkDown(t *testing.T) {
	d, root := mlx5("mlx5_0", mlx5PCI, "hca0").device(t, "mlx5_0")
	h := all(t, d)
	p := &h.Ports[0]
	set := func(state, phys, rate string) {
		tree{"state": state, "phys_state": phys, "rate": rate}.write(t, filepath.Join(root, mlx5Port))
	}

	set("1: DOWN\n", "3: Disabled\n", "40 Gb/sec (4X QDR)\n")
	must(t, d.ReadPorts(&h, now))
	known(t, "state", p.State, fabric.PortDown)
	known(t, "physical state", p.PhysState, fabric.PhysDisabled)
	absent(t, "rate", p.Rate)
	must(t, d.ReadPortDetails(&h, now))
	absent(t, "rate", p.Rate)

	set("4: ACTIVE\n", "5: LinkUp\n", "200 Gb/sec (2X NDR)\n")
	must(t, d.ReadPorts(&h, now))
	known(t, "rate after the link came up", p.Rate, fabric.Rate{BytesPerSecond: 25e9, Lanes: 2, Generation: "NDR"})

	set("4: ACTIVE\n", "5: LinkUp\n", "100 Gb/sec (4X EDR)\n")
	must(t, d.ReadPorts(&h, now))
	known(t, "rate between slow reads", p.Rate, fabric.Rate{BytesPerSecond: 25e9, Lanes: 2, Generation: "NDR"})
	must(t, d.ReadPortDetails(&h, now))
	known(t, "rate", p.Rate, fabric.Rate{BytesPerSecond: 12.5e9, Lanes: 4, Generation: "EDR"})

	set("4: ACTIVE\n", "<unknown>\n", "100 Gb/sec (4X EDR)\n")
	must(t, d.ReadPorts(&h, now))
	unknown(t, "physical state", p.PhysState, fabric.ReasonMalformed)
	unknown(t, "rate", p.Rate, fabric.ReasonMalformed)
}

// TestOneUnreadableFile breaks every attribute of a device in every way and checks that one fact is lost.
func TestOneUnreadableFile(t *testing.T) {
	const device = "devices/" + mlx5PCI + "/infiniband/mlx5_0/"
	type facts map[string]fabric.Meta
	read := func(t *testing.T, d *Device) facts {
		h := all(t, d)
		p := h.Ports[0]
		return facts{
			"node_type": h.NodeType.Meta(), "fw_ver": h.Firmware.Meta(), "board_id": h.BoardID.Meta(), "hca_type": h.Type.Meta(),
			"hw_rev": h.Revision.Meta(), "node_guid": h.NodeGUID.Meta(), "sys_image_guid": h.ImageGUID.Meta(),
			"driver": h.Driver.Meta(), "pci": h.PCI.Meta(), "numa": h.NUMANode.Meta(), "function": h.Function.Meta(),
			"restricted": h.Restricted.Meta(), "ports/1/state": p.State.Meta(), "ports/1/phys_state": p.PhysState.Meta(),
			"ports/1/link_layer": p.LinkLayer.Meta(), "ports/1/rate": p.Rate.Meta(), "ports/1/lid": p.LID.Meta(),
			"ports/1/sm_lid": p.SMLID.Meta(), "pkeys": p.PKeys.Meta(), "netdev": p.NetDev.Meta(), "size": p.GIDs.Size.Meta(),
			"ports/1/gids/3": p.GIDs.Entries.Meta(),
		}
	}
	// What else follows from a fact: without physical state no rate, without link layer no LID.
	follows := map[string][]string{"ports/1/phys_state": {"ports/1/rate"}, "ports/1/link_layer": {"ports/1/lid", "ports/1/sm_lid", "pkeys"}}
	base := infiniBand("mlx5_0").with(gids(8, [3]string{"fe80::", "", ""}).under(device + "ports/1")).
		with(tree{device + "ports/1/gids/0": "fe80:0000:0000:0000:b8ce:f603:0012:3456\n"})

	for damage, c := range map[string]struct {
		spoil func(file string)
		want  fabric.Reason
	}{
		"garbage":   {func(f string) { must(t, os.WriteFile(f, []byte("g\x01rb\x7fge\n"), 0o644)) }, fabric.ReasonMalformed},
		"binary":    {func(f string) { must(t, os.WriteFile(f, []byte{0xff, 0xfe, 0, 1}, 0o644)) }, fabric.ReasonMalformed},
		"huge":      {func(f string) { must(t, os.WriteFile(f, make([]byte, 10<<20), 0o644)) }, fabric.ReasonMalformed},
		"one page":  {func(f string) { must(t, os.WriteFile(f, []byte(strings.Repeat("1", pageSize)), 0o644)) }, fabric.ReasonMalformed},
		"directory": {func(f string) { must(t, os.Remove(f)); must(t, os.Mkdir(f, 0o755)) }, fabric.ReasonIO},
		"fifo":      {func(f string) { must(t, os.Remove(f)); mkfifo(t, f) }, fabric.ReasonMalformed},
		"link":      {func(f string) { must(t, os.Remove(f)); must(t, os.Symlink("node_desc", f)) }, fabric.ReasonIO},
		"EIO":       {func(f string) { must(t, os.WriteFile(f, []byte("!EIO"), 0o644)) }, fabric.ReasonIO},
		"EACCES":    {func(f string) { must(t, os.WriteFile(f, []byte("!EACCES"), 0o644)) }, fabric.ReasonPrivilege},
		"EPERM":     {func(f string) { must(t, os.WriteFile(f, []byte("!EPERM"), 0o644)) }, fabric.ReasonPrivilege},
		"ENXIO":     {func(f string) { must(t, os.WriteFile(f, []byte("!ENXIO"), 0o644)) }, fabric.ReasonGone},
		"EOPNOTSUP": {func(f string) { must(t, os.WriteFile(f, []byte("!EOPNOTSUPP"), 0o644)) }, fabric.ReasonUnsupported},
	} {
		t.Run(damage, func(t *testing.T) {
			d, root := base.device(t, "mlx5_0")
			healthy := read(t, d)
			d.Close()
			for file := range healthy {
				p := filepath.Join(root, device, file)
				before, err := os.ReadFile(p)
				if err != nil {
					continue // a fact that does not come from one attribute of the device
				}
				c.spoil(p)
				d, err := d.fs.Device("mlx5_0")
				must(t, err)
				got := read(t, d)
				d.Close()
				if m := got[file]; m.State != fabric.Unknown || m.Reason != c.want {
					t.Errorf("%s: %+v, want unknown: %s", file, m, c.want)
				}
				delete(got, file)
				for _, other := range follows[file] {
					if got[other].State == fabric.OK {
						t.Errorf("%s is unknown but %s is not", file, other)
					}
					delete(got, other)
				}
				for other, m := range got {
					if m != healthy[other] {
						t.Errorf("%s broke %s: %+v", file, other, m)
					}
				}
				must(t, os.RemoveAll(p))
				must(t, os.WriteFile(p, before, 0o644))
			}
		})
	}
}

func TestEmptyAndTruncated(t *testing.T) {
	d, _ := mlx5("mlx5_0", mlx5PCI, "hca0").with(tree{
		mlx5Port + "state": "", mlx5Port + "rate": "400 Gb/se", mlx5Port + "link_layer": "Ether",
	}).device(t, "mlx5_0")
	p := all(t, d).Ports[0]
	unknown(t, "state", p.State, fabric.ReasonMalformed)
	unknown(t, "rate", p.Rate, fabric.ReasonMalformed)
	unknown(t, "link layer", p.LinkLayer, fabric.ReasonMalformed)
	unknown(t, "LID", p.LID, fabric.ReasonMalformed)
	known(t, "physical state", p.PhysState, fabric.PhysLinkUp)
}

func TestMissingPort(t *testing.T) {
	d, root := mlx5("mlx5_0", mlx5PCI, "hca0").device(t, "mlx5_0")
	h := all(t, d)
	must(t, os.RemoveAll(filepath.Join(root, "devices", mlx5PCI, "infiniband/mlx5_0/ports/1")))
	wantGone(t, "ReadPorts", d.ReadPorts(&h, now)) // a device does not lose ports
	unknown(t, "state", h.Ports[0].State, fabric.ReasonGone)
	wantGone(t, "Identify", d.Identify(&h, false, now))
}

// TestRealMode checks the permission bits of files, which root ignores.
func TestRealMode(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root ignores permission bits; TestOneUnreadableFile has EACCES and EPERM from the read itself")
	}
	d, root := mlx5("mlx5_0", mlx5PCI, "hca0").device(t, "mlx5_0")
	must(t, os.Chmod(filepath.Join(root, mlx5Port, "state"), 0))
	must(t, os.Chmod(filepath.Join(root, "devices", mlx5PCI, "vpd"), 0))
	h := all(t, d)
	unknown(t, "state", h.Ports[0].State, fabric.ReasonPrivilege)
	unknown(t, "restricted", h.Restricted, fabric.ReasonPrivilege)
	known(t, "physical state", h.Ports[0].PhysState, fabric.PhysLinkUp)
}

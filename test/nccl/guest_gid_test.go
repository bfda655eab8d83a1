// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/sysfs"
	"gpufabric_exporter/internal/nccl/settings"
)

// tables are the GID tables of rxe0, by what is done to its interfaces, and undone.
var tables = []struct {
	name, do, undo string
	settings       []string // between blanks
}{
	{
		name: "link-local, IPv4, IPv6 and VLAN",
		settings: []string{
			"", "NCCL_IB_ADDR_FAMILY=AF_INET6", "NCCL_IB_GID_INDEX=0", "NCCL_IB_GID_INDEX=200", "NCCL_IB_ADDR_RANGE=10.0.100.0/24", "NCCL_IB_ADDR_RANGE=192.168.0.0/16",
			"NCCL_IB_ADDR_RANGE=10.0.100.0/33", "NCCL_IB_ADDR_FAMILY=AF_INET6 NCCL_IB_ADDR_RANGE=fd00::/16", "NCCL_IB_ROCE_VERSION_NUM=1",
		},
	},
	{
		name:     "the address behind holes and the VLAN",
		do:       "ip addr del 10.0.0.10/24 dev rdma0; ip addr add 10.0.9.1/32 dev rdma0; ip addr add 10.0.0.10/24 dev rdma0; ip addr del 10.0.9.1/32 dev rdma0",
		undo:     "ip addr del 10.0.0.10/24 dev rdma0; ip addr add 10.0.0.10/24 dev rdma0",
		settings: []string{"", "NCCL_IB_ADDR_RANGE=10.0.0.0/24"},
	},
	{
		name:     "no IPv4",
		do:       "ip addr flush dev rdma0 scope global; ip link set rdma0.100 down; ip -6 addr add fd00::10/64 dev rdma0 nodad",
		undo:     "ip addr add 10.0.0.10/24 dev rdma0; ip link set rdma0.100 up",
		settings: []string{"", "NCCL_IB_ADDR_FAMILY=AF_INET6"},
	},
	{
		name: "versions 1 and 2", // Soft-RoCE has no version 1: what the kernel says of two entries is replaced
		do: `cd /sys/class/infiniband/rxe0/ports/1/gid_attrs; mkdir /run/types; cat types/0 >/dev/null
			for i in $(seq 0 255); do cat types/$i >/run/types/$i 2>/dev/null; done; echo 'IB/RoCE v1' >/run/types/1; echo 'IB/RoCE v1' >/run/types/2; mount --bind /run/types types`,
		undo:     "umount /sys/class/infiniband/rxe0/ports/1/gid_attrs/types; rm -r /run/types",
		settings: []string{"", "NCCL_IB_ROCE_VERSION_NUM=1", "NCCL_IB_ADDR_FAMILY=AF_INET6 NCCL_IB_ROCE_VERSION_NUM=1"},
	},
}

var chosenGID = regexp.MustCompile(` GID (\d+) \(`)

// TestGuestGIDs holds our choice of a GID against the one with which NCCL makes its queue pairs.
func TestGuestGIDs(t *testing.T) {
	n := newGuest(t)
	for _, table := range tables {
		t.Run(table.name, func(t *testing.T) {
			n.sh(t, "true; "+table.do)
			time.Sleep(time.Second) // the kernel follows
			defer n.sh(t, "true; "+table.undo)
			entries, size := gidTable(t)
			t.Logf("%d slots: %v", size, entries)
			each(t, func(t *testing.T, r rig) {
				for _, set := range table.settings {
					want, ok := fabric.SelectGID(fabric.NodeCA, fabric.LinkEthernet, size, entries, configured(t, set))
					if have := gidUsed(t, n, r, set); !ok || have != want.Index {
						t.Errorf("%q: NCCL %s takes GID %d, we say %d: %s", set, r.release, have, want.Index, want.Why)
					}
				}
			})
		})
	}
}

// gidTable returns the GIDs of rxe0 as the exporter reads them, and how many slots there are.
func gidTable(t *testing.T) ([]fabric.GID, int) {
	t.Helper()
	f, err := sysfs.Open("/sys")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := f.Device("rxe0")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	h, now := fabric.HCA{Name: "rxe0"}, time.Now()
	for _, read := range []func(*fabric.HCA, time.Time) error{d.ReadOnce, d.ReadPorts, d.ReadPortDetails, d.ScanGIDs, d.ReadGIDs} {
		if err := read(&h, now); err != nil {
			t.Fatal(err)
		}
	}
	if len(h.Ports) != 1 {
		t.Fatalf("rxe0 has %d ports", len(h.Ports))
	}
	g := h.Ports[0].GIDs
	entries, ok := g.Entries.Get()
	if !ok || len(entries) < 2 {
		t.Fatalf("GIDs of rxe0: %+v", g)
	}
	return entries, g.Size.Or(0)
}

// configured returns the configuration of a process with these settings.
func configured(t *testing.T, set string) *fabric.NCCLConfig {
	t.Helper()
	root := t.TempDir()
	text := strings.Join(append(strings.Fields(set), "#"), "\n")
	if err := os.WriteFile(filepath.Join(root, "environment"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := settings.New(root, "environment", "/root").Read(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

// gidUsed returns the GID of rxe0 with which NCCL makes its queue pairs.
func gidUsed(t *testing.T, n *node, r rig, set string) int {
	t.Helper()
	ranks := n.job(t, r, 1, append(append(small, "NCCL_DEBUG_SUBSYS=INIT,NET"), strings.Fields(set)...), rails...)
	line := said(t, ranks[0], " GID ")
	for _, p := range ranks {
		p.Kill()
		<-p.done
	}
	m := chosenGID.FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("NCCL says %s", line)
	}
	index, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", line, err))
	}
	return index
}

// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// nics is a node with devices of these numbers, by which their place and GUID are known.
func nics(at time.Time, numbers ...int) *fabric.Node {
	n := nodeWith(8, at)
	n.Policy = &fabric.Policy{}
	for _, i := range numbers {
		n.HCAs = append(n.HCAs, fabric.HCA{
			Name: fmt.Sprint("mlx5_", i), PCI: fabric.Known(fmt.Sprintf("0000:%02x:00.0", i), "device", at),
			NodeGUID: fabric.Known(fmt.Sprintf("a088:c203:0041:%04x", i), "node_guid", at),
		})
	}
	return n
}

// A record that is not one of this node is said and counts for nothing: a node that never had more is not
// short of it. A node that lost most of its cards is still the same, and a clock that is set back hides no
// loss.
func TestTrust(t *testing.T) {
	eight := []int{0, 1, 2, 3, 4, 5, 6, 7}
	file := func(edit func(path string) error) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := edit(path); err != nil {
				t.Skipf("skipped: %v", err)
			}
		}
	}
	content := func(edit func(h *hardware)) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			h, err := readFile(path)
			if err != nil {
				t.Fatal(err)
			}
			edit(&h)
			data, err := h.encode()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	text := func(edit func(string) string) func(*testing.T, string) {
		return file(func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, []byte(edit(string(data))), 0o644)
		})
	}
	for name, c := range map[string]struct {
		edit func(t *testing.T, file string)
		now  []int
		used bool
		says string // in the log
		// untimed: the clock was wrong when the record was written, so that it has hardware, and no time of it.
		untimed bool
	}{
		"as it was":                        {now: eight},
		"lost one":                         {now: eight[1:], used: true},
		"lost all but one that was down":   {now: []int{7}, used: true},
		"most cards exchanged":             {now: []int{11, 12, 13, 14, 15}, says: "that of another node"},
		"another node with fewer":          {now: []int{11, 12}, says: "the record of hardware begins anew"},
		"some exchanged":                   {now: []int{0, 1, 2, 13}, used: true},
		"in the future":                    {edit: content(func(h *hardware) { h.Devices.Seen = begin.Add(48 * time.Hour).Unix() }), now: eight[1:], used: true, untimed: true},
		"before the clock was set":         {edit: content(func(h *hardware) { h.Devices.Seen = 1000 }), now: eight[1:], used: true, untimed: true},
		"another version":                  {edit: text(func(s string) string { return strings.Replace(s, `"version":1`, `"version":2`, 1) }), now: eight[1:], says: "version 2, expected 1"},
		"cut short":                        {edit: text(func(s string) string { return s[:len(s)/2] }), now: eight[1:], says: "not an inventory"},
		"empty":                            {edit: text(func(string) string { return "" }), now: eight[1:], says: "not an inventory"},
		"a digit changed":                  {edit: text(func(s string) string { return strings.Replace(s, "0000:03", "0000:08", 1) }), now: eight[1:], says: "checksum"},
		"a device twice":                   {edit: content(func(h *hardware) { h.Devices.Items[0] = h.Devices.Items[1] }), now: eight[1:], says: "contradicts itself"},
		"a port twice":                     {edit: content(func(h *hardware) { h.Ports = []port{{PCI: "a"}, {PCI: "a"}} }), now: eight[1:], says: "contradicts itself"},
		"an address of another family":     {edit: content(func(h *hardware) { h.Ports = []port{{IPv4: &address{Addr: netip.IPv6Loopback()}}} }), now: eight[1:], says: "contradicts itself"},
		"a span that ends before it began": {edit: content(func(h *hardware) { h.Ports = []port{{span: span{2, 1}}} }), now: eight[1:], says: "out of range"},
		"a file of another user":           {edit: file(func(p string) error { return os.Chown(p, 65534, 65534) }), now: eight[1:], says: "the owner of its folder"},
		"a file for the group":             {edit: file(func(p string) error { return os.Chmod(p, 0o664) }), now: eight[1:], says: "the owner of its folder"},
		"a folder for the group":           {edit: file(func(p string) error { return os.Chmod(filepath.Dir(p), 0o775) }), now: eight[1:], says: "only its owner can write to"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "inventory.json")
			see := func(log *slog.Logger, numbers []int) (n *fabric.Node) {
				synctest.Test(t, func(*testing.T) {
					m := Open(path, "", log)
					defer m.Close()
					n = m.Update(nics(begin, numbers...))
				})
				return n
			}
			see(slog.New(slog.DiscardHandler), eight)
			if c.edit != nil {
				c.edit(t, path)
			}
			var said strings.Builder
			n := see(slog.New(slog.NewTextHandler(&said, nil)), c.now)
			if (len(n.Remembered) > 0) != c.used || !strings.Contains(said.String(), c.says) || c.says == "" && said.Len() > 0 {
				t.Errorf("missing %+v, said %q", n.Remembered, &said)
			}
			if c.used && n.Remembered[0].Seen.IsZero() != c.untimed {
				t.Errorf("seen %s", n.Remembered[0].Seen)
			}
			if (c.says != "") != strings.Contains(n.Unrecorded, "is not used, because it") {
				t.Errorf("unrecorded: %q", n.Unrecorded)
			}
		})
	}
}

// Cards that are exchanged one after the other leave the record that of the same node.
func TestExchangedOverTime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "inventory.json")
	at, guids := begin, []int{0, 1, 2}
	for round := range 4 {
		if round > 0 {
			guids[round-1] += 16
		}
		synctest.Test(t, func(t *testing.T) {
			var said strings.Builder
			m := Open(file, "", slog.New(slog.NewTextHandler(&said, nil)))
			defer m.Close()
			for range 3 {
				at = at.Add(settled)
				n := nics(at, 0, 1, 2)
				for i := range n.HCAs {
					n.HCAs[i].NodeGUID.Value = fmt.Sprintf("a088:c203:0041:%04x", guids[i])
					n.HCAs[i].Ports = []fabric.Port{{Number: 1, State: fabric.Known(fabric.PortActive, "state", at)}}
				}
				m.Update(n)
				synctest.Wait()
			}
			if strings.Contains(said.String(), "another node") {
				t.Errorf("round %d: %s", round, &said)
			}
		})
	}
}

// A clock that is set late makes no long time of a short one.
func TestClockJumps(t *testing.T) {
	var s span
	for _, at := range []time.Time{begin, begin.Add(time.Minute), begin.Add(1000 * time.Hour), begin.Add(1000*time.Hour + time.Minute)} {
		if s.Last == 0 {
			s = span{at.Unix(), at.Unix()}
		}
		if s.extend(at.Unix()); s.counts() {
			t.Errorf("at %s a minute counts", at)
		}
	}
	s.extend(begin.Unix())
	if s.counts() || s.Last != begin.Unix() {
		t.Errorf("set back: %+v", s)
	}
}

// What nobody would notice is said: where there is no folder, and where the disk is new at each start.
func TestUnrecorded(t *testing.T) {
	dir := t.TempDir()
	for _, step := range []struct{ file, boot, want string }{
		{"none/inventory.json", "a", "is not used, because there is no folder " + dir + "/none"},
		{"inventory.json", "a", "There is no record of this node from before it was started"},
		{"inventory.json", "a", "There is no record of this node from before it was started"},
		{"inventory.json", "b", ""},
		{"inventory.json", "", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := Open(filepath.Join(dir, step.file), step.boot, slog.New(slog.DiscardHandler))
			defer m.Close()
			got := m.Update(nodeWith(8, begin)).Unrecorded
			if !strings.Contains(got, step.want) || (got == "") != (step.want == "") {
				t.Errorf("%+v: got %q", step, got)
			}
		})
	}
}

// A folder that Kubernetes made for root is none for the pod of another user: check says who may write the
// record, as the log does.
func TestUnrecordedInFolderOfAnother(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Skipf("skipped: needs root: %v", err)
	}
	for _, boot := range []string{"a", ""} {
		m := Open(filepath.Join(dir, "inventory.json"), boot, slog.New(slog.DiscardHandler))
		got := m.Update(nodeWith(8, begin)).Unrecorded
		m.Close()
		if !strings.Contains(got, "There is no record of this node") || !strings.Contains(got, "and user 0 may write none, because the folder belongs to user 65534") {
			t.Errorf("boot %q: %q", boot, got)
		}
	}
}

// An address that a port had should be there; which one it is may change, and a bond gives it to its active member.
func TestRecordOfAddresses(t *testing.T) {
	v4 := func(address string) func(*fabric.Node) *fabric.Node {
		return func(n *fabric.Node) *fabric.Node {
			var list []fabric.GID
			for _, g := range n.HCAs[1].Ports[0].GIDs.Entries.Value {
				if g.Family == fabric.FamilyIPv4 && address == "" {
					continue
				}
				if g.Family == fabric.FamilyIPv4 {
					g.Addr = netip.MustParseAddr(address)
				}
				list = append(list, g)
			}
			n.HCAs[1].Ports[0].GIDs.Entries.Value = list
			n.Derive()
			return n
		}
	}
	lost := v4("")
	for name, c := range map[string]struct {
		before []func(*fabric.Node) *fabric.Node
		now    func(*fabric.Node) *fabric.Node
		want   string
	}{
		"lost":               {now: lost, want: "it had 10.0.1.1 until 2026-11-22 13:10 UTC (record of this node)"},
		"another one, later": {before: []func(*fabric.Node) *fabric.Node{v4("::ffff:10.9.9.9")}, now: lost, want: "it had 10.9.9.9 until 2026-11-22 13:15 UTC (record of this node)"},
		"changed":            {now: v4("::ffff:10.9.9.9")},
		"in a bond": {now: func(n *fabric.Node) *fabric.Node {
			n.NetDevs[1].Upper = fabric.Known("bond0", "upper", n.At)
			return lost(n)
		}},
		"no IPv4 wanted": {now: func(n *fabric.Node) *fabric.Node {
			n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_ADDR_FAMILY", Value: "AF_INET6", Source: "/etc/nccl.conf:1"}}
			return lost(n)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, r *running) {
				for _, b := range c.before {
					r.see(b)
				}
				p := r.see(c.now).HCAs[1].Ports[0]
				if p.Address.Words != c.want || (p.Address.By == fabric.ByRecord) != (c.want != "") {
					t.Errorf("got %+v", p.Address)
				}
			})
		})
	}
}

// Virtual functions may have another GUID after each start. They do not make the record that of another node.
func TestVirtualFunctionsTellNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inventory.json")
	see := func(start int, cards ...int) (n *fabric.Node) {
		synctest.Test(t, func(*testing.T) {
			m := Open(path, "", slog.New(slog.DiscardHandler))
			defer m.Close()
			with := nics(begin, cards...)
			for i := range 16 {
				address := fmt.Sprintf("0000:%02x:00.%d", i/2, 1+i%2)
				with.HCAs = append(with.HCAs, fabric.HCA{
					Name: fmt.Sprint("mlx5_", 20+i), PCI: fabric.Known(address, "device", begin), Function: fabric.Known(fabric.FunctionVF, "physfn", begin),
					NodeGUID: fabric.Known(fmt.Sprintf("b088:c203:%04x:%04x", start, i), "node_guid", begin),
				})
				f := fabric.PCIFunction{Address: address, Kind: fabric.PCINIC, PF: fabric.Known(fmt.Sprintf("0000:%02x:00.0", i/2), "physfn", begin)}
				with.PCI.Functions = append(with.PCI.Functions, f)
			}
			n = m.Update(with)
		})
		return n
	}
	see(1, 0, 1, 2, 3, 4, 5, 6, 7)
	if n := see(2, 0, 1, 2, 3, 4, 5, 6); len(n.Remembered) != 1 {
		t.Errorf("missing %+v, unrecorded %q", n.Remembered, n.Unrecorded)
	}
}

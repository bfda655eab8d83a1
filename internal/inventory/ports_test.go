// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
)

// rails is a healthy node with two ports that nobody saw before, and of which nobody states anything.
func rails(at time.Time) *fabric.Node {
	n := fabrictest.Healthy()
	n.At, n.Policy = at, &fabric.Policy{}
	for i := range n.HCAs {
		n.HCAs[i].NodeGUID = fabric.Known("a088:c203:0041:000"+string(rune('0'+i)), "node_guid", at)
		n.HCAs[i].PCI.Value = "0000:1" + string(rune('a'+i)) + ":00.0"
		n.HCAs[i].Ports[0].Seen = fabric.PortHistory{}
	}
	n.Derive()
	return n
}

func withoutLink(n *fabric.Node) *fabric.Node {
	n.HCAs[1].Ports[0].State.Value, n.HCAs[1].Ports[0].Rate = fabric.PortDown, fabric.AbsentFact[fabric.Rate]("rate", n.At)
	n.Derive()
	return n
}

// A port that had a link before a reboot should have one after it, and the rate that it had.
func TestRecordOfPorts(t *testing.T) {
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	renamed := func(n *fabric.Node) *fabric.Node {
		n.HCAs[1].Name = "rocep26s0"
		return n
	}
	for name, c := range map[string]struct {
		lasted time.Duration
		edit   func(n *fabric.Node) *fabric.Node
		file   func(t *testing.T, file string)
		link   bool
		says   string // in the log
	}{
		"an hour":                     {lasted: 70 * time.Minute, link: true},
		"five minutes":                {lasted: 5 * time.Minute},
		"renamed":                     {lasted: 70 * time.Minute, edit: renamed, link: true},
		"its card was exchanged":      {lasted: 70 * time.Minute, edit: func(n *fabric.Node) *fabric.Node { n.HCAs[1].NodeGUID.Value = "b8:1"; return n }},
		"its card is in another slot": {lasted: 70 * time.Minute, link: true, edit: func(n *fabric.Node) *fabric.Node { n.HCAs[1].PCI.Value = "0000:77:00.0"; return n }},
		"the disk of another node": {lasted: 70 * time.Minute, edit: func(n *fabric.Node) *fabric.Node {
			n.HCAs[0].NodeGUID.Value, n.HCAs[1].NodeGUID.Value = "b8:0", "b8:1"
			return n
		}, says: "that of another node"},
		"damaged": {lasted: 70 * time.Minute, file: func(t *testing.T, file string) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(strings.Replace(string(text), "a088", "a089", 1)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, says: "checksum"},
		"removed": {lasted: 70 * time.Minute, file: func(_ *testing.T, file string) { _ = os.Remove(file) }},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "inventory.json")
			var said strings.Builder
			synctest.Test(t, func(t *testing.T) {
				m := Open(file, "", slog.New(slog.DiscardHandler))
				for at := begin; !at.After(begin.Add(c.lasted)); at = at.Add(5 * time.Minute) {
					m.Update(rails(at))
					synctest.Wait()
				}
				m.Close()
			})
			if c.file != nil {
				c.file(t, file)
			}
			synctest.Test(t, func(t *testing.T) {
				m := Open(file, "", slog.New(slog.NewTextHandler(&said, nil)))
				defer m.Close()
				n := withoutLink(rails(begin.Add(2 * time.Hour)))
				if c.edit != nil {
					n = c.edit(n)
				}
				p := m.Update(n).HCAs[1].Ports[0]
				if p.Link.Value != c.link || c.link != (p.Link.By == fabric.ByRecord) || c.link != (p.ExpectedRate.Or(0) == 50e9 && p.RateBy == fabric.ByRecord) {
					t.Errorf("%+v, rate %+v by %s", p.Link, p.ExpectedRate, p.RateBy)
				}
				if c.link && p.Link.Words != "it had a link until 2026-11-22 13:10 UTC (record of this node)" {
					t.Errorf("%q", p.Link.Words)
				}
				if c.link && !p.Seen.Since.Equal(begin) {
					t.Errorf("since %s", p.Seen.Since)
				}
				if n.HCAs[1].Ports[0].Seen.Active {
					t.Error("the node that was given has changed")
				}
			})
			if !strings.Contains(said.String(), c.says) {
				t.Errorf("said %q", &said)
			}
		})
	}
}

// A port that has its link all the time has had it since the record began, not only since this process did;
// what follows from expectations is not derived anew for that.
func TestRecordSince(t *testing.T) {
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	file := filepath.Join(t.TempDir(), "inventory.json")
	up := func(at time.Time) *fabric.Node {
		n := rails(at)
		for i := range n.HCAs {
			n.HCAs[i].Ports[0].State.At = at
			n.HCAs[i].Ports[0].Remember()
		}
		n.Derive()
		return n
	}
	for _, c := range []struct{ at, since time.Time }{
		{begin, begin},
		{begin.Add(time.Hour), begin.Add(time.Hour)}, // the record had it once
		{begin.Add(2 * time.Hour), begin},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := Open(file, "", slog.New(slog.DiscardHandler))
			defer m.Close()
			n := up(c.at)
			if got := m.Update(n).HCAs[0].Ports[0].Seen.Since; !got.Equal(c.since) {
				t.Errorf("at %s since %s, want %s", c.at, got, c.since)
			}
			if !n.HCAs[0].Ports[0].Seen.Since.Equal(c.at) {
				t.Error("the node that was given has changed")
			}
			synctest.Wait()
		})
	}
}

// A record of as much as it may have can be read again, and unused functions leave their place to others.
func TestFullRecord(t *testing.T) {
	long := span{Since: 1_700_000_000, Last: 1_800_000_000}
	h := hardware{}
	for i := range maxPorts {
		h.Ports = append(h.Ports, port{
			PCI: fmt.Sprintf("0000:%02x:00.0", i), GUID: "a088:c203:0041:0001", Number: 1, span: long, Rate: 50e9, Rated: long.Last,
			IPv4: &address{netip.MustParseAddr("192.168.100.100"), long}, IPv6: &address{netip.MustParseAddr("2001:db8:1111:2222:3333:4444:5555:6666"), long},
		})
		h.Cards = append(h.Cards, card{fmt.Sprintf("0000:%02x:00.0", i), "a088:c203:0041:0001"})
	}
	for i := range maxItems {
		h.Devices.Items = append(h.Devices.Items, fabric.Place(fmt.Sprintf("0000:%02x:%02x.0 rocep100s0f0v%d", i>>8, i&255, i)))
		h.GPUs.Items = append(h.GPUs.Items, fabric.Place(fmt.Sprintf("0000:%02x:%02x.0", i>>8, i&255)))
	}
	data, err := h.encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parse(data); err != nil {
		t.Error(err)
	}
	n := rails(begin)
	virtual := n.HCAs[0]
	virtual.Function.Value, n.HCAs = fabric.FunctionVF, nil
	for i := range maxPorts {
		virtual.PCI.Value, virtual.Name = fmt.Sprintf("0000:%02x:00.1", i), fmt.Sprint("mlx5_", 100+i)
		virtual.Ports = slices.Clone(virtual.Ports)
		n.HCAs = append(n.HCAs, virtual)
	}
	n.HCAs = append(n.HCAs, rails(begin).HCAs...)
	n.Policy, n.NCCL = &fabric.Policy{}, fabric.NCCLConfig{}
	for i := range n.HCAs[:maxPorts] {
		n.PCI.Functions = append(n.PCI.Functions, fabric.PCIFunction{
			Address: n.HCAs[i].PCI.Value, Kind: fabric.PCINIC, HCAs: []string{n.HCAs[i].Name}, PF: fabric.Known(n.HCAs[maxPorts].PCI.Value, "physfn", begin),
		})
	}
	n.Derive()
	h = hardware{}
	h.updatePorts(n)
	if len(h.Ports) != 2 {
		t.Errorf("%d ports", len(h.Ports))
	}
}

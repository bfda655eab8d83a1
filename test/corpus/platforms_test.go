// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/inventory"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/simulator"
)

// The ways in which what a node should have is stated, each alone.
const (
	byConfiguration = "configuration"
	byNothing       = "nothing"
	byList          = "list"
	byRecord        = "record"
	byProfile       = "profile"
)

func ways() []string { return []string{byConfiguration, byNothing, byList, byRecord, byProfile} }

// settings are what facts of roles, links and rates need: no counters.
const settings = fabric.WantHCA | fabric.WantGID | fabric.WantNCCL | fabric.WantQoS | fabric.WantPCI | fabric.WantGPU

// fault is something hard that happens to a device for training, and who can state that it should be otherwise.
type fault struct {
	name   string
	happen func(n *simulator.Node, device string)
	stated func(way string, l *simulator.Layout, p *fabric.Profile) bool
}

func faults() []fault {
	link := func(way string, l *simulator.Layout, p *fabric.Profile) bool {
		return !l.Constant && (way == byConfiguration || way == byRecord || way == byList && l.List == "" || way == byProfile && p.Cabling.By == fabric.CabledByProvider)
	}
	return []fault{
		{"port down", func(n *simulator.Node, device string) { n.LinkDown(device) }, link},
		{"in error", func(n *simulator.Node, device string) {
			h := n.HCA(device)
			for i := range h.Ports {
				if p := &h.Ports[i]; p.LinkLayer == simulator.InfiniBand {
					p.State, p.LID, p.SMLID = "2: INIT", 0xffff, 0
				} else {
					p.State, p.PhysState = "1: DOWN", "6: LinkErrorRecovery"
				}
			}
		}, link},
		{"device gone", func(n *simulator.Node, device string) { n.Unplug(device) }, func(way string, l *simulator.Layout, p *fabric.Profile) bool {
			optional := func(e fabric.ProfileNIC) bool { return e.Optional }
			return way == byConfiguration || way == byRecord || way == byList && l.List == "" && !l.Constant ||
				way == byProfile && len(p.Rails) > 0 && !slices.ContainsFunc(p.Rails, optional)
		}},
		{"half rate", halve, func(way string, _ *simulator.Layout, p *fabric.Profile) bool {
			rated := func(e fabric.ProfileNIC) bool { return e.Gigabits > 0 }
			return way == byConfiguration || way == byRecord || way == byProfile && slices.ContainsFunc(p.Rails, rated)
		}},
		{"no GID", func(n *simulator.Node, device string) {
			for _, p := range n.HCA(device).Ports {
				n.SetAddrs(p.NetDev)
			}
		}, func(way string, _ *simulator.Layout, _ *fabric.Profile) bool {
			return way != byRecord && way != byNothing
		}},
	}
}

// applies reports whether a fault can happen on a platform and shows there.
func (f *fault) applies(l *simulator.Layout) bool {
	return f.name == "device gone" || !l.Constant && (f.name != "no GID" || l.RoCE)
}

func halve(n *simulator.Node, device string) {
	h := n.HCA(device)
	for i := range h.Ports {
		p := &h.Ports[i]
		if p.State != "4: ACTIVE" {
			continue
		}
		for _, rate := range [][2]string{{"100 Gb", "50 Gb/sec (2X EDR)"}, {"200 Gb", "100 Gb/sec (2X HDR)"}, {"400 Gb", "200 Gb/sec (2X NDR)"}, {"800 Gb", "400 Gb/sec (2X XDR)"}} {
			if strings.HasPrefix(p.Rate, rate[0]) {
				p.Rate = rate[1]
				break
			}
		}
		if d := n.NetDev(p.NetDev); d != nil {
			d.Speed /= 2
		}
	}
}

// platformOutcome is what check says of a platform in one way.
type platformOutcome struct {
	platform, fault, way string // fault is empty for the healthy node
	stated               bool   // by that way it can be stated
	traceless            bool   // where nothing is known, nothing shows it
	open                 bool   // a check cannot judge the platform, and nothing else is unknown
	outcome
}

// judgePlatforms judges each layout healthy and with every fault, in all ways.
func judgePlatforms(t *testing.T) (all []platformOutcome) {
	t.Helper()
	var mu sync.Mutex
	t.Run("platforms", func(t *testing.T) {
		for i, l := range simulator.Layouts() {
			t.Run(l.Name, func(t *testing.T) {
				t.Parallel()
				of := platformStage{stage: newStage(t), layout: &l}.judge(t, chosen(i))
				mu.Lock()
				all = append(all, of...)
				mu.Unlock()
			})
		}
	})
	slices.SortFunc(all, func(a, b platformOutcome) int { return strings.Compare(a.platform+a.fault, b.platform+b.fault) })
	return all
}

// platformStage is where the nodes of one layout are laid out.
type platformStage struct {
	*stage
	layout   *simulator.Layout
	before   func() *simulator.Node // what a record has seen; nil: the layout
	manifest *fabric.Manifest       // that the site names; nil: none
	config   string                 // what the site says beside that; the configuration of the layout goes before
}

// chosen returns two faults for the i-th platform, or with FULL=1 all of them.
func chosen(i int) []fault {
	all := faults()
	if os.Getenv("FULL") != "" {
		return all
	}
	return []fault{all[i%len(all)], all[(i+2)%len(all)]}
}

func (s platformStage) judge(t *testing.T, some []fault) (all []platformOutcome) {
	t.Helper()
	l := s.layout
	healthy := s.observe(t, byConfiguration, nil, l.Build())
	train := training(healthy)
	profile := s.observe(t, byProfile, nil, l.Build()).Profile
	tests := append([]fault{{}}, some...)
	if len(train) == 0 {
		tests = tests[:1]
	}
	for i := range tests {
		f := &tests[i]
		if f.name != "" && !f.applies(l) {
			continue
		}
		for _, way := range ways() {
			if way == byProfile && profile == nil {
				continue
			}
			n := l.Build()
			o := platformOutcome{platform: l.Name, fault: f.name, way: way, traceless: l.Hidden && f.name == "device gone"}
			if f.name != "" {
				f.happen(n, train[len(train)/2])
				o.stated = f.stated(way, l, profile)
			}
			o.outcome = outcomeOf(s.observe(t, way, train, n))
			o.open = l.Unknown != "" && !slices.ContainsFunc(o.unstated, func(one string) bool { return !strings.HasPrefix(one, l.Unknown+" ") })
			all = append(all, o)
		}
	}
	return all
}

// observe looks at a node whose expectations are stated in one way. A record has seen the healthy node an hour before.
func (s platformStage) observe(t *testing.T, way string, train []string, n *simulator.Node) (node *fabric.Node) {
	t.Helper()
	text := s.config
	switch way {
	case byConfiguration:
		text = s.layout.Config
	case byList:
		list := s.layout.List
		if list == "" {
			list = "=" + strings.Join(train, ",")
		}
		n.Files["etc/nccl.conf"] = "NCCL_IB_HCA=" + list + "\n"
	}
	site, err := config.Parse(s.layout.Name, []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if way != byProfile {
		site.Policy.Profiles = nil
	}
	site.Policy.Manifest = s.manifest
	first := n
	switch {
	case way == byRecord && s.before != nil:
		first = s.before()
	case way == byRecord:
		first = s.layout.Build()
	}
	if err := s.set(first); err != nil {
		t.Fatalf("%s: %v", s.layout.Name, err)
	}
	record := filepath.Join(t.TempDir(), "inventory.json")
	synctest.Test(t, func(t *testing.T) {
		ob, err := observer.New(observer.Options{
			Sysfs: s.tree.Sysfs(), Procfs: s.tree.Procfs(), Rootfs: s.tree.Rootfs(), Netlink: s.tree.Netlink(), Ethernet: s.tree.Ethernet(), GPUs: s.tree.GPUs(),
			Policy: site.Policy, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer ob.Close()
		if way != byRecord {
			node = ob.Observe(t.Context(), settings)
			return
		}
		m := inventory.Open(record, "", slog.New(slog.DiscardHandler))
		defer m.Close()
		m.Update(ob.Observe(t.Context(), settings))
		if err := s.set(n); err != nil {
			t.Fatalf("%s: %v", s.layout.Name, err)
		}
		time.Sleep(2 * time.Hour) // what is read seldom is read again
		node = m.Update(ob.Observe(t.Context(), settings))
	})
	return node
}

// reportPlatforms: nothing healthy has a critical finding, and is all-clear where something is stated. What
// is stated is critical if it is otherwise; where nothing is stated, no fault is an all-clear.
func reportPlatforms(t *testing.T, all []platformOutcome) {
	t.Helper()
	stated, found := 0, 0
	table := map[string]map[string]string{}
	for _, o := range all {
		name := o.platform + ": " + o.fault
		if table[name] == nil {
			table[name] = map[string]string{}
		}
		table[name][o.way] = strconv.Itoa(o.code())
		switch {
		case o.fault == "" && len(o.critical) > 0:
			t.Errorf("%s is healthy, but by %s: %v", o.platform, o.way, o.critical)
		case o.fault == "" && (o.way == byConfiguration || o.way == byList && !listTooShort(o.platform)) && o.code() != 0 && !o.open:
			t.Errorf("%s is healthy, but by %s: %v", o.platform, o.way, o.unstated)
		case o.fault == "" && o.way != byNothing && o.code() != 0: // neither a record nor a profile says that a port should have no link
			t.Logf("%s is healthy, but by %s: %v", o.platform, o.way, o.unstated)
		case o.fault != "" && o.way == byNothing && o.code() == 0 && !o.traceless:
			t.Errorf("%s with %s: all-clear where nothing is stated", o.platform, o.fault)
		case o.stated:
			stated++
			if o.code() == 1 {
				found++
			} else {
				t.Logf("%s with %s by %s: %d %v", o.platform, o.fault, o.way, o.code(), o.unstated)
			}
		}
	}
	if 100*found < 95*stated {
		t.Errorf("%d of %d stated faults are critical", found, stated)
	}
	t.Logf("%d of %d stated faults are critical", found, stated)
	var names []string
	for name := range table {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		var line strings.Builder
		fmt.Fprintf(&line, "%-45s", name)
		for _, w := range ways() {
			fmt.Fprintf(&line, " %-3s", table[name][w])
		}
		t.Log(line.String())
	}
}

// listTooShort reports whether NCCL_IB_HCA does not say enough of a platform: which ports of a device have a
// cable, or, by numbers of the kernel, that no device is gone where some GPUs have no NIC near.
func listTooShort(platform string) bool {
	return slices.Contains([]string{"b300-cx8-planes", "sr675-two-port-ib", "pcie-gpus-without-nic"}, platform)
}

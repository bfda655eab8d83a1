// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/verdict"
)

// hideable is a fact of a node that can be hidden and shown again.
type hideable struct {
	path string // with indices
	hide func(fabric.Reason)
	show func()
}

// factsOf finds every fact that is read of a node, by reflection, so that none is forgotten. What follows
// from others is left out, and so is the reading before the last, which was a fact of its own then.
func factsOf(n *fabric.Node) []hideable {
	var list []hideable
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		switch v.Kind() {
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
			}
		case reflect.Struct:
			if strings.HasPrefix(v.Type().Name(), "Fact[") {
				if v.FieldByName("State").Interface() != fabric.Unknown {
					list = append(list, hide(v, path))
				}
				walk(v.FieldByName("Value"), path)
				return
			}
			for f, field := range v.Fields() {
				if tag := f.Tag.Get("fact"); f.IsExported() && tag != "derived" && tag != "earlier" {
					walk(field, path+"."+f.Name)
				}
			}
		}
	}
	walk(reflect.ValueOf(n).Elem(), "")
	for i := range n.NCCL.Files { // what a file says goes with it
		f := &n.NCCL.Files[i]
		k := slices.IndexFunc(list, func(h hideable) bool { return h.path == fmt.Sprintf(".NCCL.Files[%d].Exists", i) })
		if k < 0 {
			continue
		}
		one, config := list[k], n.NCCL
		of := func(source string) bool { return strings.HasPrefix(source, f.Path+":") }
		list[k].hide = func(r fabric.Reason) {
			one.hide(r)
			n.NCCL.Variables = slices.DeleteFunc(slices.Clone(config.Variables), func(v fabric.NCCLVariable) bool { return of(v.Source) })
			n.NCCL.Findings = slices.DeleteFunc(slices.Clone(config.Findings), func(f fabric.NCCLFinding) bool { return of(f.Source) })
		}
		list[k].show = func() { one.show(); n.NCCL.Variables, n.NCCL.Findings = config.Variables, config.Findings }
	}
	return list
}

func hide(v reflect.Value, path string) hideable {
	was := reflect.New(v.Type()).Elem()
	was.Set(v)
	gone := reflect.New(v.Type()).Elem()
	gone.FieldByName("At").Set(v.FieldByName("At"))
	return hideable{path: path, show: func() { v.Set(was) }, hide: func(r fabric.Reason) {
		gone.FieldByName("Reason").Set(reflect.ValueOf(r))
		v.Set(gone)
	}}
}

type judgement struct {
	check   string
	subject verdict.Subject
}

// judgements are the verdicts on a node, by check and subject, and whether all is well.
func judgements(n *fabric.Node) (byKey map[judgement]verdict.Status, fine bool) {
	byKey, fine = map[judgement]verdict.Status{}, true
	for _, v := range diagnose.Run(n, nil) {
		byKey[judgement{v.Check.ID, v.Subject.Key()}] = v.Status
		fine = fine && v.Status == verdict.OK
	}
	return byKey, fine
}

// suspects are the parts of a node that verdicts which are not good are about, by the path of factsOf: one
// subject of each check.
func suspects(n *fabric.Node, before map[judgement]verdict.Status) []string {
	var list []string
	function := func(f *fabric.PCIFunction) {
		if f == nil {
			return
		}
		for i := range n.PCI.Functions {
			if a := n.PCI.Functions[i].Address; a == f.Address || slices.Contains(f.Bridges, a) {
				list = append(list, fmt.Sprintf(".PCI.Functions[%d].", i))
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(before), func(a, b judgement) int {
		return cmp.Or(strings.Compare(a.check, b.check), strings.Compare(a.subject.Device, b.subject.Device), a.subject.Port-b.subject.Port,
			strings.Compare(a.subject.GPU, b.subject.GPU))
	})
	seen := map[string]int{}
	for _, k := range keys {
		if before[k] == verdict.OK || seen[k.check] == 1 {
			continue
		}
		seen[k.check]++
		for i := range n.HCAs {
			if h := &n.HCAs[i]; h.Name == k.subject.Device {
				list = append(list, fmt.Sprintf(".HCAs[%d].", i))
				function(n.PCI.NIC(h.Name))
				for _, r := range n.PCI.Rails {
					if r.NIC == h.Name {
						function(n.PCI.Function(r.GPU))
					}
				}
				for d := range n.NetDevs {
					if slices.ContainsFunc(h.Ports, func(p fabric.Port) bool {
						chains := p.RoCE.Or(nil)
						return p.NetDev.Or("") == n.NetDevs[d].Name ||
							slices.ContainsFunc(chains, func(c fabric.RoCEChain) bool { return c.Interface == n.NetDevs[d].Name })
					}) {
						list = append(list, fmt.Sprintf(".NetDevs[%d].", d))
					}
				}
			}
		}
		for _, g := range verdict.GPUs(n) {
			if g.Subject().Key() != k.subject {
				continue
			}
			function(g.Function)
			if g.Rail != nil {
				function(n.PCI.NIC(g.Rail.NIC))
			}
			if g.Driver != nil {
				list = append(list, fmt.Sprintf(".GPUDriver.GPUs[%d].", slices.IndexFunc(n.GPUDriver.GPUs, func(o fabric.GPU) bool { return o.Index == g.Driver.Index })))
			}
		}
	}
	return list
}

// TestHiddenFactsNeverPass hides facts of every scenario that is not all well, one after the other: no failed
// or unknown verdict becomes a good one, and no node that is not well becomes one that is. It hides every
// fact of the devices, GPUs and interfaces that the verdicts are about and of the bridges above them, and of
// each kind of fact one elsewhere; counters where verdicts come from them. Each is hidden for several
// reasons: one of them in its turn, all with FULL=1, as make corpus does. What a kernel or driver does not
// offer at all, some checks are not asked for (silent): then a verdict may go, and with
// it the last that is not good; but none turns.
func TestHiddenFactsNeverPass(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: too slow under the race detector; make test runs it without")
	}
	everything := os.Getenv("FULL") != ""
	reasons := []fabric.Reason{fabric.ReasonIO, fabric.ReasonPrivilege, fabric.ReasonMissing, fabric.ReasonStuck, fabric.ReasonUnsupported}
	turn := map[string]int{}
	for i, s := range simulator.Scenarios() {
		turn[s.Name] = i
	}
	// One scenario in eight; all of them with FULL=1, as make corpus does.
	chosen := func(s simulator.Scenario) bool { return turn[s.Name]%8 == 0 || everything }
	eachScenario(t, chosen, func(t *testing.T, s simulator.Scenario, nodes []*fabric.Node) {
		hidden := turn[s.Name]
		n := nodes[len(nodes)-1]
		n.Derive()
		before, fine := judgements(n)
		if fine {
			return
		}
		counted := false
		for k, status := range before {
			c := diagnose.Find(k.check)
			counted = counted || status != verdict.OK && (c.Rate || c.ID == "counter_counts")
		}
		near, others := suspects(n, before), map[string]bool{}
		for _, f := range factsOf(n) {
			suspect := slices.ContainsFunc(near, func(p string) bool { return strings.HasPrefix(f.path, p) })
			kind := regexp.MustCompile(`\[\d+\]`).ReplaceAllString(f.path, "")
			counter := strings.Contains(f.path, "Counters") && strings.HasSuffix(f.path, "].Value")
			if counter && !counted || !suspect && others[kind] {
				continue
			}
			others[kind] = others[kind] || !suspect
			for r := range reasons {
				if !everything && r != hidden%len(reasons) || reasons[r] == fabric.ReasonMissing && strings.HasSuffix(f.path, "].TrafficClass") {
					continue // without that file the driver is not that of MLNX_OFED, and nothing goes over NCCL_IB_TC: that is knowledge
				}
				f.hide(reasons[r])
				n.Derive()
				after, fine := judgements(n)
				if fine && reasons[r] != fabric.ReasonMissing && reasons[r] != fabric.ReasonUnsupported {
					t.Errorf("hiding %s (%s) makes the node all well", f.path, reasons[r])
				}
				for k, status := range after {
					if was := before[k]; status == verdict.OK && (was == verdict.Failed || was == verdict.Unknown) {
						t.Errorf("hiding %s (%s) turns %s of %v from %s to ok", f.path, reasons[r], k.check, k.subject, was)
					}
				}
			}
			hidden++
			f.show()
		}
		n.Derive()
		if again, _ := judgements(n); !reflect.DeepEqual(again, before) {
			t.Error("what was hidden did not come back")
		}
		t.Logf("%d facts hidden", hidden-turn[s.Name])
	}, 0, later)
}

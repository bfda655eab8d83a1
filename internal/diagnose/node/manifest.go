// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// recorded is what a manifest has of one thing.
type recorded struct {
	subject verdict.Subject
	kind    string // node, device or gpu
	facts   map[string]fabric.Fact[string]
	moved   bool // the device or one of its interfaces is in another network namespace
}

func asText[T any](f fabric.Fact[T], text func(T) string) fabric.Fact[string] {
	t := fabric.Fact[string]{State: f.State, Reason: f.Reason, Source: f.Source, At: f.At}
	switch f.State {
	case fabric.OK:
		t.Value = text(f.Value)
	case fabric.Absent:
		t.Value, t.State = fabric.ManifestNone, fabric.OK
	}
	return t
}

func same(s string) string { return s }

// record lists what a manifest has of a node.
func record(n *fabric.Node) []recorded {
	away := n.Elsewhere()
	list := []recorded{{kind: "node", facts: map[string]fabric.Fact[string]{
		"gpus": asText(n.GPUs, strconv.Itoa), "gpu_driver": asText(n.GPUDriver.Version, same),
	}}}
	for _, d := range n.Host.Daemons.Or(nil) {
		list[0].facts["memlock_"+d.Name] = asText(d.Memlock,
			func(m fabric.Memlock) string { return verdict.Bytes(m.Soft) + ", at most " + verdict.Bytes(m.Hard) })
	}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		r := recorded{subject: verdict.Subject{Device: h.Name}, kind: "device", facts: map[string]fabric.Fact[string]{
			"board": asText(h.BoardID, same), "firmware": asText(h.Firmware, same), "driver": asText(h.Driver, same),
			fabric.ManifestAddress: h.PCI, fabric.ManifestFunction: asText(h.Function,
				func(f fabric.Function) string { return string(f) }),
		}}
		if !h.Part() {
			r.facts[fabric.ManifestGUID] = h.NodeGUID
		}
		r.moved = slices.ContainsFunc(away, func(a fabric.Away) bool { return a.Device == h.Name })
		for k := range h.Ports {
			p := &h.Ports[k]
			of := func(what string, f fabric.Fact[string]) { r.facts[fabric.PortKey(p, what)] = f }
			of("role", asText(p.Role, func(r fabric.Role) string { return string(r) }))
			of("rate", asText(p.Rate, func(r fabric.Rate) string { return verdict.Gigabits(r.BytesPerSecond) }))
			of("gid", asText(p.GIDChoice, func(c fabric.GIDChoice) string {
				if c.GID == nil {
					return "empty entry"
				}
				return verdict.GIDTypeName(c.GID.Type) + ", " + string(c.GID.Family)
			}))
			if d := n.NetDev(p.NetDev.Or("")); d != nil {
				of("mtu", asText(d.MTU, strconv.Itoa))
			}
			if p.LinkLayer.Or("") == fabric.LinkEthernet {
				recordQoS(n, p, of)
			}
		}
		list = append(list, r)
	}
	for _, g := range verdict.GPUs(n) {
		if g.Driver != nil {
			s := g.Subject()
			list = append(list, recorded{
				subject: s, kind: "gpu",
				facts: map[string]fabric.Fact[string]{"name": asText(g.Driver.Name, same)},
			})
		}
	}
	return list
}

// recordQoS records how the interfaces below a port treat its traffic: the port's own, or the members of its
// bond by name.
func recordQoS(n *fabric.Node, p *fabric.Port, of func(string, fabric.Fact[string])) {
	name := p.NetDev.Or("")
	for _, d := range n.Physical(name) {
		q, member := &d.QoS, ""
		if d.Name != name {
			member = "_of_" + d.Name
		}
		for _, f := range []struct {
			what string
			fact fabric.Fact[string]
		}{
			{"pfc", asText(q.PFC, func(v fabric.PFC) string { return fmt.Sprintf("0x%02x", uint8(v.Enabled)) })},
			{"trust", asText(q.Trust, func(v fabric.Trust) string { return string(v) })},
			{"dscp_map", asText(q.DSCPPriority, func(v [fabric.NumDSCP]int) string { return runs(v[:]) })},
			{"dscp_applications", asText(q.Apps, dscpApps)},
			{"ecn_notify", asText(q.NP, fabric.PriorityMask.String)},
			{"ecn_react", asText(q.RP, fabric.PriorityMask.String)},
			{"cnp_dscp", asText(q.CNPDSCP, strconv.Itoa)},
			{"cnp_priority", asText(q.CNPPriority, strconv.Itoa)},
			{"buffer_of_priority", asText(q.Buffers, func(v fabric.Buffers) string { return runs(v.OfPriority[:]) })},
			{"buffer_bytes", asText(q.Buffers, func(v fabric.Buffers) string { return runs(v.Bytes[:]) })},
			{"class_of_priority", asText(q.ETS, func(v fabric.ETS) string { return runs(v.PriorityClass[:]) })},
			{"class_bandwidth", asText(q.ETS, func(v fabric.ETS) string { return runs(v.Bandwidth[:]) })},
			{"global_pause", asText(q.Pause, func(v fabric.Pause) string { return fmt.Sprintf("rx %t, tx %t", v.Receive, v.Transmit) })},
		} {
			of(f.what+member, f.fact)
		}
	}
}

// runs shows a table of numbers.
func runs(table []int) string {
	pairs := make([][2]int, len(table))
	for i, v := range table {
		pairs[i] = [2]int{i, v}
	}
	return spans(pairs)
}

// spans shows which numbers have which value: "0-2:0 3:180000 4-7:0".
func spans(pairs [][2]int) string {
	var parts []string
	for from := 0; from < len(pairs); {
		to := from
		for to+1 < len(pairs) && pairs[to+1] == [2]int{pairs[to][0] + 1, pairs[from][1]} {
			to++
		}
		span := strconv.Itoa(pairs[from][0])
		if to > from {
			span += "-" + strconv.Itoa(pairs[to][0])
		}
		parts = append(parts, span+":"+strconv.Itoa(pairs[from][1]))
		from = to + 1
	}
	return strings.Join(parts, " ")
}

// dscpApps shows the entries of the application table that give a DSCP its priority.
func dscpApps(apps []fabric.App) string {
	var entries [][2]int
	for _, a := range apps {
		if a.Selector == fabric.AppDSCP {
			entries = append(entries, [2]int{a.Protocol, a.Priority})
		}
	}
	slices.SortFunc(entries, func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
	return cmp.Or(spans(entries), fabric.ManifestNone)
}

// NewManifest records a node. What is not known of it is left out, and not compared later.
func NewManifest(n *fabric.Node) fabric.Manifest {
	m := fabric.Manifest{
		Node: map[string]string{}, Devices: map[string]map[string]string{},
		GPUs: map[string]map[string]string{},
	}
	for _, r := range record(n) {
		values := map[string]string{}
		for name, f := range r.facts {
			if v, known := f.Get(); known {
				values[name] = v
			}
		}
		switch r.kind {
		case "device":
			m.Devices[r.subject.Device] = values
		case "gpu":
			m.GPUs[r.subject.Name] = values
		default:
			m.Node = values
		}
	}
	return m
}

// ManifestChecks returns the checks that compare the node with its manifest.
func ManifestChecks() []*verdict.Check {
	return []*verdict.Check{{
		ID: verdict.CheckManifest, Title: "The node differs from its manifest", Severity: verdict.Warning, Topic: "node",
		Scope: verdict.ScopeDevice,
		Reads: "what check --write-manifest recorded: name, board, firmware and driver of each device, role, rate, GID, MTU, PFC, trust, DSCP map, ETS, ECN, CNP, buffers and pause of its ports, " +
			"models of GPUs, the GPU driver, the memory lock limit of daemons that start jobs",
		Guard: "if the configuration (expected.manifest) or check --manifest names one",
		Modes: []verdict.Mode{{ID: "drift", Text: "The node has changed since its manifest was written."}},
		Judge: judgeManifest,
	}}
}

func judgeManifest(n *fabric.Node, v *verdict.Verdicts) {
	m := n.Policy.Manifest
	if m == nil {
		return
	}
	devices, gpus, listing := maps.Clone(m.Devices), maps.Clone(m.GPUs), n.Listing()
	for _, r := range record(n) {
		want, listed := m.Node, true
		switch r.kind {
		case "device":
			entry := listing.Entry[r.subject.Device]
			if want, listed = m.Devices[entry]; listed && entry != r.subject.Device {
				want = maps.Clone(want)
				want["name"], r.facts["name"] = entry, fabric.Known(r.subject.Device, "", n.At)
			}
			delete(devices, entry)
		case "gpu":
			want, listed = m.GPUs[r.subject.Name]
			delete(gpus, r.subject.Name)
		}
		if !listed {
			v.Failed(r.subject, verdict.Verdict{
				What: "It is not in the manifest", Evidence: "It exists on the node, but the manifest has no entry of its name.",
				Remedy: "Check what was added or renamed, or write a new manifest: check --write-manifest.",
			})
			continue
		}
		compare(r, want, v)
		if h := n.HCA(r.subject.Device); h != nil && m.Foreign(listing.Entry[h.Name], h) {
			v.List[len(v.List)-1].Evidence += " With another board, nothing that the manifest states of roles, links, rates and addresses counts here."
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(devices), fabric.NaturalOrder) {
		gone(v, verdict.Subject{Device: name}, n.ClassPresent.Meta(), n.ClassPresent.State == fabric.Unknown)
	}
	for _, name := range slices.SortedFunc(maps.Keys(gpus), fabric.NaturalOrder) {
		gone(v, verdict.Subject{GPU: name, Name: name}, n.GPUDriver.Loaded.Meta(),
			n.GPUDriver.Loaded.State == fabric.Unknown || !n.SourceUp(fabric.SourceGPU))
	}
}

func gone(v *verdict.Verdicts, s verdict.Subject, m fabric.Meta, hidden bool) {
	if hidden {
		v.Unknown(s, m.Reason, "The manifest lists it; whether the node has it is unknown.")
		return
	}
	v.Failed(s, verdict.Verdict{
		What: "The manifest lists it, but the node does not have it", Evidence: "No device of this name was found.",
		Remedy: "Look for it with lspci and dmesg -T, or write a new manifest: check --write-manifest.",
	})
}

func compare(r recorded, want map[string]string, v *verdict.Verdicts) {
	var differ, evidence []string
	var unread *fabric.Meta
	for _, name := range slices.Sorted(maps.Keys(want)) {
		f, known := r.facts[name]
		value, ok := f.Get()
		switch {
		case name == fabric.ManifestAddress, name == fabric.ManifestGUID, name == fabric.ManifestFunction:
		case known && ok && value != want[name]:
			differ = append(differ, verdict.Spaced(name))
			evidence = append(evidence, fmt.Sprintf("%s is %s, the manifest has %s", verdict.Spaced(name), value, want[name]))
		case (!known || !ok) && r.moved:
			unread = &fabric.Meta{Reason: fabric.ReasonMoved}
		case !known || !ok:
			unread = new(f.Meta())
		}
	}
	switch {
	case len(differ) > 0:
		v.Failed(r.subject, verdict.Verdict{
			What:     "Changed since the manifest: " + strings.Join(differ, ", "),
			Evidence: verdict.Sentence(strings.Join(evidence, "; ")),
			Remedy:   "Undo the change, or write a new manifest: check --write-manifest.",
		})
	case unread != nil:
		v.Unknown(r.subject, cmp.Or(unread.Reason, fabric.ReasonNotRead),
			"Some of the facts in its manifest are unknown now.")
	default:
		v.OK(r.subject)
	}
}

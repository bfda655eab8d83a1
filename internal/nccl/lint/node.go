// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/verdict"
)

// ofFile are checks of package diagnose that are about one line of the configuration of a host. Here they run on a node
// whose configuration is that of the job.
var ofFile = []string{verdict.CheckRDMAOff, verdict.CheckNCCLDevices, verdict.CheckDevicesPrefix, verdict.CheckSocket}

// ofPort are checks that are about ports, and the variable that decides.
var ofPort = map[string]string{
	verdict.CheckGID: "NCCL_IB_GID_INDEX", verdict.CheckPinnedGIDs: "NCCL_IB_GID_INDEX",
	verdict.CheckDSCP: "NCCL_IB_TC", verdict.CheckPriority: "NCCL_IB_TC", verdict.CheckPFC: "NCCL_IB_TC",
}

// judgeOnNode adds what the settings of each job of an input mean on a node.
func judgeOnNode(in Input, jobs []job, lines []Line, node *fabric.Node, version Version) {
	for _, job := range jobs {
		k := onNode{in: in, job: job, lines: lines, node: node, version: version}
		k.checks()
		k.devices()
		k.sockets()
		k.layers()
		k.level()
		k.peers()
		k.plugin()
		k.place()
	}
}

// onNode judges the settings of one job.
type onNode struct {
	in      Input
	job     job
	lines   []Line
	node    *fabric.Node
	version Version
}

func (k *onNode) add(name string, f Finding) {
	if i, ok := k.job[name]; ok {
		add(&k.lines[i], f)
	}
}

func (k *onNode) value(name string) (string, bool) {
	i, ok := k.job[name]
	if !ok || k.in.settings[i].Value == "" {
		return "", false
	}
	return k.in.settings[i].Value, true
}

// checks runs the checks of package diagnose.
func (k *onNode) checks() {
	job := k.withJob("")
	for _, v := range diagnose.Run(job, diagnose.Checks(ofFile...)) {
		v.Remedy = verdict.FilledRemedy(job, &v)
		k.verdict(v.Subject.Variable, &v, "")
	}
	before := map[string]bool{} // what fails on the node whatever the job sets
	checks := diagnose.Checks(slices.Sorted(maps.Keys(ofPort))...)
	key := func(v verdict.Verdict) string { return v.Check.ID + " " + v.Subject.String() + " " + string(v.Status) }
	without := k.node
	if k.in.host {
		without = WithVariables(k.node, nil)
	}
	for _, v := range diagnose.Run(without, checks) {
		before[key(v)] = true
	}
	// A variable of the job that cannot be judged is not approved.
	set := func(id string) bool { _, is := k.job[ofPort[id]]; return is }
	list := slices.DeleteFunc(diagnose.Run(job, checks), func(v verdict.Verdict) bool {
		return v.Status == verdict.OK || v.Status == verdict.Failed && before[key(v)] || v.Status == verdict.Unknown &&
			!set(v.Check.ID)
	})
	for _, g := range verdict.Together(list) {
		v := g.Verdict
		v.Evidence, v.Remedy = strings.Join(g.Seen(), " "), strings.Join(g.Remedies(job), " ")
		k.verdict(ofPort[v.Check.ID], &v, strings.Join(g.Subjects, ", ")+": ")
	}
}

// verdict adds a verdict of package diagnose to the line of a variable, if the job sets that.
func (k *onNode) verdict(name string, v *verdict.Verdict, subject string) {
	clause := func(sentence string) string { return strings.TrimSuffix(sentence, ".") }
	switch v.Status {
	case verdict.Failed:
		what := v.What + "."
		if v.Evidence != "" {
			what = v.What + ": " + v.Evidence
		}
		k.add(name, Finding{WrongHere, v.Check.Severity, subject + what + " " + clause(v.Consequence), clause(v.Remedy)})
	case verdict.Unknown:
		k.add(name, Finding{Undecided, verdict.Info, subject + clause(v.Evidence), ""})
	}
}

// withJob returns the node as the job sees it: its settings are above those of the host, and texts name that
// source of them.
func (k *onNode) withJob(source string) *fabric.Node {
	var list []fabric.NCCLVariable
	for name, i := range k.job {
		v, _ := settings.Describe(name)
		value := k.in.settings[i].Value
		number, ok := v.Number(value)
		list = append(list, fabric.NCCLVariable{Name: name, Value: value, Source: source, Number: number, IsNumber: ok})
	}
	for _, v := range k.node.NCCL.Variables {
		if _, set := k.job[v.Name]; !set {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b fabric.NCCLVariable) int { return strings.Compare(a.Name, b.Name) })
	return WithVariables(k.node, list)
}

// OnNode returns a node as a job with these settings sees it, and what NCCL makes of its GIDs.
func OnNode(in Input, node *fabric.Node) *fabric.Node {
	k := onNode{in: in, job: job{}, node: node}
	if jobs := follow(&in).jobs; len(jobs) > 0 {
		k.job = jobs[0].decided(&in)
	}
	return k.withJob(in.Name)
}

// WithVariables returns a node with another NCCL configuration, and what follows from it. Roles stay what
// they are, so that a job that leaves out a rail does not make it one of storage.
func WithVariables(node *fabric.Node, list []fabric.NCCLVariable) *fabric.Node {
	n := *node
	n.NCCL.Variables = list
	n.HCAs = slices.Clone(n.HCAs)
	for i := range n.HCAs {
		n.HCAs[i].Ports = slices.Clone(n.HCAs[i].Ports)
	}
	n.DeriveGIDs()
	n.DeriveRoCE()
	return &n
}

// rails names the active ports of role compute of the node that NCCL opens itself: settings of its RDMA
// transport are for no others.
func (k *onNode) rails(yield func(*fabric.HCA, *fabric.Port) bool) {
	for h, p := range k.node.ActiveCompute {
		if !h.Traits().NoVerbs && !yield(h, p) {
			return
		}
	}
}

// devices judges which rails NCCL_IB_HCA leaves out.
func (k *onNode) devices() {
	const name = "NCCL_IB_HCA"
	value, set := k.value(name)
	if !set {
		return
	}
	f := fabric.ParseNameFilter(value)
	var out []string
	taken := 0
	for h, p := range k.rails {
		if f.Takes(h.Name, p.Number) {
			taken++
		} else {
			out = append(out, h.Name)
		}
	}
	if len(out) > 0 && taken > 0 {
		k.add(name, Finding{
			WrongHere, verdict.Warning,
			fmt.Sprintf("It does not include %s, which are active compute NICs of this node: all GPUs use the remaining %d",
				strings.Join(out, ", "), taken), "name all of them, or remove the line",
		})
	}
}

// sockets judges which interfaces NCCL_SOCKET_IFNAME takes, beside there being one.
func (k *onNode) sockets() {
	const name = "NCCL_SOCKET_IFNAME"
	value, set := k.value(name)
	all, known := k.node.Interfaces.Get()
	if !set || len(value) < 2 || !known { // NCCL ignores what is shorter
		return
	}
	f := fabric.ParseNameFilter(value)
	if f.Exclude {
		return
	}
	var bridges, rails []string
	for _, i := range all {
		if !f.Takes(i.Name, -1) {
			continue
		}
		if strings.HasPrefix(i.Name, "docker") || strings.HasPrefix(i.Name, "virbr") || i.Name == "lo" {
			bridges = append(bridges, i.Name)
		}
		for h, p := range k.rails {
			if k.node.Above(i.Name, p) {
				rails = append(rails, i.Name+" ("+h.Name+")")
			}
		}
	}
	if len(bridges) > 0 {
		k.add(name, Finding{
			WrongHere, verdict.Warning, strings.Join(bridges, ", ") + ": it does not reach other nodes",
			"name the interface of the management network",
		})
	}
	if len(rails) > 0 {
		k.add(name, Finding{
			WrongHere, verdict.Info, "It takes interfaces of rails: " + strings.Join(rails, ", ") +
				". The bootstrap then depends on them, and so does TCP where NCCL falls back to it",
			"name the interface of the management network",
		})
	}
}

// layers judges settings that one link layer alone has.
func (k *onNode) layers() {
	infiniband, ethernet, tagged := 0, 0, false
	for _, p := range k.rails {
		for _, c := range p.RoCE.Or(nil) {
			tagged = tagged || c.Trust.Or("") == fabric.TrustPCP
		}
		switch p.LinkLayer.Or("") {
		case fabric.LinkInfiniBand:
			infiniband++
		case fabric.LinkEthernet:
			ethernet++
		default:
			return
		}
	}
	switch {
	case infiniband > 0 && ethernet == 0:
		const reason = "The rails of this node are InfiniBand: "
		if _, set := k.value("NCCL_IB_TC"); set {
			k.add("NCCL_IB_TC", Finding{
				Ignored, verdict.Info, reason + "NCCL gives a traffic class to RoCE alone",
				"use NCCL_IB_SL",
			})
		}
		if _, set := k.value("NCCL_IB_GID_INDEX"); set && k.version.AtLeast("2.22") {
			k.add("NCCL_IB_GID_INDEX", Finding{
				Ignored, verdict.Info, reason + "NCCL from 2.22 on does not look at it there",
				remove,
			})
		}
	case ethernet > 0 && infiniband == 0:
		if n, set := k.value("NCCL_IB_SL"); set && n != "0" && !tagged {
			k.add("NCCL_IB_SL", Finding{
				Ignored, verdict.Info,
				"The rails of this node are RoCE: a service level is no more than the priority of a VLAN tag there",
				"use NCCL_IB_TC",
			})
		}
	}
}

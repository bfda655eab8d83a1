// SPDX-License-Identifier: Apache-2.0

// Package advice recommends NCCL settings for a node and a stated workload: what to set and why, what to
// leave to NCCL, which present settings to remove, and what cannot be decided from the node. It also
// estimates how long an AllReduce takes over the links of the node (estimate.go).
//
// For is pure: it reads a *fabric.Node and changes nothing. It may be called by any number of goroutines.
// There are no errors: what is not known is an Open question, and no setting is derived from it.
//
// Rules about variables are those of packages ncclconf and lint; no list of them is kept here. A setting is
// recommended only where NCCL's default does worse on this node: the network that NCCL must not fall back
// from, the ports of training among others, the traffic class of the lossless priority, the interface of the
// bootstrap. Names of devices and interfaces are untrusted; one that
// NCCL's lists cannot express is never part of a value.
package advice

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/lint"
	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/verdict"
)

// Change is what a recommended setting means for the present configuration of the host. The words are stable:
// programs read them.
type Change string

// Changes.
const (
	Add     Change = "add"     // the host does not set the variable
	Replace Change = "replace" // the host sets another value
	Keep    Change = "keep"    // the host sets this value
)

// Setting is a variable to set.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Reason string `json:"reason"` // one or more sentences
	Source string `json:"source"` // file of NCCL or of a plugin with its release, or what of the node it follows from
	Change Change `json:"change"`
	// Present is the value that the host's NCCL configuration has, PresentFrom its file and line; empty: it does
	// not set the variable.
	Present     string `json:"present,omitempty"`
	PresentFrom string `json:"present_from,omitempty"`
	// HostNames: the value has names of interfaces of the host. They do not exist in a network namespace of a
	// job's own, such as that of a pod without hostNetwork.
	HostNames bool `json:"host_names"`

	equal func(value string) bool // whether another value means the same; nil: none does
}

// Left is a variable, or several, to leave unset, because NCCL's default does better.
type Left struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
	Source string `json:"source"`
}

// Removal is a present line of the host's NCCL configuration to remove.
type Removal struct {
	Name    string       `json:"name,omitempty"` // empty: the line is no setting
	Value   string       `json:"value"`
	From    string       `json:"from"`    // file:line
	Verdict lint.Verdict `json:"verdict"` // of lint
	// critical and warning: it has no effect or the wrong one; info: it does nothing useful
	Level   verdict.Severity `json:"severity"`
	Reason  string           `json:"reason"`            // what becomes of the line
	Instead string           `json:"instead,omitempty"` // the line to write in its place, or what to do; empty: nothing
	Source  string           `json:"source"`
}

// Open is something that could not be judged. No setting follows from it.
type Open struct {
	Name   string `json:"name"`   // the variable, or the estimate
	Reason string `json:"reason"` // what is not known, and why
	Ask    string `json:"ask"`    // what would show it
}

// Advice is all that is recommended for a node.
type Advice struct {
	Workload Workload `json:"workload"` // with what was not stated filled in from the node, as far as that is known
	// NCCL is the release that the advice is for, NCCLFrom where it was found: "stated", the path of a library,
	// or "newest known".
	NCCL     string `json:"nccl_version"`
	NCCLFrom string `json:"nccl_version_from"`

	Settings  []Setting  `json:"settings"`
	Remove    []Removal  `json:"remove"`
	Leave     []Left     `json:"leave"`
	Unknown   []Open     `json:"unknown"`
	Estimates []Estimate `json:"estimates"`
	Shares    []Share    `json:"communication"`
}

// For returns the advice for a workload on a node.
func For(node *fabric.Node, w Workload) Advice {
	k := adviser{node: node, base: node}
	k.Advice = Advice{
		Workload: w, Settings: []Setting{}, Remove: []Removal{}, Leave: []Left{}, Unknown: []Open{},
		Estimates: []Estimate{}, Shares: []Share{},
	}
	k.release()
	k.fabric()
	if gpus, known := node.GPUs.Get(); known && gpus == 0 {
		if others := otherGPUs(node); others > 0 {
			k.Unknown = []Open{{
				"GPUs",
				fmt.Sprintf("This node has %d GPUs of another vendor than NVIDIA, which are not judged: their jobs use another library than NCCL, and nothing is recommended.", others), "run the command on a node with GPUs of NVIDIA",
			}}
			return k.Advice
		}
		k.Unknown = []Open{{
			"GPUs",
			"This node has no GPU. NCCL needs one for each rank: no job with NCCL runs here, and nothing is recommended.",
			"run the command on a node with GPUs",
		}}
		return k.Advice
	}
	k.present()
	if w.Nodes == 1 {
		k.leave("NCCL_NET, NCCL_IB_*",
			"The job has one node: NCCL uses no network between GPUs that reach each other, and has no fallback that could stay silent.", "NCCL_NET")
	} else {
		k.network()
		k.devices()
		k.gids()
		k.trafficClass()
		k.sockets()
	}
	k.keepUnreplaced()
	k.debug()
	k.kept()
	k.foldReplaced()
	k.defaults()
	k.Leave = slices.DeleteFunc(k.Leave, func(l Left) bool { return k.isSet(l.Name) })
	k.estimates()
	k.shares()
	return k.Advice
}

// otherGPUs counts those that are known to be of another vendor than NVIDIA.
func otherGPUs(n *fabric.Node) (count int) {
	for _, g := range n.PCI.GPUs() {
		if !g.NVIDIA() && g.PF.State != fabric.OK {
			count++
		}
	}
	return count
}

// adviser collects the advice for one node.
type adviser struct {
	Advice
	node    *fabric.Node // as it is
	base    *fabric.Node // as it would be without the settings to remove
	version lint.Version
}

// release finds the release of NCCL that jobs use.
func (k *adviser) release() {
	if k.Workload.NCCL.String() != "" {
		k.version, k.NCCLFrom = k.Workload.NCCL, "stated"
	} else if v, path := lint.LibraryVersion(k.node, lint.Newest()); path != "" {
		k.version, k.NCCLFrom = v, path
	} else {
		k.version, k.NCCLFrom = v, "newest known"
		k.open("NCCL version",
			"The NCCL release of the jobs is not known. The newest release that this program knows is assumed.",
			"state it (--nccl-version)")
	}
	k.NCCL = k.version.String()
	if newest := lint.Newest().String(); k.version.After(newest) {
		k.open("NCCL version",
			"NCCL "+k.NCCL+" is later than "+newest+", the newest release that this program knows: a variable or a default may have changed since.",
			"correct the release, or update gpufabric_exporter; the release notes of NCCL name what has changed")
	}
}

func (k *adviser) open(name, reason, ask string) {
	k.Unknown = append(k.Unknown, Open{name, reason, ask})
}

// leave adds a variable to leave unset; of is the one whose file is the source.
func (k *adviser) leave(name, reason, of string) {
	k.Leave = append(k.Leave, Left{name, reason, sourceOf(of)})
}

// set adds a setting; equal says whether another value means the same.
func (k *adviser) set(s Setting, equal func(value string) bool) {
	s.Change, s.equal = Add, equal
	if v, found := k.node.NCCL.Lookup(s.Name); found && v.Value != "" {
		s.Change, s.Present, s.PresentFrom = Replace, v.Value, v.Source
		_, stays := k.base.NCCL.Lookup(s.Name)
		if stays && !v.Masked && equal != nil && equal(v.Value) {
			s.Value = v.Value
		}
		if s.Value == v.Value {
			s.Change = Keep
		}
	}
	k.Settings = append(k.Settings, s)
}

// isSet reports whether the advice has the variable.
func (k *adviser) isSet(name string) bool {
	return slices.ContainsFunc(k.Settings, func(s Setting) bool { return s.Name == name })
}

// sourceOf is the file of NCCL that reads a variable.
func sourceOf(name string) string {
	v, known := settings.Describe(name)
	if !known {
		return ""
	}
	return v.Source + " of NCCL " + settings.NewestNCCL
}

// plain reports whether a name can be written in NCCL's lists and in every format: it has none of the characters that
// separate or begin an item (":", ",", "^", "="), no blank and nothing that a shell expands.
func plain(name string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-@"
	return name != "" && strings.Trim(name, allowed) == ""
}

// few is how many names of a list are shown.
const few = 8

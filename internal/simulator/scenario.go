// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
)

// Scenario is a node in some condition, labelled with what is true of it. The labels were written from the
// condition, not from what any check says: they are what checks are measured by. Scenarios come from Scenarios
// and Find; the zero Scenario is not one.
type Scenario struct {
	Name     string
	Summary  string // one line
	Platform string
	Truth    string         // what a user should see, and why
	Expect   []Finding      // empty: nothing is wrong
	GPUs     []GPUFinding   // what is wrong with GPUs, in addition to devices in Expect; empty: nothing
	GDR      []GDRLabel     // what is true of GPUDirect RDMA; empty: the node has no GPUs
	Probed   []ProbeFinding // what probes complain of, beside what follows from the above; empty: nothing
	Jobs     []JobLabel     // what is true of the jobs that run on it
	OverTime bool           // only who watches for a while can find it: one look sees nothing wrong, or not always

	platform *platform
	policy   string      // what the site expects of RoCE, a line of its configuration; empty: nothing
	site     string      // lines of its configuration that name files of the node, below ROOT; empty: none
	edit     func(*Node) // what the scenario does to a healthy node; nil: nothing
	differs  string      // where its files then differ from those of the healthy node, in the words of scenario_test.go
}

// Finding is one thing that is wrong.
type Finding struct {
	Device string // RDMA device; empty: the whole node
	Port   int    // 0: the whole device
	What   string // stable identifier
}

// GPUFinding is one thing that is wrong with a GPU, its NVLinks or its PCIe link.
type GPUFinding struct {
	GPU  string // PCI address; empty: the whole node
	What string // stable identifier
}

// GDRLabel is what NCCL would make of GPUDirect RDMA between a GPU and the NIC that it is dealt. Without path, block
// and NoNIC nothing on the node shows. That it is blocked is no fault where the machine is built so: what is wrong
// is in Scenario.Expect and Scenario.GPUs.
type GDRLabel struct {
	GPU   string          // PCI address; empty: every GPU without a label of its own
	Path  fabric.GDRPath  // it works so
	Block fabric.GDRBlock // it does not work, for this reason
	NoNIC bool            // there is no compute NIC
	// Hidden says that this is true but need not show: unknown is right, too.
	Hidden bool
}

// GDROf returns what is true of the GPU at that PCI address.
func (s Scenario) GDROf(gpu string) (label GDRLabel, ok bool) {
	for _, l := range s.GDR {
		if l.GPU == gpu {
			return l, true
		}
		if l.GPU == "" {
			label, ok = l, true
		}
	}
	return label, ok
}

// Scenarios returns all scenarios of all platforms, sorted by name.
func Scenarios() []Scenario {
	var all []Scenario
	broken := scenarios()
	known := platforms()
	for i := range known {
		p := &known[i]
		p.healthy.Platform = p.name
		for _, s := range append([]Scenario{p.healthy}, broken...) {
			if s.Platform != p.name {
				continue
			}
			s.platform = p
			if s.GDR == nil {
				s.GDR = p.gdr
			}
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Scenario) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Find returns the scenario of that name. Its error suggests a name for a misspelled one.
func Find(name string) (Scenario, error) {
	all := Scenarios()
	names := make([]string, len(all))
	for i, s := range all {
		if s.Name == name {
			return s, nil
		}
		names[i] = s.Name
	}
	return Scenario{}, fmt.Errorf("unknown scenario %.64q%s", name, spelling.Hint(name, names))
}

// Build returns the node of the scenario, for the caller to keep.
func (s Scenario) Build() *Node {
	n := s.follow(s.platform.build().gpuDirectFrom(s.GDR))
	if s.edit != nil {
		s.edit(n)
	}
	return n
}

// Config returns the configuration file that the site would write for its nodes, as YAML, without keys that name files
// of a node.
func (s Scenario) Config() string { return s.platform.config() + s.policy }

// ConfigOf returns all of it for a node that is laid out.
func (s Scenario) ConfigOf(t *Tree) string {
	return s.Config() + strings.ReplaceAll(s.site, "ROOT", t.Rootfs())
}

// follow gives the node the messages of the kernel that the site follows.
func (s Scenario) follow(n *Node) *Node {
	if s.site != "" {
		n.logged(devKmsg, 0)
	}
	return n
}

// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"regexp"
	"strconv"
	"testing"
)

// box is a machine of GPUs and NICs at places as lspci -PP writes them, with their NUMA nodes.
type box struct {
	gpus []place
	nics []nicAt
}

type place struct {
	lspci string
	numa  int
}

type nicAt struct {
	place
	name, board string
}

func (b box) node() *Node {
	n := &Node{At: at, Policy: &Policy{}, Host: Host{Hypervisor: ok(false)}}
	var functions []PCIFunction
	for _, g := range b.gpus {
		functions = append(functions, functionAt(PCIGPU, g.lspci, g.numa))
	}
	for _, c := range b.nics {
		f := functionAt(PCINIC, c.lspci, c.numa)
		f.HCAs = []string{c.name}
		functions = append(functions, f)
		h := roce(0)
		h.Name, h.BoardID = c.name, ok(c.board)
		h.Ports[0].NetDev = ok("net-" + c.name)
		n.HCAs = append(n.HCAs, h)
		n.NetDevs = append(n.NetDevs, NetDev{Name: "net-" + c.name, Speed: ok(50e9), DefaultRoute: ok(false), PreferredRoute: ok(false)})
	}
	n.PCI = busOf(functions...)
	return n
}

// switched is a machine with so many switches, half of them on each socket, below each of which are a NIC and so many
// GPUs. The second half of the addresses is on NUMA node 1.
func switched(switches, gpusPerNIC int, board string) box {
	var b box
	for s := range switches {
		numa := s * 2 / switches
		root := strconv.FormatInt(int64(0x10+16*s), 16)
		up := root + ":01.0/" + strconv.FormatInt(int64(0x11+16*s), 16) + ":00.0/"
		port := strconv.FormatInt(int64(0x12+16*s), 16)
		b.nics = append(b.nics, nicAt{place{up + port + ":00.0/" + strconv.FormatInt(int64(0x13+16*s), 16) + ":00.0", numa}, "mlx5_" + strconv.Itoa(s), board})
		for g := range gpusPerNIC {
			b.gpus = append(b.gpus, place{up + port + ":0" + strconv.Itoa(g+1) + ".0/" + strconv.FormatInt(int64(0x14+16*s+g), 16) + ":00.0", numa})
		}
	}
	return b
}

func (b box) with(c ...nicAt) box {
	b.nics = append(b.nics, c...)
	return b
}

// card is a NIC at a root port of its own.
func card(name, board, lspci string, numa int) nicAt { return nicAt{place{lspci, numa}, name, board} }

// Each line of docs/ROLES.md, and what it must not do.
func TestRoles(t *testing.T) {
	list := func(value string) func(n *Node) {
		return func(n *Node) {
			n.NCCL.Variables = []NCCLVariable{{Name: "NCCL_IB_HCA", Value: value, Source: "/etc/nccl.conf:1"}}
		}
	}
	manifest := func(role string) func(n *Node) {
		return func(n *Node) {
			n.Policy.Manifest = &Manifest{Devices: map[string]map[string]string{"mlx5_0": {"port_1_role": role}}}
		}
	}
	routes := func(metrics ...int) func(n *Node) { // of each interface: -1 none, 0 the lowest
		return func(n *Node) {
			for i, m := range metrics {
				n.NetDevs[i].DefaultRoute, n.NetDevs[i].PreferredRoute = ok(m >= 0), ok(m == 0)
			}
		}
	}
	both := func(edits ...func(n *Node)) func(n *Node) {
		return func(n *Node) {
			for _, edit := range edits {
				edit(n)
			}
		}
	}
	function := func(f Function) func(n *Node) { return func(n *Node) { n.HCAs[0].Function = ok(f) } }
	physical := func(address string) func(n *Node) { // that of mlx5_0, where mlx5_1 is at 0000:2a:00.0
		return func(n *Node) {
			n.HCAs[1].PCI = ok("0000:2a:00.0")
			n.PCI.Functions = []PCIFunction{{Address: "0000:2a:00.1", Kind: PCINIC, HCAs: []string{"mlx5_0"}, PF: ok(address)}}
		}
	}
	soft := func(n *Node) {
		n.HCAs[0].PCI, n.HCAs[0].Function = AbsentFact[string]("", at), AbsentFact[Function]("", at)
	}
	for _, c := range []struct {
		name   string
		change func(n *Node)
		want   Role // of mlx5_0, one of three
		by     Authority
	}{
		{"nothing is said", func(*Node) {}, RoleCompute, ByNobody},
		{"InfiniBand", func(n *Node) { n.HCAs[0].Ports[0].LinkLayer = ok(LinkInfiniBand) }, RoleCompute, ByNobody},
		{"link layer unknown", func(n *Node) { n.HCAs[0].Ports[0].LinkLayer = Fact[LinkLayer]{} }, RoleCompute, ByNobody},
		{"BlueField-3", func(n *Node) { n.HCAs[0].Type = ok("MT41692") }, RoleCompute, ByNobody},
		{"another board, far from all GPUs", func(n *Node) { n.HCAs[0].BoardID = ok("other") }, RoleCompute, ByNobody},
		{"the default route", routes(0, -1, -1), RoleManagement, ByNobody},
		{"the default route of two, with the lowest metric", routes(0, 100, -1), RoleManagement, ByNobody},
		{"the default route of two, with the higher metric", routes(100, 0, -1), RoleCompute, ByNobody},
		{"each port has a default route", routes(0, 100, 200), RoleCompute, ByNobody},
		{"each port has one of the same metric", routes(0, 0, 0), RoleCompute, ByNobody},
		{"all but one have one of the same metric", routes(0, 0, -1), RoleCompute, ByNobody},
		{"two of one bond have it", both(routes(0, 0, -1), func(n *Node) { n.NetDevs[0].Upper, n.NetDevs[1].Upper = ok("bond0"), ok("bond0") }), RoleManagement, ByNobody},
		{"the only port", both(func(n *Node) { n.HCAs, n.NetDevs = n.HCAs[:1], n.NetDevs[:1] }, routes(0)), RoleCompute, ByNobody},
		{"a default route of a virtual function does not count", both(routes(0, 100, -1), func(n *Node) { n.HCAs[2].Function = ok(FunctionVF) }), RoleCompute, ByNobody},
		{"virtual function", function(FunctionVF), RoleUnused, ByNobody},
		{"virtual function beside its physical one", both(function(FunctionVF), physical("0000:2a:00.0")), RoleUnused, ByNobody},
		{"virtual function of a physical one without RDMA device", both(function(FunctionVF), physical("0000:3b:00.0")), RoleCompute, ByNobody},
		{"subfunction", function(FunctionSF), RoleUnused, ByNobody},
		{"SMI device", function(FunctionSMI), RoleUnused, ByNobody},
		{"soft-RoCE", soft, RoleUnused, ByNobody},
		{"restricted", func(n *Node) { n.HCAs[0].Restricted = ok(true) }, RoleManagement, ByKernel},
		{"the list takes it", list("mlx5"), RoleCompute, ByNCCL},
		{"the list takes it, and it has the default route", both(list("mlx5_0"), routes(0, -1, -1)), RoleCompute, ByNCCL},
		{"the list names a virtual function", both(list("=mlx5_0"), function(FunctionVF)), RoleCompute, ByNCCL},
		{"the list matches a virtual function by prefix", both(list("mlx5"), function(FunctionVF)), RoleUnused, ByNobody},
		{"the list matches soft-RoCE by prefix", both(list("mlx5"), soft), RoleUnused, ByNobody},
		{"the list names soft-RoCE", both(list("=mlx5_0"), soft), RoleCompute, ByNCCL},
		{"the list takes another port of it", list("=mlx5_0:2"), RoleStorage, ByNCCL},
		{"the list leaves it out", list("=mlx5_1"), RoleStorage, ByNCCL},
		{"the list excludes it", list("^mlx5_0"), RoleStorage, ByNCCL},
		{"the list leaves it out, and it has the default route", both(list("=mlx5_1"), routes(0, -1, -1)), RoleManagement, ByNobody},
		{"the list leaves a virtual function out", both(list("=mlx5_1"), function(FunctionVF)), RoleUnused, ByNobody},
		{"the manifest says storage, the list takes it", both(list("mlx5"), manifest("storage")), RoleStorage, ByManifest},
		{"the manifest says nonsense", manifest("best"), RoleCompute, ByNobody},
		{"the site's word wins", func(n *Node) {
			both(list("mlx5"), manifest("compute"))(n)
			n.HCAs[0].Restricted = ok(true)
			n.Policy.Roles = []RoleRule{{regexp.MustCompile("^mlx5_0$"), RoleStorage}}
		}, RoleStorage, ByConfiguration},
		{"a rail is gone", func(n *Node) { n.HCAs = n.HCAs[:2] }, RoleCompute, ByNobody},
	} {
		n := node(3)
		c.change(n)
		n.Derive()
		if p := n.HCAs[0].Ports[0]; p.Role.Or("") != c.want || p.RoleBy != c.by {
			t.Errorf("%s: %s by %s, want %s by %s", c.name, p.Role.Or(""), p.RoleBy, c.want, c.by)
		}
	}
}

// The number that the site expects states the roles of ports that are as many, unless the node lost a device:
// then another port counts in its place.
func TestRolesByNumber(t *testing.T) {
	down := func(n *Node) { n.HCAs[0].Ports[0].State = ok(PortDown) }
	for _, c := range []struct {
		name      string
		number    int
		lost      []Remembered
		edit      func(n *Node)
		by, other Authority // of mlx5_0 and mlx5_2, two of three
	}{
		{"as many", 3, nil, nil, ByConfiguration, ByConfiguration},
		{"as many, one down", 3, nil, down, ByConfiguration, ByConfiguration},
		{"as many are active", 2, nil, down, ByNobody, ByConfiguration},
		{"more", 4, nil, nil, ByNobody, ByNobody},
		{"fewer", 2, nil, nil, ByNobody, ByNobody},
		{"as many, and a NIC is gone", 3, []Remembered{{Kind: PCINIC, Now: 3, Then: 4}}, nil, ByNobody, ByNobody},
		{"as many are active, and a NIC is gone", 2, []Remembered{{Kind: PCINIC, Now: 3, Then: 4}}, down, ByNobody, ByNobody},
		{"as many, and a GPU is gone", 3, []Remembered{{Kind: PCIGPU, Now: 7, Then: 8}}, nil, ByConfiguration, ByConfiguration},
	} {
		n := node(3)
		n.Policy.ComputePorts, n.Remembered = &c.number, c.lost
		if c.edit != nil {
			c.edit(n)
		}
		n.Derive()
		if by, other := n.HCAs[0].Ports[0].RoleBy, n.HCAs[2].Ports[0].RoleBy; by != c.by || other != c.other {
			t.Errorf("%s: by %s and %s, want %s and %s", c.name, by, other, c.by, c.other)
		}
	}
}

// A profile says what devices are for, and where the provider fixes the cabling, that they have a link and at
// which rate.
func TestProfileStates(t *testing.T) {
	cx7, dx := PCIID{0x15b3, 0x1021}, PCIID{0x15b3, 0x101d}
	profile := func(cables bool) *Profile {
		p := &Profile{Name: "cloud", Title: "Cloud 8", Cabling: ProfileCabling{By: map[bool]string{true: CabledByProvider}[cables]}, Rails: []ProfileNIC{{Chips: []PCIID{cx7}, Number: 3, Role: RoleCompute}}, Others: []ProfileNIC{{Chips: []PCIID{dx}, Number: 1, Role: RoleManagement}}}
		if cables {
			p.Rails[0].Gigabits = 400
		}
		return p
	}
	list := func(n *Node) {
		n.NCCL.Variables = []NCCLVariable{{Name: "NCCL_IB_HCA", Value: "^mlx5_0", Source: "/etc/nccl.conf:1"}}
	}
	for _, c := range []struct {
		name    string
		profile *Profile
		edit    func(n *Node)
		role    Role
		by      Authority
		link    Authority
		rate    Authority
	}{
		{"a rail", profile(true), nil, RoleCompute, ByProfile, ByProfile, ByProfile},
		{"a rail that the site cables", profile(false), nil, RoleCompute, ByProfile, ByNobody, ByNobody},
		{"another NIC", profile(true), func(n *Node) { n.PCI.Functions[0].Device = ok(int(dx.Device)) }, RoleManagement, ByProfile, ByProfile, ByNobody},
		{"a NIC that the profile does not know", profile(true), func(n *Node) { n.PCI.Functions[0].Device = ok(1) }, RoleStorage, ByProfile, ByNobody, ByNobody},
		{"a virtual function that is the rail", profile(true), func(n *Node) {
			n.Profile.Rails[0].VirtualFunctions, n.HCAs[0].Function = true, ok(FunctionVF)
		}, RoleCompute, ByProfile, ByProfile, ByProfile},
		{"a virtual function of a rail", profile(true), func(n *Node) { n.HCAs[0].Function = ok(FunctionVF) }, RoleUnused, ByNobody, ByNobody, ByNobody},
		{"an SMI device of a rail", profile(true), func(n *Node) { n.HCAs[0].Function = ok(FunctionSMI) }, RoleUnused, ByNobody, ByNobody, ByNobody},
		{"a rail that the host's list leaves out", profile(true), list, RoleStorage, ByNCCL, ByProfile, ByProfile},
		{"no profile", nil, nil, RoleCompute, ByNobody, ByNobody, ByNobody},
	} {
		n := node(3)
		n.Profile = c.profile
		for i := range n.HCAs {
			n.PCI.Functions = append(n.PCI.Functions, PCIFunction{Address: "0000:1" + strconv.Itoa(i) + ":00.0", Kind: PCINIC, HCAs: []string{n.HCAs[i].Name}, Vendor: ok(0x15b3), Device: ok(int(cx7.Device))})
		}
		n.HCAs[0].Ports[0].State = ok(PortDown)
		if c.edit != nil {
			c.edit(n)
		}
		n.Derive()
		p := n.HCAs[0].Ports[0]
		if p.Role.Or("") != c.role || p.RoleBy != c.by || p.Link.By != c.link || p.RateBy != c.rate {
			t.Errorf("%s: %s by %s, link by %s, rate by %s", c.name, p.Role.Or(""), p.RoleBy, p.Link.By, p.RateBy)
		}
	}
}

// A provider may cable one port of each card, where the profile has no more: which one, only links and the record tell.
func TestProfileOfFewerPorts(t *testing.T) {
	seen := func(n *Node) { n.HCAs[1].Ports[0].Seen = PortHistory{Active: true, Last: at} }
	for _, c := range []struct {
		name   string
		dark   []int
		edit   func(n *Node)
		stated []bool // of each port
		want   []bool
	}{
		{"as many as there should be", []int{1, 3}, nil, []bool{true, true, true, true}, []bool{true, false, true, false}},
		{"one had a link", []int{1, 3}, seen, []bool{true, true, true, true}, []bool{true, true, true, false}},
		{"one is missing", []int{1, 2, 3}, nil, []bool{false, false, false, false}, []bool{false, false, false, false}},
		{"all have one", nil, nil, []bool{true, true, true, true}, []bool{false, false, false, false}},
	} {
		n := node(4)
		n.Profile = &Profile{Title: "Cloud 2", Cabling: ProfileCabling{By: CabledByProvider}, Rails: []ProfileNIC{{Chips: []PCIID{{0x14e4, 0x1760}}, Number: 2, Role: RoleCompute}}}
		for i := range n.HCAs {
			n.PCI.Functions = append(n.PCI.Functions, PCIFunction{Address: "0000:1" + strconv.Itoa(i/2) + ":00." + strconv.Itoa(i%2), Kind: PCINIC, HCAs: []string{n.HCAs[i].Name}, Vendor: ok(0x14e4), Device: ok(0x1760)})
		}
		for _, i := range c.dark {
			n.HCAs[i].Ports[0].State = ok(PortDown)
		}
		if c.edit != nil {
			c.edit(n)
		}
		n.Derive()
		for i := range n.HCAs {
			if l := n.HCAs[i].Ports[0].Link; l.Stated() != c.stated[i] || l.Value != c.want[i] {
				t.Errorf("%s: %s: %+v", c.name, n.HCAs[i].Name, l)
			}
		}
	}
}

// mlx5_1 in a list takes mlx5_11, too, which nobody meant: check nccl_devices_prefix reports it.
func TestRoleByChance(t *testing.T) {
	n := node(3)
	n.HCAs[1].Name, n.HCAs[2].Name = "mlx5_1", "mlx5_11"
	n.NCCL.Variables = []NCCLVariable{{Name: "NCCL_IB_HCA", Value: "mlx5_0,mlx5_1"}}
	n.Derive()
	if a, b := n.HCAs[1].Ports[0].Role.Or(""), n.HCAs[2].Ports[0].Role.Or(""); a != RoleCompute || b != RoleStorage {
		t.Errorf("%s and %s", a, b)
	}
}

// Whether a port should have a link: the first source that says so wins.
func TestLinkExpected(t *testing.T) {
	count := func(n int) func(*Node) { return func(node *Node) { node.Policy.ComputePorts = &n } }
	list := func(value string) func(n *Node) {
		return func(n *Node) {
			n.NCCL.Variables = []NCCLVariable{{Name: "NCCL_IB_HCA", Value: value, Source: "/etc/nccl.conf:1"}}
		}
	}
	manifest := func(rate string) func(n *Node) {
		return func(n *Node) {
			n.Policy.Manifest = &Manifest{Devices: map[string]map[string]string{"mlx5_0": {"port_1_rate": rate}}}
		}
	}
	seen := func(n *Node) { n.HCAs[0].Ports[0].Seen = PortHistory{Active: true, Last: at} }
	virtual := func(n *Node) { n.HCAs[0].Function = ok(FunctionVF) }
	none := func(*Node) {}
	for _, c := range []struct {
		name  string
		edits []func(n *Node)
		want  bool
		by    Authority
		words string
	}{
		{"nothing is said", nil, false, ByNobody, ""},
		{"the site expects all", []func(n *Node){count(3)}, true, ByConfiguration, "the configuration expects 3 compute ports"},
		{"the site expects more than there are", []func(n *Node){count(8)}, true, ByConfiguration, "the configuration expects 8 compute ports"},
		{"the site expects as many as are active", []func(n *Node){count(2)}, false, ByConfiguration, "the configuration expects 2 compute ports"},
		{"the site expects as many as are active, and it had one", []func(n *Node){count(2), seen}, true, ByRecord, "it had a link until 2023-11-14 22:13 UTC (record of this node)"},
		{"the site expects none", []func(n *Node){count(0)}, false, ByConfiguration, "the configuration expects 0 compute ports"},
		{"one of two is missing, and the count does not say which", []func(n *Node){count(2), func(n *Node) { n.HCAs[1].Ports[0].State = ok(PortDown) }}, false, ByNobody, ""},
		{"the manifest has a rate", []func(n *Node){manifest("400 Gb/s"), seen}, true, ByManifest, "the manifest has it at 400 Gb/s"},
		{"the manifest has no link", []func(n *Node){manifest(ManifestNone), seen}, false, ByManifest, "the manifest has it without a link"},
		{"the list names it", []func(n *Node){list("=mlx5_0")}, true, ByNCCL, "NCCL_IB_HCA names it (/etc/nccl.conf:1)"},
		{"the list matches it by prefix", []func(n *Node){list("mlx5")}, false, ByNobody, ""},
		{"the list does not exclude it", []func(n *Node){list("^mlx5_1")}, false, ByNobody, ""},
		{"a virtual function had one", []func(n *Node){seen, virtual}, false, ByNobody, ""},
		{"a virtual function for training had one", []func(n *Node){seen, virtual, func(n *Node) {
			n.Policy.Roles = []RoleRule{{regexp.MustCompile("^mlx5_0$"), RoleCompute}}
		}}, true, ByRecord, "it had a link until 2023-11-14 22:13 UTC (record of this node)"},
		{"it had one", []func(n *Node){seen}, true, ByRecord, "it had a link until 2023-11-14 22:13 UTC (record of this node)"},
	} {
		n := node(3)
		n.HCAs[0].Ports[0].State = ok(PortDown)
		for _, edit := range append(c.edits, none) {
			edit(n)
		}
		n.Derive()
		if got := n.HCAs[0].Ports[0].Link; got != (Expected[bool]{c.want, c.by, c.words}) {
			t.Errorf("%s: %+v, want %t by %s (%s)", c.name, got, c.want, c.by, c.words)
		}
	}
}

// A device that hangs must not make it look as if GPUs had other NICs.
func TestRailsOutliveADevice(t *testing.T) {
	healthy := switched(4, 1, "one").with(card("mlx5_8", "one", "90:01.0/91:00.0", 1)).node()
	healthy.DerivePorts()
	for name, hide := range map[string]func(h *HCA){
		"stuck":      func(h *HCA) { *h = h.WithoutFacts(ReasonStuck, at) },
		"never read": func(h *HCA) { *h = (&HCA{Name: h.Name}).WithoutFacts(ReasonStuck, at) },
	} {
		for _, device := range []string{"mlx5_1", "mlx5_8"} {
			n := switched(4, 1, "one").with(card("mlx5_8", "one", "90:01.0/91:00.0", 1)).node()
			hide(n.HCA(device))
			n.DerivePorts()
			for i, r := range n.PCI.Rails {
				if was := healthy.PCI.Rails[i]; r.NIC != was.NIC || r.Number != was.Number || r.Shared || r.Distance.Or(DistanceSYS) != DistancePIX {
					t.Errorf("%s %s: GPU %s has rail %+v, had %+v", device, name, r.GPU, r, was)
				}
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

var at = time.Date(2026, 11, 27, 15, 0, 0, 0, time.UTC)

// identity is what a machine is recognized by.
type identity struct {
	vendor, product, tag string
	gpu                  fabric.PCIID
	gpus                 int
}

// node has the identity and nothing else.
func (id identity) node(all []fabric.Profile) *fabric.Node {
	text := func(s string) fabric.Fact[string] {
		if s == "" {
			return fabric.AbsentFact[string]("class/dmi/id", at)
		}
		return fabric.Known(s, "class/dmi/id", at)
	}
	n := &fabric.Node{At: at, Policy: &fabric.Policy{Profiles: all}, Sources: []fabric.Source{{Name: fabric.SourcePCI, Up: true}}}
	none := text("")
	n.Host.DMI = fabric.DMI{Vendor: text(id.vendor), Product: text(id.product), Version: none, BoardVendor: none, Board: none, AssetTag: text(id.tag)}
	for i := range id.gpus {
		n.PCI.Functions = append(n.PCI.Functions, fabric.PCIFunction{
			Address: fmt.Sprintf("0000:%02x:00.0", i), Kind: fabric.PCIGPU,
			Vendor: fabric.Known(int(id.gpu.Vendor), "", at), Device: fabric.Known(int(id.gpu.Device), "", at),
		})
	}
	return n
}

const azure = "7783-7084-3265-9085-8269-3286-77"

// machines are the identities of machines that the compiled-in profiles are of.
func machines() map[string][]identity {
	gpu := func(vendor, device uint16) fabric.PCIID { return fabric.PCIID{Vendor: vendor, Device: device} }
	const nvidia = 0x10de
	return map[string][]identity{
		"dgx-h100":           {{"NVIDIA", "DGXH100", "", gpu(nvidia, 0x2330), 8}},
		"dgx-h200":           {{"NVIDIA", "DGXH200", "", gpu(nvidia, 0x2335), 8}, {"NVIDIA", "DGXH100", "", gpu(nvidia, 0x2335), 8}},
		"dgx-b200":           {{"NVIDIA", "DGXB200", "", gpu(nvidia, 0x2901), 8}},
		"dgx-gb200":          {{"NVIDIA", "DGX GB200 Compute Tray", "", gpu(nvidia, 0x2941), 4}},
		"dgx-spark":          {{"NVIDIA", "NVIDIA_DGX_Spark", "", gpu(nvidia, 0x2e12), 1}},
		"aws-p5":             {{"Amazon EC2", "p5.48xlarge", "", gpu(nvidia, 0x2330), 8}},
		"aws-p5en":           {{"Amazon EC2", "p5en.48xlarge", "", gpu(nvidia, 0x2335), 8}},
		"azure-nd-h100-v5":   {{"Microsoft Corporation", "Virtual Machine", azure, gpu(nvidia, 0x2330), 8}},
		"azure-nd-mi300x-v5": {{"Microsoft Corporation", "Virtual Machine", azure, gpu(0x1002, 0x74b5), 8}},
		"gcp-a3-ultra":       {{"Google", "Google Compute Engine", "", gpu(nvidia, 0x2335), 8}},
		"oci-bm-gpu-h100-8":  {{"", "ORACLE SERVER", "OracleCloud.com", gpu(nvidia, 0x2330), 8}},
		"oci-bm-gpu-gb200-4": {{"", "ORACLE SERVER", "OracleCloud.com", gpu(nvidia, 0x2941), 4}},
	}
}

// TestBuiltin: each compiled-in profile is right, says where all of it comes from, and is alone in fitting
// its machine, also when that lost a GPU.
func TestBuiltin(t *testing.T) {
	var of []string
	for _, file := range builtinFiles() {
		data, err := builtin.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Parse(data)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		of = append(of, p.Name)
		if file != "builtin/"+p.Name+".yaml" {
			t.Errorf("%s: name %s", file, p.Name)
		}
		for _, s := range p.Sources {
			if s.URL == "" && !strings.Contains(s.Title, "the address is not known") {
				t.Errorf("%s: source %s has no address", file, s.Name)
			}
		}
		for _, s := range unusedSources(&p) {
			t.Errorf("%s: nothing is of source %s", file, s)
		}
		for _, id := range machines()[p.Name] {
			for _, gpus := range []int{id.gpus, id.gpus - 1} {
				id.gpus = gpus
				n := id.node(Builtin())
				if n.DeriveProfile(); n.Profile == nil || n.Profile.Name != p.Name || n.Recognition.Why != fabric.RecognizedByDMI {
					t.Errorf("%s with %d GPUs: %v, %+v", p.Name, gpus, n.Profile, n.Recognition)
				}
			}
		}
	}
	if len(of) != len(machines()) || len(Builtin()) != len(of) {
		t.Errorf("profiles %v: expected one machine of each", of)
	}
}

func unusedSources(p *fabric.Profile) []string {
	used := slices.Clone(p.Cabling.Sources)
	for _, m := range p.Match {
		used = append(used, m.Sources...)
	}
	for _, e := range p.NICs() {
		used = append(used, e.Sources...)
	}
	for _, n := range p.Normal {
		used = append(used, n.Sources...)
	}
	if p.GPUs != nil {
		used = append(used, p.GPUs.Sources...)
	}
	var unused []string
	for _, s := range p.Sources {
		if !slices.Contains(used, s.Name) {
			unused = append(unused, s.Name)
		}
	}
	return unused
}

// TestNoProfile: machines of no known kind have no profile, and the reason says which kind of none it is.
func TestNoProfile(t *testing.T) {
	h100 := fabric.PCIID{Vendor: 0x10de, Device: 0x2330}
	for name, c := range map[string]struct {
		is   identity
		edit func(*fabric.Node)
		why  fabric.RecognitionReason
	}{
		"HGX in a server of another maker": {identity{"Supermicro", "SYS-821GE-TNHR", "", h100, 8}, nil, fabric.RecognizedNone},
		"a virtual machine of no cloud":    {identity{"QEMU", "Standard PC (Q35 + ICH9, 2009)", "", h100, 8}, nil, fabric.RecognizedNone},
		"a small size of Azure":            {identity{"Microsoft Corporation", "Virtual Machine", azure, h100, 1}, nil, fabric.RecognizedNone},
		"a tray of another maker": {
			identity{"Dell Inc.", "GB200 NVL", "", fabric.PCIID{Vendor: 0x10de, Device: 0x2941}, 4}, nil, fabric.RecognizedNone,
		},
		"product that only begins like one": {identity{"Amazon EC2", "p5.4xlarge", "", h100, 1}, nil, fabric.RecognizedNone},
		"DMI that cannot be read": {identity{"", "", "", h100, 8}, func(n *fabric.Node) {
			n.Host.DMI = fabric.DMI{Vendor: fabric.UnknownFact[string](fabric.ReasonPrivilege, "", at)}
		}, fabric.RecognizedIncomplete},
		"a bus that cannot be read": {identity{"NVIDIA", "DGXH100", "", h100, 0}, func(n *fabric.Node) {
			n.Sources = []fabric.Source{{Name: fabric.SourcePCI, Reason: fabric.ReasonStuck}}
		}, fabric.RecognizedIncomplete},
		"GPUs of which nothing is known": {identity{"NVIDIA", "DGXH100", "", h100, 8}, func(n *fabric.Node) {
			for i := range n.PCI.Functions {
				n.PCI.Functions[i] = n.PCI.Functions[i].WithoutFacts(fabric.ReasonStuck, at)
			}
		}, fabric.RecognizedIncomplete},
	} {
		n := c.is.node(Builtin())
		if c.edit != nil {
			c.edit(n)
		}
		if n.DeriveProfile(); n.Profile != nil || n.Recognition.Why != c.why || n.Recognition.Text == "" {
			t.Errorf("%s: %v, %+v", name, n.Profile, n.Recognition)
		}
	}
}

// TestRecognizedByGPUs: where DMI says nothing of a known machine, the GPUs do if they are of no other.
func TestRecognizedByGPUs(t *testing.T) {
	n := identity{"Dell Inc.", "Dell Pro Max with GB10", "", fabric.PCIID{Vendor: 0x10de, Device: 0x2e12}, 1}.node(Builtin())
	if n.DeriveProfile(); n.Profile == nil || n.Profile.Name != "dgx-spark" || n.Recognition.Why != fabric.RecognizedByGPUs {
		t.Errorf("%v, %+v", n.Profile, n.Recognition)
	}
}

// text is a profile of a site.
func text(name, match, more string) string {
	return fmt.Sprintf("version: 1\nname: %s\ntitle: Ours\nmatch: [{%s, source: s}]\ncabling: {by: site}\nsources: {s: {title: Our rack, date: \"2026\"}}\n%s", name, match, more)
}

// folder has these files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestSite: profiles of the site come before those that are compiled in, and two that fit equally well are none.
func TestSite(t *testing.T) {
	dgx := identity{"NVIDIA", "DGXH100", "", fabric.PCIID{Vendor: 0x10de, Device: 0x2330}, 8}
	for name, c := range map[string]struct {
		files map[string]string
		want  string
		why   fabric.RecognitionReason
	}{
		"before a compiled-in one": {map[string]string{"a.yaml": text("rack-a", "product: DGXH100", "")}, "rack-a", fabric.RecognizedByDMI},
		"in its place":             {map[string]string{"a.yml": text("dgx-h100", "product: DGX*", "")}, "dgx-h100", fabric.RecognizedByDMI},
		"of another machine":       {map[string]string{"a.yaml": text("rack-a", "board: X13", "")}, "dgx-h100", fabric.RecognizedByDMI},
		"two":                      {map[string]string{"a.yaml": text("rack-a", "product: DGXH100", ""), "b.yaml": text("rack-b", "vendor: NVIDIA, product: DGX*", "")}, "", fabric.RecognizedSeveral},
		"no profile":               {map[string]string{"README": "x", ".a.yaml": "x"}, "dgx-h100", fabric.RecognizedByDMI},
	} {
		set := Load(folder(t, c.files))
		n := dgx.node(set.Profiles)
		n.DeriveProfile()
		got := ""
		if n.Profile != nil {
			got = n.Profile.Name
		}
		if got != c.want || n.Recognition.Why != c.why || len(set.Problems) > 0 {
			t.Errorf("%s: %q, %+v, %v", name, got, n.Recognition, set.Problems)
		}
	}
}

// TestLeftOut: a file of the site that is not as it must be is left out with one line, and changes nothing else.
func TestLeftOut(t *testing.T) {
	good := text("rack-a", "product: DGXH100", "")
	for name, c := range map[string]struct {
		edit func(t *testing.T, dir string)
		says string
	}{
		"damaged":       {write("b.yaml", "version: 1\nname: [\n"), "b.yaml: expected a profile in YAML"},
		"empty":         {write("b.yaml", ""), "b.yaml: expected a profile in YAML"},
		"giant":         {write("b.yaml", strings.Repeat("# nothing\n", 10_000)), "larger than 65536 bytes"},
		"the same name": {write("b.yaml", good), "name rack-a"},
		"FIFO":          {func(t *testing.T, dir string) { must(t, mkfifo(filepath.Join(dir, "b.yaml"))) }, "not a regular file"},
		"other-writable": {func(t *testing.T, dir string) {
			write("b.yaml", text("rack-b", "product: X", ""))(t, dir)
			must(t, os.Chmod(filepath.Join(dir, "b.yaml"), 0o666))
		}, "others could have put it there"},
		"link to what others may write": {func(t *testing.T, dir string) {
			there := t.TempDir()
			write("x.yaml", text("rack-b", "product: X", ""))(t, there)
			must(t, os.Chmod(filepath.Join(there, "x.yaml"), 0o666))
			must(t, os.Symlink(filepath.Join(there, "x.yaml"), filepath.Join(dir, "b.yaml")))
		}, "others could have put it there"},
		"link to nothing": {func(t *testing.T, dir string) { must(t, os.Symlink("nowhere", filepath.Join(dir, "b.yaml"))) }, "no such file"},
		"a folder":        {func(t *testing.T, dir string) { must(t, os.Mkdir(filepath.Join(dir, "b.yaml"), 0o755)) }, "not a regular file"},
	} {
		dir := folder(t, map[string]string{"a.yaml": good})
		c.edit(t, dir)
		set := Load(dir)
		if len(set.Problems) != 1 || !strings.Contains(set.Problems[0].Error(), c.says) || strings.Contains(set.Problems[0].Error(), "\n") {
			t.Errorf("%s: %v", name, set.Problems)
		}
		if len(set.Profiles) != len(Builtin())+1 {
			t.Errorf("%s: %d profiles", name, len(set.Profiles))
		}
	}
	if set := Load("/nowhere/profiles.d"); len(set.Problems) != 1 || len(set.Profiles) != len(Builtin()) {
		t.Errorf("no folder: %v", set.Problems)
	}
	open := folder(t, map[string]string{"a.yaml": good})
	must(t, os.Chmod(open, 0o777)) //nolint:gosec // that is what is tested
	if set := Load(open); len(set.Problems) != 1 || len(set.Profiles) != len(Builtin()) {
		t.Errorf("a folder that others may write to: %v", set.Problems)
	}
}

func write(name, content string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

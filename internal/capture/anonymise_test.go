// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/host/netlink"
	"gpufabric_exporter/internal/host/openat"
	"gpufabric_exporter/internal/host/proc"
	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/simulator"
)

const (
	secretHost = "trainer-zurich-0815"
	secretMAC  = "0c:42:a1:d3:5e:77"
)

// withSecrets gives a node identifiers in every place that is captured.
func withSecrets(n *simulator.Node) {
	n.Host.Name = secretHost
	n.HCAs[1].Ports[0].TrafficClass = "Global tclass=106\nsrc_ip=203.0.113.77,dst_ip=10.20.30.40,tclass=96\ndst_ip=2a02:1234:5678:9abc::77,tclass=8\n"
	n.HCAs[1].Description = "HCA of " + strings.ToUpper(secretHost) + " 10.20.30.40"
	d := &n.NetDevs[slices.IndexFunc(n.NetDevs, func(d simulator.NetDev) bool { return d.PCI != "" })]
	d.Addrs = append(d.Addrs, netip.MustParsePrefix("2a02:1234:5678:9abc::77/64"), netip.MustParsePrefix("fd12:3456:789a::5/64"), netip.MustParsePrefix("203.0.113.77/24"))
	n.Routes = append(n.Routes, simulator.Route{Dst: netip.MustParsePrefix("::/0"), Gateway: netip.MustParseAddr("2a02:1234:5678:9abc::fffe"), NetDev: d.Name})
	n.Files["etc/nccl.conf"] = `# of alice@` + secretHost + `.example.org
NCCL_IB_HCA=mlx5
NCCL_SOCKET_IFNAME==eth0,` + secretHost + `
NCCL_COMM_ID=` + secretHost + `.example.org:12345
NCCL_IB_ADDR_RANGE=10.20.0.0/16
NCCL_SOCKET_FAMILY=AF_INET
NCCL_DEBUG_FILE=/home/alice/nccl.%h.%p
NCCL_TOPO_FILE=` + secretMAC + `,` + strings.ReplaceAll(secretMAC, ":", "-") + `,` + strings.ReplaceAll(secretMAC, ":", "") + `
NCCL_GRAPH_FILE=[2a02:1234:5678:9abc::77]:80,tcp:fe80::e42:a1ff:fed3:5e77%eth0,203.0.113.77:99,0x0c42a10300d35e77
NCCL_ALGO=Ring,Tree
API_TOKEN=hunter2-secret
hunter2-secret
`
	n.Files["var/run/nvidia-topologyd/virtualTopology.xml"] = "<system host=\"" + secretHost + "\"/>"
}

// notations returns how an address may be written.
func notations(a netip.Addr) []string {
	if a.Is4() {
		b := a.As4()
		h := hex.EncodeToString(b[:])
		return []string{a.String(), h, h[6:] + h[4:6] + h[2:4] + h[:2], h[:4] + ":" + h[4:]}
	}
	b := a.As16()
	return []string{a.String(), a.StringExpanded(), hex.EncodeToString(b[:])}
}

// secrets returns every identifier of the node, in the notations that an attacker may search for.
func secrets(n *simulator.Node) []string {
	list := []string{secretHost, "zurich", "alice", "example", "hunter2"}
	mac := func(s string) {
		if s == "" || strings.Trim(s, "0:") == "" {
			return
		}
		bare := strings.ReplaceAll(s, ":", "")
		list = append(list, s, bare, strings.ReplaceAll(s, ":", "-"), bare[:4]+"."+bare[4:8]+"."+bare[8:12])
		if len(bare) == 12 { // the digits that number the card, in what is made of it
			list = append(list, s[9:], bare[6:8]+":"+bare[8:], "fe"+bare[6:], "03:00"+bare[6:], "0300"+bare[6:], "ff:fe:"+s[9:])
		}
	}
	address := func(a netip.Addr) {
		if !a.IsUnspecified() && !a.IsLoopback() {
			list = append(list, notations(a)...)
		}
	}
	guid := func(g string) {
		if bare := strings.ReplaceAll(g, ":", ""); strings.Trim(bare, "0") != "" {
			list = append(list, g, bare, "0x"+bare, g[10:])
		}
	}
	mac(secretMAC)
	for _, s := range []string{"10.20.30.40", "203.0.113.77", "fe80::e42:a1ff:fed3:5e77", "2a02:1234:5678:9abc::77"} {
		address(netip.MustParseAddr(s))
	}
	for _, d := range n.NetDevs {
		mac(d.Address)
		for _, p := range d.Addrs {
			address(p.Addr())
		}
	}
	for _, r := range n.Routes {
		address(r.Gateway)
	}
	for _, h := range n.HCAs {
		guid(h.GUID.String())
		guid(h.ImageGUID.String())
		for _, p := range h.Ports {
			for _, g := range p.GIDs {
				address(g.Addr.Unmap())
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestNoIdentifierSurvives looks for every identifier of nodes of several vendors in the whole of their
// archives. FULL=1: of 128 ports, too.
func TestNoIdentifierSurvives(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: too slow under the race detector; make test runs it without")
	}
	for _, s := range simulator.Scenarios() {
		if !strings.HasPrefix(s.Name, "healthy") || s.Name == "healthy-128-ports" && os.Getenv("FULL") == "" {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			var node *simulator.Node
			tree := materialise(t, s, func(n *simulator.Node) {
				withSecrets(n)
				node = n.Clone()
			})
			o := options(tree)
			o.dial = answersOf(t, tree).dial
			c := take(t, o)
			all := strings.ToLower(string(decompress(t, archive(t, c))))
			list := secrets(node)
			if len(list) < 30 {
				t.Fatalf("only %d identifiers", len(list))
			}
			for _, secret := range list {
				if i := strings.Index(all, strings.ToLower(secret)); i >= 0 {
					t.Errorf("%q survives: ...%q...", secret, all[max(0, i-60):min(len(all), i+60)])
				}
			}
			if e, ok := c.entries["root/var/run/nvidia-topologyd/virtualTopology.xml"]; !ok || e.kind != regular || e.text != "" {
				t.Errorf("a file that describes the bus to NCCL: %v %+v", ok, e)
			}
			for _, p := range c.Manifest.LeftOut {
				if strings.Contains(p.Reason, "more than") {
					t.Errorf("%s: %s", p.Path, p.Reason)
				}
			}
			t.Logf("%d entries, %d bytes", len(c.entries), c.Manifest.Bytes)
			conf := c.entries["root/etc/nccl.conf"].text
			for _, kept := range []string{"NCCL_IB_HCA=mlx5\n", "NCCL_SOCKET_IFNAME==eth0,", "NCCL_ALGO=Ring,Tree\n", ":12345\n", "NCCL_SOCKET_FAMILY=AF_INET\n", ".%h.%p\n", "\nREMOVED=\nremoved\n"} {
				if !strings.Contains(conf, kept) {
					t.Errorf("%q is not in:\n%s", kept, conf)
				}
			}
		})
	}
}

// TestRelations checks that identifiers that belong together still do.
func TestRelations(t *testing.T) {
	tree := materialise(t, find(t, "healthy"), withSecrets)
	c, other := take(t, options(tree)), take(t, options(tree))
	dirs := map[string]string{} // of an RDMA device, by name
	for p, e := range c.entries {
		if path.Dir(p) == "sys/"+rdmaClass && e.kind == link {
			dirs[path.Base(p)] = path.Join(path.Dir(p), e.text)
		}
	}
	if len(dirs) != 11 {
		t.Fatalf("%v", dirs)
	}
	images, guids := map[string]int{}, map[string]bool{}
	for name, dir := range dirs {
		text := func(p string) string { return strings.TrimSpace(c.entries[path.Join(dir, p)].text) }
		gid := text("ports/1/gids/0")
		low, ok := strings.CutPrefix(gid, "fe80:0000:0000:0000:")
		b, err := hex.DecodeString(strings.ReplaceAll(low, ":", ""))
		if err != nil || !ok || len(b) != 8 {
			t.Fatalf("%s: gid %q of a MAC address", name, gid)
		}
		if guid := text("node_guid"); name != "mlx5_bond_0" && guid != fmt.Sprintf("%02x%02x:%02x03:00%02x:%02x%02x", b[0]^2, b[1], b[2], b[5], b[6], b[7]) {
			t.Errorf("%s: guid %s, gid %s", name, guid, gid)
		}
		images[text("sys_image_guid")]++
		guids[text("node_guid")] = true
		if before := strings.TrimSpace(other.entries[path.Join(dir, "node_guid")].text); before == text("node_guid") {
			t.Errorf("%s: two captures have guid %s", name, before)
		}
	}
	was := map[simulator.GUID]int{}
	n := find(t, "healthy").Build()
	for _, h := range n.HCAs {
		was[h.ImageGUID]++
	}
	if len(guids) != len(n.HCAs) || !slices.Equal(slices.Sorted(maps.Values(images)), slices.Sorted(maps.Values(was))) {
		t.Errorf("%d guids, image guids %v, were %v", len(guids), images, was)
	}
}

// anonymous knows these names.
func anonymous(key byte, devices []string, others ...string) *anonymiser {
	a := &anonymiser{key: [32]byte{key}}
	a.learn(devices, others, true)
	return a
}

func TestAddresses(t *testing.T) {
	a := anonymous(1, nil)
	for _, s := range []string{
		"10.1.2.3", "172.16.5.6", "192.168.1.1", "169.254.7.8", "100.64.1.1", "224.0.1.1", "8.8.8.8", "203.0.113.9", "11.0.0.1", "192.169.0.1",
		"2a02::1", "2001:db8::5", "fd00:1::2", "fc00:1::2", "fe80::1", "fe80::a288:c2ff:fe12:3456", "ff02::1:ff12:3456", "fec0::1:2", "1234::5:6",
		"::ffff:10.1.2.3", "::ffff:8.8.8.8",
	} {
		was := netip.MustParseAddr(s)
		is := a.addr(was)
		same := was.Is4In6() == is.Is4In6() && was.IsPrivate() == is.IsPrivate() && was.IsLinkLocalUnicast() == is.IsLinkLocalUnicast() &&
			was.IsMulticast() == is.IsMulticast() && was.IsGlobalUnicast() == is.IsGlobalUnicast()
		if is == was || !same {
			t.Errorf("%s became %s", was, is)
		}
	}
	for _, s := range []string{"0.0.0.0", "127.0.0.1", "255.255.255.0", "::", "::1", "::ffff:127.0.0.1"} {
		if ip := netip.MustParseAddr(s); a.addr(ip) != ip {
			t.Errorf("%s became %s", s, a.addr(ip))
		}
	}
	for _, s := range []string{"10.20.0.0/16", "2a02:1:2::/48", "8.0.0.0/7", "0.0.0.0/0", "::/0"} {
		p := netip.MustParsePrefix(s)
		next := p.Addr().Next().Next()
		if got := a.prefix(p); !got.Contains(a.addr(next)) || got.Bits() != p.Bits() || got != got.Masked() {
			t.Errorf("%s became %s, and %s in it %s", p, got, next, a.addr(next))
		}
	}
	// One to one.
	seen := map[uint64]bool{}
	for i := range uint64(1 << 12) {
		seen[a.permute("test", 7, i, 12)] = true
	}
	if len(seen) != 1<<12 {
		t.Errorf("%d different of %d", len(seen), 1<<12)
	}
}

func TestText(t *testing.T) {
	a := anonymous(2, nil)
	for _, kept := range []string{
		"", "4: ACTIVE", "0000:1a:00.0", "400 Gb/sec (4X NDR)", "0x10de", "12:34:56", "32.0 GT/s PCIe", "0x2651e848", "mlx5_0", "fe80", "00:00:00:00:00:00", "enp24s0np0", "1234567890",
	} {
		if got := a.text(kept); got != kept {
			t.Errorf("%q became %q", kept, got)
		}
	}
	for in, notIn := range map[string]string{
		"enx0c42a1d35e77": "d35e77",
		"0:c:42:a1:d3:5e": "a1:d3",
		"00:00:04:9a:fe:80:00:00:00:00:00:00:a0:88:c2:03:00:ab:cd:ef": "ab:cd",
		"a0:88:c2:ff:fe:ab:cd:ef":                                     "ab:cd",
		"10.1.2.3/99":                                                 "1.2.3",
		"fe80::1234/200":                                              "1234",
		"tcp:fe80::abcd:1":                                            "abcd",
		"a:b:10.1.2.3":                                                "1.2.3",
		"999.1.2.3":                                                   "1.2.3",
		"fe80::abcd:":                                                 "abcd",
		"FE80::ABCD":                                                  "ABCD",
		"1::2::00:11:22:33:44:55":                                     "44:55",
	} {
		if got := a.text(in); strings.Contains(strings.ToLower(got), strings.ToLower(notIn)) || got == in {
			t.Errorf("%q became %q", in, got)
		}
		if got, again := a.text(in), a.text(in); got != again {
			t.Errorf("%q became %q and %q", in, got, again)
		}
	}
	if a.path("sys/class/net/enx0c42a1d35e77") != "sys/class/net/"+a.list("enx0c42a1d35e77") {
		t.Error("a name becomes another in a path than in a text")
	}
	for name, text := range map[string]string{"proc/net/route": "eth0\t0002000A\tzz", "proc/net/ipv6_route": "fe80 40"} {
		if got := a.rewrite(name, read(name, text)); got != openat.Removed {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// read is what a reader read of a file.
func read(name, text string) entry {
	part, file, _ := strings.Cut(name, "/")
	redactions := map[string][]openat.Redaction{procPart: proc.Redactions(), rootPart: settings.Redactions()}[part]
	r, _ := openat.RedactionOf(redactions, file)
	return entry{kind: regular, text: text, keep: r.Keep}
}

// FuzzAnonymise looks for addresses between blanks, whatever is around them.
func FuzzAnonymise(f *testing.F) {
	f.Add("NCCL_X=", uint64(0x0c42a1d35e77), "\n")
	f.Add("1:2:", uint64(0xffffffffff), "/24:")
	f.Fuzz(func(t *testing.T, before string, v uint64, after string) {
		if v&0xffffff == 0 || v&0xffffff == 0xffffff || v>>24 == 0 {
			return
		}
		a := anonymous(3, []string{"mlx5_0"}, "host")
		m := [6]byte{byte(v >> 40), byte(v >> 32), byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}
		if new := a.mac(m); new == m {
			return // one in 16 millions
		}
		h := hex.EncodeToString(m[:])
		mac := fmt.Sprintf("%s:%s:%s:%s:%s:%s", h[:2], h[2:4], h[4:6], h[6:8], h[8:10], h[10:])
		for _, secret := range []string{mac, strings.ReplaceAll(mac, ":", "-"), h} {
			if strings.Contains(before, secret) || strings.Contains(after, secret) {
				return
			}
			s := before + " " + secret + " " + after
			for _, e := range []string{"root/etc/nccl.conf", "sys/x/node_desc", "sys/x/other", "proc/net/route", "proc/net/ipv6_route", "sys/x/gids/0", "sys/x/tc/1/traffic_class"} {
				if got := a.rewrite(e, read(e, s)); strings.Contains(got, secret) && !strings.Contains(a.text(before+" "+after), secret) {
					t.Errorf("%s: %q became %q", e, s, got)
				}
			}
		}
		for _, file := range []string{rdmaName, dcbName, ethtoolName} {
			_ = a.rewrite(file, entry{kind: regular, text: before})
		}
		_ = a.gid([16]byte([]byte(fmt.Sprintf("%016d", v%1e16))))
	})
}

func TestNetlink(t *testing.T) {
	a := anonymous(4, nil)
	attribute := func(kind uint16, data string) []byte {
		b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(data)))
		b = append(binary.NativeEndian.AppendUint16(b, kind), data...)
		return append(b, make([]byte, -len(b)&3)...)
	}
	const name, firmware, guid, netdev = 2, 5, 6, 51 // RDMA_NLDEV_ATTR_...
	was := uint64(0xa088c203004e1018)
	text, err := json.Marshal([]netlink.Exchange{{Command: "get", Messages: []netlink.Bytes{slices.Concat(
		attribute(name, "mlx5_0\x00"), attribute(firmware, "28.39.1002\x00"), attribute(netdev, "enx0c42a1d35e77\x00"),
		attribute(guid, string(binary.NativeEndian.AppendUint64(nil, was))),
	)}}})
	if err != nil {
		t.Fatal(err)
	}
	got := a.rewrite(rdmaName, entry{kind: regular, text: string(text)})
	has := func(s string) bool { return strings.Contains(got, hex.EncodeToString([]byte(s))) }
	raw := func(v uint64) string { return string(binary.NativeEndian.AppendUint64(nil, v)) }
	if has("d35e77") || has(raw(was)) || !has(raw(a.eui64(was))) || !has("28.39.1002") || !has(a.device("enx0c42a1d35e77")) || !has("mlx5_0") {
		t.Error(got)
	}
	if got := a.rewrite(rdmaName, entry{kind: regular, text: "{"}); got != "" {
		t.Error(got)
	}
}

// The rules of a site name its peers.
func TestTrafficClass(t *testing.T) {
	a := anonymous(5, nil)
	address := func(s string) string { return a.addr(netip.MustParseAddr(s)).String() }
	prefix := func(s string) string { return a.prefix(netip.MustParsePrefix(s)).String() }
	const full = "2001:0db8:0000:0000:0000:0000:0000:0017"
	for was, want := range map[string]string{
		"":                    "",
		"Global tclass=106\n": "Global tclass=106\n",
		"Global tclass=106\nsrc_ip=10.20.30.40,dst_ip=10.20.0.0/16,tclass=96\n": "Global tclass=106\nsrc_ip=" + address("10.20.30.40") +
			",dst_ip=" + prefix("10.20.0.0/16") + ",tclass=96\n",
		"dst_ip6=2001:db8::17,tclass=0x60\n": "dst_ip6=" + address("2001:db8::17") + ",tclass=0x60\n",
		"dst_ip=" + full + ",tclass=1\n":     "dst_ip=" + a.gidText(full) + ",tclass=1\n",
		"dst_ip=trainer,tclass=1\n":          "removed\n",
		"owner=alice\ntclass=10.20.30.40\n":  "removed\nremoved\n",
	} {
		if got := a.rewrite("sys/class/infiniband/mlx5_0/tc/1/traffic_class", entry{kind: regular, text: was}); got != want {
			t.Errorf("%q became %q, want %q", was, got, want)
		}
	}
}

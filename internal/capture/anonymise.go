// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
)

// anonymiser replaces identifiers. All it does is a function of its key, which is made for one capture and then
// forgotten: within a capture equal things stay equal and different things different, and two captures do not
// show whether they are of one node.
type anonymiser struct {
	key [sha256.Size]byte
	known
}

// random returns a number that depends on the key, the domain and the numbers.
func (a *anonymiser) random(domain string, numbers ...uint64) uint64 {
	h := hmac.New(sha256.New, a.key[:])
	b := append([]byte(domain), 0)
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	h.Write(b)
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// permute maps the numbers of so many bits, an even number of them, one to one: a Feistel network. The tweak
// chooses among permutations.
func (a *anonymiser) permute(domain string, tweak, v uint64, bits uint) uint64 {
	const rounds = 8
	half := bits / 2
	mask := uint64(1)<<half - 1
	l, r := v>>half&mask, v&mask
	for i := range uint64(rounds) {
		l, r = r, l^a.random(domain, tweak, i, r)&mask
	}
	return l<<half | r
}

// word returns what stands for a word, such as the name of a host.
func (a *anonymiser) word(s string) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], a.random("word "+strings.ToLower(s)))
	return "x" + hex.EncodeToString(b[:5])
}

// noise returns bytes that have nothing of those that they stand for. All zeros and ones stay.
func (a *anonymiser) noise(raw []byte) []byte {
	if n := len(raw); bytes.Count(raw, []byte{0}) == n || bytes.Count(raw, []byte{0xff}) == n {
		return raw
	}
	out := make([]byte, len(raw))
	for i := range out {
		out[i] = byte(a.random("noise "+string(raw), uint64(i)))
	}
	return out
}

// mac keeps the vendor of a MAC address.
func (a *anonymiser) mac(m [6]byte) [6]byte {
	if m == [6]byte{} || m == [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff} {
		return m
	}
	low := uint64(m[3])<<16 | uint64(m[4])<<8 | uint64(m[5])
	low = a.permute("mac", oui(m[:]), low, 24)
	m[3], m[4], m[5] = byte(low>>16), byte(low>>8), byte(low)
	return m
}

// oui is the vendor in the first three bytes, whatever the bit of local addresses says: IPv6 turns it over.
func oui(b []byte) uint64 { return uint64(b[0]&^2)<<16 | uint64(b[1])<<8 | uint64(b[2]) }

// eui64 keeps the vendor of a GUID or interface identifier. One that was made from a MAC address becomes the one that
// is made from the new MAC address; a prefix with nothing behind it stays.
func (a *anonymiser) eui64(v uint64) uint64 {
	const low40 = 1<<40 - 1
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	switch {
	case v&low40 == 0:
		return v
	case isMAC(b):
		m := a.mac([6]byte{b[0], b[1], b[2], b[5], b[6], b[7]})
		copy(b[5:], m[3:])
		return binary.BigEndian.Uint64(b[:])
	}
	return v&^low40 | a.permute("eui64", oui(b[:]), v&low40, 40)
}

// isMAC reports whether an EUI-64 was made from a MAC address: as IPv6 does it, or as NVIDIA numbers its cards.
func isMAC(b [8]byte) bool { return b[3] == 0xff && b[4] == 0xfe || b[3] == 3 && b[4] == 0 }

// class is a part of an address space whose addresses stay in it; the first bits stay as they are.
type class struct {
	prefix netip.Prefix
	keep   bool // all bits stay: the address identifies no one
}

func classes4() []class {
	p := netip.MustParsePrefix
	return []class{
		{p("0.0.0.0/8"), true},
		{p("127.0.0.0/8"), true},
		{p("240.0.0.0/4"), true},
		{p("10.0.0.0/8"), false},
		{p("172.16.0.0/12"), false},
		{p("192.168.0.0/16"), false},
		{p("169.254.0.0/16"), false},
		{p("100.64.0.0/10"), false},
		{p("224.0.0.0/4"), false},
		{p("0.0.0.0/0"), false},
	}
}

func classes6() []class {
	p := netip.MustParsePrefix
	return []class{
		{p("::/128"), true},
		{p("::1/128"), true},
		{p("::/64"), false},
		{p("fe80::/64"), false}, // of an InfiniBand subnet, too
		{p("fe80::/10"), false},
		{p("fec0::/10"), false},
		{p("fc00::/8"), false},
		{p("fd00::/8"), false},
		{p("ff00::/8"), false},
		{p("2000::/3"), false},
		{p("::/0"), false},
	}
}

func classOf(classes []class, addr netip.Addr) class {
	for _, c := range classes {
		if c.prefix.Contains(addr) {
			return c
		}
	}
	return class{keep: true} // cannot be: the last one contains all
}

// addr replaces an IP address or a GID. Its class stays, and so does how many leading bits two of them share: what
// matches a prefix matches the new prefix.
func (a *anonymiser) addr(ip netip.Addr) netip.Addr {
	switch {
	case ip.Is4In6():
		return netip.AddrFrom16(a.addr(ip.Unmap()).As16())
	case ip.Is4():
		return a.inClass(classes4(), ip, func(ip netip.Addr, fixed int) netip.Addr {
			b := ip.As4()
			a.flip(b[:], fixed)
			return netip.AddrFrom4(b)
		})
	}
	return a.inClass(classes6(), ip.WithZone(""), a.addr6)
}

// addr6 treats both halves of an address apart, so that the second is that of the MAC address or GUID it was made of.
func (a *anonymiser) addr6(ip netip.Addr, fixed int) netip.Addr {
	b := ip.As16()
	a.flip(b[:8], fixed)
	low := binary.BigEndian.Uint64(b[8:])
	unicast := netip.MustParsePrefix("2000::/3").Contains(ip) || netip.MustParsePrefix("fc00::/7").Contains(ip)
	switch {
	case low == 0:
	case unicast && !isMAC([8]byte(b[8:])): // of no vendor
		low = a.permute("interface", 0, low, 64)
	default:
		low = a.eui64(low)
	}
	binary.BigEndian.PutUint64(b[8:], low)
	return netip.AddrFrom16(b)
}

// inClass repeats the mapping until the result is of the class of the address. That makes it one to one again.
func (a *anonymiser) inClass(classes []class, ip netip.Addr, change func(netip.Addr, int) netip.Addr) netip.Addr {
	c := classOf(classes, ip)
	if c.keep {
		return ip
	}
	for {
		ip = change(ip, c.prefix.Bits())
		if classOf(classes, ip) == c && !ip.Is4In6() {
			return ip
		}
	}
}

// flip turns over bits from the first that is not fixed on, each depending on all bits before it (Crypto-PAn).
func (a *anonymiser) flip(b []byte, fixed int) {
	var before uint64
	for i := range len(b) * 8 {
		bit := uint64(b[i/8]) >> (7 - i%8) & 1
		if i >= fixed && a.random("address", uint64(len(b)), uint64(i), before)&1 == 1 {
			b[i/8] ^= 1 << (7 - i%8)
		}
		before = before<<1 | bit
	}
}

// prefix replaces a prefix; that its host bits are zero stays so.
func (a *anonymiser) prefix(p netip.Prefix) netip.Prefix {
	n := netip.PrefixFrom(a.addr(p.Addr()), p.Bits())
	if p == p.Masked() {
		n = n.Masked()
	}
	return n
}

// gid replaces a GID. One of an iWARP device is its MAC address and zeros.
func (a *anonymiser) gid(g [16]byte) [16]byte {
	if [10]byte(g[6:]) == [10]byte{} && g[0] != 0xfe {
		m := a.mac([6]byte(g[:6]))
		copy(g[:], m[:])
		return g
	}
	return a.addr(netip.AddrFrom16(g)).As16()
}

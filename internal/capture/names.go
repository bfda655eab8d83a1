// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gpufabric_exporter/internal/lazyregexp"
)

// Names of interfaces and RDMA devices are replaced by others of the same length, letter by letter: what was
// the beginning of a name, as NCCL_SOCKET_IFNAME may have it, is the beginning of the new one. Parts that
// systemd, drivers and all sites use stay, so that enp24s0f0np0, bond0.100 and mlx5_bond_0 do.

// usual are such parts of names. None says who owns a node.
const usual = `eth en eno ens enp enx enu usb wl wlan ib ibp ibs ibo ibx p s f n d b v vf pf sf npf np hpf rep o u i c r
	bond team br bridge vlan vxlan lo docker podman virbr veth vnet tap tun dummy ifb wg sit gre gretap tunl iptnl ip tnl
	erspan cni cali cilium flannel lxc lxdbr nic macvlan macvtap ipvlan ipvs kube nodelocaldns geneve genev sys ovs system
	int ex hsn hca mlx core bnxt re irdma iw efa rdma rdmap rocep roceo roces roce rocex rxe siw hns hfi qib opa qedr erdma
	mana ionic usnic ocrdma cxgb mthca pvrdma vmw xsc hinic gaudi rail gpu port net pci host node mgmt management storage compute data oob bmc idrac uplink`

// maxWords bounds the names that are looked for inside of texts.
const maxWords = 4096

var (
	namePiece = lazyregexp.New(`(?s)[0-9a-fA-F]{6,}|[A-Za-z]+|[0-9]+|.`)
	madeOfMAC = lazyregexp.New(`^(en|wl|ww|ib)x([0-9a-f]{16}|[0-9a-f]{12})`)
	letters   = lazyregexp.New(`[A-Za-z]+`)
)

// known are the names of one node.
type known struct {
	a       *anonymiser
	usual   map[string]bool
	devices map[string]string // of interfaces and RDMA devices, with what stands for them
	sorted  []string          // the former
	secrets *regexp.Regexp    // of hosts and users, and what is in those of devices; nil: none
}

// learn takes the names of a node: of its interfaces and RDMA devices, and others. ok is false where two
// devices would get one name, or one that NCCL treats otherwise: then another key is needed. What collides in
// the last attempt gets a name of chance.
func (a *anonymiser) learn(devices, others []string, last bool) (ok bool) {
	a.known = known{a: a, usual: map[string]bool{}, devices: map[string]string{}}
	for w := range strings.FieldsSeq(usual) {
		a.usual[w] = true
	}
	used := map[string]bool{}
	a.sorted = slices.Compact(slices.Sorted(slices.Values(devices)))
	for _, name := range a.sorted {
		is := a.cipher(name)
		for _, p := range []string{"lo", "ib", "docker"} { // NCCL leaves these for last, or prefers them
			if strings.HasPrefix(name, p) {
				is = p + is[len(p):]
			} else if strings.HasPrefix(is, p) && !last {
				return false
			}
		}
		if used[is] && !last {
			return false
		}
		for n := uint64(0); used[is]; n++ {
			is = a.chance(name, n)
		}
		used[is], a.devices[name] = true, is
	}
	a.secrets = a.search(others)
	return true
}

// chance is a name as long as another, or, where too many are that short, as long as interfaces may be called.
func (k *known) chance(name string, n uint64) string {
	const enough, longest = 64, 15
	b := make([]byte, len(name))
	if n >= enough {
		b = make([]byte, max(len(name), longest))
	}
	for i := range b {
		b[i] = 'a' + byte(k.a.random("chance "+name, n, uint64(i))%26)
	}
	return string(b)
}

// device replaces the name of an interface or RDMA device, or how names of this node's begin.
func (k *known) device(s string) string {
	if is, ok := k.ofDevice(s); ok {
		return is
	}
	return k.cipher(s)
}

// ofDevice does so for the names of this node's.
func (k *known) ofDevice(s string) (string, bool) {
	if is, ok := k.devices[s]; ok {
		return is, true
	}
	if i, _ := slices.BinarySearch(k.sorted, s); len(s) > 1 && i < len(k.sorted) && strings.HasPrefix(k.sorted[i], s) {
		return k.devices[k.sorted[i]][:len(s)], true
	}
	return "", false
}

// cipher replaces each unusual part of a name.
func (k *known) cipher(s string) string {
	head := ""
	if m := madeOfMAC().FindStringSubmatch(s); m != nil {
		head, s = m[1]+"x"+k.a.identifier(m[2], true), s[len(m[0]):]
	}
	pieces, strange := namePiece().FindAllString(s, -1), false
	for _, p := range pieces {
		strange = strange || !k.stays(p)
	}
	if !strange {
		return head + s
	}
	for i, p := range pieces {
		const id = 4 // digits: shorter numbers count
		switch number := strings.Trim(p, "0123456789") == ""; {
		case !k.stays(p), number && len(p) >= id:
			pieces[i] = k.shift(p)
		}
	}
	return head + strings.Join(pieces, "")
}

// stays reports whether a part of a name is usual.
func (k *known) stays(p string) bool {
	return p == "-" || p == "_" || p == "." || strings.Trim(p, "0123456789") == "" || k.usual[strings.ToLower(p)]
}

// shift replaces each letter and digit by one that depends on all before it; all else by letters.
func (k *known) shift(p string) string {
	b := []byte(p)
	lower := strings.ToLower(p)
	for i, c := range b {
		by := k.a.random("letter " + lower[:i])
		switch {
		case '0' <= c && c <= '9':
			b[i] = '0' + byte((uint64(c-'0')+by)%10)
		case 'A' <= c && c <= 'Z':
			b[i] = 'A' + byte((uint64(c-'A')+by)%26)
		case 'a' <= c && c <= 'z':
			b[i] = 'a' + byte((uint64(c-'a')+by)%26)
		default:
			b[i] = 'a' + byte((uint64(c)+by)%26)
		}
	}
	return string(b)
}

// search makes the expression that finds names inside of texts: those of hosts and users, the parts of a
// host's, and the unusual parts of the names of devices. Of three letters they count as words only, shorter
// ones not at all.
func (k *known) search(others []string) *regexp.Regexp {
	words := map[string]bool{}
	add := func(w string, least int) {
		w = strings.ToLower(w)
		if len(w) >= least && len(words) < maxWords && letters().MatchString(w) && !k.usual[w] && !plainWord(w) {
			words[w] = true
		}
	}
	for _, name := range others {
		add(name, 3)
		for label := range strings.SplitSeq(name, ".") {
			add(label, 3)
			for _, p := range letters().FindAllString(label, -1) {
				add(p, 4)
			}
		}
	}
	for _, name := range k.sorted {
		if k.devices[name] == name {
			continue
		}
		add(name, 3)
		for _, p := range letters().FindAllString(name, -1) {
			add(p, 3)
		}
	}
	if len(words) == 0 {
		return nil
	}
	var list []string
	for _, w := range slices.SortedFunc(maps.Keys(words),
		func(x, y string) int { return cmp.Or(len(y)-len(x), strings.Compare(x, y)) }) {
		if w = regexp.QuoteMeta(w); len(w) == 3 {
			w = `\b` + w + `\b`
		}
		list = append(list, w)
	}
	return regexp.MustCompile(`(?i)` + strings.Join(list, "|"))
}

// plainWord reports whether vendors and NCCL use the word: such a part of a host's name does not identify it.
func plainWord(w string) bool {
	return harmless().MatchString(w) ||
		slices.Contains(strings.Fields("root admin localhost localdomain local none cluster internal gpus nodes train worker linux"), w) || ofNCCL(w)
}

// isSecret reports whether a name of a host, user or tenant is in a text.
func (k *known) isSecret(s string) bool { return k.secrets != nil && k.secrets.MatchString(s) }

// scrub replaces the names in a text.
func (k *known) scrub(s string) string {
	if k.secrets == nil {
		return s
	}
	return k.secrets.ReplaceAllStringFunc(s, func(m string) string {
		if is, ok := k.devices[m]; ok {
			return is
		}
		if letters().FindString(m) == m {
			return k.shift(m)
		}
		return k.a.word(m)
	})
}

// list replaces names between blanks.
func (k *known) list(s string) string {
	return notBlank().ReplaceAllStringFunc(s, k.device)
}

var notBlank = lazyregexp.New(`\S+`)

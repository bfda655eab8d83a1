// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// NameFilter is NCCL_IB_HCA or NCCL_SOCKET_IFNAME as NCCL reads it (parseStringList and matchIfList of misc/utils.cc).
// The zero NameFilter takes everything.
type NameFilter struct {
	Exclude bool // "^": what matches is left out
	Exact   bool // "=": whole names count, else their beginning does
	Items   []NameItem
}

// NameItem is one name of a NameFilter.
type NameItem struct {
	Name string
	Port int // -1: all
}

// ParseNameFilter reads the value of such a variable. NCCL takes whatever is written.
func ParseNameFilter(text string) NameFilter {
	var f NameFilter
	text, f.Exclude = strings.CutPrefix(text, "^")
	text, f.Exact = strings.CutPrefix(text, "=")
	for item := range strings.SplitSeq(text, ",") {
		name, rest, ported := strings.Cut(item, ":")
		if name == "" {
			continue
		}
		one := NameItem{Name: name, Port: -1}
		if ported {
			one.Port = leadingInt(rest) // without a number 0, which no port has
		}
		f.Items = append(f.Items, one)
	}
	return f
}

// Matches reports whether an item of the filter means the port of that device or interface. Port -1 stands for any.
func (f NameFilter) Matches(item NameItem, device string, port int) bool {
	named := strings.HasPrefix(device, item.Name)
	if f.Exact {
		named = device == item.Name
	}
	return named && (item.Port < 0 || port < 0 || item.Port == port)
}

// CutsNumber reports whether the name is the beginning of that of a device within its number: mlx5_1 of
// mlx5_10. Then it is that of another device, and NCCL takes this one by chance.
func (i NameItem) CutsNumber(device string) bool {
	const digits = "0123456789"
	rest, begins := strings.CutPrefix(device, i.Name)
	return begins && rest != "" && strings.Trim(rest, digits) == "" && strings.TrimRight(i.Name, digits) != i.Name
}

// Takes reports whether NCCL would use the port of that device or interface. Port -1 stands for any.
func (f NameFilter) Takes(device string, port int) bool {
	if len(f.Items) == 0 {
		return !f.Exclude
	}
	return f.Exclude != slices.ContainsFunc(f.Items, func(i NameItem) bool { return f.Matches(i, device, port) })
}

// Devices is the host's NCCL_IB_HCA. It is not set where the variable is not, or empty, which NCCL takes for unset.
func (c *NCCLConfig) Devices() (f NameFilter, set bool) {
	text, set := c.Text("NCCL_IB_HCA")
	if !set {
		return NameFilter{}, false
	}
	return ParseNameFilter(text), true
}

// NamesDevices reports whether NCCL_IB_HCA says which devices there are: it misses one, or would miss one that
// is gone. It would not by how names begin, by what to leave out, and by numbers of the kernel.
func (n *Node) NamesDevices() bool {
	f, set := n.NCCL.Devices()
	return set && !f.Exclude && (len(n.MissingNames(f)) > 0 || !slices.ContainsFunc(f.Items, func(i NameItem) bool {
		return numbered(i.Name) || n.HCA(i.Name) == nil
	}))
}

// numbered reports whether the kernel named a device in the order of discovery, as mlx5_5: where one is gone
// at boot, the next has its name. Else udev named it after its place.
func numbered(name string) bool {
	stem := strings.TrimRight(name, "0123456789")
	return stem != name && (stem == "irdma" || strings.Contains(stem, "_"))
}

// NextNamed returns the device that the kernel would have numbered next after those of the node, if the
// configuration gives it a role that not every number has; empty: none.
func (n *Node) NextNamed() string {
	names := slices.Clone(n.Excluded)
	for i := range n.HCAs {
		names = append(names, n.HCAs[i].Name)
	}
	last := map[string]int{}
	for _, name := range names {
		if numbered(name) {
			stem := strings.TrimRight(name, "0123456789")
			number, _ := strconv.Atoi(name[len(stem):])
			last[stem] = max(last[stem], number)
		}
	}
	for _, stem := range slices.Sorted(maps.Keys(last)) {
		next := stem + strconv.Itoa(last[stem]+1)
		role, given := n.Policy.RoleOf(next)
		if other, always := n.Policy.RoleOf(stem + "99999"); given && (!always || other != role) {
			return next
		}
	}
	return ""
}

// names reports whether NCCL_IB_HCA takes the port by the whole name of its device.
func (c *NCCLConfig) names(h *HCA, p *Port) bool {
	f, set := c.Devices()
	return set && !f.Exclude && slices.ContainsFunc(f.Items,
		func(i NameItem) bool { return i.Name == h.Name && f.Matches(i, h.Name, p.Number) })
}

// namesPort reports whether NCCL_IB_HCA names the port itself, or the device that has no other.
func (c *NCCLConfig) namesPort(h *HCA, p *Port) bool {
	f, _ := c.Devices()
	return len(h.Ports) == 1 || slices.ContainsFunc(f.Items,
		func(i NameItem) bool { return i.Name == h.Name && i.Port == p.Number })
}

// MissingNames returns what a list of devices names that the node does not have.
func (n *Node) MissingNames(f NameFilter) (missing []string) {
	for _, i := range f.Items {
		there := slices.ContainsFunc(n.HCAs, func(h HCA) bool {
			return f.Matches(i, h.Name, -1) && !i.CutsNumber(h.Name) &&
				(i.Port < 0 || len(h.Ports) == 0 || slices.ContainsFunc(h.Ports, func(p Port) bool { return p.Number == i.Port }))
		}) || slices.ContainsFunc(n.Excluded, func(name string) bool { return f.Matches(i, name, -1) })
		if !there && !f.Exclude {
			missing = append(missing, i.Name)
		}
	}
	return missing
}

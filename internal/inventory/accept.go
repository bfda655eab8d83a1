// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/files"
	"gpufabric_exporter/internal/verdict"
)

const maxAccepted = 64 // the newest

// Accepted says that what a device had no longer counts.
type Accepted struct {
	Name   string `json:"name"` // of the device or port, as it was given
	PCI    string `json:"pci"`
	GUID   string `json:"guid,omitempty"` // of the card that is meant, where several had the address; empty: any
	Number int    `json:"port,omitempty"` // 0: all ports
	By     string `json:"by"`
	At     int64  `json:"at"` // seconds since 1970
}

func (a Accepted) covers(p port) bool {
	return a.PCI == p.PCI && (a.GUID == "" || a.GUID == p.GUID) && (a.Number == 0 || a.Number == p.Number)
}

// Forgotten is what the record forgot.
type Forgotten struct {
	Accepted
	// for people: "port 1 had a link until 2026-11-27 03:12 UTC, 400 Gb/s"; empty: it had nothing that the node lacks
	What []string
}

// accepted returns until when what the port had does not count; zero: all counts. That may be in the future:
// the clock was set back.
func (h *hardware) accepted(of port, anew time.Time) time.Time {
	for _, a := range h.Accepted {
		if at := time.Unix(a.At, 0); a.covers(of) && at.After(anew) {
			anew = at
		}
	}
	return anew
}

// Accept has the record forget what devices or ports had, by their names or PCI addresses: the operator took
// them out. By is who says so. The exporter that is running notices. Only the owner of the folder may.
func Accept(file string, n *fabric.Node, names []string, by string) ([]Forgotten, error) {
	dir := filepath.Dir(file)
	owner, err := ownerOf(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil,
			fmt.Errorf("there is no record to change, because there is no folder %s: the exporter remembers only what it saw since its start", dir)
	case err != nil:
		return nil, err
	case owner != os.Geteuid():
		return nil,
			fmt.Errorf("the record in %s belongs to user %d, and this is user %d: run it as the owner, as in sudo -u '#%d' gpufabric_exporter check --accept=%s",
				dir, owner, os.Geteuid(), owner, names[0])
	}
	h, err := readFile(file)
	if err != nil {
		return nil, fmt.Errorf("the record cannot be read, and counts for nothing: %w", err)
	}
	var list []Forgotten
	for _, name := range names {
		a, err := h.find(n, name)
		if err != nil {
			return nil, err
		}
		a.Name, a.By, a.At = name, by[:min(len(by), maxItem)], n.At.Unix()
		list = append(list, Forgotten{a, h.forget(a, n)})
		h.Accepted = lastOf(append(h.Accepted, a), maxAccepted)
	}
	data, err := h.encode()
	if err == nil {
		err = files.Replace(file, data)
	}
	if err != nil {
		return nil, fmt.Errorf("the record cannot be written: %w", err)
	}
	return list, nil
}

func lastOf[T any](list []T, most int) []T { return list[max(0, len(list)-most):] }

var (
	pciAddress = regexp.MustCompile(`^([0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	portOf     = regexp.MustCompile(`^(.+):([0-9]{1,3})$`)
)

// find returns which device or port is meant: mlx5_5, mlx5_5:1, 0000:5e:00.0 or 5e:00.0.
func (h *hardware) find(n *fabric.Node, name string) (a Accepted, err error) {
	device, now, then := name, "", ""
	if m := portOf.FindStringSubmatch(name); m != nil {
		device = m[1]
		a.Number, _ = strconv.Atoi(m[2]) // three digits
	}
	if a.PCI = strings.ToLower(device); pciAddress.MatchString(a.PCI) {
		if strings.Count(a.PCI, ":") == 1 {
			a.PCI = "0000:" + a.PCI
		}
		if !h.knows(a.PCI) && n.PCI.Function(a.PCI) == nil {
			return a, fmt.Errorf("nothing is recorded of %s, and the node has no such PCI device: expected one of %s", a.PCI,
				h.listed())
		}
		a.GUID = h.goneFrom(a.PCI, cardsOf(n))
		return a, nil
	}
	if d := n.HCA(device); d != nil {
		now, a.GUID = d.PCI.Or(""), d.NodeGUID.Or("")
	}
	// of a bond the first
	if i := slices.IndexFunc(h.Devices.Items, func(i fabric.Place) bool { return i.Device() == device }); i >= 0 {
		then = h.Devices.Items[i].Address()
	}
	switch a.PCI = cmp.Or(then, now); {
	case a.PCI == "":
		return a,
			fmt.Errorf("nothing is recorded of %q: expected an RDMA device, its port (mlx5_0:1) or a PCI address, one of %s",
				name, h.listed())
	case now != "" && now != a.PCI:
		return a, fmt.Errorf("%s is %s now, and was %s when it was recorded: give the PCI address of the one that is meant",
			device, now, then)
	case now == "":
		a.GUID = h.goneFrom(a.PCI, cardsOf(n))
	}
	return a, nil
}

// goneFrom returns which recorded card at an address is gone, if another one that is recorded is there now.
func (h *hardware) goneFrom(address string, now []card) string {
	other := slices.ContainsFunc(now, func(c card) bool { return c.PCI == address && len(placesOf(h.Cards, c.GUID)) > 0 })
	i := slices.IndexFunc(h.Cards, func(c card) bool { return c.PCI == address && len(placesOf(now, c.GUID)) == 0 })
	if !other || i < 0 {
		return ""
	}
	return h.Cards[i].GUID
}

func (h *hardware) knows(address string) bool {
	return contains(h.GPUs.Items, address) || contains(h.Devices.Items, address) ||
		slices.ContainsFunc(h.Ports, func(p port) bool { return p.PCI == address })
}

// listed lists what the record has.
func (h *hardware) listed() string {
	var list []string
	for _, i := range slices.Concat(h.Devices.Items, h.GPUs.Items) {
		list = append(list, string(i))
	}
	return cmp.Or(strings.Join(list, ", "), "none: the record is empty")
}

// forget drops what a device or port had, and returns it. What the node has now stays counted.
func (h *hardware) forget(a Accepted, n *fabric.Node) (what []string) {
	h.Ports = slices.DeleteFunc(slices.Clone(h.Ports), func(p port) bool {
		if a.covers(p) && p.counts() {
			what = append(what, p.text(n.At))
		}
		return a.covers(p)
	})
	if a.Number > 0 {
		return what
	}
	meant := func(i fabric.Place) bool { return i.Device() == a.Name }
	if pciAddress.MatchString(strings.ToLower(a.Name)) {
		meant = func(i fabric.Place) bool { return i.Address() == a.PCI }
	}
	for k, list := range []*stock{&h.GPUs, &h.Devices} {
		now := []seen{gpusOf(n), devicesOf(n, nil)}[k].items
		list.Items = slices.DeleteFunc(slices.Clone(list.Items), func(i fabric.Place) bool {
			gone := meant(i) && !slices.Contains(now, i)
			if gone {
				what = append(what, []string{"the GPU ", "the RDMA device "}[k]+string(i))
			}
			return gone
		})
	}
	return what
}

// text says what a port had.
func (p *port) text(now time.Time) string {
	link := fmt.Sprintf("port %d had a link", p.Number)
	if last := when(p.Last, now); !last.IsZero() {
		link += last.UTC().Format(" until 2006-01-02 15:04 UTC")
	}
	list := []string{link}
	if p.Rate > 0 {
		list = append(list, verdict.Gigabits(p.Rate))
	}
	for _, a := range []*address{p.IPv4, p.IPv6} {
		if a != nil && a.counts() {
			list = append(list, a.Addr.String())
		}
	}
	return strings.Join(list, ", ")
}

// look takes in what somebody else wrote or removed: check --accept, a check beside the exporter, or a person.
func (m *Inventory) look() {
	id, err := identify(m.file)
	m.mu.Lock()
	before := m.id
	m.mu.Unlock()
	if err != nil || same(before, id) {
		return
	}
	had, err := readFile(m.file)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id = id
	switch {
	case err != nil: // it is written anew from what is known
		m.log.Warn("the saved hardware inventory cannot be read", "err", err)
		m.unsaved = true
	case id == nil:
		if before != nil {
			m.log.Info("the record of hardware was removed, and begins anew", "file", m.file)
			m.begin()
			m.anew, m.unsaved = m.seen, false
		}
	default:
		m.adopt(had)
	}
}

// adopt takes in a file that was changed. m.mu is held.
func (m *Inventory) adopt(file hardware) {
	mine, told := m.had, false
	if foreign(file.Cards, mine.Cards, 0) {
		m.unsaved = true
		return
	}
	file.relocate(mine.Cards)
	for _, a := range file.Accepted {
		if slices.Contains(mine.Accepted, a) {
			continue
		}
		told = true
		m.log.Info("what a device had no longer counts", "device", a.Name, "pci_address", a.PCI, "by", a.By, "at",
			time.Unix(a.At, 0).UTC().Format(time.RFC3339))
		mine.Ports = slices.DeleteFunc(slices.Clone(mine.Ports), a.covers)
	}
	if !m.unsaved || told {
		mine.GPUs, mine.Devices = file.GPUs, file.Devices
		mine.GPUIDs, mine.Unproven = file.GPUIDs, file.Unproven
	}
	mine.Ports = mergePorts(file.Ports, mine.Ports)
	if len(file.Cards) > 0 == (len(mine.Cards) > 0) {
		mine.Met = merge(file.Met, mine.Met)
	}
	file.updateCards(mine.Cards)
	mine.Cards = file.Cards
	if told {
		mine.Accepted = file.Accepted
	}
	mine.Boot, mine.Replaces = file.Boot, file.Replaces
	m.had = mine
}

// mergePorts returns what ports had by either list.
func mergePorts(list, more []port) []port {
	list = slices.Clone(list)
	for _, p := range more {
		at := indexOf(list, p)
		if at < 0 {
			list = append(list, p)
			continue
		}
		o := list[at]
		p.join(o.span)
		if o.Bonded == p.Bonded && o.Rate > p.Rate {
			p.Rate, p.Rated = o.Rate, o.Rated
		}
		p.IPv4, p.IPv6 = later(p.IPv4, o.IPv4), later(p.IPv6, o.IPv6)
		list[at] = p
	}
	return newest(list)
}

func later(a, b *address) *address {
	if a == nil || b != nil && b.Last > a.Last {
		return b
	}
	return a
}

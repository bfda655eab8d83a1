// SPDX-License-Identifier: Apache-2.0

// Package inventory records the hardware that a node had, and which expectations of its site it met. A device that left the bus leaves
// no trace in the kernel after a reboot, so without the record, a node that lost a GPU looks like one that never had it; and an
// expectation that a node never met may be that of another kind of node.
//
// An Inventory may be used by any number of goroutines. Its file is read and written in the background, by one goroutine at a
// time, and keeps no observation waiting. Errors are logged where they arise: a node without a record is still observed.
package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/files"
)

// DefaultFile is where the inventory of this host is. It is the folder of the probes' state.
const DefaultFile = "/var/lib/gpufabric_exporter/inventory.json"

const (
	closePatience = time.Second // for a disk, at the end
	retry         = time.Minute // how long a disk that is full or read-only is left alone
)

// Inventory returns what a node had more of before. It compares numbers and not addresses, which change when a card is added or
// the firmware counts buses otherwise.
//
// The file is written only into a folder of this user that no other can write to, replaced as a whole and with a checksum, when the node has as
// much as before or more and, if nothing changed, once a day. What cannot be written is tried again, and stays known meanwhile.
type Inventory struct {
	file  string
	owner int // of the folder, who alone may write the file
	log   *slog.Logger

	mu         sync.Mutex
	had        hardware
	none       bool      // nothing is recorded: there is no folder, or what it has cannot be trusted
	looked     time.Time // when expectations were compared
	unmet      []fabric.Expectation
	policy     *fabric.Policy
	unsaved    bool      // the file has less than is known
	tried      time.Time // when it was written last, or could not be
	portsSaved time.Time
	busy       bool // the file is being read or written
	failed     bool // it could not be written, or may not be, which is logged once
	life       sync.WaitGroup
}

// Open reads the inventory in a file. Where there is no folder for it, it remembers no hardware, and which expectations were met only
// as long as it is open; nil, which may be used and remembers nothing, where file is empty.
func Open(file string, log *slog.Logger) *Inventory {
	if file == "" {
		return nil
	}
	owner, err := ownerOf(filepath.Dir(file))
	if errors.Is(err, fs.ErrNotExist) {
		return &Inventory{file: file, owner: owner, log: log, none: true}
	}
	m := &Inventory{file: file, owner: owner, log: log}
	if err == nil {
		m.had, err = readFile(file)
	}
	if err != nil {
		log.Warn("the saved hardware inventory cannot be read", "err", err)
		m.none = owner != os.Geteuid()
	}
	return m
}

// Update takes in what a node has. It returns the node, which it does not change, with what there was more of before, and with the
// expectations that it is not known to have met.
func (m *Inventory) Update(n *fabric.Node) *fabric.Node {
	if m == nil {
		return n
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(n)
	n = m.had.recall(n)
	m.compare(n)
	var missing []fabric.Remembered
	if !m.none {
		missing = m.updateHardware(n)
	}
	if len(missing) == 0 && len(m.unmet) == 0 {
		return n
	}
	with := n.Copy()
	with.Remembered, with.RememberedIn, with.NeverMet = missing, m.file, m.unmet
	if len(missing) > 0 && n.Policy != nil {
		with.DerivePorts()
		with.DeriveRoCE()
	}
	return with
}

// updateHardware returns what there was more of before. m.mu is held.
func (m *Inventory) updateHardware(n *fabric.Node) []fabric.Remembered {
	now := m.had
	missing := slices.Concat(
		now.GPUs.update(fabric.PCIGPU, n.At, gpusOf(n)),
		now.Devices.update(fabric.PCINIC, n.At, devicesOf(n)),
	)
	own := m.owner == os.Geteuid()
	if own {
		news := now.updatePorts(n)
		m.had.Ports = now.Ports
		if news || n.At.Sub(m.portsSaved).Abs() >= portsRenewal && len(now.Ports) > 0 {
			m.unsaved, m.tried, m.portsSaved = true, time.Time{}, n.At
		}
	}
	switch {
	case len(missing) > 0 && !m.unsaved: // unless the file was removed meanwhile, which is how to say that it is on purpose
		m.background(m.refresh)
	case len(missing) > 0:
	case now.GPUs.Seen == m.had.GPUs.Seen && now.Devices.Seen == m.had.Devices.Seen:
	case own:
		m.had.GPUs, m.had.Devices, m.unsaved, m.tried = now.GPUs, now.Devices, true, time.Time{}
	case !slices.Equal(now.GPUs.Items, m.had.GPUs.Items) || !slices.Equal(now.Devices.Items, m.had.Devices.Items):
		m.notOwn()
	}
	if own && m.unsaved && n.At.Sub(m.tried).Abs() >= retry && !m.busy {
		m.tried = n.At
		m.background(m.save)
	}
	return missing
}

// forget drops a record that is that of another node, and says so. What was met before any card was seen is of no known machine. m.mu
// is held.
func (m *Inventory) forget(n *fabric.Node) {
	had, now := m.had.known(), cardsOf(n)
	switch {
	case foreign(had, now):
		m.log.Warn("the record of hardware is that of another node, and begins anew: most devices have another node GUID here", "file", m.file)
		m.had, m.policy = hardware{}, nil
	case len(had) == 0 && len(now) > 0 && len(m.had.Met) > 0:
		m.had.Met, m.policy = nil, nil
	}
	if m.had.updateCards(now) && m.owner == os.Geteuid() {
		m.unsaved, m.tried = true, time.Time{}
	}
}

// notOwn logs once that what is new is not saved. m.mu is held.
func (m *Inventory) notOwn() {
	if m.failed {
		return
	}
	m.failed = true
	m.log.Warn("the hardware inventory is not saved, because its folder belongs to another user", "folder", filepath.Dir(m.file), "owner", m.owner,
		"user", os.Geteuid(), "remedy", fmt.Sprintf("chown -R %d %s, or run as the owner", os.Geteuid(), filepath.Dir(m.file)))
}

// background works on the file, one piece at a time. m.mu is held.
func (m *Inventory) background(work func()) {
	if m.busy {
		return
	}
	m.busy = true
	m.life.Go(func() {
		work()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.busy = false
	})
}

// refresh reads the hardware again.
func (m *Inventory) refresh() {
	had, err := readFile(m.file)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	had.Met, had.Ports, had.Cards = m.had.Met, m.had.Ports, m.had.Cards
	m.had = had
}

func (m *Inventory) save() {
	m.mu.Lock()
	h := m.had
	m.mu.Unlock()
	if saved, err := readFile(m.file); err == nil && !foreign(saved.known(), h.Cards) && len(saved.known()) > 0 == (len(h.Cards) > 0) { // check and the exporter may both have seen something met
		h.Met = merge(saved.Met, h.Met)
	}
	data, err := h.encode()
	if err == nil {
		err = files.Replace(m.file, data)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil && h.GPUs.Seen == m.had.GPUs.Seen && h.Devices.Seen == m.had.Devices.Seen && len(merge(h.Met, m.had.Met)) == len(h.Met) {
		m.unsaved = false
	}
	if err != nil && !m.failed {
		m.log.Warn("the hardware inventory cannot be saved", "err", err)
	}
	m.failed = err != nil
}

// Close waits for the file a little.
func (m *Inventory) Close() {
	if m == nil {
		return
	}
	done := make(chan struct{})
	go func() { m.life.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(closePatience):
	}
}

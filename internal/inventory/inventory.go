// SPDX-License-Identifier: Apache-2.0

// Package inventory records the hardware that a node had, and which expectations of its site it met. A device
// that left the bus leaves no trace in the kernel after a reboot, so without the record, a node that lost a
// GPU looks like one that never had it; and an expectation that a node never met may be that of another kind
// of node.
//
// An Inventory may be used by any number of goroutines. Its file is read and written in the background, by
// one goroutine at a time, and keeps no observation waiting. Errors are logged where they arise: a node
// without a record is still observed.
package inventory

import (
	"bytes"
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

// Inventory returns what a node had more of before. It compares numbers and not addresses, which change when
// a card is added or the firmware counts buses otherwise.
//
// The file is written only into a folder of this user that no other can write to, replaced as a whole and
// with a checksum, when the node has as much as before or more and, if nothing changed, once a day. What
// cannot be written is tried again, and stays known meanwhile.
type Inventory struct {
	file   string
	owner  int  // of the folder, who alone may write the file
	absent bool // there is no folder for the file
	log    *slog.Logger

	mu         sync.Mutex
	had        hardware
	id         os.FileInfo // nil: there is no file
	boot       string      // of the node, by the kernel; empty: not known
	volatile   bool        // the folder is in memory, and lost at the next start
	none       bool        // nothing is recorded: there is no folder, or what it has cannot be trusted
	unused     string      // why what was recorded is not used, for people
	seen       time.Time   // when the node was seen last
	anew       time.Time   // what ports had until then does not count; zero: all does
	looked     time.Time   // when expectations were compared
	unmet      []fabric.Expectation
	policy     *fabric.Policy
	unsaved    bool      // the file has less than is known
	tried      time.Time // when it was written last, or could not be
	portsSaved time.Time
	busy       bool // the file is being read or written
	failed     bool // it could not be written, or may not be, which is logged once
	life       sync.WaitGroup
}

// Open reads the inventory in a file. Boot is the ID of this start of the node, empty if it is not known.
// Where there is no folder for the file, it remembers only as long as it is open; so it does of hardware
// where file is empty, and it then remembers nothing else.
func Open(file, boot string, log *slog.Logger) *Inventory {
	m := &Inventory{file: file, boot: boot, log: log}
	m.begin()
	if file == "" {
		m.none = true
		return m
	}
	var err error
	m.owner, err = ownerOf(filepath.Dir(file))
	m.volatile = inMemory(filepath.Dir(file))
	if errors.Is(err, fs.ErrNotExist) {
		m.none, m.absent, m.unused = true, true, "there is no folder "+filepath.Dir(file)
		return m
	}
	if err == nil {
		m.id, err = identify(file)
	}
	had := hardware{}
	if err == nil {
		had, err = readFile(file)
	}
	switch {
	case err != nil:
		log.Warn("the saved hardware inventory cannot be read", "err", err)
		m.none = m.owner != os.Geteuid()
		m.unused = "it cannot be read: " + err.Error()
		m.begin()
	case m.id != nil:
		m.had = had
	}
	return m
}

// Announce logs that there is no folder for the file. Who looks once says Node.Unrecorded where it matters.
func (m *Inventory) Announce() {
	if m.absent {
		m.log.Info("what this node has is not recorded: there is no folder for it", "folder", filepath.Dir(m.file))
	}
}

// Update takes in what a node has. It returns the node, which it does not change, with what there was more of
// before, and with the expectations that it is not known to have met.
func (m *Inventory) Update(n *fabric.Node) *fabric.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = n.At
	if m.file != "" {
		m.distrust(n)
		n = m.had.recall(n, m.anew)
		m.compare(n)
	}
	with := *n
	m.updateHardware(&with)
	if !m.none {
		m.background(m.look)
	}
	if m.file != "" {
		with.RememberedIn, with.NeverMet, with.Unrecorded = m.file, m.unmet, m.unrecorded()
	}
	if len(with.Remembered) == 0 || n.Policy == nil {
		return &with
	}
	derived := with.Copy()
	derived.DerivePorts()
	derived.DeriveRoCE()
	return derived
}

// updateHardware sets what there was more of before. RDMA devices do not count as compared with a record that
// replaces one that cannot be used, or that was lost when the node was started: what that had is not known.
// m.mu is held.
func (m *Inventory) updateHardware(n *fabric.Node) {
	now := m.had
	devices, gpus := devicesOf(n, now.Devices.Items), gpusOf(n)
	if now.Unproven {
		gpus = seen{}
	}
	n.DevicesUnread = devices.items == nil && len(now.Devices.Items) > 0
	missing := slices.Concat(
		now.GPUs.update(fabric.PCIGPU, n.At, gpus, func(fabric.Place) bool { return false }),
		now.Devices.update(fabric.PCINIC, n.At, devices, now.away(n)),
	)
	n.Remembered = missing
	if m.none { // known only as long as this process runs
		m.had.GPUs, m.had.Devices = now.GPUs, now.Devices
		return
	}
	lost := m.begun() && (m.volatile || m.had.Replaces) && m.anew.IsZero()
	n.DevicesCompared = m.id != nil && devices.items != nil && m.unused == "" && !lost
	timed := !n.At.Before(clockSet)
	own := m.owner == os.Geteuid() && timed
	if own {
		news := now.updatePorts(n)
		m.had.Ports = now.Ports
		if news || n.At.Sub(m.portsSaved).Abs() >= portsRenewal && len(now.Ports) > 0 {
			m.portsSaved = n.At
			m.due()
		}
	}
	switch {
	case len(missing) > 0 || !timed:
	case now.GPUs.Seen == m.had.GPUs.Seen && now.Devices.Seen == m.had.Devices.Seen:
	case own:
		m.had.GPUs, m.had.Devices = now.GPUs, now.Devices
		m.due()
	case !slices.Equal(now.GPUs.Items, m.had.GPUs.Items) || !slices.Equal(now.Devices.Items, m.had.Devices.Items):
		m.notOwn()
	}
	if own && m.unsaved && n.At.Sub(m.tried).Abs() >= retry && !m.busy {
		m.tried = n.At
		m.background(m.save)
	}
}

// notOwn logs once that what is new is not saved. m.mu is held.
func (m *Inventory) notOwn() {
	if m.failed {
		return
	}
	m.failed = true
	m.log.Warn("the hardware inventory is not saved, because its folder belongs to another user", "folder",
		filepath.Dir(m.file), "owner", m.owner,
		"user", os.Geteuid(), "remedy", fmt.Sprintf("chown -R %d %s, or run as the owner", os.Geteuid(),
			filepath.Dir(m.file)))
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

func (m *Inventory) save() {
	m.look() // check and the exporter may both have seen something, and a person may have removed it
	m.mu.Lock()
	h := m.had
	m.mu.Unlock()
	data, err := h.encode()
	if err == nil {
		err = files.Replace(m.file, data)
	}
	m.mu.Lock()
	id := m.id // if it is not that which was written, it is read next time
	m.mu.Unlock()
	if is, lost := identify(m.file); err == nil && lost == nil {
		if back, lost := files.ReadOwn(m.file, maxFile); lost == nil && bytes.Equal(back, data) {
			id = is
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id = id
	if err == nil && h.GPUs.Seen == m.had.GPUs.Seen && h.Devices.Seen == m.had.Devices.Seen &&
		len(merge(h.Met, m.had.Met)) == len(h.Met) {
		m.unsaved = false
	}
	if err != nil && !m.failed {
		m.log.Warn("the hardware inventory cannot be saved", "err", err)
	}
	m.failed = err != nil
}

// Close waits for the file a little.
func (m *Inventory) Close() {
	done := make(chan struct{})
	go func() { m.life.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(closePatience):
	}
}

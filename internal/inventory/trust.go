// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/files"
)

// clockSet is before all times of a clock that was set: without one that is kept, nodes boot in 1970.
var clockSet = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// distrust drops a record that is that of another node, and says so. What was met before any card was seen is
// of no known machine. m.mu is held.
func (m *Inventory) distrust(n *fabric.Node) {
	had, now := m.had.Cards, cardsOf(n)
	late := hidden(had, now, n)
	known, ids := m.had.knownGPUs(n)
	image := known == 0 && len(ids) > 0 && len(m.had.GPUIDs) > 0 &&
		!slices.ContainsFunc(now, func(c card) bool { return len(placesOf(had, c.GUID)) > 0 })
	switch {
	case image || foreign(had, now, late):
		m.unused = "it is that of another node: most devices have another node GUID here, or GPUs another UUID"
		m.log.Warn("the record of hardware begins anew", "file", m.file, "why", m.unused)
		gpus, uuids := m.had.GPUs, m.had.GPUIDs
		m.begin()
		if !image && len(uuids) > 0 {
			m.had.GPUs, m.had.GPUIDs, m.had.Unproven = gpus, uuids, true
		}
	case len(had) == 0 && len(now) > 0 && len(m.had.Met) > 0:
		m.had.Met, m.policy = nil, nil
	}
	if late > 0 && foreign(had, now, 0) { // wait for them
		return
	}
	moved := m.had.relocate(now)
	proven := m.had.proveGPUs(n)
	if m.had.updateCards(now) || moved || proven {
		m.due()
	}
}

// knownGPUs counts the GPUs whose UUIDs are recorded, and returns the UUIDs of all.
func (h *hardware) knownGPUs(n *fabric.Node) (known int, ids []string) {
	for _, g := range n.GPUDriver.GPUs {
		if g.UUID == "" {
			continue
		}
		ids = append(ids, g.UUID)
		if slices.Contains(h.GPUIDs, g.UUID) {
			known++
		}
	}
	return known, ids
}

// proveGPUs takes in the UUIDs of GPUs, and drops the record of them if most are others: it is that of
// another machine, or they were exchanged. It reports whether the file should have it.
func (h *hardware) proveGPUs(n *fabric.Node) (news bool) {
	known, ids := h.knownGPUs(n)
	switch now := gpusOf(n); {
	case len(ids) == 0 && h.Unproven && now.items != nil && len(now.missing(h.GPUs.Items)) == 0: // nothing depends on it
		h.GPUIDs, h.Unproven = nil, false
		return true
	case len(ids) == 0, len(ids) == known && !h.Unproven:
		return false
	case len(h.GPUIDs) > 0 && len(ids) > 2*known:
		h.GPUs = stock{}
	}
	old := slices.DeleteFunc(slices.Clone(h.GPUIDs), func(id string) bool { return slices.Contains(ids, id) })
	h.GPUIDs, h.Unproven = lastOf(append(old, ids...), maxGPUIDs), false
	return true
}

// inMemory reports whether a folder is lost when the node is started again: on tmpfs, ramfs or an overlay, as
// of nodes without a disk.
func inMemory(dir string) bool {
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && slices.Contains([]uint32{0x01021994, 0x858458f6, 0x794c7630},
		uint32(st.Type))
}

// due has the file written soon, if this user may. m.mu is held.
func (m *Inventory) due() {
	if m.owner == os.Geteuid() {
		m.unsaved, m.tried = true, time.Time{}
	}
}

// BootID returns the ID of this start of the node; empty: it is not known.
func BootID(procfs string) string {
	id, err := files.Read(filepath.Join(procfs, "sys/kernel/random/boot_id"), 64)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// begin begins a record. m.mu is held.
func (m *Inventory) begin() { m.had, m.policy = hardware{Boot: m.boot, Replaces: m.unused != ""}, nil }

// begun reports whether the record began since the node was started. m.mu is held.
func (m *Inventory) begun() bool { return m.had.Boot == m.boot && (m.boot != "" || m.had.Replaces) }

// when returns a time of the record, zero where the clock was wrong then: before it was set, or in the
// future. What the node had counts nevertheless: a clock that is set back says nothing of a GPU.
func when(seconds int64, now time.Time) time.Time {
	at := time.Unix(seconds, 0)
	if at.Before(clockSet) || !now.Before(clockSet) && at.Sub(now) > gap {
		return time.Time{}
	}
	return at
}

// unrecorded says for people what nobody would notice, because it is not recorded; empty: all is. m.mu is held.
func (m *Inventory) unrecorded() string {
	const lost = ": a device, link or address that was lost before is not noticed, unless the configuration or a manifest states it."
	switch {
	case m.unused != "":
		return "The record of this node (" + m.file + ") is not used, because " + m.unused + lost
	case m.id == nil && m.owner != os.Geteuid():
		return fmt.Sprintf("There is no record of this node (%s), and user %d may write none, because the folder belongs to user %d%s", m.file, os.Geteuid(), m.owner, lost)
	case m.begun():
		return "There is no record of this node from before it was started (" + m.file + ")" + lost
	}
	return ""
}

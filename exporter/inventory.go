// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/files"
)

// Where the exporter remembers what hardware the node had. What left the bus leaves no trace in the kernel over a reboot, so
// that a node which lost a GPU and one that never had it look the same without a memory. It is the folder of the probes' state.
const (
	defaultInventory = "/var/lib/gpufabric_exporter/inventory.json"

	inventoryVersion  = 1
	inventoryMost     = 64 << 10       // bytes of the file
	inventoryItems    = 512            // of each kind
	inventoryName     = 128            // bytes of an item
	inventoryEvery    = 24 * time.Hour // how often an inventory that did not change is written anew, for its time
	inventoryPatience = time.Second    // for a disk, at the end
)

type (
	// sealedInventory is the file: one line of JSON.
	sealedInventory struct {
		Version  int             `json:"version"`
		SHA256   string          `json:"sha256"` // of Hardware, byte for byte
		Hardware json.RawMessage `json:"hardware"`
	}
	// hardware is the most that the node was seen to have.
	hardware struct {
		GPUs    stock `json:"gpus"`
		Devices stock `json:"devices"`
	}
	stock struct {
		Seen  int64    `json:"seen"`  // seconds since 1970
		Items []string `json:"items"` // sorted: PCI addresses, of RDMA devices with their name
	}
)

// inventory is an observer that tells what the node had more of before. It compares numbers and not addresses, which change
// when a card is added or the firmware counts buses otherwise.
//
// The file is written only into a folder of this user that no other can write to, replaced as a whole, when the node has as
// much as before or more and, if nothing changed, once a day. Reading and writing it keeps no observation waiting.
type inventory struct {
	nodeObserver
	file  string
	write bool // the folder is fit for it
	log   *slog.Logger

	mu     sync.Mutex
	had    hardware
	busy   bool // the file is being read or written
	failed bool // it could not be written, which is logged once
	life   sync.WaitGroup
}

// remembering lets an observer remember, if there is a folder for that.
func remembering(ob nodeObserver, file string, log *slog.Logger) nodeObserver {
	if file == "" {
		return ob
	}
	write, err := fitFolder(filepath.Dir(file))
	if errors.Is(err, fs.ErrNotExist) {
		return ob
	}
	m := &inventory{nodeObserver: ob, file: file, write: write, log: log}
	if err == nil {
		m.had, err = readInventory(file)
	}
	if err != nil {
		log.Warn("what hardware the node had is not known", "err", err)
		if !write {
			return ob
		}
	}
	return m
}

// fitFolder tells whether files in the folder are worth reading, which is an error otherwise, and whether this user may write
// there: to another user's folder root must not write either, because its owner decides what a name in it leads to. The folder
// may be a link, as systemd lays it for DynamicUser: only root can lay one in /var/lib.
func fitFolder(dir string) (write bool, err error) {
	info, err := os.Stat(dir)
	if err != nil {
		return false, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || info.Mode().Perm()&0o022 != 0 {
		return false, fmt.Errorf("%s: expected a folder that only its owner can write to, not %s", dir, info.Mode())
	}
	return int(st.Uid) == os.Geteuid(), nil
}

// readInventory reads the file; one that is not there is empty.
func readInventory(file string) (hardware, error) {
	data, err := files.ReadOwn(file, inventoryMost)
	if errors.Is(err, fs.ErrNotExist) {
		return hardware{}, nil
	} else if err != nil {
		return hardware{}, err
	}
	h, err := parseInventory(data)
	if err != nil {
		return hardware{}, fmt.Errorf("%s: %w", file, err)
	}
	return h, nil
}

func parseInventory(data []byte) (h hardware, err error) {
	var s sealedInventory
	if len(data) > inventoryMost {
		return h, fmt.Errorf("more than %d bytes", inventoryMost)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return h, fmt.Errorf("not an inventory: %w", err)
	}
	if s.Version != inventoryVersion {
		return h, fmt.Errorf("version %d, expected %d", s.Version, inventoryVersion)
	}
	if sum := sha256.Sum256(s.Hardware); s.SHA256 != hex.EncodeToString(sum[:]) {
		return h, errors.New("the checksum is not that of the content")
	}
	d := json.NewDecoder(bytes.NewReader(s.Hardware))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return hardware{}, fmt.Errorf("not an inventory: %w", err)
	}
	for _, s := range []stock{h.GPUs, h.Devices} {
		long := func(i string) bool { return len(i) > inventoryName }
		if s.Seen < 0 || len(s.Items) > inventoryItems || slices.ContainsFunc(s.Items, long) {
			return hardware{}, errors.New("a value that is out of range")
		}
	}
	return h, nil
}

func (h hardware) encode() ([]byte, error) {
	raw, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	data, err := json.Marshal(sealedInventory{inventoryVersion, hex.EncodeToString(sum[:]), raw})
	return append(data, '\n'), err
}

// Observe observes, and says what there was more of.
func (m *inventory) Observe(ctx context.Context, want fabric.Want) *fabric.Node {
	n := m.nodeObserver.Observe(ctx, want)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.had
	missing := slices.Concat(
		now.GPUs.update(fabric.PCIGPU, n.At, gpusOf(n)),
		now.Devices.update(fabric.PCINIC, n.At, devicesOf(n)),
	)
	switch {
	case len(missing) > 0: // unless the file was removed meanwhile, which is how to say that it is on purpose
		m.background(m.refresh)
	case m.write && (now.GPUs.Seen != m.had.GPUs.Seen || now.Devices.Seen != m.had.Devices.Seen):
		m.had = now
		m.background(func() { m.save(now) })
	}
	if len(missing) == 0 {
		return n
	}
	with := *n
	with.Remembered, with.RememberedIn = missing, m.file
	return &with
}

// update takes in what there is now, nil if that is not known, or returns what there was more of.
func (s *stock) update(kind fabric.PCIKind, at time.Time, now []string) []fabric.Remembered {
	switch {
	case now == nil || len(now) > inventoryItems:
	case len(now) < len(s.Items):
		present := func(i string) bool { return slices.Contains(now, i) }
		return []fabric.Remembered{{
			Kind: kind, Now: len(now), Then: len(s.Items), Seen: time.Unix(s.Seen, 0),
			Missing: slices.DeleteFunc(slices.Clone(s.Items), present),
		}}
	case !slices.Equal(now, s.Items) || at.Sub(time.Unix(s.Seen, 0)).Abs() >= inventoryEvery:
		*s = stock{Seen: at.Unix(), Items: now}
	}
	return nil
}

// background works on the file, one piece at a time. m.mu is held.
func (m *inventory) background(work func()) {
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

func (m *inventory) refresh() {
	if had, err := readInventory(m.file); err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.had = had
	}
}

func (m *inventory) save(h hardware) {
	data, err := h.encode()
	if err == nil {
		err = files.Replace(m.file, data)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil && !m.failed {
		m.log.Warn("what hardware the node has is not kept", "err", err)
	}
	m.failed = err != nil
}

// Close waits for the file a little.
func (m *inventory) Close() {
	m.nodeObserver.Close()
	done := make(chan struct{})
	go func() { m.life.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(inventoryPatience):
	}
}

func up(n *fabric.Node, source string) bool {
	return slices.ContainsFunc(n.Sources, func(s fabric.Source) bool { return s.Name == source && s.Up })
}

// gpusOf returns the physical GPUs on the bus, nil if they are not known.
func gpusOf(n *fabric.Node) []string {
	if _, known := n.GPUs.Get(); !known || !up(n, fabric.SourcePCI) {
		return nil
	}
	list := []string{}
	for _, f := range n.PCI.GPUs() {
		if f.PF.State != fabric.OK {
			list = append(list, f.Address)
		}
	}
	return list
}

// devicesOf returns the RDMA devices of physical functions, nil if they are not known: some are excluded, or each network
// namespace has its own.
func devicesOf(n *fabric.Node) []string {
	if !up(n, fabric.SourceClass) || !up(n, fabric.SourcePCI) || len(n.Excluded) > 0 || n.Host.RDMANetNS.Or("") == fabric.NetNSExclusive {
		return nil
	}
	list := []string{}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		address, known := h.PCI.Get()
		if !known && h.PCI.State != fabric.Absent {
			return nil
		}
		if f := n.PCI.Function(address); known && (f == nil || f.PF.State != fabric.OK) { // software has no address
			list = append(list, strings.TrimSpace(address+" "+h.Name))
		}
	}
	slices.Sort(list)
	return list
}

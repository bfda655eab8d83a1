// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/files"
)

const (
	fileVersion = 1
	maxFile     = 256 << 10 // bytes of the file, more than all below take
	maxItems    = 512       // of each kind
	maxItem     = 128       // bytes of an item
	maxMet      = 64        // expectations
	maxGPUIDs   = 64
	renewal     = 24 * time.Hour // how often an inventory that did not change is written anew, for its time
)

type (
	// sealed is the file: one line of JSON.
	sealed struct {
		Version  int             `json:"version"`
		SHA256   string          `json:"sha256"` // of Hardware, byte for byte
		Hardware json.RawMessage `json:"hardware"`
	}
	// hardware is the most that the node was seen to have, and the expectations of its site that it met.
	hardware struct {
		Cards  []card   `json:"cards,omitempty"` // by which a copy of the disk in another machine is known
		GPUs   stock    `json:"gpus"`
		GPUIDs []string `json:"gpu_uuids,omitempty"` // the newest last
		// GPUs count for nothing until a UUID tells whether they are of this machine
		Unproven bool       `json:"gpus_unproven,omitempty"`
		Devices  stock      `json:"devices"`
		Ports    []port     `json:"ports,omitempty"`
		Met      []met      `json:"met,omitempty"`      // the newest last
		Accepted []Accepted `json:"accepted,omitempty"` // the newest last
		Boot     string     `json:"boot,omitempty"`     // in which the record began
		// Replaces says that there was another one then, which could not be used: what that had is not known.
		Replaces bool `json:"replaces,omitempty"`
	}
	met struct {
		Expectation string `json:"expectation"` // as the configuration has it
		Since       int64  `json:"since"`       // seconds since 1970
	}
	stock struct {
		Seen  int64          `json:"seen"`  // seconds since 1970
		Items []fabric.Place `json:"items"` // sorted
	}
)

// ownerOf returns the owner of the folder, if files in it are worth reading, which is an error otherwise.
// Only the owner may write there: to another user's folder root must not write either, because its owner
// decides what a name in it leads to. The folder may be a link, as systemd lays it for DynamicUser: only root
// can lay one in /var/lib.
func ownerOf(dir string) (uid int, err error) {
	info, err := os.Stat(dir)
	if err != nil {
		return -1, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || info.Mode().Perm()&0o022 != 0 {
		return -1, fmt.Errorf("%s: expected a folder that only its owner can write to, not %s", dir, info.Mode())
	}
	return int(st.Uid), nil
}

// identify returns which file it is; nil: there is none.
func identify(file string) (os.FileInfo, error) {
	info, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return info, err
}

// same reports whether a file is the one that it was.
func same(was, is os.FileInfo) bool {
	if was == nil || is == nil {
		return was == nil && is == nil
	}
	return os.SameFile(was, is) && was.Size() == is.Size() && was.ModTime().Equal(is.ModTime())
}

// readFile reads the file; one that is not there is empty. One of another user than root and the owner of the
// folder, or that others can write to, was put there while others could.
func readFile(file string) (h hardware, err error) {
	owner, err := ownerOf(filepath.Dir(file))
	if err != nil {
		return h, err
	}
	info, err := identify(file)
	if info == nil {
		return h, err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != owner && st.Uid != 0 ||
		info.Mode().Perm()&0o022 != 0 {
		return h,
			fmt.Errorf("%s: expected a file of root or of the owner of its folder that no other user can write to: remove it",
				file)
	}
	data, err := files.ReadOwn(file, maxFile)
	if err != nil {
		return h, err
	}
	if h, err = parse(data); err != nil {
		return hardware{}, fmt.Errorf("%s: %w", file, err)
	}
	return h, nil
}

func parse(data []byte) (h hardware, err error) {
	var s sealed
	if len(data) > maxFile {
		return h, fmt.Errorf("more than %d bytes", maxFile)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return h, fmt.Errorf("not an inventory: %w", err)
	}
	if s.Version != fileVersion {
		return h, fmt.Errorf("version %d, expected %d", s.Version, fileVersion)
	}
	if sum := sha256.Sum256(s.Hardware); s.SHA256 != hex.EncodeToString(sum[:]) {
		return h, errors.New("the checksum is not that of the content")
	}
	d := json.NewDecoder(bytes.NewReader(s.Hardware))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return hardware{}, fmt.Errorf("not an inventory: %w", err)
	}
	if err := h.validate(); err != nil {
		return hardware{}, err
	}
	return h, nil
}

// validate returns an error for what this program does not write.
func (h *hardware) validate() error {
	long := func(i string) bool { return len(i) > maxItem }
	longer := func(p fabric.Place) bool { return long(string(p)) }
	strange := func(p port) bool {
		return long(p.PCI) || long(p.GUID) || p.Number < 0 || !p.possible() || p.Rated < 0 ||
			!(p.Rate >= 0 && p.Rate < 1e15) ||
			p.IPv4 != nil && !p.IPv4.possible() || p.IPv6 != nil && !p.IPv6.possible()
	}
	for _, s := range []stock{h.GPUs, h.Devices} {
		if s.Seen < 0 || len(s.Items) > maxItems || slices.ContainsFunc(s.Items, longer) {
			return errors.New("a value that is out of range")
		}
		if twice(s.Items) {
			return errors.New("it contradicts itself: a device is listed twice")
		}
	}
	switch {
	case len(h.Cards) > maxCards, len(h.Ports) > maxPorts, len(h.Met) > maxMet, len(h.Accepted) > maxAccepted,
		long(h.Boot),
		len(h.GPUIDs) > maxGPUIDs, slices.ContainsFunc(h.GPUIDs, long),
		slices.ContainsFunc(h.Cards, func(c card) bool { return long(c.PCI) || long(c.GUID) }),
		slices.ContainsFunc(h.Ports, strange),
		slices.ContainsFunc(h.Met, func(m met) bool { return long(m.Expectation) || m.Since < 0 }),
		slices.ContainsFunc(h.Accepted, func(a Accepted) bool {
			return long(a.Name) || long(a.PCI) || long(a.GUID) ||
				long(a.By) || a.At < 0
		}):
		return errors.New("a value that is out of range")
	}
	var keys []string
	for _, p := range h.Ports {
		keys = append(keys, fmt.Sprint(p.PCI, p.GUID, p.Number))
		if p.IPv4 != nil && !p.IPv4.Addr.Is4() || p.IPv6 != nil && !p.IPv6.Addr.Is6() {
			return fmt.Errorf("it contradicts itself: an address of another family on %s", p.PCI)
		}
	}
	if twice(keys) {
		return errors.New("it contradicts itself: a port is listed twice")
	}
	return nil
}

func twice[T cmp.Ordered](list []T) bool {
	list = slices.Sorted(slices.Values(list))
	return len(slices.Compact(slices.Clone(list))) < len(list)
}

func (h hardware) encode() ([]byte, error) {
	raw, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	data, err := json.Marshal(sealed{fileVersion, hex.EncodeToString(sum[:]), raw})
	return append(data, '\n'), err
}

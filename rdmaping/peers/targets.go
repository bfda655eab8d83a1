// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/internal/fabric"
)

// Bounds of what is read.
const (
	MaxTargets  = 1 << 17 // 16,384 nodes with eight rails each
	maxFile     = 8 << 20
	maxYAML     = 1 << 20 // its decoder takes a hundred times as long as that of JSON
	maxHost     = 253
	maxLabel    = 64
	maxRail     = 63
	maxReason   = 200
	labelOfRail = "rail"
)

// Read is what is in a list of targets.
type Read struct {
	Targets []Target
	LeftOut int   // entries that are wrong or too many
	Why     error // what is wrong with the first of them; nil: none is

	leaves map[place]string // while it is read
}

// place is what may have one leaf only.
type place struct {
	address string
	rail    int
}

// group is one entry of file_sd.
type group struct {
	Targets []string          `json:"targets" yaml:"targets"`
	Labels  map[string]string `json:"labels" yaml:"labels"`
}

// Parse reads a file of Prometheus' file_sd: JSON, or YAML if the name of the file says so. The labels rack, pod and
// rail are kept, and one whose name is leaf; rail is the number of the only rail that the entry is about. An error is
// about the file as a whole: as with Prometheus, a key that file_sd does not have is one.
func Parse(name string, content []byte, leaf string) (Read, error) {
	limit := maxFile
	ext := strings.ToLower(filepath.Ext(name))
	if ext == ".yml" || ext == ".yaml" {
		limit = maxYAML
	}
	if len(content) > limit {
		return Read{}, fmt.Errorf("%d bytes, expected at most %d", len(content), limit)
	}
	r := Read{leaves: map[place]string{}}
	var err error
	if limit == maxYAML {
		var groups []*group // nil: an entry without anything, which its decoder would leave out
		d := yaml.NewDecoder(bytes.NewReader(content))
		d.KnownFields(true)
		err = d.Decode(&groups)
		for _, g := range groups {
			r.take(*cmp.Or(g, &group{}), leaf)
		}
	} else {
		err = r.json(content, leaf)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it is empty or cut off")
	}
	if err != nil {
		return Read{}, errors.New(fabric.Printable(err.Error(), maxReason))
	}
	r.leaves = nil
	return r, nil
}

// json reads one group at a time: all at once would take several times the memory of the targets.
func (r *Read) json(content []byte, leaf string) error {
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		return cmp.Or(err, errors.New("expected a list"))
	}
	for d.More() {
		var g group
		if err := d.Decode(&g); err != nil {
			return err
		}
		r.take(g, leaf)
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something comes after the list")
	}
	return nil
}

func (r *Read) take(g group, leaf string) {
	if g.Targets == nil {
		r.leaveOut(errors.New("an entry without targets: expected a list, which may be empty"))
	}
	t, err := labelled(g.Labels, leaf)
	for _, address := range g.Targets {
		t.Address = strings.Clone(address) // not the whole file
		r.add(t, cmp.Or(err, CheckAddress(address)))
	}
}

func (r *Read) add(t Target, err error) {
	at := place{t.Address, t.Rail}
	leaf, again := r.leaves[at]
	switch {
	case err != nil:
	case again && leaf == t.Leaf:
		return
	case again:
		err = fmt.Errorf("target %q is there twice, with the leaves %q and %q", fabric.Clip(t.Address, maxLabel), leaf, t.Leaf)
	case len(r.Targets) == MaxTargets:
		err = fmt.Errorf("more than %d targets", MaxTargets)
	}
	if err != nil {
		r.leaveOut(err)
		return
	}
	r.leaves[at] = t.Leaf
	r.Targets = append(r.Targets, t)
}

func (r *Read) leaveOut(why error) {
	r.LeftOut++
	r.Why = cmp.Or(r.Why, why)
}

// labelled is a target without an address.
func labelled(labels map[string]string, leaf string) (Target, error) {
	t := Target{Rail: AllRails}
	// leaf may be the name of one of the others
	for to, name := range map[*string]string{&t.Leaf: leaf, &t.Rack: "rack", &t.Pod: "pod"} {
		value := labels[name]
		if len(value) > maxLabel || value != fabric.Printable(value, maxLabel) {
			return t, fmt.Errorf("label %s=%q: expected at most %d printable characters", name, fabric.Clip(value, maxLabel), maxLabel)
		}
		*to = strings.Clone(value)
	}
	if text, ok := labels[labelOfRail]; ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > maxRail {
			return t, fmt.Errorf("label %s=%q: expected a number up to %d", labelOfRail, fabric.Clip(text, maxLabel), maxRail)
		}
		t.Rail = n
	}
	return t, nil
}

// CheckAddress says what is wrong with host:port.
func CheckAddress(address string) error {
	shown := fabric.Printable(address, maxLabel)
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || len(host) > maxHost {
		return fmt.Errorf("target %q: expected host:port", shown)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("target %q: expected a port from 1 to 65535", shown)
	}
	foreign := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(".-_:%", c)
	}
	if strings.ContainsFunc(host, foreign) {
		return fmt.Errorf("target %q: expected a host name or an address", shown)
	}
	return nil
}

// Resolved is the targets of a name with an address for each node, as a headless service of Kubernetes has. Nothing
// is known of their leaves.
func Resolved(addresses []string, port uint16) Read {
	r := Read{leaves: map[place]string{}}
	for _, a := range slices.Sorted(slices.Values(addresses)) {
		t := Target{Address: net.JoinHostPort(a, strconv.Itoa(int(port))), Rail: AllRails}
		r.add(t, CheckAddress(t.Address))
	}
	r.leaves = nil
	return r
}

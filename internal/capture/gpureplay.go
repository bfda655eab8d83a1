// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// GPUsFile is the file in NetlinkFolder with what the GPU driver answered.
const GPUsFile = "gpus.json"

// gpuFormat is the version of that file. It changes with what fabric.GPUDriver has.
const gpuFormat = 1

// Limits of the file: a machine has 16 GPUs, each 18 links and hardly a hundred processes.
const (
	maxGPUText      = 16 << 20
	maxGPUs         = 256
	maxGPULinks     = 64
	maxGPUProcesses = 4096
	maxGPUString    = 512
	maxGPUElements  = 1 << 15 // of all arrays, before they are decoded: "{}" may be a GPU of a kilobyte and a half
)

type gpuDocument struct {
	Format int              `json:"format"`
	Driver fabric.GPUDriver `json:"driver"`
}

// GPUs answers as a captured GPU driver did: always the same. It implements observer.GPUs, and may be used by
// any number of goroutines.
type GPUs struct{ text []byte }

// ReplayGPUs opens what the GPU driver answered, in a folder of recorded answers. The error wraps fs.ErrNotExist where
// it was not asked, and ErrInvalid where it is not a file that Take wrote.
func ReplayGPUs(folder string) (*GPUs, error) {
	name := filepath.Join(folder, GPUsFile)
	b, err := netlink.ReadFile(name, maxGPUText)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		return nil, invalid("%w", err)
	}
	if _, err := parseGPUs(b); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &GPUs{b}, nil
}

// Read answers as of now.
func (g *GPUs) Read(_ fabric.GPUDriver, _ bool, now time.Time) (fabric.GPUDriver, error) {
	driver, err := parseGPUs(g.text)
	if err != nil {
		return fabric.GPUDriver{}, err
	}
	_ = walkFacts(reflect.ValueOf(&driver).Elem(), func(v reflect.Value) error {
		v.FieldByName("At").Set(reflect.ValueOf(now))
		return nil
	})
	return driver, nil
}

// Close does nothing.
func (g *GPUs) Close() error { return nil }

// marshalGPUs writes what a driver answered, without when: that is in the manifest.
func marshalGPUs(driver fabric.GPUDriver) (string, error) {
	b, err := json.Marshal(gpuDocument{gpuFormat, driver})
	if err != nil {
		return "", err
	}
	if driver, err = parseGPUs(b); err != nil { // of its own: what is below is not shared
		return "", err
	}
	_ = walkFacts(reflect.ValueOf(&driver).Elem(), func(v reflect.Value) error {
		v.FieldByName("At").SetZero()
		return nil
	})
	b, err = json.Marshal(gpuDocument{gpuFormat, driver})
	return string(b) + "\n", err
}

// parseGPUs reads an untrusted file.
func parseGPUs(b []byte) (fabric.GPUDriver, error) {
	if len(b) > maxGPUText {
		return fabric.GPUDriver{}, invalid("more than %d bytes", maxGPUText)
	}
	if netlink.Elements(b) > maxGPUElements {
		return fabric.GPUDriver{}, invalid("more than %d elements of arrays", maxGPUElements)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var doc gpuDocument
	if err := d.Decode(&doc); err != nil {
		return fabric.GPUDriver{}, invalid("%w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fabric.GPUDriver{}, invalid("expected one document, found more")
	}
	if doc.Format != gpuFormat {
		return fabric.GPUDriver{}, invalid("format %d, expected %d: it was made by another version of this program",
			doc.Format, gpuFormat)
	}
	if err := checkGPUs(&doc.Driver); err != nil {
		return fabric.GPUDriver{}, invalid("%w", err)
	}
	return doc.Driver, nil
}

// checkGPUs refuses what would make series twice, or without bounds.
func checkGPUs(d *fabric.GPUDriver) error {
	if len(d.GPUs) > maxGPUs || len(d.P2P) > maxGPUs*maxGPUs/2 {
		return fmt.Errorf("%d GPUs and %d pairs, expected at most %d GPUs", len(d.GPUs), len(d.P2P), maxGPUs)
	}
	seen := map[string]bool{}
	last := -1
	for i := range d.GPUs {
		g := &d.GPUs[i]
		if g.Index <= last || g.Index >= maxGPUs {
			return fmt.Errorf("GPU %d behind %d, expected ascending indices below %d", g.Index, last, maxGPUs)
		}
		last = g.Index
		for _, id := range []string{g.UUID, strings.ToLower(g.Address)} {
			if id != "" && seen[id] {
				return fmt.Errorf("two GPUs are %q", id)
			}
			seen[id] = true
		}
		if err := checkGPU(g); err != nil {
			return fmt.Errorf("GPU %d: %w", g.Index, err)
		}
	}
	pairs := map[[2]int]bool{}
	for _, p := range d.P2P {
		if p.A < 0 || p.A >= p.B || p.B >= maxGPUs || pairs[[2]int{p.A, p.B}] {
			return fmt.Errorf("pair %d and %d, expected each once in ascending order", p.A, p.B)
		}
		pairs[[2]int{p.A, p.B}] = true
	}
	return walkFacts(reflect.ValueOf(d).Elem(), checkFact)
}

func checkGPU(g *fabric.GPU) error {
	if n := len(g.Processes.Value); n > maxGPUProcesses {
		return fmt.Errorf("%d processes, expected at most %d", n, maxGPUProcesses)
	}
	if n := len(g.NVLinks.Value); n > maxGPULinks {
		return fmt.Errorf("%d NVLinks, expected at most %d", n, maxGPULinks)
	}
	last := -1
	for i := range g.NVLinks.Value {
		l := &g.NVLinks.Value[i]
		if l.Number <= last || l.Number >= maxGPULinks {
			return fmt.Errorf("NVLink %d behind %d, expected ascending numbers", l.Number, last)
		}
		last = l.Number
		for k, e := range l.Errors {
			if !slices.Contains(fabric.NVLinkErrorKinds(), e.Kind) ||
				slices.ContainsFunc(l.Errors[:k], func(o fabric.NVLinkErrors) bool { return o.Kind == e.Kind }) {
				return fmt.Errorf("NVLink %d: errors %.50q, expected each known kind once", l.Number, e.Kind)
			}
		}
	}
	return nil
}

// checkFact refuses states and reasons that there are not.
func checkFact(v reflect.Value) error {
	state, reason := v.FieldByName("State").Interface().(fabric.State), v.FieldByName("Reason").Interface().(fabric.Reason)
	if state > fabric.Absent {
		return fmt.Errorf("state %d of a fact, expected at most %d", state, fabric.Absent)
	}
	if reason != "" && !slices.Contains(fabric.Reasons(), reason) {
		return fmt.Errorf("reason %.50q of a fact, expected one of %v", reason, fabric.Reasons())
	}
	return nil
}

var errText = fmt.Errorf("a text that is longer than %d bytes or cannot be printed", maxGPUString)

// walkFacts calls f for each fabric.Fact at and below v, whatever it is of, until there is an error. A text that
// cannot be displayed is one.
func walkFacts(v reflect.Value, f func(fact reflect.Value) error) error {
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); len(s) > maxGPUString || !fabric.IsText(s) {
			return errText
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := walkFacts(v.Index(i), f); err != nil {
				return err
			}
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return nil
		}
		if t := v.Type(); t.PkgPath() == reflect.TypeFor[fabric.GPUDriver]().PkgPath() &&
			strings.HasPrefix(t.Name(), "Fact[") {
			if err := f(v); err != nil {
				return err
			}
		}
		for _, field := range v.Fields() {
			if err := walkFacts(field, f); err != nil {
				return err
			}
		}
	}
	return nil
}

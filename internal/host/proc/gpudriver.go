// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/lazyregexp"
)

// What NVIDIA's kernel module shows of itself (nv-procfs.c).
const (
	nvidiaVersion = "driver/nvidia/version"
	nvidiaParams  = "driver/nvidia/params"
)

// GPUDriver reads which version of NVIDIA's kernel module is loaded, whether it is the open one, and
// GrdmaPciTopoCheckOverride, which makes it allow (1) or deny (2) GPUDirect RDMA whatever the topology is. All
// are absent without the module; the last is where the version has no such setting.
func (f *FS) GPUDriver(now time.Time) (version fabric.Fact[string], open fabric.Fact[bool], override fabric.Fact[int]) {
	b, err := f.read(nvidiaVersion)
	if errors.Is(err, fs.ErrNotExist) {
		return fabric.AbsentFact[string](nvidiaVersion, now), fabric.AbsentFact[bool](nvidiaVersion, now),
			fabric.AbsentFact[int](nvidiaParams, now)
	}
	name, isOpen, ok := "", false, false
	why := fabric.ReasonMalformed
	if err != nil {
		why = fabric.ReasonOf(err)
	} else {
		name, isOpen, ok = parseNVRM(b)
	}
	if ok {
		version, open = fabric.Known(name, nvidiaVersion, now), fabric.Known(isOpen, nvidiaVersion, now)
	} else {
		version, open = fabric.UnknownFact[string](why, nvidiaVersion, now), fabric.UnknownFact[bool](why, nvidiaVersion, now)
	}
	return version, open, f.topologyOverride(now)
}

func (f *FS) topologyOverride(now time.Time) fabric.Fact[int] {
	b, err := f.read(nvidiaParams)
	if err != nil {
		return fabric.UnknownFact[int](fabric.ReasonOf(err), nvidiaParams, now)
	}
	switch v, set, ok := parseTopologyOverride(b); {
	case !ok:
		return fabric.UnknownFact[int](fabric.ReasonMalformed, nvidiaParams, now)
	case !set:
		return fabric.AbsentFact[int](nvidiaParams, now)
	default:
		return fabric.Known(v, nvidiaParams, now)
	}
}

// driverVersion is a version of the driver: 535.183.01, 610.43.
var driverVersion = lazyregexp.New(`^[0-9]{1,5}(\.[0-9]{1,5}){1,3}$`)

// parseNVRM reads the first line of version, in which the two kinds of module name themselves differently:
//
//	NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.58.03  Release Build  (...)
//	NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024
func parseNVRM(b []byte) (version string, open, ok bool) {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	text, is := strings.CutPrefix(string(line), "NVRM version: ")
	before, after, found := strings.Cut(text, "Kernel Module")
	if !is || !found {
		return "", false, false
	}
	for word := range strings.FieldsSeq(after) {
		if driverVersion().MatchString(word) {
			return word, strings.HasSuffix(before, " Open "), true
		}
	}
	return "", false, false
}

// parseTopologyOverride finds the setting in params, one "Name: value" a line.
func parseTopologyOverride(b []byte) (value int, set, ok bool) {
	seen := false
	for line := range bytes.Lines(b) {
		name, text, is := strings.Cut(string(line), ":")
		if !is {
			continue
		}
		seen = true
		if name != "GrdmaPciTopoCheckOverride" {
			continue
		}
		v, err := strconv.ParseUint(strings.TrimSpace(text), 10, 8)
		return int(v), true, err == nil && v <= 2
	}
	return 0, false, seen
}

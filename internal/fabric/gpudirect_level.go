// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"strconv"
	"strings"
)

// ncclPath is a class of paths by NCCL's number since 2.27 (PATH_* of graph/topo.h). There is no NODE: NCCL takes the
// host bridges of one NUMA node for one processor, which is PHB.
type ncclPath int

const (
	pathLOC ncclPath = iota
	pathNVL
	pathNVB
	pathC2C
	pathPIX
	pathPXB
	pathP2C
	pathPXN
	pathPHB
	pathSYS
)

// ncclPaths are the names of ncclPath (topoPathTypeStr of graph/topo.cc).
var ncclPaths = [...]string{"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS"}

func (p ncclPath) String() string { return ncclPaths[p] }

// ncclPathOf is the class that NCCL gives a distance.
func ncclPathOf(d Distance) ncclPath {
	return [...]ncclPath{
		DistanceLOC: pathLOC, DistanceNVL: pathNVL, DistancePIX: pathPIX, DistancePXB: pathPXB, DistanceP2C: pathP2C,
		DistancePHB: pathPHB, DistanceNODE: pathPHB, DistanceSYS: pathSYS,
	}[min(d, DistanceSYS)]
}

// parseLevel reads a level as NCCL does (ncclGetLevel of graph/paths.cc): one of its names in capital
// letters, or a number of its first releases. Anything else NCCL ignores.
func parseLevel(text string) (level ncclPath, ok bool) {
	if i := slices.Index(ncclPaths[:], text); i >= 0 {
		return ncclPath(i), true
	}
	if text == "" || text[0] < '0' || text[0] > '9' {
		return 0, false
	}
	old := [...]ncclPath{pathLOC, pathPIX, pathPXB, pathPHB, pathSYS}
	return old[min(leadingNumber(text), len(old)-1)], true
}

// leadingNumber is strtol with base 0 of a text that begins with a digit, as far as a few bits matter.
func leadingNumber(text string) int {
	base, digits := 10, "0123456789"
	switch {
	case len(text) > 2 && (strings.HasPrefix(text, "0x") || strings.HasPrefix(text, "0X")) &&
		strings.ContainsAny(text[2:3], "0123456789abcdefABCDEF"):
		base, digits, text = 16, "0123456789abcdefABCDEF", text[2:]
	case text[0] == '0':
		base, digits = 8, "01234567"
	}
	end := strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune(digits, r) })
	if end < 0 {
		end = len(text)
	}
	n, err := strconv.ParseInt(text[:end], base, 32)
	if err != nil { // it does not fit
		return 1<<31 - 1
	}
	return int(n)
}

// GDRAllows reports whether NCCL uses GPUDirect RDMA at that distance with that NCCL_NET_GDR_LEVEL; without
// one that it takes, by its default.
func GDRAllows(level string, d Distance) bool {
	limit, ok := parseLevel(level)
	if !ok {
		limit = pathP2C
	}
	return ncclPathOf(d) <= limit
}

// gdrLimit is the furthest path on which NCCL uses GPUDirect RDMA.
type gdrLimit struct {
	path, standard ncclPath // in effect, and without settings
	from           string   // who says so
	setting        string   // the variable that does; empty: NCCL itself
}

// gdrLimit is what a process of this host would find (ncclTopoCheckGdr of graph/paths.cc). P2C came with
// 2.27; before, it was PHB.
func (c *NCCLConfig) gdrLimit() gdrLimit {
	l := gdrLimit{path: pathP2C, from: "NCCL's default"}
	l.standard = l.path
	if v, ok := c.Lookup("NCCL_NET_GDR_C2C"); ok && c.Number(v.Name, 1) == 0 {
		l.path, l.from, l.setting = pathPXB, "NCCL_NET_GDR_C2C=0 ("+v.Source+")", v.Name
	}
	if v, ok := c.Lookup("NCCL_NET_GDR_LEVEL"); ok {
		if level, ok := parseLevel(v.Value); ok {
			l.path, l.from, l.setting = level, "NCCL_NET_GDR_LEVEL="+v.Value+" ("+v.Source+")", v.Name
		}
	}
	return l
}

// pxnLimit is the furthest that the GPU in between may be from the NIC; false when NCCL goes through no other
// GPU: it is configured not to, or may not have the NIC read from that one (ncclTopoComputePaths of
// graph/paths.cc).
func (c *NCCLConfig) pxnLimit() (ncclPath, bool) {
	limit := pathPXB
	if c.Number("NCCL_PXN_C2C", 1) != 0 {
		limit = pathP2C
	}
	return limit, c.Number("NCCL_PXN_DISABLE", 0) != 1 && c.Number("NCCL_NET_GDR_READ", -2) != 0
}

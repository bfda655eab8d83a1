// SPDX-License-Identifier: Apache-2.0

package pci

import (
	"fmt"
	gopath "path"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// maxBridges is more than any machine has in a row.
const maxBridges = 32

var errNoFunction = fabric.Because(fabric.ReasonMissing, "no PCI function")

// path is the place of a function in the tree of devices.
type path struct {
	dir     string   // relative to the root
	root    string   // host bridge, "pci0000:15"
	bridges []string // from the root port down
	address string
}

// above returns the places of the bridges, the outermost first.
func (p path) above() []path {
	list := make([]path, len(p.bridges))
	dir := p.dir
	for i := len(p.bridges) - 1; i >= 0; i-- {
		dir = gopath.Dir(dir)
		list[i] = path{dir: dir, root: p.root, bridges: p.bridges[:i:i], address: p.bridges[i]}
	}
	return list
}

// parseLink makes out the PCI function that a link of sysfs leads to, or the one above what it leads to: RDMA devices
// are children of their function. A host bridge may itself be below others (VMD, Hyper-V): the last one counts.
func parseLink(link, target string) (path, error) {
	const devices = "devices/"
	real := gopath.Join(gopath.Dir(link), target)
	if gopath.IsAbs(target) || !strings.HasPrefix(real, devices) {
		return path{}, fmt.Errorf("%s: %w: leads to %.200q, expected a place below %s", link, errMalformed, target, devices)
	}
	parts := strings.Split(real, "/")
	for len(parts) > 0 && !isAddress(parts[len(parts)-1]) {
		parts = parts[:len(parts)-1]
	}
	first := len(parts)
	for first > 0 && isAddress(parts[first-1]) {
		first--
	}
	functions := parts[first:]
	switch {
	case len(functions) == 0:
		return path{}, fmt.Errorf("%s: %w at or above %.200q", link, errNoFunction, real)
	case first == 0 || !isHostBridge(parts[first-1]) || len(functions) > maxBridges:
		return path{}, fmt.Errorf("%s: %w: leads to %.200q, expected functions below a host bridge", link, errMalformed, real)
	}
	last := len(functions) - 1
	return path{
		dir: strings.Join(parts, "/"), root: parts[first-1], bridges: functions[:last:last],
		address: functions[last],
	}, nil
}

// isHostBridge recognises "pci0000:15"; domains above 0xffff exist (Intel VMD).
func isHostBridge(s string) bool {
	domain, bus, ok := strings.Cut(strings.TrimPrefix(s, "pci"), ":")
	return ok && strings.HasPrefix(s, "pci") && isHex(domain, 4, 8) && isHex(bus, 2, 2)
}

// isAddress recognises "0000:1a:00.0".
func isAddress(s string) bool {
	domain, rest, _ := strings.Cut(s, ":")
	bus, rest, _ := strings.Cut(rest, ":")
	slot, function, ok := strings.Cut(rest, ".")
	return ok && isHex(domain, 4, 8) && isHex(bus, 2, 2) && isHex(slot, 2, 2) && len(function) == 1 &&
		'0' <= function[0] && function[0] <= '7'
}

func isHex(s string, shortest, longest int) bool {
	return len(s) >= shortest && len(s) <= longest && strings.Trim(s, "0123456789abcdef") == ""
}

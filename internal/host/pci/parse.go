// SPDX-License-Identifier: Apache-2.0

package pci

import (
	"bytes"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// The parsers below are pure. They return false for whatever the kernel does not print
// (Documentation/ABI/testing/sysfs-bus-pci, drivers/pci/pci-sysfs.c).

// parseID reads vendor, device and class, "0x10de".
func parseID(b []byte) (int, bool) {
	digits, ok := strings.CutPrefix(line(b), "0x")
	n, err := strconv.ParseUint(digits, 16, 24)
	return int(n), ok && err == nil
}

// noLink is a speed or width that says that there is no link: "Unknown", "Unknown speed" of old kernels, lanes 0 (a
// virtual function, an empty slot) and 255 (PCIE_LNK_WIDTH_UNKNOWN, an integrated endpoint).
const noLink = 0

// parseSpeed reads "32.0 GT/s PCIe", "8 GT/s" of old kernels; noLink where there is none.
func parseSpeed(b []byte) (float64, bool) {
	s := line(b)
	if strings.HasPrefix(s, "Unknown") {
		return noLink, true
	}
	number, unit, _ := strings.Cut(s, " ")
	if unit != "GT/s" && unit != "GT/s PCIe" || len(number) > 6 || strings.Trim(number, "0123456789.") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(number, 64)
	return v * 1e9, err == nil && v > 0
}

// parseWidth reads lanes; noLink where there are none.
func parseWidth(b []byte) (int, bool) {
	n, err := strconv.ParseUint(line(b), 10, 8)
	switch {
	case err != nil:
		return 0, false
	case n == 0 || n == 255:
		return noLink, true
	}
	return int(n), n <= 32
}

// parseErrors returns a parser of aer_dev_* that finds the line with the sum: names, which may hold blanks, and
// counts, one pair a line (aer_stats_dev_attr of drivers/pci/pcie/aer.c).
func parseErrors(total string) func([]byte) (uint64, bool) {
	return func(b []byte) (uint64, bool) {
		for l := range bytes.Lines(b) {
			name, count, _ := strings.Cut(line(l), " ")
			if name == total {
				n, err := strconv.ParseUint(count, 10, 64)
				return n, err == nil
			}
		}
		return 0, false
	}
}

// parseAsleep reads power/runtime_status (rtpm_status_str of drivers/base/power/sysfs.c). A device that is about to
// sleep or to wake counts as asleep.
func parseAsleep(b []byte) (bool, bool) {
	switch line(b) {
	case "active", "unsupported", "error":
		return false, true
	case "suspended", "suspending", "resuming":
		return true, true
	}
	return false, false
}

// parseNode reads numa_node; -1 is what the firmware does not say.
func parseNode(b []byte) (int, bool) {
	const maxNodes = 1 << 10 // MAX_NUMNODES
	n, err := strconv.ParseInt(line(b), 10, 32)
	return int(n), err == nil && n >= -1 && n < maxNodes
}

func parseGroup(b []byte) (int, bool) {
	n, err := strconv.ParseUint(string(b), 10, 31)
	return int(n), err == nil
}

func parseAddress(b []byte) (string, bool) { return string(b), isAddress(string(b)) }

// parseName reads a word that ends up in a label.
func parseName(b []byte) (string, bool) {
	s := line(b)
	return s, s != "" && len(s) <= 64 && fabric.IsText(s)
}

func line(b []byte) string { return strings.TrimRight(string(b), "\n") }

// SPDX-License-Identifier: Apache-2.0

package pci

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Configuration space, include/uapi/linux/pci_regs.h.
const (
	headerSize     = 64 // all that the kernel shows without CAP_SYS_ADMIN
	legacySize     = 256
	statusRegister = 0x06
	hasCapList     = 0x10
	firstCap       = 0x34

	capExpress    = 0x10
	expressDevCtl = 0x08

	extendedACS = 0x0d
	acsControl  = 0x06
)

var (
	errAbsent     = fabric.Because(fabric.ReasonMissing, "no such capability")
	errPrivilege  = fabric.Because(fabric.ReasonPrivilege, "no more than the header can be read without CAP_SYS_ADMIN")
	errNoExtended = fabric.Because(fabric.ReasonMissing, "the kernel shows no extended configuration space")
	errGone       = fabric.Because(fabric.ReasonGone, "all ones: the function does not answer")
)

// parseConfig reads the capabilities in configuration space. Its length says what the kernel showed: 64 bytes without
// privilege, 256 without extended configuration space, 4096.
func parseConfig(b []byte, source string, now time.Time) fabric.PCIConfig {
	c := fabric.UnknownPCIConfig(fabric.ReasonMalformed, source, now)
	at, err := findCapability(b, capExpress)
	if err == nil && at+expressDevCtl+2 > len(b) {
		err = fmt.Errorf("%w: PCI Express capability at %#x ends outside", errMalformed, at)
	}
	if errors.Is(err, errAbsent) {
		none, flag := fabric.AbsentFact[int](source, now), fabric.AbsentFact[bool](source, now)
		return fabric.PCIConfig{
			MaxPayload: none, MaxReadRequest: none, RelaxedOrdering: flag, NoSnoop: flag,
			ACS: fabric.AbsentFact[fabric.ACS](source, now),
		}
	}
	if err != nil {
		return fabric.UnknownPCIConfig(fabric.ReasonOf(err), source, now)
	}
	control := binary.LittleEndian.Uint16(b[at+expressDevCtl:])
	if payload, ok := packetSize(control >> 5); ok {
		c.MaxPayload = fabric.Known(payload, source, now)
	}
	if request, ok := packetSize(control >> 12); ok {
		c.MaxReadRequest = fabric.Known(request, source, now)
	}
	c.RelaxedOrdering = fabric.Known(control&(1<<4) != 0, source, now)
	c.NoSnoop = fabric.Known(control&(1<<11) != 0, source, now)

	switch at, err := findExtended(b, extendedACS); {
	case errors.Is(err, errAbsent):
		c.ACS = fabric.AbsentFact[fabric.ACS](source, now)
	case err != nil:
		c.ACS = fabric.UnknownFact[fabric.ACS](fabric.ReasonOf(err), source, now)
	case at+acsControl+2 <= len(b):
		c.ACS = fabric.Known(fabric.ACS(binary.LittleEndian.Uint16(b[at+acsControl:])), source, now)
	}
	return c
}

// packetSize decodes the size of packets; the last two codes are reserved.
func packetSize(code uint16) (int, bool) {
	code &= 7
	return 128 << code, code < 6
}

// findCapability walks the list of capabilities. Chips with a list that goes in circles exist; the number of steps is
// that of the capabilities that fit.
func findCapability(b []byte, id byte) (int, error) {
	const smallest = 4
	switch {
	case len(b) < headerSize:
		return 0, fmt.Errorf("%w: %d bytes of configuration space, expected %d", errMalformed, len(b), headerSize)
	case b[0] == 0xff && b[1] == 0xff:
		return 0, errGone
	case b[statusRegister]&hasCapList == 0:
		return 0, errAbsent
	case len(b) < legacySize:
		return 0, errPrivilege
	}
	at := int(b[firstCap]) &^ 3
	for range (legacySize - headerSize) / smallest {
		switch {
		case at == 0:
			return 0, errAbsent
		case at < headerSize:
			return 0, fmt.Errorf("%w: capability at %#x, inside the header", errMalformed, at)
		case b[at] == 0xff:
			return 0, errGone
		case b[at] == id:
			return at, nil
		}
		at = int(b[at+1]) &^ 3
	}
	return 0, fmt.Errorf("%w: the list of capabilities goes in circles", errMalformed)
}

// findExtended walks the list of extended capabilities.
func findExtended(b []byte, id uint32) (int, error) {
	const smallest = 8
	if len(b) <= legacySize {
		return 0, errNoExtended
	}
	at := legacySize
	for range (pageSize - legacySize) / smallest {
		if at+4 > len(b) {
			return 0, fmt.Errorf("%w: extended capability at %#x of %#x bytes", errMalformed, at, len(b))
		}
		header := binary.LittleEndian.Uint32(b[at:])
		next := int(header>>20) &^ 3
		switch {
		case header == 0 && at == legacySize:
			return 0, errAbsent
		case header == 0xffffffff:
			return 0, errGone
		case header&0xffff == id:
			return at, nil
		case next == 0:
			return 0, errAbsent
		case next < legacySize:
			return 0, fmt.Errorf("%w: extended capability at %#x, outside of extended configuration space", errMalformed, next)
		}
		at = next
	}
	return 0, fmt.Errorf("%w: the list of extended capabilities goes in circles", errMalformed)
}

// SPDX-License-Identifier: Apache-2.0

package dcbnl

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// The attributes that facts come from.
const (
	sourcePFC     = "DCB_ATTR_IEEE_PFC"
	sourceETS     = "DCB_ATTR_IEEE_ETS"
	sourceApps    = "DCB_ATTR_IEEE_APP_TABLE"
	sourceBuffers = "DCB_ATTR_DCB_BUFFER"
	sourceDCBX    = "DCB_ATTR_DCBX"
	sourceCEEPFC  = "DCB_ATTR_CEE_PFC"
	sourceCEETxPG = "DCB_ATTR_CEE_TX_PG"
	sourceCEEApps = "DCB_ATTR_CEE_APP_TABLE"
)

// maxApps limits the application priority table. The kernel's message is one page, of at most 8 KiB
// (NLMSG_DEFAULT_SIZE), which has room for less.
const maxApps = 1024

// decode reads the answer to a command (dcbnl_ieee_fill and dcbnl_cee_fill of net/dcb/dcbnl.c) into the facts that it
// is the answer for; when the message is no answer, they become unknown. A fact fails for itself, and all that failed
// is in the error.
func decode(cmd command, message []byte, netdev string, q *fabric.QoS, now time.Time) error {
	top, inner, err := open(cmd, message, netdev)
	if err != nil {
		unknown(cmd, q, fabric.ReasonMalformed, now)
		return err
	}
	var errs [5]error
	switch cmd {
	case cmdIEEEGet:
		q.PFC, errs[0] = fact(sourcePFC, inner[ieeePFC], decodePFC, now)
		q.ETS, errs[1] = fact(sourceETS, inner[ieeeETS], decodeETS, now)
		q.Apps, errs[2] = fact(sourceApps, inner[ieeeAppTable], decodeApps, now)
		q.Buffers, errs[3] = fact(sourceBuffers, inner[ieeeBuffer], decodeBuffers, now)
		q.DCBX, errs[4] = fact(sourceDCBX, top[attrDCBX], decodeDCBX, now)
	case cmdCEEGet:
		// The priority groups do not become an ETS: drivers differ in whether their index is a class (ixgbe) or a
		// priority (mlx5, bnx2x), and say 0 for what they failed to read.
		unknown(cmd, q, fabric.ReasonUnsupported, now)
		q.PFC, errs[0] = fact(sourceCEEPFC, inner[ceePFC], decodeCEEPFC, now)
		q.Apps, errs[1] = fact(sourceCEEApps, inner[ceeAppTable], decodeCEEApps, now)
	}
	return errors.Join(errs[:]...)
}

// unknown gives all facts of the command the reason why they could not be read.
func unknown(cmd command, q *fabric.QoS, r fabric.Reason, now time.Time) {
	switch cmd {
	case cmdIEEEGet:
		q.PFC = fabric.UnknownFact[fabric.PFC](r, sourcePFC, now)
		q.ETS = fabric.UnknownFact[fabric.ETS](r, sourceETS, now)
		q.Apps = fabric.UnknownFact[[]fabric.App](r, sourceApps, now)
		q.Buffers = fabric.UnknownFact[fabric.Buffers](r, sourceBuffers, now)
		q.DCBX = fabric.UnknownFact[fabric.DCBX](r, sourceDCBX, now)
	case cmdCEEGet:
		q.PFC = fabric.UnknownFact[fabric.PFC](r, sourceCEEPFC, now)
		q.ETS = fabric.UnknownFact[fabric.ETS](r, sourceCEETxPG, now)
		q.Apps = fabric.UnknownFact[[]fabric.App](r, sourceCEEApps, now)
	}
}

// fact decodes one attribute. The kernel leaves out what the driver cannot or does not answer.
func fact[T any](name string, data []byte, decode func([]byte) (T, error), now time.Time) (fabric.Fact[T], error) {
	if data == nil {
		return fabric.UnknownFact[T](fabric.ReasonUnsupported, name, now), nil
	}
	v, err := decode(data)
	if err != nil {
		return fabric.UnknownFact[T](fabric.ReasonMalformed, name, now), fmt.Errorf("%s: %w", name, err)
	}
	return fabric.Known(v, name, now), nil
}

// open checks that a message answers the command for the interface, and returns its attributes and those in its nest.
func open(cmd command, message []byte, netdev string) (top, inner attributes, err error) {
	if len(message) < messageHeader {
		return top, inner, netlink.Malformed("%d bytes, expected %d or more", len(message), messageHeader)
	}
	if got := message[1]; got != byte(cmd) {
		return top, inner, netlink.Malformed("answer to command %d, expected %d", got, byte(cmd))
	}
	if top, err = parse(message[messageHeader:]); err != nil {
		return top, inner, err
	}
	if name, ok := bytes.CutSuffix(top[attrIfName], []byte{0}); !ok || string(name) != netdev {
		return top, inner, netlink.Malformed("DCB_ATTR_IFNAME: %q, expected %q", top[attrIfName], netdev+"\x00")
	}
	kind, name := cmd.nest()
	if top[kind] == nil {
		return top, inner, netlink.Malformed("%s: missing", name)
	}
	if inner, err = parse(top[kind]); err != nil {
		return top, inner, fmt.Errorf("%s: %w", name, err)
	}
	return top, inner, nil
}

func decodeDCBX(b []byte) (fabric.DCBX, error) {
	mode, err := u8(b)
	return fabric.DCBX{
		Host:        mode&0x01 != 0,
		LLDManaged:  mode&0x02 != 0,
		CEE:         mode&0x04 != 0,
		IEEE:        mode&0x08 != 0,
		StaticModes: mode&0x10 != 0,
	}, err
}

// sorted brings the table into an order of its own: that of the kernel depends on when an entry was made.
func sorted(apps []fabric.App) []fabric.App {
	slices.SortFunc(apps, func(a, b fabric.App) int {
		return cmp.Or(cmp.Compare(a.Selector, b.Selector), cmp.Compare(a.Protocol, b.Protocol),
			cmp.Compare(a.Priority, b.Priority))
	})
	return apps
}

// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// Read fills in Pause and FEC. Each fails for itself; an error means that neither could be asked for, or says what is
// wrong with an answer that is malformed.
func (c *Client) Read(netdev string, q *fabric.QoS, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kernel == nil {
		return errClosed
	}
	pause, pauseErr := ask(c, msgPause, netdev, func(b []byte) (fabric.Pause, error) { return decodePause(b, now) })
	q.Pause = fact(pause, pauseErr, msgPause, now)
	if isHopeless(pauseErr) {
		q.FEC = fabric.NotKnown[fabric.FEC](fabric.ReasonOf(pauseErr), msgFEC.String(), now)
		return pauseErr
	}
	fec, fecErr := ask(c, msgFEC, netdev, func(b []byte) (fabric.FEC, error) { return decodeFEC(b, now) })
	q.FEC = fact(fec, fecErr, msgFEC, now)
	return errors.Join(worthAnError(pauseErr), worthAnError(fecErr))
}

// isHopeless tells whether every other question about the interface would fail too.
func isHopeless(err error) bool { return errors.Is(err, ErrBroken) || errors.Is(err, unix.ENODEV) }

// worthAnError leaves out what is wrong with a single fact: a driver that does not have it, or refuses to say.
func worthAnError(err error) error {
	if isHopeless(err) || errors.Is(err, ErrMalformed) {
		return err
	}
	return nil
}

func fact[T any](v T, err error, m message, now time.Time) fabric.Fact[T] {
	if err != nil {
		return fabric.NotKnown[T](fabric.ReasonOf(err), m.String(), now)
	}
	return fabric.Known(v, m.String(), now)
}

// Attributes of ETHTOOL_MSG_PAUSE_GET_REPLY.
const (
	attrPauseAuto  = 2 // ETHTOOL_A_PAUSE_AUTONEG
	attrPauseRX    = 3 // ETHTOOL_A_PAUSE_RX
	attrPauseTX    = 4 // ETHTOOL_A_PAUSE_TX
	attrPauseStats = 5 // ETHTOOL_A_PAUSE_STATS

	attrPauseFramesTX = 2 // ETHTOOL_A_PAUSE_STAT_TX_FRAMES
	attrPauseFramesRX = 3 // ETHTOOL_A_PAUSE_STAT_RX_FRAMES
)

// decodePause reads what pause_fill_reply of net/ethtool/pause.c writes.
func decodePause(b []byte, now time.Time) (fabric.Pause, error) {
	const received, transmitted = "ETHTOOL_A_PAUSE_STAT_RX_FRAMES", "ETHTOOL_A_PAUSE_STAT_TX_FRAMES"
	names := []string{
		attrPauseAuto: "ETHTOOL_A_PAUSE_AUTONEG", attrPauseRX: "ETHTOOL_A_PAUSE_RX", attrPauseTX: "ETHTOOL_A_PAUSE_TX",
		attrPauseStats: "ETHTOOL_A_PAUSE_STATS",
	}
	counts := []string{attrPauseFramesTX: transmitted, attrPauseFramesRX: received}
	p := fabric.Pause{Received: uncounted(received, now), Transmitted: uncounted(transmitted, now)}
	var hasRX, hasTX bool
	err := attributes(b, names, func(d *netlink.AttributeDecoder) error {
		switch d.Type() {
		case attrPauseAuto:
			p.Autonegotiated = d.Uint8() != 0
		case attrPauseRX:
			p.Receive, hasRX = d.Uint8() != 0, true
		case attrPauseTX:
			p.Transmit, hasTX = d.Uint8() != 0, true
		case attrPauseStats:
			return attributes(d.Bytes(), counts, func(d *netlink.AttributeDecoder) error {
				switch d.Type() {
				case attrPauseFramesRX:
					p.Received = fabric.Known(d.Uint64(), received, now)
				case attrPauseFramesTX:
					p.Transmitted = fabric.Known(d.Uint64(), transmitted, now)
				}
				return nil
			})
		}
		return nil
	})
	if err == nil && (!hasRX || !hasTX) {
		err = fmt.Errorf("ETHTOOL_A_PAUSE_RX is there: %t, ETHTOOL_A_PAUSE_TX: %t, expected both: %w", hasRX, hasTX, ErrMalformed)
	}
	if err != nil {
		return fabric.Pause{}, err
	}
	return p, nil
}

// Attributes of ETHTOOL_MSG_FEC_GET_REPLY.
const (
	attrFECActive = 4 // ETHTOOL_A_FEC_ACTIVE
	attrFECStats  = 5 // ETHTOOL_A_FEC_STATS

	attrFECCorrected     = 2 // ETHTOOL_A_FEC_STAT_CORRECTED
	attrFECUncorrectable = 3 // ETHTOOL_A_FEC_STAT_UNCORR
	attrFECCorrectedBits = 4 // ETHTOOL_A_FEC_STAT_CORR_BITS
)

// decodeFEC reads what fec_fill_reply of net/ethtool/fec.c writes. A driver that does not know which one is active
// has no ETHTOOL_A_FEC_ACTIVE.
func decodeFEC(b []byte, now time.Time) (fabric.FEC, error) {
	const corrected, uncorrectable, bits = "ETHTOOL_A_FEC_STAT_CORRECTED", "ETHTOOL_A_FEC_STAT_UNCORR", "ETHTOOL_A_FEC_STAT_CORR_BITS"
	names := []string{attrFECActive: "ETHTOOL_A_FEC_ACTIVE", attrFECStats: "ETHTOOL_A_FEC_STATS"}
	counts := []string{attrFECCorrected: corrected, attrFECUncorrectable: uncorrectable, attrFECCorrectedBits: bits}
	v := fabric.FEC{
		CorrectedBlocks: uncounted(corrected, now), UncorrectableBlocks: uncounted(uncorrectable, now),
		CorrectedBits: uncounted(bits, now),
	}
	err := attributes(b, names, func(d *netlink.AttributeDecoder) error {
		switch d.Type() {
		case attrFECActive:
			v.Active = fecName(d.Uint32())
		case attrFECStats:
			return attributes(d.Bytes(), counts, func(d *netlink.AttributeDecoder) (err error) {
				switch d.Type() {
				case attrFECCorrected:
					v.CorrectedBlocks, err = total(d.Bytes(), corrected, now)
				case attrFECUncorrectable:
					v.UncorrectableBlocks, err = total(d.Bytes(), uncorrectable, now)
				case attrFECCorrectedBits:
					v.CorrectedBits, err = total(d.Bytes(), bits, now)
				}
				return err
			})
		}
		return nil
	})
	if err != nil {
		return fabric.FEC{}, err
	}
	return v, nil
}

// fecName names an ETHTOOL_LINK_MODE_FEC_..._BIT.
func fecName(bit uint32) string {
	switch bit {
	case 49:
		return "none"
	case 50:
		return "rs"
	case 51:
		return "baser"
	case 74:
		return "llrs"
	}
	return ""
}

// total reads an array whose first value is the sum and the others those of lanes. It is empty when the driver does
// not count.
func total(b []byte, source string, now time.Time) (fabric.Fact[uint64], error) {
	if len(b)%8 != 0 {
		return fabric.Fact[uint64]{}, fmt.Errorf("%d bytes, expected a multiple of 8: %w", len(b), ErrMalformed)
	}
	if len(b) == 0 {
		return uncounted(source, now), nil
	}
	return fabric.Known(binary.NativeEndian.Uint64(b), source, now), nil
}

func uncounted(source string, now time.Time) fabric.Fact[uint64] {
	return fabric.NotKnown[uint64](fabric.ReasonMissing, source, now)
}

// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"encoding/binary"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
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
		q.FEC = fabric.UnknownFact[fabric.FEC](fabric.ReasonOf(pauseErr), msgFEC.String(), now)
		return pauseErr
	}
	fec, fecErr := ask(c, msgFEC, netdev, func(b []byte) (fabric.FEC, error) { return decodeFEC(b, now) })
	q.FEC = fact(fec, fecErr, msgFEC, now)
	return errors.Join(worthAnError(pauseErr), worthAnError(fecErr))
}

// isHopeless reports whether every other question about the interface would fail too.
func isHopeless(err error) bool {
	return errors.Is(err, netlink.ErrBroken) || errors.Is(err, ErrNoSocket) || errors.Is(err, unix.ENODEV)
}

// worthAnError leaves out errors of a single fact, which a driver does not have or refuses to return.
func worthAnError(err error) error {
	if isHopeless(err) || errors.Is(err, netlink.ErrMalformed) {
		return err
	}
	return nil
}

func fact[T any](v T, err error, m message, now time.Time) fabric.Fact[T] {
	if err != nil {
		return fabric.UnknownFact[T](fabric.ReasonOf(err), m.String(), now)
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

func pauseAttribute(kind uint16) string {
	return nameIn([]string{
		attrPauseAuto: "ETHTOOL_A_PAUSE_AUTONEG", attrPauseRX: "ETHTOOL_A_PAUSE_RX", attrPauseTX: "ETHTOOL_A_PAUSE_TX",
		attrPauseStats: "ETHTOOL_A_PAUSE_STATS",
	}, kind)
}

const (
	sourcePauseReceived    = "ETHTOOL_A_PAUSE_STAT_RX_FRAMES"
	sourcePauseTransmitted = "ETHTOOL_A_PAUSE_STAT_TX_FRAMES"
)

func pauseStatistic(kind uint16) string {
	return nameIn([]string{attrPauseFramesTX: sourcePauseTransmitted, attrPauseFramesRX: sourcePauseReceived}, kind)
}

// decodePause reads what pause_fill_reply of net/ethtool/pause.c writes.
func decodePause(b []byte, now time.Time) (fabric.Pause, error) {
	p := fabric.Pause{Received: uncounted(sourcePauseReceived, now), Transmitted: uncounted(sourcePauseTransmitted, now)}
	d := netlink.Decode(b, pauseAttribute)
	for d.Next() {
		switch d.Type() {
		case attrPauseAuto:
			p.Autonegotiated = d.Uint8() != 0
		case attrPauseRX:
			p.Receive = d.Uint8() != 0
		case attrPauseTX:
			p.Transmit = d.Uint8() != 0
		case attrPauseStats:
			s := d.Nest(pauseStatistic)
			for s.Next() {
				switch s.Type() {
				case attrPauseFramesRX:
					p.Received = fabric.Known(s.Uint64(), sourcePauseReceived, now)
				case attrPauseFramesTX:
					p.Transmitted = fabric.Known(s.Uint64(), sourcePauseTransmitted, now)
				}
			}
		}
	}
	d.Require(attrPauseRX, attrPauseTX)
	if err := d.Err(); err != nil {
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

func fecAttribute(kind uint16) string {
	return nameIn([]string{attrFECActive: "ETHTOOL_A_FEC_ACTIVE", attrFECStats: "ETHTOOL_A_FEC_STATS"}, kind)
}

func fecStatistic(kind uint16) string {
	return nameIn([]string{
		attrFECCorrected: "ETHTOOL_A_FEC_STAT_CORRECTED", attrFECUncorrectable: "ETHTOOL_A_FEC_STAT_UNCORR",
		attrFECCorrectedBits: "ETHTOOL_A_FEC_STAT_CORR_BITS",
	}, kind)
}

// decodeFEC reads what fec_fill_reply of net/ethtool/fec.c writes. A driver that does not know which one is active
// has no ETHTOOL_A_FEC_ACTIVE.
func decodeFEC(b []byte, now time.Time) (fabric.FEC, error) {
	v := fabric.FEC{
		CorrectedBlocks:     uncounted(fecStatistic(attrFECCorrected), now),
		UncorrectableBlocks: uncounted(fecStatistic(attrFECUncorrectable), now),
		CorrectedBits:       uncounted(fecStatistic(attrFECCorrectedBits), now),
	}
	d := netlink.Decode(b, fecAttribute)
	for d.Next() {
		switch d.Type() {
		case attrFECActive:
			v.Active = fecNames[d.Uint32()]
		case attrFECStats:
			s := d.Nest(fecStatistic)
			for s.Next() {
				switch s.Type() {
				case attrFECCorrected:
					v.CorrectedBlocks = total(&s, now)
				case attrFECUncorrectable:
					v.UncorrectableBlocks = total(&s, now)
				case attrFECCorrectedBits:
					v.CorrectedBits = total(&s, now)
				}
			}
		}
	}
	if err := d.Err(); err != nil {
		return fabric.FEC{}, err
	}
	return v, nil
}

// fecNames are those of ETHTOOL_LINK_MODE_FEC_..._BIT.
var fecNames = map[uint32]string{49: "none", 50: "rs", 51: "baser", 74: "llrs"}

// total reads an array whose first value is the sum and the others those of lanes. It is empty when the driver does
// not count.
func total(d *netlink.Decoder, now time.Time) fabric.Fact[uint64] {
	b, source := d.Bytes(), fecStatistic(d.Type())
	switch {
	case len(b)%8 != 0:
		d.Fail("%d bytes, expected a multiple of 8", len(b))
	case len(b) > 0:
		return fabric.Known(binary.NativeEndian.Uint64(b), source, now)
	}
	return uncounted(source, now)
}

func uncounted(source string, now time.Time) fabric.Fact[uint64] {
	return fabric.UnknownFact[uint64](fabric.ReasonMissing, source, now)
}

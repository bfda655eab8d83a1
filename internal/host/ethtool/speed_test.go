// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"testing"

	mdlayher "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

func speedReply(megabits uint32) []byte {
	return encoded(func(e *mdlayher.AttributeEncoder) {
		nest(e, attrHeader, func(e *mdlayher.AttributeEncoder) { e.Uint32(1, 7); e.String(attrDeviceName, "eth0") })
		e.Uint8(2, 1)
		e.Uint32(attrSpeed, megabits)
		e.Uint8(6, 1)
	})
}

func TestSpeed(t *testing.T) {
	c, k := fakeConnection(t)
	for name, want := range map[string]struct {
		answer func(netlink.Message) ([]netlink.Message, error)
		fact   fabric.Fact[float64]
	}{
		"400G":       {says(msgLinkModes, speedReply(400_000)), fabric.Known(50e9, "ETHTOOL_MSG_LINKMODES_GET", now())},
		"no link":    {says(msgLinkModes, speedReply(1<<32-1)), noSpeed(fabric.ReasonUnsupported)},
		"no speed":   {says(msgLinkModes, nil), noSpeed(fabric.ReasonUnsupported)},
		"nonsense":   {says(msgLinkModes, speedReply(1<<31)), noSpeed(fabric.ReasonMalformed)},
		"cut short":  {says(msgLinkModes, speedReply(400_000)[:37]), noSpeed(fabric.ReasonMalformed)},
		"no support": {refuses(unix.EOPNOTSUPP), noSpeed(fabric.ReasonUnsupported)},
		"gone":       {refuses(unix.ENODEV), noSpeed(fabric.ReasonGone)},
	} {
		k.answers[msgLinkModes] = want.answer
		if got := c.Speed("eth0", now()); got != want.fact {
			t.Errorf("%s: %+v, want %+v", name, got, want.fact)
		}
	}
	if !c.HasNetlink() {
		t.Error("there is no ethtool netlink")
	}
	if got := c.Commands()[fabric.CommandLink]; got != 7 {
		t.Errorf("%d questions were counted, want 7", got)
	}
	k.answers[msgGetFamily] = refuses(unix.ENOENT)
	c.disconnect()
	if c.HasNetlink() {
		t.Error("a kernel without ethtool netlink has it")
	}
	if got := c.Speed("eth0", now()); got != noSpeed(fabric.ReasonMissing) {
		t.Errorf("without ethtool netlink: %+v", got)
	}
	c.Close()
	if got := c.Speed("eth0", now()); got.State == fabric.OK {
		t.Errorf("after Close: %+v", got)
	}
}

func noSpeed(r fabric.Reason) fabric.Fact[float64] {
	return fabric.UnknownFact[float64](r, "ETHTOOL_MSG_LINKMODES_GET", now())
}

func FuzzDecodeSpeed(f *testing.F) { fuzzDecoder(f, speedReply(400_000), decodeSpeed) }

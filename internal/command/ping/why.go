// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"

	"gpufabric_exporter/rdmaping"
)

// whyNot says why two endpoints can never reach each other; empty: nothing of what they tell forbids it.
func whyNot(own, peer rdmaping.Endpoint) string {
	const full = 0x8000 // member of a partition; the others may talk to such members only
	is4 := func(e rdmaping.Endpoint) bool { return netip.AddrFrom16(e.GID).Is4In6() }
	family := func(e rdmaping.Endpoint) string {
		if is4(e) {
			return "an IPv4 address"
		}
		return "an IPv6 address"
	}
	switch {
	case own.Link != peer.Link:
		return fmt.Sprintf("%s is %s here, and %s of the peer is %s: choose another one with --device", own.Device, name(own.Link), peer.Device, name(peer.Link))
	case own.Link == rdmaping.Ethernet && is4(own) != is4(peer):
		return fmt.Sprintf("the GID of %s is %s, and that of the peer's %s is %s: choose the same on both nodes (NCCL_IB_ADDR_FAMILY, NCCL_IB_GID_INDEX)",
			own.Device, family(own), peer.Device, family(peer))
	case own.RoCE != 0 && peer.RoCE != 0 && own.RoCE != peer.RoCE:
		return fmt.Sprintf("the GID of %s is for RoCE v%d, and that of the peer's %s for RoCE v%d: choose the same on both nodes (NCCL_IB_ROCE_VERSION_NUM, NCCL_IB_GID_INDEX)",
			own.Device, own.RoCE, peer.Device, peer.RoCE)
	case own.Link == rdmaping.InfiniBand && own.PKey&^full != peer.PKey&^full:
		return fmt.Sprintf("the partitions differ: P_Key %#04x here, %#04x of the peer: choose the same on both nodes (NCCL_IB_PKEY)", own.PKey, peer.PKey)
	case own.Limited() && peer.Limited():
		return fmt.Sprintf("both are limited members of the partition %#04x, which may not talk to each other: the subnet manager can make one of them a full member", own.PKey)
	}
	return ""
}

func name(l rdmaping.Link) string {
	if l == rdmaping.InfiniBand {
		return "InfiniBand"
	}
	return "Ethernet"
}

// hintOfSend says what to do about a message that could not be sent.
func hintOfSend(f *rdmaping.Failure, to rdmaping.Endpoint) string {
	const more = "the kernel log may tell more (dmesg)"
	if f.Step != "ibv_create_ah" {
		return more
	}
	switch syscall.Errno(f.Errno) {
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH:
		return "no route leads there from this interface: see ip route get " + address(to.GID)
	case syscall.ETIMEDOUT, syscall.ENODATA:
		return "no neighbour has this address: check that its port is up, and in the same VLAN"
	case syscall.EINVAL:
		return "the GID of this port does not lead there: choose one of the right type and interface (NCCL_IB_GID_INDEX)"
	}
	return more
}

func address(g rdmaping.GID) string { return netip.AddrFrom16(g).Unmap().String() }

// verdict says what follows from the messages, in the order: own host, own rail, large messages, path.
func (t *tally) verdict(own, peer rdmaping.Endpoint) string {
	reaches, clean := "reaches itself and not the peer", ", and loopback does not"
	if t.loop.asked == 0 {
		reaches, clean = "does not reach the peer", ""
	}
	filter := ""
	if own.Link == rdmaping.Ethernet {
		filter = ", filters for UDP port 4791"
	}
	switch {
	case t.loop.asked > 0 && len(t.loop.answers) == 0:
		return own.Device + " does not even reach itself: this host or its own rail is at fault, not the fabric: gpufabric_exporter check tells of its port"
	case t.loop.lost() > 0:
		return fmt.Sprintf("%d of %d messages by loopback were lost: this host is too busy, or its rail is at fault: ask again while it is idle", t.loop.lost(), t.loop.asked)
	case t.peer.asked > 0 && len(t.peer.answers) == 0:
		return fmt.Sprintf("%s %s: check the path, the peer's %s%s, and whether it was restarted meanwhile", own.Device, reaches, peer.Device, filter)
	case len(t.dead()) > 0:
		return fmt.Sprintf("%d of %d flows get no answer (flow labels %s), and the others do: one of several equal paths is dead: look for the link that they take",
			len(t.dead()), len(t.flows), strings.Trim(fmt.Sprint(t.dead()), "[]"))
	case t.large.lost() > 0 && t.peer.lost() == 0:
		return fmt.Sprintf("only messages of %d bytes get lost: something on the path has a smaller MTU: raise it on each switch and link", t.largest)
	case t.peer.lost() > 0:
		return "the fabric or the peer loses messages" + clean + ": see the errors that ports on the path count"
	}
	return ""
}

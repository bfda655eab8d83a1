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
		return fmt.Sprintf("%s is %s here, and %s of the peer is %s", own.Device, name(own.Link), peer.Device, name(peer.Link))
	case own.Link == rdmaping.Ethernet && is4(own) != is4(peer):
		return fmt.Sprintf("the GID of %s is %s, and that of the peer's %s is %s (NCCL_IB_ADDR_FAMILY and NCCL_IB_GID_INDEX choose it)",
			own.Device, family(own), peer.Device, family(peer))
	case own.RoCE != 0 && peer.RoCE != 0 && own.RoCE != peer.RoCE:
		return fmt.Sprintf("the GID of %s is for RoCE v%d, and that of the peer's %s for RoCE v%d (NCCL_IB_ROCE_VERSION_NUM and NCCL_IB_GID_INDEX choose it)",
			own.Device, own.RoCE, peer.Device, peer.RoCE)
	case own.Link == rdmaping.InfiniBand && own.PKey&^full != peer.PKey&^full:
		return fmt.Sprintf("the partitions differ: P_Key %#04x here, %#04x of the peer", own.PKey, peer.PKey)
	case own.Limited() && peer.Limited():
		return fmt.Sprintf("both are limited members of the partition %#04x, which may not talk to each other", own.PKey)
	}
	return ""
}

func name(l rdmaping.Link) string {
	if l == rdmaping.InfiniBand {
		return "InfiniBand"
	}
	return "Ethernet"
}

// hintOfSend says why a message could not be sent to a peer.
func hintOfSend(f *rdmaping.Failure, peer rdmaping.Endpoint) string {
	if !strings.HasPrefix(f.Step, "ibv_create_ah") {
		return ""
	}
	switch syscall.Errno(f.Errno) {
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH:
		return fmt.Sprintf(": no route to %s from this interface", address(peer.GID))
	case syscall.ETIMEDOUT, syscall.ENODATA:
		return fmt.Sprintf(": no neighbour answers for %s (ARP, VLAN, peer down)", address(peer.GID))
	case syscall.EINVAL:
		return fmt.Sprintf(": the GID of this port cannot reach %s (its type, or the interface that it is of)", address(peer.GID))
	}
	return ""
}

func address(g rdmaping.GID) string { return netip.AddrFrom16(g).Unmap().String() }

// verdict says what follows from the messages, in the order: own host, own rail, large messages, path.
func (t *tally) verdict(own, peer rdmaping.Endpoint) string {
	reaches, clean := "reaches itself and not the peer", ": loopback is clean"
	if t.loop.asked == 0 {
		reaches, clean = "does not reach the peer", ""
	}
	switch {
	case t.loop.asked > 0 && len(t.loop.answers) == 0:
		return own.Device + " does not even reach itself: this host or its own rail is at fault, not the fabric"
	case t.loop.lost() > 0:
		return fmt.Sprintf("%d of %d messages by loopback were lost: this host is too busy, or its rail is at fault", t.loop.lost(), t.loop.asked)
	case t.peer.asked > 0 && len(t.peer.answers) == 0:
		return fmt.Sprintf("%s %s: the path, the peer's %s, a filter for UDP port 4791, or a peer that was restarted", own.Device, reaches, peer.Device)
	case len(t.dead()) > 0:
		return fmt.Sprintf("%d of %d flows get no answer (flow labels %s), and the others do: one of several equal paths is dead",
			len(t.dead()), len(t.flows), strings.Trim(fmt.Sprint(t.dead()), "[]"))
	case t.large.lost() > 0 && t.peer.lost() == 0:
		return fmt.Sprintf("only messages of %d bytes get lost: something on the path has a smaller MTU", t.largest)
	case t.peer.lost() > 0:
		return "the fabric or the peer loses messages" + clean
	}
	return ""
}

// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/rdmaping"
)

// Own is a rail of this node, with the settings that NCCL would use.
type Own struct {
	rdmaping.Open
	Rail    int          // its number among the compute ports of the node
	GID     rdmaping.GID // that the settings choose; zero: not known
	RoCE    int          // version that it is for; 0: not known, or InfiniBand
	ClassBy string       // who sets the traffic class
	Card    string       // PCI address of its NIC without the function; empty: not known
	Moved   bool         // a pod has the device
	Down    bool         // the port is known not to be active
	LID     int          // of InfiniBand; 0: not known
	MTU     int          // of the network interface, in bytes; 0: not known
	Unread  bool         // the GIDs of the port are not known, so none is chosen
	Unfit   string       // why none of them fits, as where the host has no address, or it changes; NCCL falls back to any
	Unclear bool         // what MLNX_OFED sets as traffic class cannot be read
}

// differs reports whether a rail that was opened as o is to be opened anew. What is not known any more is no change.
func (o Own) differs(now Own) bool {
	now.LID, now.MTU, now.Card = cmp.Or(now.LID, o.LID), cmp.Or(now.MTU, o.MTU), o.Card
	if now.Unread || now.Unfit != "" {
		now.GIDIndex, now.GID, now.RoCE, now.Unread, now.Unfit = o.GIDIndex, o.GID, o.RoCE, o.Unread, o.Unfit
	}
	if now.Unclear {
		now.TrafficClass, now.ClassBy, now.Unclear = o.TrafficClass, o.ClassBy, o.Unclear
	}
	return now != o
}

// Rails returns the compute ports of a node, the first one of each device that has a link, or the first one if none
// has, or that of the device that is named. There may be more of them than rdmaping.MaxRails.
func Rails(n *fabric.Node, device string) ([]Own, error) { return railsOf(n, device, nil) }

// railsOf is Rails where devices keep a port, with or without a link, unless one before it has a link.
func railsOf(n *fabric.Node, device string, kept map[string]int) ([]Own, error) {
	var rails []Own
	number := 0
	moved := n.LikelyMoved()
	for i := range n.HCAs {
		h := &n.HCAs[i]
		if slices.Contains(moved, h) { // its ports were never seen; others have a number for it
			number++
		}
		port, before, compute := pick(h, device, kept[h.Name])
		if port != nil && !h.Restricted.Or(false) {
			rails = append(rails, settings(n, h, port, min(number+before, rdmaping.MaxRail)))
		}
		number += compute
	}
	if len(rails) == 0 {
		return nil, noRails(n, device)
	}
	return rails, nil
}

// pick chooses the port of a device that pings, if any. It returns how many compute ports are before it, and how many
// there are.
func pick(h *fabric.HCA, device string, kept int) (chosen *fabric.Port, before, compute int) {
	for k := range h.Ports {
		p := &h.Ports[k]
		serves := p.Serves(fabric.RoleCompute)
		var take bool
		switch {
		case chosen == nil:
			take = device == h.Name || device == "" && serves
		case !serves || chosen.Number == kept:
		case p.Number == kept:
			take = chosen.State.Or("") != fabric.PortActive
		default:
			take = chosen.Down() && !p.Down() // those before have no link
		}
		if take {
			chosen, before = p, compute
		}
		if serves {
			compute++
		}
	}
	return chosen, before, compute
}

// excess are the rails beyond rdmaping.MaxRails: second ports of a card before first ones, so that no card is left out.
func excess(owns []Own) map[string]bool {
	cards, first, second := map[string]bool{}, []string{}, []string{}
	for _, own := range owns {
		if own.Card != "" && cards[own.Card] {
			second = append(second, own.Device)
			continue
		}
		cards[own.Card] = true
		first = append(first, own.Device)
	}
	all, left := append(first, second...), map[string]bool{}
	for _, device := range all[min(len(all), rdmaping.MaxRails):] {
		left[device] = true
	}
	return left
}

// ErrNoRole means that there are devices, and that none of their ports is for training.
var ErrNoRole = errors.New("expected an RDMA device with the role compute")

// noRails says why there are none, and what to do.
func noRails(n *fabric.Node, device string) error {
	var names []string
	for i := range n.HCAs {
		h := &n.HCAs[i]
		if !h.Restricted.Or(false) {
			names = append(names, h.Name)
		} else if h.Name == device {
			return fmt.Errorf("%s belongs to the platform, and is never opened: choose another device", device)
		}
	}
	here := fabric.Clip(strings.Join(names, ", "), 200)
	switch {
	case here == "":
		return errors.New("this host has no RDMA device: expected one in /sys/class/infiniband that --collector.device-include " +
			"and --collector.device-exclude leave in: load the driver of the NIC")
	case device == "":
		return fmt.Errorf("%w, and none of %s has it: state roles in the configuration (docs/ROLES.md)", ErrNoRole, here)
	}
	return fmt.Errorf("this host has no RDMA device %s: choose one of %s", device, here)
}

func settings(n *fabric.Node, h *fabric.HCA, p *fabric.Port, number int) Own {
	o := Own{
		Open: rdmaping.Open{Device: h.Name, Port: p.Number}, Rail: number, ClassBy: "NCCL's default",
		Moved: h.Moved || p.NetDevMoved(), Down: p.Down(), LID: p.LID.Or(0), Unread: p.GIDs.Entries.State == fabric.Unknown,
	}
	o.Card, _, _ = strings.Cut(h.PCI.Or(""), ".")
	if d := n.NetDev(p.NetDev.Or("")); d != nil {
		o.MTU = d.MTU.Or(0)
	}
	if choice, ok := p.GIDChoice.Get(); ok && choice.Index >= 0 {
		o.GIDIndex = choice.Index
		if choice.Rule == fabric.GIDByFallback || choice.Rule == fabric.GIDByConfiguration && choice.GID == nil {
			o.Unfit = cmp.Or(choice.Why, "none is chosen")
		}
		for _, g := range p.GIDs.Entries.Or(nil) {
			if g.Index == choice.Index {
				o.GID = g.Addr.As16()
				o.RoCE = map[fabric.GIDType]int{fabric.GIDRoCEv1: 1, fabric.GIDRoCEv2: 2}[g.Type]
			}
		}
	}
	if v, set := n.NCCL.Lookup("NCCL_IB_TC"); set && v.IsNumber && v.Number >= 0 {
		o.TrafficClass, o.ClassBy = int(uint8(v.Number)), "NCCL_IB_TC"+v.From()
	}
	o.Unclear = p.TrafficClass.State == fabric.Unknown && p.TrafficClass.Reason != fabric.ReasonMissing
	if c, set := p.TrafficClass.Get(); set && c.Global >= 0 { // the driver puts it over what connections ask for
		o.TrafficClass, o.ClassBy = c.Global, "MLNX_OFED, for the whole port"
	}
	if v, set := n.NCCL.Lookup("NCCL_IB_SL"); set && v.IsNumber && v.Number >= 0 {
		o.ServiceLevel = int(v.Number & 15)
	}
	o.PKeyIndex = int(uint16(max(0, n.NCCL.Number("NCCL_IB_PKEY", 0))))
	return o
}

// Worker is the process that has libibverbs. It answers rdmaping.Request.
type Worker interface {
	Call(ctx context.Context, request []byte) ([]byte, error)
	Close() error
}

// Start starts a Worker that loads the library; empty: the one that the loader finds.
type Start func(ctx context.Context, library string, log *slog.Logger) (Worker, error)

// Sole returns a Start that starts no Worker beside one that the kernel has not released: that hangs in a driver,
// as the next one would.
func Sole(start Start) Start {
	var mu sync.Mutex
	var last Worker
	return func(ctx context.Context, library string, log *slog.Logger) (Worker, error) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil { // of a Pinger that has ended: the last one may be that of the next
			return nil, context.Cause(ctx)
		}
		if last != nil {
			if err := last.Close(); err != nil {
				return nil, fmt.Errorf("the process before still exists: %w", err)
			}
			last = nil
		}
		w, err := start(ctx, library, log)
		if err == nil {
			last = w
		}
		return w, err
	}
}

// Session asks a Worker.
type Session struct{ Worker }

func (s Session) do(ctx context.Context, q rdmaping.Request) (rdmaping.Reply, error) {
	var r rdmaping.Reply
	raw, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	answer, err := s.Call(ctx, raw)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return r, fmt.Errorf("the worker answers what is no reply: %w", err)
	}
	return r, nil
}

// Open makes a rail ready, or says why it cannot be: a rdmaping.Failure, if the worker answers.
func (s Session) Open(ctx context.Context, o Own) (rdmaping.Endpoint, error) {
	if o.Unread { // the one at index 0 may be of RoCE v1
		return rdmaping.Endpoint{}, fmt.Errorf("%s: the GIDs of its port cannot be read (/sys/class/infiniband/%[1]s/ports/%d/gids): "+
			"gpufabric_exporter check says why", o.Device, o.Port)
	}
	r, err := s.do(ctx, rdmaping.Request{Open: &o.Open})
	switch {
	case err != nil:
		return rdmaping.Endpoint{}, err
	case r.Failure != nil:
		return rdmaping.Endpoint{}, fmt.Errorf("%s: %w%s", o.Device, printable(r.Failure), hintOfOpen(r.Failure))
	case r.Endpoint == nil:
		return rdmaping.Endpoint{}, errors.New("the worker answers nothing")
	}
	r.Endpoint.Rail, r.Endpoint.RoCE = o.Rail, o.RoCE
	return *r.Endpoint, nil
}

// Round sends messages, and returns what comes of each.
func (s Session) Round(ctx context.Context, q *rdmaping.Round) ([]rdmaping.Pong, error) {
	r, err := s.do(ctx, rdmaping.Request{Round: q})
	if err == nil && len(r.Pongs) != len(q.Asks) {
		err = fmt.Errorf("the worker answers %d messages, and not %d", len(r.Pongs), len(q.Asks))
	}
	if err != nil {
		return nil, err
	}
	for i := range r.Pongs {
		if f := r.Pongs[i].Failure; f != nil {
			r.Pongs[i].Failure = printable(f)
		}
	}
	return r.Pongs, nil
}

func printable(f *rdmaping.Failure) *rdmaping.Failure {
	f.Step, f.Text = fabric.Printable(f.Step, 100), fabric.Printable(f.Text, 300)
	return f
}

// hintOfOpen says what to do about a port that cannot be opened.
func hintOfOpen(f *rdmaping.Failure) string {
	switch errno := syscall.Errno(f.Errno); {
	case f.Step == "loading libibverbs":
		return ": install it (package libibverbs1, or rdma-core)"
	case errno == syscall.EACCES || errno == syscall.EPERM:
		return ": run as a user who may open /dev/infiniband/uverbs*"
	case errno == syscall.ENOSYS:
		return ": libibverbs finds no device at all: load the module ib_uverbs"
	case f.Step == "ibv_open_device" && errno == syscall.ENODEV:
		return ": libibverbs does not know it: install its provider (package ibverbs-providers), and see that its /dev/infiniband/uverbs* is here"
	case errno == syscall.ENOMEM:
		return ": raise the limit of locked memory (LimitMEMLOCK of the unit, ulimit -l)"
	case errno == syscall.ENETDOWN:
		return ": bring its link up"
	case f.Step == "the GID is empty":
		return ": give its interface an address, or choose another one (NCCL_IB_GID_INDEX)"
	case errno == syscall.EPROTONOSUPPORT:
		return ": pings need one of them: choose another device"
	case f.Step == "the port has no valid address":
		return ": look at the subnet manager, which gives LIDs, or at the address of the interface, which gives GIDs"
	case f.Step == "ibv_query_pkey", f.Step == "the P_Key is empty":
		return ": choose an entry that the table of P_Keys has (NCCL_IB_PKEY)"
	}
	return ": the kernel log may tell more (dmesg)"
}

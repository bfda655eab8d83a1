// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/rdmaping"
)

// own is a rail of this node, with the settings that NCCL would use.
type own struct {
	open    rdmaping.Open
	gidBy   string // why this GID
	classBy string // who sets the traffic class
}

// railsOf returns the compute ports of a node, the first one of each device, or the port of the device that is named.
func railsOf(n *fabric.Node, device string) ([]own, error) {
	var rails []own
	var names []string
	take := func(h *fabric.HCA, p *fabric.Port) {
		if len(names) == 0 || names[len(names)-1] != h.Name {
			rails, names = append(rails, settings(n, h, p)), append(names, h.Name)
		}
	}
	if device == "" {
		for h, p := range n.ComputePorts {
			take(h, p)
		}
	} else {
		for h, p := range n.Ports {
			if h.Name == device && h.Restricted.Or(false) {
				return nil, fmt.Errorf("%s belongs to the platform, and is never opened", device)
			} else if h.Name == device {
				take(h, p)
			}
		}
	}
	switch {
	case len(rails) == 0 && device == "":
		return nil, errors.New("no port for training is known on this host: name a device with --device (rdma link lists them), or state roles in the configuration")
	case len(rails) == 0:
		return nil, fmt.Errorf("no RDMA device %s on this host", device)
	case len(rails) > rdmaping.MaxRails:
		return nil, fmt.Errorf("%d ports, expected at most %d: --device names one", len(rails), rdmaping.MaxRails)
	}
	return rails, nil
}

func settings(n *fabric.Node, h *fabric.HCA, p *fabric.Port) own {
	o := own{open: rdmaping.Open{Device: h.Name, Port: p.Number}, classBy: "NCCL's default"}
	if choice, ok := p.GIDChoice.Get(); ok && choice.Index >= 0 {
		o.open.GIDIndex, o.gidBy = choice.Index, choice.Why
	}
	if v, set := n.NCCL.Lookup("NCCL_IB_TC"); set && v.IsNumber && v.Number >= 0 {
		o.open.TrafficClass, o.classBy = int(uint8(v.Number)), "NCCL_IB_TC"+v.From()
	}
	if v, set := n.NCCL.Lookup("NCCL_IB_SL"); set && v.IsNumber && v.Number >= 0 {
		o.open.ServiceLevel = int(v.Number & 15)
	}
	o.open.PKeyIndex = int(uint16(max(0, n.NCCL.Number("NCCL_IB_PKEY", 0))))
	return o
}

// session asks the worker.
type session struct{ Worker }

func (s session) do(ctx context.Context, q rdmaping.Request) (rdmaping.Reply, error) {
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
	if r.Failure != nil {
		r.Failure.Text = fabric.Printable(r.Failure.Text, 300)
	}
	return r, nil
}

// open makes a rail ready, or says why it cannot be.
func (s session) open(ctx context.Context, o own) (rdmaping.Endpoint, error) {
	r, err := s.do(ctx, rdmaping.Request{Open: &o.open})
	switch {
	case err != nil:
		return rdmaping.Endpoint{}, err
	case r.Failure != nil:
		return rdmaping.Endpoint{}, fmt.Errorf("%s: %w%s", o.open.Device, r.Failure, hintOfOpen(r.Failure))
	case r.Endpoint == nil:
		return rdmaping.Endpoint{}, errors.New("the worker answers nothing")
	}
	return *r.Endpoint, nil
}

// describe is the settings of a rail for people.
func (o own) describe(e rdmaping.Endpoint) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", e.Device)
	if e.Link == rdmaping.InfiniBand {
		fmt.Fprintf(&b, "LID %d, service level %d", e.LID, o.open.ServiceLevel)
	} else {
		fmt.Fprintf(&b, "GID %d is %s, traffic class %d (%s)", o.open.GIDIndex, e.GID, o.open.TrafficClass, o.classBy)
	}
	fmt.Fprintf(&b, ", MTU %d", e.MTU)
	return b.String()
}

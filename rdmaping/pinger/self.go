// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"gpufabric_exporter/internal/errand"
	"gpufabric_exporter/rdmaping/peers"
)

// findSelf finds this node among the targets, and reports whether it is another one now. Names that cannot be read stay
// as they were, and so do those before while only they are among the targets: an address that is gone for a while is
// still that of this node. A host may have thousands of addresses that are no targets, such as those of services. They
// change often, and change nothing here.
func (p *Pinger) findSelf(ctx context.Context, list []peers.Target, listed bool) (changed bool, err error) {
	read := p.read
	if p.o.Config.Self == "" {
		read, err = p.ownNames(ctx)
	}
	if !listed && slices.Equal(read, p.read) {
		return false, err
	}
	names, own := read, p.among(list, read)
	if len(own) == 0 {
		if before := p.among(list, p.names); len(before) > 0 {
			names, own = p.names, before
		}
	}
	was := p.self()
	changed = !slices.Equal(own, p.own)
	p.read, p.names, p.own = read, names, own
	return changed || p.self() != was, err
}

// ownNames are the names and addresses of this node, the last ones that could be read.
func (p *Pinger) ownNames(ctx context.Context) ([]string, error) {
	now, err := p.naming.Run(ctx, lookFor, p.o.Host)
	if errors.Is(err, errand.ErrBusy) || errors.Is(err, context.DeadlineExceeded) { // one text, however long it lasts
		err = fmt.Errorf("not read within %s", lookFor)
	}
	if err == nil && len(now) == 0 {
		err = errors.New("there are none")
	}
	if err != nil {
		return p.read, fmt.Errorf("the names and addresses of this host: %w (those before stay)", err)
	}
	return now, nil
}

// among returns the targets that are this node, by these names.
func (p *Pinger) among(list []peers.Target, names []string) (own []peers.Target) {
	is := func(address string) bool { return address == p.o.Config.Self }
	if p.o.Config.Self == "" {
		is = oneOf(names)
	}
	for _, t := range list {
		if is(t.Address) {
			own = append(own, t)
		}
	}
	return own
}

// oneOf reports whether host:port has the first of these names, with or without the domain, or is one of the others.
func oneOf(names []string) func(address string) bool {
	if len(names) == 0 {
		return func(string) bool { return false }
	}
	all := make(map[string]bool, len(names))
	for _, name := range names {
		all[strings.ToLower(name)] = true
	}
	first := strings.ToLower(names[0])
	short, _, _ := strings.Cut(first, ".")
	return func(address string) bool {
		host, _, _ := net.SplitHostPort(address)
		host = strings.ToLower(host)
		return host != "" && (all[host] || host == short || first != "" && first == short && strings.HasPrefix(host, first+"."))
	}
}

// selfOf is this node among the targets; of a node that is not among them nothing but its name is known.
func (p *Pinger) selfOf(rail int) peers.Target {
	for _, t := range p.own {
		if t.Rail == peers.AllRails || t.Rail == rail {
			t.Rail = rail
			return t
		}
	}
	self := p.self()
	self.Rail = rail
	return self
}

// self is this node as it calls itself.
func (p *Pinger) self() peers.Target {
	if p.o.Config.Self == "" && len(p.names) > 0 {
		return peers.Target{Address: p.names[0]}
	}
	return peers.Target{Address: p.o.Config.Self}
}

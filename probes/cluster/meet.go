// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"gpufabric_exporter/probes/cluster/wire"
)

// meeting is where a node may find its leader.
type meeting struct {
	addresses []string
	secret    []byte
	lookup    func(ctx context.Context, host string) ([]string, error)
}

// How long one address of the leader may take, and how many a name may have.
const (
	dialLimit     = 3 * time.Second
	addressesMost = 8
)

// Meet connects to the leader, which is at any of the addresses (HOST:PORT) and knows this node by its hello then, and
// tries again until ctx ends. Others may be where it should be, or in the way: those that answer first are spoken to
// until one is the leader. It ends where none takes this node and one refuses it.
func Meet(ctx context.Context, addresses []string, secret []byte, h wire.Hello) (*wire.Conn, error) {
	return (&meeting{addresses, secret, net.DefaultResolver.LookupHost}).meet(ctx, h)
}

func (m *meeting) meet(ctx context.Context, h wire.Hello) (*wire.Conn, error) {
	for {
		conn, err := m.once(ctx, h)
		if err == nil {
			return conn, nil
		}
		if refuses(err) {
			return nil, fmt.Errorf("the leader refuses this node: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the leader does not answer: %w", err)
		case <-time.After(time.Second):
		}
	}
}

func refuses(err error) bool {
	why, ok := errors.AsType[*wire.Refused](err)
	return ok && why.Reason != wire.ReasonLate && why.Reason != wire.ReasonBroken
}

// once tries each address once, and of a name all that it has.
func (m *meeting) once(ctx context.Context, h wire.Hello) (*wire.Conn, error) {
	left, why := m.resolve(ctx)
	for len(left) > 0 {
		raw, at, err := dial(ctx, left)
		if err != nil {
			return nil, cmp.Or(why, err)
		}
		forget := context.AfterFunc(ctx, func() { raw.Close() })
		conn, err := wire.Greet(raw, m.secret, h)
		if forget() && err == nil {
			return conn, nil
		}
		raw.Close()
		if why == nil || refuses(err) {
			why = cmp.Or(err, ctx.Err())
		}
		left = slices.Delete(left, at, at+1)
	}
	return nil, why
}

// resolve replaces names by their addresses. The error is that of the first that has none.
func (m *meeting) resolve(ctx context.Context) (list []string, why error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	for _, address := range m.addresses {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		found, err := m.lookup(ctx, host)
		why = cmp.Or(why, err)
		for _, ip := range found[:min(len(found), addressesMost)] {
			list = append(list, net.JoinHostPort(ip, port))
		}
	}
	return list, why
}

// dial connects to whichever address answers first.
func dial(ctx context.Context, addresses []string) (conn net.Conn, at int, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	type answer struct {
		conn net.Conn
		at   int
		err  error
	}
	answers := make(chan answer, len(addresses))
	for at, address := range addresses {
		go func() {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			answers <- answer{conn, at, err}
		}()
	}
	for range addresses {
		switch a := <-answers; {
		case a.err != nil:
			err = cmp.Or(err, a.err)
		case conn != nil:
			a.conn.Close()
		default:
			conn, at = a.conn, a.at
			cancel() // the others
		}
	}
	if conn != nil {
		err = nil
	}
	return conn, at, err
}

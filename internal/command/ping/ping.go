// SPDX-License-Identifier: Apache-2.0

// Package ping is the command ping: it sends small RDMA messages to another node, as ping does over IP, and says why
// none comes back. On the other node the same command answers, with --answer.
package ping

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/peers"
	"gpufabric_exporter/rdmaping/pinger"
)

// What ping exits with, besides command.OK and command.Usage.
const (
	exitLost    = 1 // messages were lost, or could not be sent
	exitUnasked = 2 // the peer or this host could not be asked: nothing is known of the fabric
)

const (
	defaultPort = "10792"
	fastest     = 100 * time.Millisecond // interval: three calls from one rail get all their answers
	longest     = rdmaping.MaxTimeout
	again       = 100 * time.Millisecond
	wayFor      = 5 * time.Second // how long a way to a peer is waited for
	ofMTU       = 3               // messages of the full path MTU at the end
	flows       = 16              // labels, of which each may take another one of several equal paths
	leastOfFlow = 4               // messages of a flow without an answer, before it is called dead
	mostOfFlow  = 20
	mostFlows   = 8 // that are asked again
)

// pinging is one call of the command.
type pinging struct {
	site  *site.Site
	log   *logging.Flags
	start pinger.Start

	peer     string
	device   string
	count    int
	size     int
	class    int // -1: as NCCL would
	interval time.Duration
	timeout  time.Duration
	answer   string // address to listen at; empty: it asks
	library  string
}

// New returns the command. Without start it says that it was built without it.
func New(s *site.Site, log *logging.Flags, start pinger.Start) *command.Command {
	p := &pinging{site: s, log: log, start: start, class: -1}
	return &command.Command{
		Name: "ping",
		Help: "Send small RDMA messages to another node, on which ping --answer runs: round-trip time, loss, path MTU, and why no answer comes. " +
			"Exit code 0: all were answered; 1: some were not, or could not be sent; 2: the peer or this host could not be asked; 3: the command line or the configuration is wrong.",
		Define: func(f *command.Flags) {
			f.Argument("peer", "Host or address of the other node, with :PORT if its --answer has another one, or the GID of one of its ports.",
				command.Into(&p.peer, parsePeer))
			f.Add("answer", "Answer other nodes until interrupted, and tell those that ask at this address where. It is not encrypted, and asks for no password.",
				command.Into(&p.answer, command.ParseAddress)).PlaceHolder("HOST:PORT")
			f.Add("device", "RDMA device to ask from, or to answer on. Default: to ask, the compute port that has the same name as the peer's; to answer, all compute ports.",
				command.Into(&p.device, parseDevice)).PlaceHolder("NAME")
			f.Add("count", "How many messages to send.", command.Into(&p.count, number(1, 100000))).Default("5")
			f.Add("size", "Bytes of a message.",
				command.Into(&p.size, number(rdmaping.Least, rdmaping.Longest))).Default(strconv.Itoa(rdmaping.Least))
			f.Add("interval", "Time between two messages.", command.Into(&p.interval, duration(fastest, time.Hour))).Default("1s")
			f.Add("timeout", "How long to wait for an answer.",
				command.Into(&p.timeout, duration(time.Millisecond, longest))).Default("500ms")
			f.Add("tclass", "Traffic class of the messages. Default: what MLNX_OFED sets for the port, else NCCL_IB_TC of this host, else 0.",
				command.Into(&p.class, number(0, 255))).PlaceHolder("N")
			f.Add("library", "libibverbs, where the loader does not find it.", command.File(&p.library)).PlaceHolder("FILE")
			f.Check(p.check)
		},
		Takes: []command.Group{&s.Config, log, &s.Devices, &s.Recorded, &s.Paths},
		Run:   p.run,
	}
}

func parsePeer(s string) (string, error) {
	p := pinging{peer: s}
	if address, _ := p.target(); peers.CheckAddress(address) != nil {
		return "", errors.New("expected a host, an address or a GID, with :PORT if need be")
	}
	return s, nil
}

func parseDevice(s string) (string, error) {
	if s == "" || len(s) > 64 {
		return "", errors.New("expected the name of an RDMA device, such as mlx5_0")
	}
	return s, nil
}

func duration(least, most time.Duration) func(string) (time.Duration, error) {
	return func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d < least || d > most {
			return 0, fmt.Errorf("expected a duration from %s to %s", least, most)
		}
		return d, nil
	}
}

func number(least, most int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("expected a number from %d to %d", least, most)
		}
		return n, nil
	}
}

func (p *pinging) check() error {
	if (p.peer == "") == (p.answer == "") {
		return errors.New("ping: expected a peer, or --answer")
	}
	return nil
}

func (p *pinging) run(ctx context.Context, c *command.Call) int {
	log := p.log.Logger(c.Stderr)
	if p.start == nil {
		return p.unasked(c, errors.New("this program was built without RDMA ping: take one that was built for a host with libibverbs (CGO_ENABLED=1)"))
	}
	n, _, err := p.site.ObserveOnce(ctx, nil, pinger.Wants, 0, log)
	if err != nil {
		return p.unasked(c, err)
	}
	rails, err := pinger.Rails(n, p.device)
	if errors.Is(err, pinger.ErrNoRole) {
		err = fmt.Errorf("%w, or name one with --device", err)
	}
	if err == nil && len(rails) > rdmaping.MaxRails {
		err = fmt.Errorf("this host has %d ports for training, expected at most %d: name one with --device", len(rails), rdmaping.MaxRails)
	}
	if err != nil {
		return p.unasked(c, err)
	}
	for i := range rails {
		if p.class >= 0 {
			rails[i].TrafficClass, rails[i].ClassBy = p.class, "--tclass"
		}
		rails[i].Library = p.library
	}
	var ends []rdmaping.Endpoint
	target, gid := p.target()
	if p.answer == "" { // first: nothing is opened for a peer that is not there
		if ends, err = askPeer(ctx, target); err != nil {
			return p.unasked(c, err)
		}
	}
	w, err := p.start(ctx, p.library, log)
	if err != nil {
		return p.unasked(c, err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			c.Complain(err)
		}
	}()
	if p.answer == "" {
		from, peer, err := pair(rails, ends, gid)
		if err != nil {
			return p.unasked(c, fmt.Errorf("%s: %w", p.peer, err))
		}
		return p.ask(ctx, c, pinger.Session{Worker: w}, from, peer)
	}
	if err := p.answerOn(ctx, c, pinger.Session{Worker: w}, rails, log); err != nil {
		return p.unasked(c, err)
	}
	return command.OK
}

// unasked reports what kept it from asking.
func (p *pinging) unasked(c *command.Call, err error) int {
	c.Complain(err)
	return command.ExitOf(err, exitUnasked)
}

// target is where the peer is asked for its rails, and the GID that was named, if one was.
func (p *pinging) target() (address string, gid rdmaping.GID) {
	host, port, err := net.SplitHostPort(p.peer)
	if err != nil {
		host, port = strings.Trim(p.peer, "[]"), defaultPort
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Is6() {
			gid = a.As16()
		}
		host = a.Unmap().String()
	}
	return net.JoinHostPort(host, port), gid
}

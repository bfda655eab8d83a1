// SPDX-License-Identifier: Apache-2.0

// Package verbs asks and answers RDMA pings through libibverbs.so.1, which it loads with dlopen: neither headers nor
// libraries are there when it is built. It must run in a process of its own, which is killed when it does not
// answer; only the code of that process may import it.
//
// A Server has a UD queue pair for each rail that was opened, at most eight with 266,240 bytes of registered memory
// each. A goroutine serves each queue pair: it answers what carries the key that Open returned, at most 256 messages
// a second and 32 of one peer, and asks at most 64. Whatever else comes is received and dropped; the NIC drops what has
// not the Q_Key. Two more goroutines make ways to peers (ways.go). The queue pairs end with the process, or when the
// driver reports that the port is not what it was.
//
// Round-trip times are by the clock of this host, from before a message is posted until its answer is seen; the
// answer says how long it was in the other host. Where completions of both NICs have times, a second message says it
// by them, and tells the network from both hosts (times.go). A NIC without such times is used without them. Pinging the
// own rail shows how much of it is this host.
//
// An error of Handle means a request that makes no sense. Whatever goes wrong with the library, the port or the
// peer is a Failure in the answer.
package verbs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"gpufabric_exporter/rdmaping"
)

const (
	defaultLibrary = "libibverbs.so.1"
	maxText        = 300 // bytes of an error of the loader
	maxRound       = 256 // messages
	maxGap         = time.Second
)

// Server is described in the package comment. Its methods may not be called at the same time.
type Server struct {
	library *functions // nil: not loaded
	rails   map[string]*rail
}

// NewServer returns a Server that has loaded nothing yet.
func NewServer() *Server { return &Server{rails: map[string]*rail{}} }

// Handle answers a rdmaping.Request with a rdmaping.Reply.
func (s *Server) Handle(ctx context.Context, request []byte) ([]byte, error) {
	var q rdmaping.Request
	d := json.NewDecoder(bytes.NewReader(request))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	var r rdmaping.Reply
	var err error
	switch {
	case q.Open != nil && q.Round == nil:
		r, err = s.open(q.Open)
	case q.Round != nil && q.Open == nil:
		r, err = s.round(ctx, q.Round)
	default:
		err = errors.New("request: expected one of open and round")
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(r)
}

// Close destroys the queue pairs.
func (s *Server) Close() {
	for device, r := range s.rails {
		r.end()
		delete(s.rails, device)
	}
}

func (s *Server) open(q *rdmaping.Open) (rdmaping.Reply, error) {
	for _, n := range []struct {
		name               string
		value, least, most int
	}{
		{"port", q.Port, 1, 255},
		{"gid_index", q.GIDIndex, 0, 255},
		{"traffic_class", q.TrafficClass, 0, 255},
		{"service_level", q.ServiceLevel, 0, 15},
		{"pkey_index", q.PKeyIndex, 0, 65535},
	} {
		if n.value < n.least || n.value > n.most {
			return rdmaping.Reply{}, fmt.Errorf("%s %d: expected %d to %d", n.name, n.value, n.least, n.most)
		}
	}
	if old := s.rails[q.Device]; old != nil { // one that failed is opened again, and its key is another one
		old.end()
		delete(s.rails, q.Device)
	}
	if len(s.rails) == rdmaping.MaxRails {
		return rdmaping.Reply{}, fmt.Errorf("more than %d rails", rdmaping.MaxRails)
	}
	if s.library == nil {
		l, err := load(cmp.Or(q.Library, defaultLibrary))
		if err != nil {
			return rdmaping.Reply{Failure: &rdmaping.Failure{Step: "loading libibverbs", Text: err.Error()}}, nil
		}
		s.library = &l
	}
	p, e, f := s.library.open(q)
	if f != nil {
		return rdmaping.Reply{Failure: f}, nil
	}
	r := newRail(p, e)
	s.rails[q.Device] = r
	self := r.self // which belongs to its goroutine from here on
	go r.run()
	return rdmaping.Reply{Endpoint: &self}, nil
}

func (s *Server) round(ctx context.Context, q *rdmaping.Round) (rdmaping.Reply, error) {
	switch {
	case len(q.Asks) == 0 || len(q.Asks) > maxRound:
		return rdmaping.Reply{}, fmt.Errorf("%d messages: expected 1 to %d", len(q.Asks), maxRound)
	case q.Timeout <= 0 || q.Timeout > rdmaping.MaxTimeout:
		return rdmaping.Reply{}, fmt.Errorf("timeout %s: expected at most %s", q.Timeout, rdmaping.MaxTimeout)
	case q.Gap < 0 || q.Gap > maxGap:
		return rdmaping.Reply{}, fmt.Errorf("gap %s: expected at most %s", q.Gap, maxGap)
	}
	of := map[*rail][]int{} // places among the messages
	for i := range q.Asks {
		a := &q.Asks[i]
		r := s.rails[a.Device]
		if r == nil {
			return rdmaping.Reply{}, fmt.Errorf("device %q is not open", a.Device)
		}
		if a.Size < rdmaping.Least || a.Size > rdmaping.Longest {
			return rdmaping.Reply{}, fmt.Errorf("size %d: expected %d to %d", a.Size, rdmaping.Least, rdmaping.Longest)
		}
		if err := a.To.Check(); err != nil {
			return rdmaping.Reply{}, err
		}
		of[r] = append(of[r], i)
	}
	pongs := make([]rdmaping.Pong, len(q.Asks))
	var all sync.WaitGroup
	for r, places := range of {
		all.Go(func() { r.round(ctx, q, places, pongs) })
	}
	all.Wait()
	return rdmaping.Reply{Pongs: pongs}, context.Cause(ctx)
}

// statusText names a status of a completion.
func statusText(status int) string {
	names := map[int]string{
		1: "local length error", 2: "local QP operation error", 4: "local protection error", 5: "flushed",
		9: "remote invalid request", 10: "remote access error", 19: "fatal error", 21: "general error",
	}
	return cmp.Or(names[status], "status "+strconv.Itoa(status))
}

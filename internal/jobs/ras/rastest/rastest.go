// SPDX-License-Identifier: Apache-2.0

// Package rastest is a stand-in for the RAS subsystem of NCCL 2.24 to 2.30, for tests: a server that answers
// with the report of a made-up job, in the formats of src/ras/client_support.cc at these tags of NVIDIA's
// repository:
//
//	v2.24.3-1   text; lists missing ranks by number; one count of collectives
//	v2.26.2-1   text; also of 2.27 and 2.28.3: missing ranks with their processes, counts by kind of collective
//	v2.28.7-1   JSON, without a comma in missing ranks
//	v2.29.2-1   JSON; also of 2.30
//
// Concurrency: a server answers any number of connections; its state is not changed while it runs.
package rastest

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// State is a job.
type State struct {
	Version       string
	Communicators []Communicator
	Timeouts      int
}

// Communicator is one of its communicators.
type Communicator struct {
	Hash    uint64
	Size    int
	Ranks   []Rank
	Missing []Missing
}

// Rank is a rank that answered, by its results (ncclResult_t).
type Rank struct {
	Rank, PID, GPU       int
	Host                 string
	Init, Async          int
	Ending               bool
	Broadcast, AllReduce uint64 // collectives launched
}

// Missing is a rank that did not.
type Missing struct {
	Rank, PID, GPU     int
	Host               string
	Unresponsive, Dead bool
}

// Healthy is a job of one communicator with eight ranks on two nodes.
func Healthy(version string, launched uint64) State {
	c := Communicator{Hash: 0x1f2e, Size: 8}
	for i := range c.Size {
		c.Ranks = append(c.Ranks, Rank{
			Rank: i, PID: 4000 + i, GPU: i % 4, Host: fmt.Sprintf("10.0.0.%d", 1+i/4),
			Broadcast: 2, AllReduce: launched,
		})
	}
	return State{Version: version, Communicators: []Communicator{c}}
}

// Lose makes a rank of the first communicator missing.
func (s State) Lose(rank int, dead bool) State {
	c := &s.Communicators[0]
	i := slices.IndexFunc(c.Ranks, func(r Rank) bool { return r.Rank == rank })
	r := c.Ranks[i]
	c.Ranks = slices.Delete(slices.Clone(c.Ranks), i, i+1)
	c.Missing = append(c.Missing, Missing{
		Rank: rank, PID: r.PID, GPU: r.GPU, Host: r.Host, Unresponsive: true,
		Dead: dead,
	})
	return s
}

// hasJSON reports whether this version writes JSON.
func hasJSON(version string) bool { return after(version, "2.28.7") }

func after(version, release string) bool {
	var a, b [3]int
	_, _ = fmt.Sscanf(version, "%d.%d.%d", &a[0], &a[1], &a[2])
	_, _ = fmt.Sscanf(release, "%d.%d.%d", &b[0], &b[1], &b[2])
	return slices.Compare(a[:], b[:]) >= 0
}

// JSON is the report as JSON.
func (s State) JSON() string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"{\n  \"nccl_version\": \"%s\",\n  \"cuda_runtime_version\": 12090,\n  \"cuda_driver_version\": 13000,\n  \"timestamp\": \"2026-11-23 02:00:00\",\n  \"communicators_count\": %d,\n  \"communicators\": [\n", s.Version, len(s.Communicators))
	for i, c := range s.Communicators {
		fmt.Fprintf(&b,
			"%s    {\n      \"hash\": \"0x%x\",\n      \"secondary_hash\": \"0x2:0x3\",\n      \"size\": %d,\n      \"ranks_count\": %d,\n      \"missing_ranks_count\": %d,\n      \"ranks\": [\n", separator(i), c.Hash, c.Size, len(c.Ranks), len(c.Missing))
		for j, r := range c.Ranks {
			fmt.Fprintf(&b,
				"%s        {\n          \"rank\": %d,\n          \"host\": \"%s\",\n          \"pid\": %d,\n          \"cuda_dev\": %d,\n          \"nvml_dev\": %d,\n", separator(j), r.Rank, r.Host, r.PID, r.GPU, r.GPU)
			fmt.Fprintf(&b,
				"          \"status\": {\n            \"init_state\": %d,\n            \"async_error\": %d,\n            \"finalize_called\": %t,\n            \"destroy_flag\": %t,\n            \"abort_flag\": false\n          },\n", r.Init, r.Async, r.Ending, r.Ending)
			fmt.Fprintf(&b,
				"          \"collective_counts\": {\n            \"Broadcast\": %d,\n            \"Reduce\": 0,\n            \"AllGather\": 0,\n            \"ReduceScatter\": 0,\n            \"AllReduce\": %d\n          }\n        }", r.Broadcast, r.AllReduce)
		}
		b.WriteString("\n      ],\n      \"missing_ranks\": [\n")
		comma := ","
		if !after(s.Version, "2.29.2") {
			comma = ""
		}
		for j, m := range c.Missing {
			fmt.Fprintf(&b,
				"%s        {\n          \"rank\": %d,\n          \"host\": \"%s\",\n          \"pid\": %d,\n          \"cuda_dev\": %d,\n          \"nvml_dev\": %d%s\n          \"status\": {\n            \"unresponsive\": %t,\n            \"considered_dead\": %t\n          }\n        }", separator(j), m.Rank, m.Host, m.PID, m.GPU, m.GPU, comma, m.Unresponsive, m.Dead)
		}
		b.WriteString("\n      ]\n    }")
	}
	fmt.Fprintf(&b, "\n  ],\n  \"ras\": {\n    \"collection_time_sec\": 0.012,\n    \"timeouts_count\": %d\n  }\n}\n",
		s.Timeouts)
	return b.String()
}

func separator(i int) string {
	if i == 0 {
		return ""
	}
	return ",\n"
}

// Text is the report as text, as VERBOSE STATUS has it.
func (s State) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"NCCL version %s compiled with CUDA 12.9\nCUDA runtime version 12090, driver version 13000\n\nJob summary\n===========\n\n", s.Version)
	fmt.Fprintf(&b,
		"  Nodes  Processes         GPUs  Processes     GPUs\n(total)   per node  per process    (total)  (total)\n%7d  %9d  %11d  %9d  %7d\n\nCommunicators... (0.01s)\n=============\n\n", 2, 4, 1, 8, 8)
	b.WriteString("Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n    #  in group  per comm  per node  per comm  in group\n")
	for i, c := range s.Communicators {
		fmt.Fprintf(&b, "%5d  %8d  %8d  %8s  %8d  %8d  %8s  %6s\n", i, 1, 2, "3-4", c.Size, len(c.Ranks), "RUNNING",
			c.errors())
	}
	b.WriteString("\nErrors\n======\n\n")
	s.writeLost(&b)
	for i, c := range s.Communicators {
		if lost := len(c.Missing); lost > 0 {
			fmt.Fprintf(&b, "#%d-0 (%016x) INCOMPLETE\n  Missing communicator data from %d rank%s\n", i, c.Hash, lost,
				plural(lost))
			c.writeMissing(&b, s.Version)
		}
		if failed := c.failed(); len(failed) > 0 {
			fmt.Fprintf(&b, "#%d-0 (%016x) ERROR\n  Asynchronous error%s on %d rank%s\n", i, c.Hash, plural(len(failed)),
				len(failed), plural(len(failed)))
			c.writeRanks(&b, failed, "reported Remote process error")
			b.WriteString("\n")
		}
	}
	b.WriteString("Warnings\n========\n\n")
	if s.Timeouts > 0 {
		fmt.Fprintf(&b, "TIMEOUT\n  Encountered %d communication timeout%s while gathering communicator data\n\n",
			s.Timeouts, plural(s.Timeouts))
	}
	for i, c := range s.Communicators {
		c.writeMismatch(&b, i, s.Version)
	}
	return b.String()
}

// writeLost writes which processes did not answer, which have been given up, and where.
func (s State) writeLost(b *strings.Builder) {
	var silent, dead []Missing
	for _, c := range s.Communicators {
		for _, m := range c.Missing {
			if m.Dead {
				dead = append(dead, m)
			} else {
				silent = append(silent, m)
			}
		}
	}
	list := func(lost []Missing) {
		for _, m := range lost {
			fmt.Fprintf(b, "  Process %d on node %s managing GPU %d\n", m.PID, m.Host, m.GPU)
		}
		b.WriteString("\n")
	}
	if n := len(silent); n > 0 {
		fmt.Fprintf(b, "INCOMPLETE\n  Missing communicator data from %d job process%s\n", n,
			strings.Repeat("es", min(n-1, 1)))
		list(silent)
	}
	if n := len(dead); n > 0 {
		fmt.Fprintf(b, "DEAD\n  %d job process%s considered dead (unreachable via the RAS network)\n", n,
			map[bool]string{true: "es are", false: " is"}[n > 1])
		list(dead)
	}
}

func (c Communicator) writeMissing(b *strings.Builder, version string) {
	if !after(version, "2.26.0") {
		var numbers []string
		for _, m := range c.Missing {
			numbers = append(numbers, strconv.Itoa(m.Rank))
		}
		fmt.Fprintf(b, "  The missing rank%s: %s\n\n", plural(len(numbers)), strings.Join(numbers, ","))
		return
	}
	for _, m := range c.Missing {
		fmt.Fprintf(b, "  Rank %d -- GPU %d managed by process %d on node %s\n", m.Rank, m.GPU, m.PID, m.Host)
	}
	b.WriteString("\n")
}

// writeRanks writes ranks that have something in common.
func (c Communicator) writeRanks(b *strings.Builder, ranks []Rank, what string) {
	if len(ranks) > 1 {
		fmt.Fprintf(b, "  %d ranks %s\n", len(ranks), strings.Replace(what, "has ", "have ", 1))
	}
	for _, r := range ranks {
		if len(ranks) == 1 {
			fmt.Fprintf(b, "  Rank %d %s -- GPU %d managed by process %d on node %s\n", r.Rank, what, r.GPU, r.PID, r.Host)
		} else if len(ranks) < c.Size/2 {
			fmt.Fprintf(b, "  Rank %d -- GPU %d managed by process %d on node %s\n", r.Rank, r.GPU, r.PID, r.Host)
		}
	}
}

func (c Communicator) writeMismatch(b *strings.Builder, group int, version string) {
	if !c.apart() {
		return
	}
	kind := "AllReduce"
	if !after(version, "2.26.0") {
		kind = "collective"
	}
	fmt.Fprintf(b, "#%d-0 (%016x) MISMATCH\n  Communicator ranks have different %s operation counts\n", group, c.Hash,
		kind)
	by := map[uint64][]Rank{}
	for _, r := range c.Ranks {
		by[r.AllReduce] = append(by[r.AllReduce], r)
	}
	var sets [][]Rank
	for _, ranks := range by {
		sets = append(sets, ranks)
	}
	slices.SortFunc(sets, func(a, b []Rank) int { return cmp.Or(len(b)-len(a), a[0].Rank-b[0].Rank) })
	for _, ranks := range sets {
		what := fmt.Sprintf("has launched up to operation %d", ranks[0].AllReduce)
		if ranks[0].AllReduce == 0 {
			what = "has not launched any operations"
		}
		c.writeRanks(b, ranks, what)
	}
	b.WriteString("\n")
}

func (c Communicator) apart() bool {
	return slices.ContainsFunc(c.Ranks, func(r Rank) bool { return r.AllReduce != c.Ranks[0].AllReduce })
}

func (c Communicator) failed() []Rank {
	return slices.DeleteFunc(slices.Clone(c.Ranks), func(r Rank) bool { return r.Async == 0 || r.Async == 7 })
}

func (c Communicator) errors() string {
	var list []string
	if len(c.Missing) > 0 {
		list = append(list, "INCOMPLETE")
	}
	if len(c.failed()) > 0 {
		list = append(list, "ERROR")
	}
	if c.apart() {
		list = append(list, "MISMATCH")
	}
	return cmp.Or(strings.Join(list, ","), "OK")
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// Server answers on a port of the loopback interface.
type Server struct {
	Addr     string
	listener net.Listener
	mu       sync.Mutex
	asked    []string
	done     sync.WaitGroup
}

// Serve answers with the states one after the other, the last one over and over.
func Serve(states ...State) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: l.Addr().String(), listener: l}
	s.done.Go(func() {
		for i := 0; ; i++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.done.Go(func() {
				defer func() { _ = conn.Close() }()
				s.Converse(conn, states[min(i, len(states)-1)])
			})
		}
	})
	return s, nil
}

// Close ends the server, and waits for its conversations.
func (s *Server) Close() {
	_ = s.listener.Close()
	s.done.Wait()
}

// Asked are the lines that clients sent.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// Converse answers a client until the report has been sent.
func (s *Server) Converse(conn io.ReadWriter, state State) {
	lines := bufio.NewScanner(conn)
	structured := false
	for lines.Scan() {
		line := lines.Text()
		s.mu.Lock()
		s.asked = append(s.asked, line)
		s.mu.Unlock()
		answer := "ERROR: Unknown command " + line + "\n"
		switch command := strings.ToLower(line); {
		case strings.HasPrefix(command, "client protocol "):
			answer = "SERVER PROTOCOL 2\n"
		case strings.HasPrefix(command, "timeout "):
			answer = "OK\n"
		case command == "set format json" && hasJSON(state.Version):
			structured, answer = true, "OK\n"
		case command == "status", command == "verbose status":
			answer = state.Text()
			if structured {
				answer = state.JSON()
			}
			_, _ = io.WriteString(conn, answer)
			return
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

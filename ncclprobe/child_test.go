// SPDX-License-Identifier: Apache-2.0

package ncclprobe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpufabric_exporter/ncclprobe/ncclprobetest"
	"gpufabric_exporter/probes"
)

// isChild is set in the environment of children of the test binary, which serve instead of testing.
const isChild = "GPUFABRIC_NCCL_CHILD"

func TestMain(m *testing.M) { os.Exit(tested(m)) } //nolint:forbidigo // the main of tests

func tested(m *testing.M) int {
	if os.Getenv(isChild) != "" {
		if err := serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 3
		}
		return 0
	}
	defer os.RemoveAll(builds())
	return m.Run()
}

// line is what a child answers, one on each line.
type line struct {
	Error string          `json:"error"`
	Reply json.RawMessage `json:"reply"`
}

// serve answers the requests that come line by line.
func serve(from io.Reader, to io.Writer) error {
	s, in, out := NewServer(), bufio.NewReader(from), json.NewEncoder(to)
	for {
		request, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var l line
		if l.Reply, err = s.Handle(context.Background(), request); err != nil {
			l.Error = err.Error()
		}
		if err := out.Encode(l); err != nil {
			return err
		}
	}
}

// builds is where the stand-ins of all tests are: compiling takes longer than any test.
var builds = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "nccl")
	if err != nil {
		panic(err)
	}
	return dir
})

var building sync.Mutex

// standin returns a directory with both libraries, which lack some symbols, and a machine.
func standin(t testing.TB, machine []string, without ...string) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	all := filepath.Join(builds(), "all")
	build(t, all)
	dir := all
	if len(without) > 0 {
		dir = filepath.Join(builds(), strings.Join(without, ""))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(all, "objects"), filepath.Join(dir, "objects")); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
		build(t, dir, without...)
	}
	place := ncclprobetest.Place(t, dir)
	ncclprobetest.Describe(t, place, machine...)
	return place
}

func build(t testing.TB, dir string, without ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, ncclprobetest.CUDA)); err != nil { // it is linked last
		ncclprobetest.Build(t, dir, "2.30.7", without...)
	}
}

// child is a process with one rank.
type child struct {
	t      testing.TB
	dir    string // of the libraries
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr strings.Builder
	end    func() error // has the process end, by force if a library holds it, and says how it did
}

func start(t testing.TB, dir string, environment ...string) *child {
	t.Helper()
	return startBy(t, nil, dir, environment...)
}

// startBy starts the process by way of another program and its arguments.
func startBy(t testing.TB, loader []string, dir string, environment ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := append(slices.Clone(loader), exe)
	c := &child{t: t, dir: dir, cmd: exec.Command(command[0], command[1:]...)}
	c.cmd.Env = append([]string{isChild + "=1", "GOMAXPROCS=2", "GOTRACEBACK=none"}, environment...)
	c.cmd.Stderr = &c.stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.end = sync.OnceValue(func() error {
		c.in.Close()
		stop := time.AfterFunc(time.Minute, func() { c.cmd.Process.Kill() })
		defer stop.Stop()
		return c.cmd.Wait()
	})
	t.Cleanup(func() {
		c.cmd.Process.Kill()
		c.end()
	})
	return c
}

// ask returns the answer, or the error of Handle, or how the process ended.
func (c *child) ask(q probes.Request) (probes.Reply, error) {
	raw, err := json.Marshal(q)
	if err != nil {
		return probes.Reply{}, err
	}
	return c.askRaw(raw)
}

var errEnded = errors.New("the process ended")

func (c *child) askRaw(raw []byte) (probes.Reply, error) {
	l, err := c.exchange(raw)
	var r probes.Reply
	if err == nil && l.Error != "" {
		err = errors.New(l.Error)
	} else if err == nil {
		err = json.Unmarshal(l.Reply, &r)
	}
	return r, err
}

// exchange sends a request and receives the line that answers it.
func (c *child) exchange(raw []byte) (line, error) {
	var l line
	if _, err := c.in.Write(append(raw, '\n')); err != nil {
		return l, errors.Join(errEnded, err, c.end())
	}
	answer, err := c.out.ReadBytes('\n')
	if err != nil {
		return l, errors.Join(errEnded, c.end(), fmt.Errorf("%.300s", c.stderr.String()))
	}
	return l, json.Unmarshal(answer, &l)
}

// must returns the answer of a step that does not fail.
func (c *child) must(q probes.Request) probes.Reply {
	c.t.Helper()
	r, err := c.ask(q)
	if err != nil || r.Failure != "" {
		c.t.Fatalf("%+v, %v", r, err)
	}
	return r
}

// open is the request to open the libraries of the child and a GPU, by its index; -1: none.
func (c *child) open(gpu int) probes.Request {
	q := &probes.OpenRequest{NCCL: filepath.Join(c.dir, ncclprobetest.NCCL), CUDA: filepath.Join(c.dir, ncclprobetest.CUDA)}
	if gpu >= 0 {
		q.GPU = fmt.Sprintf("0000:%02x:00.0", 0x1b+gpu)
	}
	return probes.Request{Open: q}
}

var (
	newID     = probes.Request{NewID: &struct{}{}}
	closeRank = probes.Request{Close: &struct{}{}}
)

// patient is a timeout that no test is to reach.
const patient = 3 * time.Minute

func measure(op probes.Op, t probes.DType, size uint64) probes.Request {
	return probes.Request{Measure: &probes.MeasureRequest{Op: op, Type: t, Bytes: size, Iterations: 2, Timeout: patient}}
}

// group is the ranks of a communicator.
type group []*child

type outcome struct {
	probes.Reply
	err error
}

// all sends each rank its request q(rank), concurrently.
func (g group) all(q func(rank int) probes.Request) []outcome {
	out := make([]outcome, len(g))
	var wg sync.WaitGroup
	for i, c := range g {
		wg.Go(func() { out[i].Reply, out[i].err = c.ask(q(i)) })
	}
	wg.Wait()
	return out
}

func (g group) each(q probes.Request) []outcome { return g.all(func(int) probes.Request { return q }) }

// opened is ranks with a GPU each, and the request to connect them.
func opened(t testing.TB, ranks int, dir string, environment ...string) (group, func(rank int) probes.Request) {
	t.Helper()
	g := make(group, ranks)
	for i := range g {
		g[i] = start(t, dir, environment...)
	}
	succeed(t, g.all(func(rank int) probes.Request { return g[rank].open(rank) }))
	id := g[0].must(newID).ID
	return g, func(rank int) probes.Request {
		return probes.Request{Connect: &probes.ConnectRequest{ID: id, Rank: rank, Ranks: ranks, MaxCTAs: 2, Timeout: patient}}
	}
}

func connected(t testing.TB, ranks int, dir string, environment ...string) group {
	t.Helper()
	g, connect := opened(t, ranks, dir, environment...)
	succeed(t, g.all(connect))
	return g
}

func succeed(t testing.TB, outcomes []outcome) {
	t.Helper()
	for i, o := range outcomes {
		if o.err != nil || o.Failure != "" {
			t.Fatalf("rank %d: %v, %s, %s", i, o.err, o.Failure, o.Error)
		}
	}
}

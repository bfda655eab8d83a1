// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/nvml/nvmltest"
)

// childLibrary is set in the environment of children of the test binary, which serve instead of testing.
const childLibrary = "GPUFABRIC_NVML_CHILD"

func TestMain(m *testing.M) { os.Exit(run(m)) } //nolint:forbidigo // the main of tests

func run(m *testing.M) int {
	if library := os.Getenv(childLibrary); library != "" {
		if err := serve(NewServer(library), bufio.NewReader(os.Stdin), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 3
		}
		return 0
	}
	defer os.RemoveAll(standinDir())
	return m.Run()
}

// standinDir is where the stand-ins of all tests are built: compiling takes longer than any test.
var standinDir = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "nvml")
	if err != nil {
		panic(err)
	}
	return dir
})

// standin returns the stand-in without some symbols.
func standin(t testing.TB, without ...string) string {
	t.Helper()
	dir := filepath.Join(standinDir(), "lib"+strings.Join(without, ""))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(dir, "libnvidia-ml.so.1")
	if _, err := os.Stat(library); err == nil {
		return library
	}
	// The object is compiled once.
	if err := os.Link(filepath.Join(standinDir(), "lib", "libnvidia-ml.o"), filepath.Join(dir, "libnvidia-ml.o")); err != nil && len(without) > 0 {
		standin(t)
		return standin(t, without...)
	}
	return nvmltest.Build(t, dir, without...)
}

func serve(s *Server, in *bufio.Reader, out io.Writer) error {
	for {
		q, err := receive(in)
		if errors.Is(err, io.EOF) {
			return s.Close()
		} else if err != nil {
			return err
		}
		p, err := s.Handle(context.Background(), q)
		if err != nil {
			return err
		}
		if err := send(out, p); err != nil || s.Stale() {
			return err
		}
	}
}

func send(w io.Writer, frame []byte) error {
	_, err := w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	return err
}

func receive(r *bufio.Reader) ([]byte, error) {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, min(binary.LittleEndian.Uint32(n[:]), maxReply+1))
	_, err := io.ReadFull(r, frame)
	return frame, err
}

// child is a Caller: a process with the stand-in, started with the first call and after it ended.
type child struct {
	t       testing.TB
	nvml    string
	timeout time.Duration // of a call; 0: that of the client

	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	errors *strings.Builder
	starts int
}

// newChild returns a client whose process will load a stand-in without some symbols.
func newChild(t testing.TB, machine []string, without ...string) (*child, *Client) {
	t.Helper()
	c := &child{t: t, nvml: filepath.Join(t.TempDir(), "libnvidia-ml.so.1")}
	if err := os.Symlink(standin(t, without...), c.nvml); err != nil {
		t.Fatal(err)
	}
	c.describe(machine...)
	client := NewClient(c)
	t.Cleanup(func() { client.Close() })
	return c, client
}

func (c *child) describe(lines ...string) { c.t.Helper(); nvmltest.Describe(c.t, c.nvml, lines...) }

func (c *child) start() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	c.cmd = exec.Command(exe)
	c.cmd.Env = append(os.Environ(), childLibrary+"="+c.nvml, "GOMAXPROCS=1")
	c.errors = &strings.Builder{}
	c.cmd.Stderr = c.errors
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	c.out = bufio.NewReader(out)
	c.starts++
	return c.cmd.Start()
}

func (c *child) Call(ctx context.Context, q []byte) ([]byte, error) {
	if c.cmd == nil {
		if err := c.start(); err != nil {
			return nil, err
		}
	}
	if c.timeout != 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	cmd := c.cmd
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	defer stop()
	if err := send(c.in, q); err != nil {
		return nil, errors.Join(err, c.end())
	}
	p, err := receive(c.out)
	if err != nil {
		return nil, errors.Join(err, c.end(), ctx.Err())
	}
	return p, nil
}

// end reaps the process and says how it ended.
func (c *child) end() error {
	if c.cmd == nil {
		return nil
	}
	c.in.Close()
	err := c.cmd.Wait()
	c.cmd = nil
	if err != nil {
		return fmt.Errorf("%w: %.300s", err, c.errors)
	}
	return nil
}

func (c *child) Close() error { return c.end() }

// counting has the next process count its calls, which takes longer than to make them.
func (c *child) counting() { c.t.Helper(); nvmltest.Count(c.t, c.nvml) }

// counted returns the calls so far.
func (c *child) counted() map[string]int { c.t.Helper(); return nvmltest.Calls(c.t, c.nvml) }

var testTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// mustRead reads, after last or for the first time.
func mustRead(t testing.TB, c *Client, last fabric.GPUDriver, isSlow bool) fabric.GPUDriver {
	t.Helper()
	d, err := c.Read(last, isSlow, testTime)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// readMachine reads everything from a machine.
func readMachine(t testing.TB, machine []string, without ...string) fabric.GPUDriver {
	t.Helper()
	_, c := newChild(t, machine, without...)
	return mustRead(t, c, fabric.GPUDriver{}, true)
}

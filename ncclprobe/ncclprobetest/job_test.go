// SPDX-License-Identifier: Apache-2.0

package ncclprobetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// build makes the stand-ins of a version and the clients, once for the whole package.
func build(t *testing.T, version string) string {
	t.Helper()
	dir := filepath.Join(shared, version)
	built.Lock()
	defer built.Unlock()
	if _, err := os.Stat(filepath.Join(dir, "done")); err == nil {
		return dir
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(shared, "objects"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(shared, "objects"), filepath.Join(dir, "objects")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	Build(t, dir, version)
	for _, name := range []string{"client", "misuse"} {
		gcc(t, dir, "-O1", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-o", name, Source(name+".c"), "-ldl")
	}
	write(t, filepath.Join(dir, "done"), "")
	return dir
}

var (
	built  sync.Mutex
	shared string
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "ncclprobetest")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	shared = dir
	m.Run()
}

const newest = "2.27.3"

// job is ranks of the client that run at the same time.
type job struct {
	ranks      int
	operations string
	types      string
	reductions string
	counts     string
	init       float64 // seconds of patience with init, and then with each collective; 60 without
	seconds    float64
	gpus       []int    // of each rank; without, that of its number
	env        []string // of all ranks
	rankEnv    func(rank int) []string
}

type answer struct {
	said string // its last line
	log  string // what else it wrote
	code int    // its exit status, -1 for a signal
}

// run starts all ranks, and returns what each said.
func (j job) run(t *testing.T, dir string) []answer {
	t.Helper()
	defaults(&j)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	id := filepath.Join(t.TempDir(), "id")
	answers := make([]answer, j.ranks)
	var ranks sync.WaitGroup
	for r := range j.ranks {
		gpu := r
		if j.gpus != nil {
			gpu = j.gpus[r]
		}
		log := filepath.Join(t.TempDir(), "log")
		cmd := exec.CommandContext(ctx, filepath.Join(builtOf(t, dir), "client"), dir, strconv.Itoa(r), strconv.Itoa(j.ranks),
			strconv.Itoa(gpu), id, j.operations, j.types, j.reductions, j.counts, fmt.Sprint(j.seconds), fmt.Sprint(j.init))
		cmd.Env = append([]string{"NCCL_DEBUG=INFO", "NCCL_DEBUG_FILE=" + log, "NCCL_DEBUG_SUBSYS=INIT,NET,ENV,GRAPH,BOOTSTRAP"}, j.env...)
		if j.rankEnv != nil {
			cmd.Env = append(cmd.Env, j.rankEnv(r)...)
		}
		ranks.Go(func() {
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			err := cmd.Run()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Errorf("rank %d: %v", r, err)
			}
			text, _ := os.ReadFile(log) // there is none if it came to no log
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			answers[r] = answer{lines[len(lines)-1], string(text), cmd.ProcessState.ExitCode()}
		})
	}
	ranks.Wait()
	return answers
}

func defaults(j *job) {
	for _, d := range []struct {
		to    *string
		value string
	}{{&j.operations, "allreduce"}, {&j.types, "7"}, {&j.reductions, "0"}, {&j.counts, "1000"}} {
		if *d.to == "" {
			*d.to = d.value
		}
	}
	if j.seconds == 0 {
		j.seconds = 60
	}
	if j.init == 0 {
		j.init = 60
	}
}

// builtOf is the directory that Place made links to.
func builtOf(t *testing.T, dir string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(filepath.Join(dir, NCCL))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(real)
}

func place(t *testing.T, lines ...string) string {
	t.Helper()
	dir := Place(t, build(t, newest))
	Describe(t, dir, lines...)
	return dir
}

func allOK(t *testing.T, answers []answer) {
	t.Helper()
	for r, a := range answers {
		if !strings.HasPrefix(a.said, "ok ") || a.code != 0 {
			t.Errorf("rank %d: %d %q", r, a.code, a.said)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Config is what a site can choose; docs/CONFIGURATION.md has the limits, and DefaultConfig the defaults. The zero
// value is not valid.
type Config struct {
	// Every returns how often the probes of a kind run, for kinds that are to run by themselves. It is a wish: Duty comes
	// first.
	//
	// The defaults fit into a Duty of 0.1 %, which is 86 s a day for each GPU, if a rank holds its GPU for about 5 s.
	// What costs are contexts and communicators, not traffic.
	Every map[Kind]time.Duration
	Duty  float64 // share of its time for which a GPU may have a context of a probe

	Op      Op
	Type    DType
	Bytes   uint64 // of the message as nccl-tests counts it. Halved where that takes too long
	MaxCTAs int    // channels; 0: as NCCL chooses. Calibrate does not follow it

	Collective time.Duration // how long the timed iterations of a run take together at most
	Wall       time.Duration // how long a run takes at most from its start to the end of its last rank
	// share of its baseline below which a result is run once more, and is regressed if that confirms it
	Warn float64

	// IdleMemory is how many bytes of a GPU's memory NVML calls used while it is idle: drivers since 510 do not count
	// what they reserve for themselves. Older ones do, and where the memory of a GPU is a NUMA node of the kernel (Grace)
	// there may be more.
	IdleMemory uint64
	// IdleCommand is a program of the site and its arguments that says whether the node is free, by exit status 0. Empty:
	// none is run, and where a scheduler runs whose jobs cannot be seen nothing is probed.
	IdleCommand []string
	// uid and gid of ranks where the exporter is root, and devices and libraries allow it; 0: the exporter's
	User int

	NCCL      string // path or name of libnccl.so.2; empty: looked for
	CUDA      string // path or name of libcuda.so.1
	EnvFile   string // of NAME=value lines for the ranks; empty: none
	StateFile string // empty: history is lost with the process
	LockFile  string // of what all probers of the node lock, see state.TakeLock
}

// MaxUser is the largest uid; the next number means none.
const MaxUser = 1<<32 - 2

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Every: map[Kind]time.Duration{
			Transport: 2 * time.Hour, Node: 4 * time.Hour, Rail: 12 * time.Hour,
			Socket: 24 * time.Hour,
		},
		Duty:       0.001,
		Op:         AllReduce,
		Type:       Float32,
		Bytes:      64 << 20,
		MaxCTAs:    4,
		Collective: 100 * time.Millisecond,
		Wall:       10 * time.Second,
		Warn:       0.95,
		User:       65534,
		CUDA:       "libcuda.so.1",
		StateFile:  "/var/lib/gpufabric_exporter/probes.json",
		LockFile:   "/run/gpufabric_exporter/probe.lock",
	}
}

// Validate returns an error for each wrong field, with its name in Config and what was expected.
func (c Config) Validate() error {
	var wrong []error
	expect := func(ok bool, field string, got any, expected string) {
		if !ok {
			wrong = append(wrong, fmt.Errorf("%s is %v, expected %s", field, got, expected))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(c.Every)) {
		field, every := fmt.Sprintf("Every[%s]", kind), c.Every[kind]
		switch {
		case kind == Calibrate:
			expect(false, field, every, "none: it runs by hand only")
		case !slices.Contains(Kinds(), kind):
			expect(false, field, every, fmt.Sprintf("one of %v", Kinds()))
		default:
			expect(every >= time.Minute && every <= 31*24*time.Hour, field, every, "1m to 744h")
		}
	}
	expect(c.Duty > 0 && c.Duty <= 1, "Duty", c.Duty, "more than 0, and 1 at most")
	expect(slices.Contains(Ops(), c.Op), "Op", c.Op, fmt.Sprintf("one of %v", Ops()))
	expect(slices.Contains(DTypes(), c.Type), "Type", c.Type, fmt.Sprintf("one of %v", DTypes()))
	expect(c.Bytes >= 1<<10 && c.Bytes <= 4<<30, "Bytes", c.Bytes, "1 KiB to 4 GiB")
	expect(c.MaxCTAs >= 0 && c.MaxCTAs <= 64, "MaxCTAs", c.MaxCTAs, "0 to 64")
	expect(c.Collective >= time.Millisecond && c.Collective <= 10*time.Second, "Collective", c.Collective, "1ms to 10s")
	expect(c.Wall >= time.Second && c.Wall <= 5*time.Minute, "Wall", c.Wall, "1s to 5m")
	expect(c.Warn > 0 && c.Warn < 1, "Warn", c.Warn, "more than 0, and less than 1")
	expect(c.IdleMemory <= 16<<30, "IdleMemory", c.IdleMemory, "16 GiB at most")
	if len(c.IdleCommand) > 0 {
		expect(runnable(c.IdleCommand), "IdleCommand", fmt.Sprintf("%q", c.IdleCommand),
			"an absolute path and its arguments, 32 words of 4 KiB together at most")
	}
	expect(c.User >= 0 && c.User <= MaxUser, "User", c.User, "0 to 4294967294")
	expect(c.CUDA != "", "CUDA", `""`, "a path or a name")
	for _, f := range []struct {
		name, path string
		needed     bool
	}{{"EnvFile", c.EnvFile, false}, {"StateFile", c.StateFile, false}, {"LockFile", c.LockFile, true}} {
		expect(filepath.IsAbs(f.path) || f.path == "" && !f.needed, f.name, fmt.Sprintf("%q", f.path), "an absolute path")
	}
	return errors.Join(wrong...)
}

// runnable reports whether words can be a program and its arguments.
func runnable(words []string) bool {
	n := 0
	for _, w := range words {
		n += len(w) + 1
		if strings.ContainsRune(w, 0) {
			return false
		}
	}
	return len(words) <= 32 && n <= 4<<10 && filepath.IsAbs(words[0])
}

// SPDX-License-Identifier: Apache-2.0

// Package ncclprobetest builds stand-ins for NVIDIA's libcuda.so.1 and libnccl.so.2, for tests of what loads
// them. Only tests import it. The stand-ins really compute: ranks in several processes meet over the interface
// of NCCL_SOCKET_IFNAME, else loopback, move data and reduce it. What GPUs there are, what the log says and what goes
// wrong is in a file
// named machine beside the libraries.
//
// A line of it is a word and its arguments; the numbers here are what holds without the line, and without the
// file. A line may begin with "rank 1" (of libnccl) or "gpu 1" (of libcuda), and holds for that one only. Before that it
// may have "host n1", "peer n2" and "hca mlx5_0": it holds for processes of that host, that have a rank of that host in
// their communicator, and that use that HCA. A slow path is "host n1 peer n2 slow 2". The last line with a word wins.
//
//	gpus 8  mode 0                     how many GPUs, compute mode: 2 prohibited, 3 one process only
//	memory 81559  used 600             MiB of a GPU, and of it what others use
//	cuda 13000                         what cuDriverGetVersion answers
//	jit 0                              1: cuInit needs memory that is writable and executable, else it answers 304
//	dmabuf 1  gdr_gpu 1                attributes 124 and 116
//	version 2.27.3                     of NCCL; without the line, what it was built as
//	built_for_cuda 12.9                in the line of the version
//	transport P2P                      best way between two GPUs: P2P, SHM, IB or Socket; Socket: there are no HCAs either
//	hcas 8  link RoCE  gdr 1           mlx5_0 to mlx5_7, port 1; whether GPUDirect RDMA works
//	nvls 0  collnet 0  channels 2      what the log says; minCTAs and maxCTAs limit the channels
//	busbw 0  latency 0                 bytes per second and seconds: what a collective takes at least, by nccl-tests' formulas; 0: no time
//	slow 1                             factor to that time, or to what it takes without
//	init 0                             seconds that init takes
//	polls 2                            how often GetAsyncError answers ncclInProgress after each call that does not block
//	log 0                              bytes of log that init writes besides
//	shm 0                              bytes of a file nccl-XXXXXX in /dev/shm that each rank maps until its end
//
// Faults, where FUNCTION is any function of both libraries, or what is done in the background, init or collective:
//
//	error FUNCTION CODE                it answers CODE; of init and collective, GetAsyncError does
//	hang FUNCTION                      it never returns; ncclCommAbort ends init and collective, if it does not hang itself
//	crash FUNCTION                     it writes to address 0
//	exit FUNCTION CODE                 it ends the process
//	fault collective CODE              the kernel breaks the context: every call to the driver answers CODE
//	lie sum                            one element of the result is wrong
//	lie log                            there are 64 KiB of noise in the log
//
// NCCL_NET_PLUGIN and its default, libnccl-net.so, are loaded as NCCL does, and used for nothing.
package ncclprobetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Names of the libraries that Build makes.
const (
	CUDA = "libcuda.so.1"
	NCCL = "libnccl.so.2"
)

// scalable is ncclCommInitRankScalable, and since is the first version that has it.
const (
	scalable = "ncclCommInitRankScalable"
	since    = 23 // of 2.x
)

// The sources of both; what reads the description belongs to both.
var (
	ofNCCL = []string{"nccl", "init", "bootstrap", "network", "collective", "ring", "reduce", "log", "config", "host"}
	ofCUDA = []string{"cuda", "memory", "stream", "machine"}
)

// Build compiles both stand-ins in dir, NCCL as that version ("2.27.3"). They lack the symbols in without,
// and those that the version does not have yet.
func Build(t testing.TB, dir, version string, without ...string) {
	t.Helper()
	objects := filepath.Join(dir, "objects")
	compile(t, objects)
	_, minor, _ := strings.Cut(version, ".")
	minor, _, _ = strings.Cut(minor, ".")
	if n, err := strconv.Atoi(minor); err != nil || n < since {
		without = append(without, scalable)
	}
	write(t, filepath.Join(dir, "version.c"), "const char standin_version[] = \""+version+"\";\n")
	link(t, dir, NCCL, "nccl*", without, append(objectsOf("machine"), append(objectsOf(ofNCCL...), "version.c")...)...)
	link(t, dir, CUDA, "cu*; standinFault", without, objectsOf(ofCUDA...)...)
}

// Source returns the path of a file beside the sources of the stand-ins.
func Source(name string) string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "..", "testdata", name)
}

// compile makes an object of every source, once for each directory.
func compile(t testing.TB, objects string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(objects, "done")); err == nil {
		return
	}
	if err := os.MkdirAll(objects, 0o700); err != nil {
		t.Fatal(err)
	}
	args := []string{"-c", "-O1", "-fPIC", "-std=gnu17", "-Wall", "-Wextra", "-Werror"}
	for _, name := range slices.Concat(ofNCCL, ofCUDA) {
		args = append(args, Source(name+".c"))
	}
	gcc(t, objects, args...)
	write(t, filepath.Join(objects, "done"), "")
}

func objectsOf(sources ...string) []string {
	objects := make([]string, len(sources))
	for i, s := range sources {
		objects[i] = "objects/" + s + ".o"
	}
	return objects
}

func link(t testing.TB, dir, library, symbols string, without []string, objects ...string) {
	t.Helper()
	script := "{ global: " + symbols + "; local: " + strings.Join(append(without, "*"), "; ") + "; };\n"
	write(t, filepath.Join(dir, library+".symbols"), script)
	args := []string{"-shared", "-Wl,--version-script=" + library + ".symbols", "-Wl,-soname," + library, "-o", library}
	gcc(t, dir, append(append(args, objects...), "-lpthread", "-ldl")...)
}

func gcc(t testing.TB, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "gcc", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gcc %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Place returns a directory of its own with both libraries of built, so that tests can share one build and
// have each its machine.
func Place(t testing.TB, built string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{CUDA, NCCL} {
		if err := os.Symlink(filepath.Join(built, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Describe says what the stand-ins in dir are to do. A process that has them loaded sees the change with its next call.
func Describe(t testing.TB, dir string, lines ...string) {
	t.Helper()
	path := filepath.Join(dir, "machine")
	write(t, path+".new", strings.Join(lines, "\n")+"\n")
	if err := os.Rename(path+".new", path); err != nil { // no reader sees half of it
		t.Fatal(err)
	}
}

// Record has processes that load the stand-ins in dir from now on record their calls.
func Record(t testing.TB, dir string) {
	t.Helper()
	write(t, filepath.Join(dir, "calls"), "")
}

// Calls returns how often each function was called since Record.
func Calls(t testing.TB, dir string) map[string]int {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	for name := range strings.Lines(string(raw)) {
		calls[strings.TrimSuffix(name, "\n")]++
	}
	return calls
}

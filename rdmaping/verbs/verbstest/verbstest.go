// SPDX-License-Identifier: Apache-2.0

// Package verbstest builds a stand-in for libibverbs.so.1, for tests of what loads it. Only tests import it. Its
// devices are addresses of 127.0.0.0/8, its queue pairs are UDP sockets, and messages move between processes.
//
// What there is and what goes wrong is in a file named devices beside the library:
//
//	device rdma0 127.0.0.2 4 5 2   a name, its address, the state of the port (4: active), MTU (5: 4096) and link
//	                               layer (1: InfiniBand, where the LID is the last byte of the address and one, 2: Ethernet; others
//	                               are neither, as EFA)
//	pkey 127.0.0.2 32769           its P_Key; 65535 without the line; pkey3: the entry 3 of its table
//	lid 127.0.0.2 700              its LID
//	nogid 127.0.0.2 1              its GIDs are gone
//	subnet 127.0.0.2 5             its subnet of InfiniBand, and flid the LID by which other subnets reach it
//	grh 127.0.0.2                  a port of InfiniBand that wants a GRH always; 2: that takes none
//	clock 127.0.0.2 1000000        completions have times of a clock of so many kHz, which runs so many times as fast
//	                               as fast says
//	old 127.0.0.2                  its driver knows no such completions
//	late 127.0.0.2 0.01            seconds from when a message came until the host sees it
//	sl 127.0.0.2 3                 only messages of that service level get to it, or of that traffic class (class)
//	flow 127.0.0.2 11              messages to it with the same flow label, modulo 8, get lost
//	lose 127.0.0.2 0.1             the share of messages to it that gets lost; or of those to all
//	longest 127.0.0.2 1024         what is longer does not arrive
//	delay 127.0.0.2 0.01           seconds that each message to it takes
//	twice 127.0.0.2                each message arrives twice
//	stuck 127.0.0.2                nothing leaves it any more
//	storm 127.0.0.2                so much comes that each buffer for receiving is full at once
//	empty 127.0.0.2 0.01           seconds that it takes to find that nothing came
//	nobody 127.0.0.2 1             no neighbour answers for it, which takes so many seconds to find
//	error FUNCTION 110             it fails with that errno
//	hang FUNCTION                  it never returns
//
// Event has a driver tell something, and Handles is how many address handles there are.
package verbstest

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// Library is its name.
const Library = "libibverbs.so.1"

// Build compiles the stand-in in dir and returns its path.
func Build(t testing.TB, dir string) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	source := filepath.Join(filepath.Dir(here), "..", "testdata")
	script := filepath.Join(dir, "symbols")
	// As in rdma-core: what has not changed since 1.0 has that version only.
	const versions = "IBVERBS_1.0 { global: ibv_create_comp_channel; ibv_destroy_comp_channel; local: *; };\n" +
		"IBVERBS_1.1 { global: ibv_*; } IBVERBS_1.0;\n"
	if err := os.WriteFile(script, []byte(versions), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, Library)
	args := []string{
		"-shared", "-O1", "-fPIC", "-std=gnu17", "-Wall", "-Wextra", "-Werror",
		"-Wl,--version-script=" + script, "-Wl,-soname," + Library, "-o", path, filepath.Join(source, "verbs.c"),
		filepath.Join(source, "wire.c"), "-lpthread", "-ldl",
	}
	if out, err := exec.CommandContext(t.Context(), "gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return path
}

// Describe says what there is. A process that has the library loaded sees the change with its next call.
func Describe(t testing.TB, library string, lines ...string) {
	t.Helper()
	path := filepath.Join(filepath.Dir(library), "devices")
	if err := os.WriteFile(path+".new", []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil { // no reader sees half of it
		t.Fatal(err)
	}
}

// Event has the driver of the device at an address that is open tell something of a port: an ibv_event_type.
func Event(t testing.TB, library, address string, port, event int) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(filepath.Dir(library), "events."+address), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(nil, uint32(port)), uint32(event))
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
}

// Handles is how many address handles this process has of the device at an address.
func Handles(t testing.TB, library, address string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(library), "handles."+address))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

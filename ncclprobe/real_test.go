// SPDX-License-Identifier: Apache-2.0

package ncclprobe

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"gpufabric_exporter/probes"
)

// TestRealLibrary asks a real libnccl.so.2 what it says without a GPU and without a driver: its version and
// an id. For a library that needs a newer libc than this system has, GPUFABRIC_LOADER is the dynamic loader
// to run its process with, and its arguments: "DIR/ld-linux-x86-64.so.2 --library-path DIR".
func TestRealLibrary(t *testing.T) {
	library := os.Getenv("GPUFABRIC_LIBNCCL")
	if library == "" {
		t.Skip("GPUFABRIC_LIBNCCL names no libnccl.so.2: this binding meets the stand-in only")
	}
	c := startBy(t, strings.Fields(os.Getenv("GPUFABRIC_LOADER")), "", "NCCL_SOCKET_IFNAME=lo")
	o := c.must(probes.Request{Open: &probes.OpenRequest{NCCL: library, CUDA: "/nowhere/libcuda.so.1"}}).Open
	if o.NCCL < minVersion || o.NCCLPath == "" || o.CUDA != 0 {
		t.Errorf("%+v", o)
	}
	a, b := c.must(newID).ID, c.must(newID).ID
	if len(a) != probes.IDSize || bytes.Equal(a, b) || bytes.Equal(a, make([]byte, probes.IDSize)) {
		t.Errorf("ids %x and %x", a, b)
	}
	t.Logf("%s is NCCL %d; its id begins with % x", o.NCCLPath, o.NCCL, a[:28])
	c.must(closeRank)
	if err := c.end(); err != nil {
		t.Errorf("%v: %s", err, c.stderr.String())
	}
}

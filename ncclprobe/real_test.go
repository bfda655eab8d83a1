// SPDX-License-Identifier: Apache-2.0

package ncclprobe

import (
	"bytes"
	"os"
	"testing"

	"gpufabric_exporter/probes"
)

// TestRealLibrary asks a real libnccl.so.2 what it says without a GPU and without a driver: its version and an id.
func TestRealLibrary(t *testing.T) {
	library := os.Getenv("GPUFABRIC_LIBNCCL")
	if library == "" {
		t.Skip("GPUFABRIC_LIBNCCL names no libnccl.so.2: this binding meets the stand-in only")
	}
	c := start(t, "")
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

// SPDX-License-Identifier: Apache-2.0

//go:build lab

package rank

import (
	"path/filepath"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/rdmanl"
)

// On a kernel with RDMA devices, a context that any thread of a process opened is found as that of the
// process; a rank with no device open has none, for sure:
//
//	mkdir /tmp/job && go test -c -tags lab -o /tmp/job/rank.test ./internal/jobs/rank
//	./test/lab/run.sh /tmp/job ./rank.test -test.v
func TestKernelVerbs(t *testing.T) {
	nodes, _ := filepath.Glob("/dev/infiniband/uverbs*")
	if len(nodes) == 0 {
		t.Skip("no RDMA device")
	}
	s := sources()
	s.Verbs = func(process func(int) int) (map[int]*fabric.VerbsUse, error) {
		c, err := rdmanl.Dial()
		if err != nil {
			return nil, err
		}
		defer c.Close()
		devices, err := c.Devices()
		if err != nil {
			return nil, err
		}
		use, err := c.Use(devices, process)
		return use.ByProcess, err
	}
	with := spawn(t, inDev(), nil, "CONTEXT="+nodes[0], "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0")
	without := spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia1")
	r := reader(t, s)
	for range 2 {
		reading := look(t, r, noNVML(), time.Now())
		c := of(t, reading, with.Process.Pid)
		v, ok := c.Verbs.Get()
		if !ok || v.Contexts != 1 || len(v.Devices) != 1 || len(c.Files.Value.Uverbs) != 1 || c.Files.Value.Events != 1 {
			t.Errorf("verbs %+v, files %+v", c.Verbs, c.Files)
		}
		if v, ok := of(t, reading, without.Process.Pid).Verbs.Get(); !ok || v.Contexts != 0 {
			t.Errorf("without: %+v", v)
		}
		t.Logf("%+v, %d threads known", c.Verbs, len(r.known[with.Process.Pid].threads))
	}
}

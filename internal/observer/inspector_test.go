// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Files of Inspector are read for those who want processes, and where the site names their folder; a reload
// can name another one.
func TestInspector(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "node1-pid7.log")
	const record = `{"header":{"nnodes":2},"coll_perf":{"coll":"AllReduce","coll_sn":7,"coll_msg_size_bytes":1,"coll_exec_time_us":5,"coll_busbw_gbs":1.5}}` + "\n"
	if err := os.WriteFile(file, []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ob, _ := startRanks(t, &processes{})
		touch(t, file)
		if n := observe(t, ob, fabric.WantRanks); n.Inspector.Meta().Reason != fabric.ReasonNotRead {
			t.Errorf("no folder: %+v", n.Inspector)
		}
		ob.SetPolicy(nil, NCCLFiles{Inspector: folder})
		if n := observe(t, ob, fabric.WantNCCL); n.Inspector.Meta().Reason != fabric.ReasonNotRead {
			t.Errorf("not asked for: %+v", n.Inspector)
		}
		if n := observe(t, ob, fabric.WantRanks); len(n.Inspector.Value.Files) != 1 || !source(n, fabric.SourceInspector, "").Up {
			t.Errorf("%+v, %+v", n.Inspector, n.Sources)
		}
		ob.SetPolicy(nil, NCCLFiles{Inspector: file})
		if n := observe(t, ob, fabric.WantRanks); n.Inspector.State == fabric.OK || source(n, fabric.SourceInspector, "").Up {
			t.Errorf("no folder: %+v, %+v", n.Inspector, n.Sources)
		}
	})
}

// touch gives a file the time of the bubble.
func touch(t *testing.T, file string) {
	t.Helper()
	if err := os.Chtimes(file, time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
}

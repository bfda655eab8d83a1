// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Logs and messages are read where the site names them, a reload keeps the counts of what it names still, and
// a file that cannot be opened is a source that failed.
func TestLogs(t *testing.T) {
	folder := t.TempDir()
	log, messages := filepath.Join(folder, "nccl.log"), filepath.Join(folder, "kmsg")
	const xid = "4,1,5,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
	write := func(name, text string) {
		t.Helper()
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	pattern, err := ParseLogPattern(folder + "/*.log")
	if err != nil {
		t.Fatal(err)
	}
	write(log, "")
	write(messages, xid)
	files := NCCLFiles{Logs: []LogPattern{pattern}, Kernel: messages}
	synctest.Test(t, func(t *testing.T) {
		ob, _ := startRanks(t, &processes{})
		look := func() *fabric.Node {
			t.Helper()
			time.Sleep(DefaultFastInterval)
			touch(t, log)
			return observe(t, ob, fabric.WantLogs)
		}
		if n := look(); n.Logs.Meta().Reason != fabric.ReasonNotRead || n.Kernel.Meta().Reason != fabric.ReasonNotRead {
			t.Errorf("nothing is named: %+v, %+v", n.Logs, n.Kernel)
		}
		ob.SetPolicy(nil, files)
		if n := look(); len(n.Logs.Value.Files) != 1 || n.Kernel.Value.Failures.Of("xid_fallen_off").Last.IsZero() || !source(n, fabric.SourceKernel, "").Up {
			t.Errorf("%+v, %+v, %+v", n.Logs, n.Kernel, n.Sources)
		}
		write(log, "[rank0]:[E x] [Rank 0] Watchdog caught collective operation timeout\n")
		write(messages, xid)
		ob.SetPolicy(nil, files)
		n := look()
		if n.Logs.Value.Failures.Of("pytorch_watchdog_timeout").Count != 1 || n.Kernel.Value.Failures.Of("xid_fallen_off").Count != 1 {
			t.Errorf("after a reload: %+v, %+v", n.Logs.Value, n.Kernel.Value)
		}
		ob.SetPolicy(nil, NCCLFiles{Kernel: folder + "/missing"})
		if n := look(); n.Logs.Meta().Reason != fabric.ReasonNotRead || n.Kernel.State == fabric.OK || source(n, fabric.SourceKernel, "").Up {
			t.Errorf("another file: %+v, %+v", n.Logs, n.Kernel)
		}
	})
}

// More files than are read lower the source: what was read is used, and does not look like all there is.
func TestMoreFilesThanAreRead(t *testing.T) {
	folder := t.TempDir()
	var names []string
	for i := range 700 {
		names = append(names, filepath.Join(folder, fmt.Sprintf("node1-pid%d.log", i+1)))
		if err := os.WriteFile(names[i], nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pattern, err := ParseLogPattern(folder + "/*.log")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ob, _ := startRanks(t, &processes{})
		for _, name := range names {
			touch(t, name)
		}
		ob.SetPolicy(nil, NCCLFiles{Logs: []LogPattern{pattern}, Inspector: folder})
		n := observe(t, ob, fabric.WantLogs|fabric.WantRanks)
		for _, name := range []string{fabric.SourceLogs, fabric.SourceInspector} {
			if s := source(n, name, ""); s.Up || s.Reason != fabric.ReasonMalformed || s.Err == nil {
				t.Errorf("%s: %+v", name, s)
			}
		}
		if n.Logs.State != fabric.OK || n.Inspector.State != fabric.OK {
			t.Errorf("what was read is gone: %+v, %+v", n.Logs.Meta(), n.Inspector.Meta())
		}
	})
}

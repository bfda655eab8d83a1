// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
)

var begin = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// running is an exporter that saw the ports of a node with a link for more than an hour, by itself too.
type running struct {
	*Inventory
	file string
	at   time.Time
	said *strings.Builder
}

func (r *running) see(edit func(*fabric.Node) *fabric.Node) *fabric.Node {
	r.at = r.at.Add(5 * time.Minute)
	n := rails(r.at)
	for i := range n.HCAs {
		n.HCAs[i].Ports[0].Seen = fabric.PortHistory{Active: true, Last: begin.Add(70 * time.Minute), Rate: 50e9}
	}
	n = r.Update(edit(n))
	synctest.Wait()
	return n
}

func whole(n *fabric.Node) *fabric.Node { return n }

func run(t *testing.T, then func(t *testing.T, r *running)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "inventory.json")
	synctest.Test(t, func(t *testing.T) {
		r := &running{file: file, at: begin, said: &strings.Builder{}}
		r.Inventory = Open(file, "", slog.New(slog.NewTextHandler(r.said, nil)))
		defer r.Close()
		for range 14 {
			r.see(whole)
		}
		then(t, r)
	})
}

// expected reports whether the second port of a node should have a link, by its record.
func expected(n *fabric.Node) bool { return n.HCAs[1].Ports[0].Link.By == fabric.ByRecord }

// recordedPort reports whether a file has the second port.
func recordedPort(t *testing.T, file string) bool {
	t.Helper()
	had, err := readFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range had.Ports {
		if p.PCI == "0000:1b:00.0" {
			return true
		}
	}
	return false
}

// What the operator accepts is forgotten by the exporter that runs, which has it in memory too, and by the
// next one; what the port has later counts again.
func TestAccept(t *testing.T) {
	for _, name := range []string{"mlx5_1", "mlx5_1:1", "0000:1b:00.0", "1b:00.0"} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, r *running) {
				if n := r.see(withoutLink); !expected(n) {
					t.Fatalf("before: %+v", n.HCAs[1].Ports[0].Link)
				}
				list, err := Accept(r.file, withoutLink(rails(r.at)), []string{name}, "alice")
				if err != nil || len(list) != 1 || list[0].PCI != "0000:1b:00.0" {
					t.Fatal(list, err)
				}
				r.see(withoutLink)   // notices
				for i := range 130 { // and writes the file several times
					if n := r.see(withoutLink); expected(n) || n.HCAs[0].Ports[0].Link.By != fabric.ByRecord {
						t.Fatalf("look %d: %+v, of the other port %+v", i, n.HCAs[1].Ports[0].Link, n.HCAs[0].Ports[0].Link)
					}
				}
				if recordedPort(t, r.file) {
					t.Error("the exporter has written back what was accepted")
				}
				const says = "what a device had no longer counts"
				if strings.Count(r.said.String(), says) != 1 || !strings.Contains(r.said.String(), "by=alice at=2026-11-22T13:15:00Z") {
					t.Errorf("said %q", r.said)
				}
				next := Open(r.file, "", slog.New(slog.DiscardHandler))
				defer next.Close()
				if n := next.Update(withoutLink(rails(r.at))); expected(n) {
					t.Errorf("after a restart: %+v", n.HCAs[1].Ports[0].Link)
				}
				for range 4 {
					r.see(whole)
				}
				if n := r.see(withoutLink); recordedPort(t, r.file) && !expected(n) {
					t.Errorf("a link that it had later: %+v", n.HCAs[1].Ports[0].Link)
				}
			})
		})
	}
}

// What is accepted stays so when the clock is set back, by however long.
func TestAcceptBeforeClockIsSetBack(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, 40 * 24 * time.Hour} {
		run(t, func(t *testing.T, r *running) {
			r.see(withoutLink)
			if _, err := Accept(r.file, withoutLink(rails(r.at)), []string{"mlx5_1"}, "alice"); err != nil {
				t.Fatal(err)
			}
			r.see(withoutLink)
			r.at = r.at.Add(-by)
			for i := range 5 {
				if n := r.see(withoutLink); expected(n) {
					t.Fatalf("%s back, look %d: %+v", by, i, n.HCAs[1].Ports[0].Link)
				}
			}
		})
	}
}

// Who removes the file means all of it, and memory does not bring it back.
func TestRemovedWhileRunning(t *testing.T) {
	run(t, func(t *testing.T, r *running) {
		r.see(withoutLink)
		if err := os.Remove(r.file); err != nil {
			t.Fatal(err)
		}
		r.see(withoutLink)
		for i := range 30 {
			if n := r.see(withoutLink); expected(n) {
				t.Fatalf("look %d: %+v", i, n.HCAs[1].Ports[0].Link)
			}
		}
		if recordedPort(t, r.file) {
			t.Error("the exporter has written back what was removed")
		}
		if !strings.Contains(r.said.String(), "the record of hardware was removed, and begins anew") {
			t.Errorf("said %q", r.said)
		}
	})
}

// A GPU that was taken out is forgotten; another one that is missing is not.
func TestAcceptGPU(t *testing.T) {
	file := filepath.Join(t.TempDir(), "inventory.json")
	see := func(t *testing.T, gpus int) (n *fabric.Node) {
		synctest.Test(t, func(*testing.T) {
			m := Open(file, "", slog.New(slog.DiscardHandler))
			defer m.Close()
			n = m.Update(nodeWith(gpus, begin))
		})
		return n
	}
	see(t, 8)
	if _, err := Accept(file, nodeWith(6, begin), []string{"0000:22:00.0"}, "alice"); err != nil {
		t.Fatal(err)
	}
	if n := see(t, 6); len(n.Remembered) != 1 || len(n.Remembered[0].Missing) != 1 || n.Remembered[0].Missing[0] != "0000:21:00.0" {
		t.Errorf("got %+v", n.Remembered)
	}
	if n := see(t, 7); len(n.Remembered) != 0 {
		t.Errorf("got %+v", n.Remembered)
	}
}

func TestAcceptRefuses(t *testing.T) {
	written := func(t *testing.T, edit func(h *hardware)) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "inventory.json")
		h := hardware{Devices: stock{begin.Unix(), []fabric.Place{"0000:1b:00.0 mlx5_1"}}}
		edit(&h)
		data, err := h.encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	same := func(*hardware) {}
	for name, c := range map[string]struct {
		file func(t *testing.T) string
		ask  string
		want string
	}{
		"no folder": {func(t *testing.T) string { return filepath.Join(t.TempDir(), "none", "inventory.json") }, "mlx5_1", "because there is no folder"},
		"another user's folder": {func(t *testing.T) string {
			file := written(t, same)
			if err := os.Chown(filepath.Dir(file), 65534, 65534); err != nil {
				t.Skipf("skipped: needs root: %v", err)
			}
			return file
		}, "mlx5_1", "belongs to user 65534, and this is user 0: run it as the owner, as in sudo -u '#65534' gpufabric_exporter check --accept=mlx5_1"},
		"a folder for all": {func(t *testing.T) string {
			file := written(t, same)
			if err := os.Chmod(filepath.Dir(file), 0o777); err != nil {
				t.Fatal(err)
			}
			return file
		}, "mlx5_1", "expected a folder that only its owner can write to"},
		"damaged": {func(t *testing.T) string {
			file := written(t, same)
			if err := os.WriteFile(file, []byte("{}"), 0o644); err != nil {
				t.Fatal(err)
			}
			return file
		}, "mlx5_1", "the record cannot be read, and counts for nothing"},
		"unknown":       {func(t *testing.T) string { return written(t, same) }, "mlx5_9", `nothing is recorded of "mlx5_9": expected an RDMA device, its port (mlx5_0:1) or a PCI address, one of 0000:1b:00.0 mlx5_1`},
		"nothing there": {func(t *testing.T) string { return written(t, same) }, "0000:77:00.0", "nothing is recorded of 0000:77:00.0, and the node has no such PCI device"},
		"renamed": {
			func(t *testing.T) string {
				return written(t, func(h *hardware) { h.Devices.Items[0] = "0000:2b:00.0 mlx5_1" })
			}, "mlx5_1",
			"mlx5_1 is 0000:1b:00.0 now, and was 0000:2b:00.0 when it was recorded: give the PCI address",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := c.file(t)
			before, _ := os.ReadFile(file)
			if _, err := Accept(file, rails(begin), []string{c.ask}, "alice"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if after, _ := os.ReadFile(file); string(after) != string(before) {
				t.Errorf("the file has changed: %s", after)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/rdmaping"
)

// TestLookWithoutDevices reads targets where there is nothing to ping from, and says once what is wrong with each.
func TestLookWithoutDevices(t *testing.T) {
	dir := t.TempDir()
	good, broken := filepath.Join(dir, "good.json"), filepath.Join(dir, "broken.json")
	for file, text := range map[string]string{good: `[{"targets":["a:1","b:1","c:1"]}]`, broken: "{}"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	node := &fabric.Node{}
	var log bytes.Buffer
	c := rdmaping.DefaultConfig()
	c.Files = []string{good, broken}
	p := New(Options{
		Config: c, Host: named("c"), Log: slog.New(slog.NewTextHandler(&log, nil)), Maintenance: func() (string, error) { return "", nil },
		Observe: func(context.Context) *fabric.Node { return node },
	})
	look := func(want ...string) {
		t.Helper()
		p.look(t.Context())
		if lines := strings.Count(log.String(), "\n"); lines != len(want) {
			t.Errorf("%d lines, expected %d:\n%s", lines, len(want), log.String())
		}
		for _, w := range want {
			if !strings.Contains(log.String(), w) {
				t.Errorf("lacks %s:\n%s", w, log.String())
			}
		}
		log.Reset()
	}
	look("broken.json: expected a list of targets as of Prometheus' file_sd", "this host has no RDMA device: expected one in /sys/class/infiniband")
	look()
	if pl := p.current(); pl.targets != 3 || pl.leftOut != 1 {
		t.Errorf("%+v", pl)
	}
	node = nodeOf("10.0.0.1", "mlx5_0")
	node.HCAs[0].Ports[0].Role = known(fabric.RoleStorage)
	look("none of mlx5_0 has it: state roles in the configuration (docs/ROLES.md)")
	node = nodeOf("10.0.0.1", "mlx5_0")
	look()
	if pl := p.current(); len(pl.rails) != 1 || len(pl.rails[0].peers) != 2 {
		t.Errorf("%+v", pl)
	}
}

// TestSelf finds this node among the targets whichever name they have for it, says so where it is not, and has it ask
// itself by no other name.
func TestSelf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "targets.json")
	for _, c := range []struct {
		targets, self, leaf string
		peers, errors       int
		host                []string
	}{
		{`"node1:1","node2:1"`, "node1:1", "l0", 1, 0, []string{"node1"}},
		{`"node1.example:1","node10.example:1"`, "node1.example:1", "l0", 1, 0, []string{"Node1"}},
		{`"node1:1","node10:1"`, "node1:1", "l0", 1, 0, []string{"node1.example"}},
		{`"10.0.0.1:1","10.0.0.2:1","[fd00::1]:1","[fd00::2]:1"`, "10.0.0.1:1", "l0", 2, 0, []string{"a", "10.0.0.1", "fd00::1"}},
		{`"node1:1","node2:1"`, "node7", "", 2, 1, []string{"node7"}},
		{`"node1.a:1","node1.b:1"`, "node1.c", "", 2, 1, []string{"node1.c"}},
	} {
		if err := os.WriteFile(file, []byte(`[{"targets":[`+c.targets+`],"labels":{"leaf":"l0"}}]`), 0o600); err != nil {
			t.Fatal(err)
		}
		config := rdmaping.DefaultConfig()
		config.Files = []string{file}
		p := New(Options{
			Config: config, Log: slog.New(slog.DiscardHandler), Host: named(c.host...),
			Maintenance: func() (string, error) { return "", nil },
			Observe:     func(context.Context) *fabric.Node { return nodeOf("10.0.0.1", "mlx5_0") },
		})
		p.look(t.Context())
		pl := p.current()
		if r := pl.rails[0]; r.self.Address != c.self || r.self.Leaf != c.leaf || len(r.peers) != c.peers || pl.leftOut != c.errors {
			t.Errorf("%s at %v: %+v asks %v, %d errors", c.targets, c.host, r.self, r.peers, pl.leftOut)
		}
	}
}

// named are the names and addresses of a host that has the same ones all the time.
func named(names ...string) func() ([]string, error) {
	return func() ([]string, error) { return names, nil }
}

// TestSelfAppears finds this node when its address comes after the exporter has started, and does not forget it while
// addresses are gone or cannot be read.
func TestSelfAppears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "targets.json")
		if err := os.WriteFile(file, []byte(`[{"targets":["10.0.0.1:1","10.0.0.2:1","10.0.0.3:1"]}]`), 0o600); err != nil {
			t.Fatal(err)
		}
		config := rdmaping.DefaultConfig()
		config.Files = []string{file}
		var log bytes.Buffer
		host := named("node")
		p := New(Options{
			Config: config, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Host:        func() ([]string, error) { return host() },
			Maintenance: func() (string, error) { return "", nil },
			Observe:     func(context.Context) *fabric.Node { return nodeOf("10.0.0.1", "mlx5_0") },
		})
		hold := make(chan struct{})
		for _, c := range []struct {
			name   string
			host   func() ([]string, error)
			self   string
			peers  int
			errors int
			says   string
		}{
			{"no address yet", named("node"), "node", 3, 1, "no target is this node (node)"},
			{"its address", named("node", "10.0.0.2"), "10.0.0.2:1", 2, 0, ""},
			{"it is gone", named("node"), "10.0.0.2:1", 2, 0, ""},
			{"not readable", func() ([]string, error) { return nil, errors.New("netlink: no buffer") }, "10.0.0.2:1", 2, 1, "netlink: no buffer"},
			{"it hangs", func() ([]string, error) { <-hold; return []string{"node", "10.0.0.3"}, nil }, "10.0.0.2:1", 2, 1, "names and addresses of this host"},
			{"another address", named("node", "10.0.0.3"), "10.0.0.3:1", 2, 0, ""},
		} {
			if c.name == "another address" {
				close(hold)
				synctest.Wait()
			}
			log.Reset()
			host = c.host
			p.look(t.Context())
			pl := p.current()
			if r := pl.rails[0]; r.self.Address != c.self || len(r.peers) != c.peers || pl.leftOut != c.errors {
				t.Errorf("%s: %+v asks %v, %d errors", c.name, r.self, r.peers, pl.leftOut)
			}
			if (c.says == "") != (log.Len() == 0) || !strings.Contains(log.String(), c.says) {
				t.Errorf("%s: %s", c.name, log.String())
			}
		}
	})
}

// TestNamesNeverRead asks nobody while this node does not know who it is, and says that nothing is pinged.
func TestNamesNeverRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "targets.json")
	if err := os.WriteFile(file, []byte(`[{"targets":["n0:1","n1:1"]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	config := rdmaping.DefaultConfig()
	config.Files = []string{file}
	var err error
	o := Options{
		Config: config, Log: slog.New(slog.DiscardHandler), Host: func() ([]string, error) { return nil, err },
		Maintenance: func() (string, error) { return "", nil },
		Observe:     func(context.Context) *fabric.Node { return nodeOf("10.0.0.1", "mlx5_0") },
	}
	var p *Pinger
	for _, err = range []error{errors.New("no"), nil} {
		p = New(o)
		for range 2 {
			if p.look(t.Context()); len(p.current().rails) != 0 || p.current().targets != 2 || p.current().leftOut != 1 {
				t.Errorf("%v: %+v", err, p.current())
			}
		}
	}
	o.Config.Self = "n0:1"
	p = New(o)
	if p.look(t.Context()); len(p.current().rails) != 1 || len(p.current().rails[0].peers) != 1 || p.current().leftOut != 0 {
		t.Errorf("%+v", p.current())
	}
}

// TestStatedSelf says that what the configuration states is not among the targets, and asks for no other statement.
func TestStatedSelf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "targets.json")
	if err := os.WriteFile(file, []byte(`[{"targets":["n0:1"]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	config := rdmaping.DefaultConfig()
	config.Files, config.Self = []string{file}, "n7:1"
	var log bytes.Buffer
	p := New(Options{
		Config: config, Log: slog.New(slog.NewTextHandler(&log, nil)), Host: named("n0"),
		Maintenance: func() (string, error) { return "", nil },
		Observe:     func(context.Context) *fabric.Node { return nodeOf("10.0.0.1", "mlx5_0") },
	})
	p.look(t.Context())
	if !strings.Contains(log.String(), "rdma_ping.self: n7:1 is not among the targets") || strings.Contains(log.String(), "has to say") || p.current().leftOut != 1 {
		t.Errorf("%s%+v", log.String(), p.current())
	}
}

// TestNumbers keeps the number of a rail when another device is gone, as that of its leaf is by it.
func TestNumbers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "targets.json")
	list := `[{"targets":["n0:1"],"labels":{"leaf":"l0","rail":"0"}},{"targets":["n0:1"],"labels":{"leaf":"l1","rail":"1"}},
		{"targets":["n0:1"],"labels":{"leaf":"l2","rail":"2"}}]`
	if err := os.WriteFile(file, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	config := rdmaping.DefaultConfig()
	config.Files = []string{file}
	var node *fabric.Node
	p := New(Options{
		Config: config, Log: slog.New(slog.DiscardHandler), Host: named("n0"),
		Maintenance: func() (string, error) { return "", nil },
		Observe:     func(context.Context) *fabric.Node { return node },
	})
	storage := nodeOf("10.0.0.1", "mlx5_0", "mlx5_1", "mlx5_2")
	storage.HCAs[0].Ports[0].Role = known(fabric.RoleStorage)
	taken := nodeOf("10.0.0.1", "mlx5_0", "mlx5_1", "mlx5_2")
	taken.HCAs[0].Moved, taken.HCAs[0].Ports, taken.Policy = true, nil, &fabric.Policy{}
	for _, c := range []struct {
		name string
		node *fabric.Node
		want string
	}{
		{"late", nodeOf("10.0.0.1", "mlx5_0", "mlx5_2"), "mlx5_0 0 l0, mlx5_2 1 l1, "},
		{"all", nodeOf("10.0.0.1", "mlx5_0", "mlx5_1", "mlx5_2"), "mlx5_0 0 l0, mlx5_1 1 l1, mlx5_2 2 l2, "},
		{"one is gone", nodeOf("10.0.0.1", "mlx5_0", "mlx5_2"), "mlx5_0 0 l0, mlx5_2 2 l2, "},
		{"two are gone", nodeOf("10.0.0.1", "mlx5_2"), "mlx5_2 2 l2, "},
		{"one is back", nodeOf("10.0.0.1", "mlx5_0", "mlx5_2"), "mlx5_0 0 l0, mlx5_2 2 l2, "},
		{"and another one is new", nodeOf("10.0.0.1", "mlx5_0", "mlx5_2", "mlx5_3"), "mlx5_0 0 l0, mlx5_2 1 l1, mlx5_3 2 l2, "},
		{"all are back", nodeOf("10.0.0.1", "mlx5_0", "mlx5_1", "mlx5_2"), "mlx5_0 0 l0, mlx5_1 1 l1, mlx5_2 2 l2, "},
		{"another role", storage, "mlx5_1 0 l0, mlx5_2 1 l1, "},
		{"a pod has one, as at a restart", taken, "mlx5_1 1 l1, mlx5_2 2 l2, "},
		{"and it is gone", nodeOf("10.0.0.1", "mlx5_1", "mlx5_2"), "mlx5_1 1 l1, mlx5_2 2 l2, "},
		{"it comes back", nodeOf("10.0.0.1", "mlx5_0", "mlx5_1", "mlx5_2"), "mlx5_0 0 l0, mlx5_1 1 l1, mlx5_2 2 l2, "},
	} {
		node = c.node
		p.look(t.Context())
		var got strings.Builder
		for _, r := range p.current().rails {
			fmt.Fprintf(&got, "%s %d %s, ", r.Device, r.Rail, r.self.Leaf)
		}
		if got.String() != c.want {
			t.Errorf("%s: %s, expected %s", c.name, got.String(), c.want)
		}
	}
}

// TestDevices is peers of another make, or that lack a device. Where rails are apart, neither a device of the same name
// nor one of the same number need be reached if the other differs, so none is asked. That only one of the two has the
// other's device is as doubtful; names that neither has are in no doubt.
func TestDevices(t *testing.T) {
	for _, c := range []struct {
		name  string
		peers []string
		alone []string
	}{
		{"lack the first one", []string{"mlx5_1", "mlx5_3"}, []string{"mlx5_0", "mlx5_1"}},
		{"have one before", []string{"mlx5_3", "mlx5_0"}, []string{"mlx5_0", "mlx5_1"}},
		{"other names", []string{"mlx5_2", "mlx5_3"}, nil},
		{"one other name", []string{"mlx5_0", "mlx5_3"}, nil},
	} {
		w := newWorld(t, 4)
		w.devices = c.peers
		for _, r := range w.run(20 * time.Second).Rails {
			sent, _ := lost(r)
			if doubt := slices.Contains(c.alone, r.Device); (sent == 0) != doubt || (r.Uncovered == rdmaping.UncoveredAlone) != doubt {
				t.Errorf("%s: %s sent %d: %s", c.name, r.Device, sent, r.Uncovered)
			}
		}
	}
}

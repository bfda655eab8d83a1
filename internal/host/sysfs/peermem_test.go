// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// client is what ib_core shows of a client that registered so many memory regions and released so many.
func client(name, made, freed string) tree {
	return tree{"version": "580.95.05\n", "num_alloc_mrs": made + "\n", "num_dealloc_mrs": freed + "\n", "num_reg_pages": "0\n"}.under(memoryPeers + "/" + name)
}

func module(name string) tree { return tree{"version": "580.95.05\n"}.under(modules + "/" + name) }

func TestPeermem(t *testing.T) {
	nothing := tree{modules + "/": "", modules + "/ib_core/version": "1\n"}
	peers := tree{memoryPeers + "/": ""}
	malformed := fabric.UnknownFact[uint64](fabric.ReasonMalformed, "", now)
	missing := fabric.UnknownFact[uint64](fabric.ReasonMissing, "", now)
	for name, c := range map[string]struct {
		tree       tree
		state      string // ok, absent, or the reason
		module     string
		version    string
		bound      string // true, false, or the reason
		registered fabric.Fact[uint64]
	}{
		"none":                      {nothing, "absent", "", "", "", missing},
		"none, but ib_core could":   {nothing.with(peers), "absent", "", "", "", missing},
		"bound, idle":               {nothing.with(module("nvidia_peermem"), client("nv_mem", "0", "0")), "ok", "nvidia_peermem", "580.95.05", "true", fabric.Known[uint64](0, "", now)},
		"bound, used":               {nothing.with(module("nvidia_peermem"), client("nv_mem", "1312", "1280")), "ok", "nvidia_peermem", "580.95.05", "true", fabric.Known[uint64](32, "", now)},
		"both clients":              {nothing.with(module("nvidia_peermem"), client("nv_mem", "9", "4"), client("nv_mem_nc", "7", "6")), "ok", "nvidia_peermem", "580.95.05", "true", fabric.Known[uint64](6, "", now)},
		"only the legacy client":    {nothing.with(module("nvidia_peermem"), client("nv_mem_nc", "7", "6")), "ok", "nvidia_peermem", "580.95.05", "true", fabric.Known[uint64](1, "", now)},
		"stale":                     {nothing.with(module("nvidia_peermem"), peers), "ok", "nvidia_peermem", "580.95.05", "false", fabric.AbsentFact[uint64]("", now)},
		"another client":            {nothing.with(module("nvidia_peermem"), client("amd_mem", "5", "0")), "ok", "nvidia_peermem", "580.95.05", "false", fabric.AbsentFact[uint64]("", now)},
		"ib_core has no clients":    {nothing.with(module("nvidia_peermem")), "ok", "nvidia_peermem", "580.95.05", "missing", missing},
		"predecessor":               {nothing.with(module("nv_peer_mem"), client("nv_mem", "2", "1")), "ok", "nv_peer_mem", "580.95.05", "true", fabric.Known[uint64](1, "", now)},
		"modules are hidden":        {client("nv_mem", "2", "1"), "missing", "", "", "", missing},
		"the module is hidden":      {nothing.with(client("nv_mem", "2", "1")), "ok", "", "", "true", fabric.Known[uint64](1, "", now)},
		"no version":                {nothing.with(tree{modules + "/nvidia_peermem/parameters/": ""}, peers), "ok", "nvidia_peermem", "", "false", fabric.AbsentFact[uint64]("", now)},
		"more let go than made":     {nothing.with(module("nvidia_peermem"), client("nv_mem", "3", "4")), "ok", "nvidia_peermem", "580.95.05", "true", malformed},
		"negative":                  {nothing.with(module("nvidia_peermem"), client("nv_mem", "-1", "0")), "ok", "nvidia_peermem", "580.95.05", "true", malformed},
		"worn out":                  {nothing.with(module("nvidia_peermem"), client("nv_mem", "18446744073709551615", "0")), "ok", "nvidia_peermem", "580.95.05", "true", malformed},
		"garbage":                   {nothing.with(module("nvidia_peermem"), client("nv_mem", "many", "0")), "ok", "nvidia_peermem", "580.95.05", "true", malformed},
		"empty":                     {nothing.with(module("nvidia_peermem"), client("nv_mem", "", "0")), "ok", "nvidia_peermem", "580.95.05", "true", malformed},
		"no counters":               {nothing.with(module("nvidia_peermem"), tree{memoryPeers + "/nv_mem/": ""}), "ok", "nvidia_peermem", "580.95.05", "true", missing},
		"one client is garbage":     {nothing.with(module("nvidia_peermem"), client("nv_mem", "x", "0"), client("nv_mem_nc", "7", "6")), "ok", "nvidia_peermem", "580.95.05", "true", malformed},
		"the module is no folder":   {nothing.with(tree{modules + "/nvidia_peermem": "x"}), "io_error", "", "", "", missing},
		"the clients are no folder": {nothing.with(tree{memoryPeers: "x"}), "io_error", "", "", "", missing},
	} {
		f, _ := c.tree.open(t)
		got := f.Peermem(now)
		state := got.State.String()
		if got.State == fabric.Unknown {
			state = string(got.Reason)
		}
		if state != c.state || got.Source == "" {
			t.Errorf("%s: %s, want %s: %+v", name, state, c.state, got)
			continue
		}
		if state != "ok" {
			continue
		}
		p := got.Value
		bound := string(p.Bound.Reason)
		if v, ok := p.Bound.Get(); ok {
			bound = map[bool]string{true: "true", false: "false"}[v]
		}
		if p.Module != c.module || p.Version.Or("") != c.version || bound != c.bound ||
			p.Registered.State != c.registered.State || p.Registered.Value != c.registered.Value || p.Registered.Reason != c.registered.Reason {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// A link that leads out of the root does not show what is loaded.
func TestPeermemOutside(t *testing.T) {
	outside := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(outside, "nvidia_peermem"), 0o755))
	f, root := tree{"kernel/": ""}.open(t)
	must(t, os.Symlink(outside, filepath.Join(root, modules)))
	if p := f.Peermem(now); p.State != fabric.Unknown {
		t.Errorf("%+v", p)
	}
}

// A client that may not be looked at leaves open whether the module is bound, and is not taken for an unbound one.
func TestPeermemNoAccess(t *testing.T) {
	for denied, want := range map[string]fabric.State{"nv_mem": fabric.OK, "nvidia_peermem": fabric.Unknown} {
		f, _ := tree{}.with(module("nvidia_peermem"), client("nv_mem", "2", "1")).open(t)
		openat := f.openat
		f.openat = func(fd int, name string, flags int, mode uint32) (int, error) {
			if name == denied {
				return -1, unix.EACCES
			}
			return openat(fd, name, flags, mode)
		}
		got := f.Peermem(now)
		if got.State != want || want == fabric.Unknown && got.Reason != fabric.ReasonPrivilege {
			t.Errorf("without %s: %+v", denied, got)
		}
		if p, ok := got.Get(); ok && (p.Bound.Reason != fabric.ReasonPrivilege || p.Registered.Reason != fabric.ReasonPrivilege) {
			t.Errorf("without %s: %+v", denied, p)
		}
	}
}

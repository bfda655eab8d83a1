// SPDX-License-Identifier: Apache-2.0

package program

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/simulator"
)

// hostile is a part of a name or value: it would clear a terminal, set its title, turn the direction of
// writing and hide.
const hostile = "\x1b[2J\x1b]0;x\a\u009b31m\u202e\u200b\x7f"

// TestOutputIsLegible: device names, firmware, NCCL's settings and names of hosts do nothing to a terminal, whichever
// command prints them, and JSON stays JSON.
func TestOutputIsLegible(t *testing.T) {
	s, err := simulator.Find("pfc-off")
	if err != nil {
		t.Fatal(err)
	}
	n := s.Build()
	n.Host.Name += hostile
	for i := range n.HCAs {
		n.HCAs[i].Name += hostile
		n.HCAs[i].Description = hostile
	}
	n.HCAs[0].Firmware += hostile
	n.HCAs[1].Firmware = "\x9b2J\xff"
	for i := range n.NetDevs { // also those that GIDs name
		n.NetDevs[i].Carrier = i%2 == 0
	}
	n.Files["etc/nccl.conf"] = "NCCL_IB_HCA=" + hostile + "\nNCCL_IB_TC=" + hostile + "\nNCCL_" + hostile + "=1\n\x9b2J\xff=" + hostile + "\nNCCL_NET=\x9b2J\n"
	tree, err := n.Materialise(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"--path.sysfs=" + tree.Sysfs(), "--path.procfs=" + tree.Procfs(), "--path.rootfs=" + tree.Rootfs()}
	for _, args := range [][]string{
		{"check", "--verbose"},
		{"check", "--output=json"},
		{"topology"},
		{"topology", "--output=json"},
		{"lint", "--host", filepath.Join(tree.Rootfs(), "etc/nccl.conf")},
		{"lint", "--output=json", filepath.Join(tree.Rootfs(), "etc/nccl.conf")},
		{"advise"},
		{"advise", "--output=json"},
		{"advise", "--output=shell"},
		{"advise", "--output=kubernetes"},
		{"check", "--log.format=json", "--log.level=debug"},
		{"capture", "--output=" + filepath.Join(t.TempDir(), "x"+hostile)},
		{"capture", "--output=" + filepath.Join(t.TempDir(), hostile, "x")},
		{"check", "--only=" + hostile},
	} {
		t.Run(strings.Join(args[:min(2, len(args))], " "), func(t *testing.T) {
			var out, errs commandtest.Output
			run(t, Options{}, &out, &errs, append(args, paths...)...)
			all := out.String() + errs.String()
			hidden := func(r rune) bool {
				return r != '\n' && !unicode.IsPrint(r)
			}
			if i := strings.IndexFunc(all, hidden); i >= 0 || !utf8.ValidString(all) {
				t.Errorf("prints %q", all[max(0, i-60):min(len(all), max(i, 0)+60)])
			}
			if len(args) == 2 && args[1] == "--output=json" && !json.Valid([]byte(out.String())) {
				t.Errorf("no JSON: %s", out.String())
			}
			if len(all) < 50 {
				t.Errorf("prints only %q", all)
			}
		})
	}
}

// TestCredentialsAreMasked: what NCCL's files have of passwords is on no page, in no verdict and in no line of the log.
func TestCredentialsAreMasked(t *testing.T) {
	s, err := simulator.Find("healthy")
	if err != nil {
		t.Fatal(err)
	}
	n := s.Build()
	n.Files["etc/nccl.conf"] = `NCCL_IB_HCA=alice:hunter2@mlx5_9
NCCL_IB_TC=https://alice:hunter2@metrics.example/x
NCCL_DEBUG=password=hunter2
NCCL_ACME_TOKEN=hunter2
NCCL_ALGO=https://hunter2@h
NCCL_IB_TC=token=hunter2
NCCL_x://alice:hunter2@h=1
`
	tree, err := n.Materialise(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"--path.sysfs=" + tree.Sysfs(), "--path.procfs=" + tree.Procfs(), "--path.rootfs=" + tree.Rootfs(), "--log.level=debug"}
	for _, args := range [][]string{{"check", "--verbose"}, {"check", "--output=json"}, {"topology"}} {
		var out, errs commandtest.Output
		run(t, Options{}, &out, &errs, append(args, paths...)...)
		commandtest.Lacks(t, out.String()+errs.String(), "hunter2", "alice")
		if args[0] == "check" {
			commandtest.Contains(t, out.String(), "NCCL_IB_HCA=***@mlx5_9", "***")
		}
	}
	p := start(t, Options{}, paths...)
	p.Ready()
	_, page, _ := p.Get("/")
	commandtest.Contains(t, page, "NCCL_IB_HCA", "***@mlx5_9", "https://***@metrics.example/x", "password=***")
	_, metrics, _ := p.Get("/metrics")
	commandtest.Lacks(t, page+metrics+p.Stderr.String(), "hunter2", "alice")
}

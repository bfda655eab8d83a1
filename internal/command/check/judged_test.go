// SPDX-License-Identifier: Apache-2.0

package check

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/inventory"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/status"
)

// unstated is a node of which nothing is stated: without NCCL_IB_HCA, and of no known platform.
func unstated(t *testing.T) site.Paths {
	t.Helper()
	s, err := simulator.Find("healthy-dgx-b200")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := s.Build().Materialise(commandtest.Memory(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(tree.Rootfs(), "etc/nccl.conf"), filepath.Join(tree.Sysfs(), "class/dmi")} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	return site.Paths{Sysfs: tree.Sysfs(), Procfs: tree.Procfs(), Rootfs: tree.Rootfs()}
}

// record writes what an exporter on the node recorded during an hour of a day.
func record(t *testing.T, paths site.Paths, begin time.Time) (file string) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	n, _, err := (&site.Site{Paths: paths}).ObserveOnce(t.Context(), nil, collector.CheckWants(), 0, log)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "inventory.json")
	for _, at := range []time.Time{begin, begin.Add(time.Hour)} { // Close waits for the file
		m, then := inventory.Open(file, "", log), *n
		then.At = at
		m.Update(&then)
		m.Close()
	}
	return file
}

// The first line says by which sources the node is judged, and the JSON has the same; a check inside a job has neither.
func TestCheckSaysWhoJudges(t *testing.T) {
	commandtest.Memory(t)
	nothing, number := commandtest.ConfigFile(t, ""), commandtest.ConfigFile(t, "expected: {compute_ports: 8}\n")
	paths := unstated(t)
	of := []string{"--path.sysfs=" + paths.Sysfs, "--path.procfs=" + paths.Procfs, "--path.rootfs=" + paths.Rootfs, "--log.level=error"}
	recorded := record(t, paths, time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC))
	for _, c := range []struct {
		args      []string
		inventory string
		want      string
	}{
		{of, "", "judged by guesses only: nothing states what this node should have; run gpufabric_exporter check --write-manifest=FILE on a node that is in order and name the file in expected.manifest\n"},
		{append(slices.Clone(of), "--config.file="+number), "", "judged by: configuration (8 roles, 8 links); guesses: 8 rates\n"},
		{of, recorded, "judged by: record (8 links, 8 rates since 2026-11-20); guesses: 8 roles\n"},
		{[]string{"--scenario=healthy"}, "", "judged by: configuration (8 links, 8 rates), nccl_ib_hca (8 roles)\n"},
		{[]string{"--scenario=healthy-efa", "--config.file=" + nothing}, "", "judged by: profile (32 roles, 32 links); guesses: 32 rates\n"},
		{[]string{"--scenario=no-rdma", "--config.file=" + nothing}, "", "judged by: no port for training is known, and nothing states how many there should be\n"},
	} {
		run := func(more ...string) string {
			_, out, errs := commandtest.Run(t, &site.Site{Inventory: c.inventory}, New, append(slices.Clone(c.args), more...)...)
			return out + errs
		}
		if out := run(); !strings.HasPrefix(out, c.want) {
			t.Errorf("%v: %.300s", c.args, out)
		}
		var r struct {
			JudgedBy status.JudgedBy `json:"judged_by"`
		}
		if err := json.Unmarshal([]byte(run("--output=json")), &r); err != nil || r.JudgedBy.Text+"\n" != c.want || r.JudgedBy.Ports == nil {
			t.Errorf("%v: %v: %+v", c.args, err, r.JudgedBy)
		}
		if out := run("--inside", "--output=json"); strings.Contains(out, "judged_by") {
			t.Errorf("%v, inside: %s", c.args, out)
		}
	}
}

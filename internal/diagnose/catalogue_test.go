// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/nccl"
	"gpufabric_exporter/internal/verdict"
)

var update = flag.Bool("update", false, "write docs/CHECKS.md")

func TestCatalogue(t *testing.T) {
	ids, titles, modes := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, m := range diagnose.Modes() {
		if modes[m.ID] || m.ID == "" || m.Text == "" {
			t.Errorf("mode %q is declared twice, or lacks a name or a text", m.ID)
		}
		modes[m.ID] = true
	}
	for _, c := range slices.Concat(diagnose.Catalogue(), nccl.InsideChecks()) {
		if !regexp.MustCompile(`^[a-z][a-z_]+$`).MatchString(c.ID) || ids[c.ID] || titles[c.Title] {
			t.Errorf("check %q: the id is not in lower case with underscores, or id or title are there twice", c.ID)
		}
		for field, missing := range map[string]bool{
			"Title, without a full stop": c.Title == "" || strings.HasSuffix(c.Title, "."), "Reads": c.Reads == "", "Topic": c.Topic == "", "Scope": c.Scope == "",
			"judge": c.Judge == nil, "Modes": len(c.Modes) == 0, "Severity": !slices.Contains(verdict.Severities(), c.Severity),
		} {
			if missing {
				t.Errorf("check %s lacks %s: add it to its row in internal/diagnose", c.ID, field)
			}
		}
		ids[c.ID], titles[c.Title] = true, true
	}
}

// TestModesAreFound prints what finds each mode; one that nothing finds says why.
func TestModesAreFound(t *testing.T) {
	found := 0
	for _, m := range diagnose.Modes() {
		by := FindsMode(m.ID)
		if m.Alert != "" {
			by = append(by, m.Alert)
		}
		if (len(by) == 0) != (m.Gap != "") {
			t.Errorf("mode %s is found by %v, and its Gap is %q: declare it in Modes of a check, name an Alert, or say in Gap why nothing finds it (internal/diagnose/mode.go)", m.ID, by, m.Gap)
		}
		if len(by) > 0 {
			found++
			t.Logf("%-28s %s", m.ID, strings.Join(by, ", "))
		} else {
			t.Logf("%-28s nothing: %s", m.ID, m.Gap)
		}
	}
	t.Logf("%d of %d modes are found", found, len(diagnose.Modes()))
}

// TestKnownModesAreListed: what is known in practice to go wrong with links and devices (L), and with
// configuration (C), has a mode, found or with the reason why it is not.
func TestKnownModesAreListed(t *testing.T) {
	modes := map[string]verdict.Mode{}
	for _, m := range diagnose.Modes() {
		modes[m.ID] = m
	}
	known := [][]string{
		{"L1 port down", "port_down"},
		{"L2 device vanished", "device_gone"},
		{"L3 link flaps", "link_flapping"},
		{"L4 rate degraded", "rate_degraded"},
		{"L5 post-FEC errors", "post_fec_errors"},
		{"L6 pre-FEC trend", "pre_fec_errors"},
		{"L7 InfiniBand link integrity", "link_integrity"},
		{"L8 PCIe width and speed", "pcie_link_degraded"},
		{"L9 PCIe AER", "pcie_errors"},
		{"L10 NVLink down", "nvlink_down"},
		{"L11 NVLink errors", "nvlink_errors"},
		{"L12 fabric manager, IMEX", "fabric_manager"},
		{"L13 transceiver hot", "module_hot"},
		{"L14 driver or firmware hangs", "driver_hung"},
		{"C1 no routable RoCE v2 GID", "gid_missing"},
		{"C2 GID index pinned", "gid_pinned"},
		{"C3 GID index differs between rails", "gid_pinned"},
		{"C4 GID changed", "gid_changed"},
		{"C5 duplicate address, no route", "duplicate_address"},
		{"C6 PFC", "pfc_wrong"},
		{"C7 trust, DSCP map", "dscp_map_wrong"},
		{"C8 traffic class", "traffic_class_wrong"},
		{"C9 wrong priority", "traffic_on_wrong_priority"},
		{"C10 ECN", "ecn_wrong"},
		{"C11 peer memory, dma-buf", "gpudirect_module"},
		{"C12 GPUDirect distance, level", "gpudirect_distance", "gpudirect_forbidden"},
		{"C13 peermem invalid context", "peermem_refuses"},
		{"C14 ACS, IOMMU", "acs_redirects", "iommu_translates"},
		{"C15 firmware differs", "firmware_mismatch"},
		{"C16 MTU differs", "mtu_mismatch"},
		{"C17 interface and device lists", "socket_interface", "nccl_devices"},
		{"C18 NUMA, rails", "numa_wrong", "nic_shared"},
		{"C19 memlock", "memlock"},
		{"C20 device nodes", "device_node_missing"},
		{"C21 SHARP, NVLS", "offload_unused"},
		{"C22 adaptive routing", "adaptive_routing_wrong"},
		{"C23 unknown variables", "nccl_configuration"},
	}
	found := 0
	for _, row := range known {
		so := true
		for _, id := range row[1:] {
			m, listed := modes[id]
			if !listed {
				t.Errorf("%s: mode %s is not listed", row[0], id)
			}
			so = so && m.Gap == ""
			if m.Gap != "" {
				t.Logf("%s is not found: %s", row[0], m.Gap)
			}
		}
		if so {
			found++
		}
	}
	t.Logf("%d of %d are found", found, len(known))
}

// TestModesNameAlerts: rules may be renamed.
func TestModesNameAlerts(t *testing.T) {
	files, err := filepath.Glob("../../alerts/*.rules.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no rules: %v", err)
	}
	alerts := map[string]bool{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^\s*- alert: (\S+)$`).FindAllSubmatch(text, -1) {
			alerts[string(m[1])] = true
		}
	}
	for _, m := range diagnose.Modes() {
		if m.Alert != "" && !alerts[m.Alert] {
			t.Errorf("mode %s: there is no alert %s", m.ID, m.Alert)
		}
	}
}

// TestRunbooksNameChecks: the page of a topic has a heading for each of its checks, to which links lead, and no page of
// checks is about none.
func TestRunbooksNameChecks(t *testing.T) {
	const pages = "../../alerts/runbooks/check-"
	topics := map[string]bool{}
	for _, c := range slices.Concat(diagnose.Catalogue(), nccl.InsideChecks()) {
		topics[c.Topic] = true
		if text, err := os.ReadFile(pages + c.Topic + ".md"); err != nil || !bytes.Contains(text, []byte("\n### "+c.ID+"\n")) {
			t.Errorf("alerts/runbooks/check-%s.md does not name the check %s: add the heading \"### %s\" below Symptom, and what to do below Fix (%v)", c.Topic, c.ID, c.ID, err)
		}
	}
	names, err := filepath.Glob(pages + "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		topic := strings.TrimSuffix(strings.TrimPrefix(name, pages), ".md")
		for _, m := range regexp.MustCompile("(?m)^### (.*)$").FindAllSubmatch(text, -1) {
			if c := diagnose.Find(string(m[1])); c == nil || c.Topic != topic {
				t.Errorf("alerts/runbooks/check-%s.md names %s, which is no check of that topic: add it to the list of the topic in internal/diagnose, or remove the heading", topic, m[1])
			}
		}
		if !topics[topic] {
			t.Errorf("%s: no check has that topic", name)
		}
	}
}

func TestChecksDocument(t *testing.T) {
	const path = "../../docs/CHECKS.md"
	var b bytes.Buffer
	if err := WriteDocument(&b); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, b.Bytes()) {
		t.Error("docs/CHECKS.md is not of this catalogue: make generate")
	}
	seen := map[string]bool{}
	for line := range strings.Lines(b.String()) {
		if seen[line] && len(line) > 100 {
			t.Errorf("docs/CHECKS.md repeats %q: let the second check refer to the first", line)
		}
		seen[line] = true
	}
}

// A check is the same one whenever it is asked for: what remembers verdicts may go by it. Lists of them are
// the caller's.
func TestChecksAreBuiltOnce(t *testing.T) {
	before := diagnose.Catalogue()
	for i, c := range diagnose.Catalogue() {
		if c != before[i] || diagnose.Find(c.ID) != c {
			t.Errorf("%s is another one each time", c.ID)
		}
	}
	clear(before)
	if slices.Contains(diagnose.Catalogue(), nil) {
		t.Error("callers share a list")
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// titles are the titles in a table of the labels that it shows.
func (p panelModel) titles(label string) []string {
	var all []string
	for _, x := range p.Transformations {
		if title := x.Options.RenameByName[label]; title != "" {
			all = append(all, title)
		}
	}
	return all
}

// linkOf is where the cells of a column lead.
func (p panelModel) linkOf(t *testing.T, title string) string {
	t.Helper()
	for _, o := range p.FieldConfig.Overrides {
		for _, prop := range o.Properties {
			var links []dataLink
			if o.Matcher.Options != title || prop.ID != "links" {
				continue
			}
			if err := json.Unmarshal(prop.Value, &links); err != nil {
				t.Fatal(err)
			}
			return links[0].URL
		}
	}
	return ""
}

// TestDevicesLeadToPorts: each cell with an RDMA device links to its port on the right node, GPUs have the number that
// people use, and a table that ranks rows begins with the worst.
func TestDevicesLeadToPorts(t *testing.T) {
	all, _ := shipped(t)
	n := 0
	for _, m := range all {
		for _, p := range m.flat() {
			where := m.name + "/" + p.Title
			for _, title := range p.titles("device") {
				if where == "port/The port" {
					continue // it is that port
				}
				url := p.linkOf(t, title)
				node := "&${instance:queryparam}&"
				if len(p.titles("instance")) > 0 {
					node = "&var-instance=${__data.fields.Node}&"
				}
				device := "${__value.raw}"
				if n++; !strings.HasPrefix(url, portURL+"?") || !strings.Contains(url, node) || !strings.Contains(url, "var-device="+device+"&${__url_time_range}") {
					t.Errorf("%s: %s leads to %q, want the port of %s", where, title, url, node)
				}
			}
			if len(p.titles("uuid")) > 0 {
				t.Errorf("%s: GPUs by UUID", where)
			}
			if p.Type == "table" && strings.Contains(p.Targets[0].Expr, `"`+order+`"`) {
				ids := []string{}
				for _, x := range p.Transformations {
					ids = append(ids, x.ID)
				}
				if i := slices.Index(ids, "sortBy"); i < 0 || i > slices.Index(ids, "organize") || len(p.Options.SortBy) > 0 && p.Options.SortBy[0].DisplayName != bySeverity {
					t.Errorf("%s: ranked, and not sorted by it: %q", where, ids)
				}
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d columns of devices", n)
	}
}

// TestFindingsLeadToWhatTheyConcern: a finding links to a port only if it is about one; an empty device is none.
func TestFindingsLeadToWhatTheyConcern(t *testing.T) {
	all, _ := shipped(t)
	n := 0
	for _, m := range all {
		for _, p := range m.flat() {
			if url := p.linkOf(t, "Device, GPU or job"); url != "" {
				n++
				if !strings.HasPrefix(url, "/d/gpufabric-${__data.fields."+page+"}?") || !strings.Contains(url, "&${__data.fields."+target+"}&") || strings.Contains(url, "instance") { // a job has other nodes
					t.Errorf("%s/%s leads to %q", m.name, p.Title, url)
				}
			}
		}
	}
	if n != 2 {
		t.Errorf("%d tables of findings", n)
	}
}

// TestRailsLeadToPorts: the link of a cell, whose value is a parameter with the name of a device, has no
// other device; an empty one is none.
func TestRailsLeadToPorts(t *testing.T) {
	all, _ := shipped(t)
	for _, m := range all {
		for _, p := range m.flat() {
			if p.Title != "Rails" {
				continue
			}
			if url := p.linkOf(t, railColumns); !strings.Contains(url, "${__value.raw}&") || strings.Contains(url, "var-device") {
				t.Errorf("%s/%s leads to %q", m.name, p.Title, url)
			}
			return
		}
	}
	t.Error("no panel Rails")
}

// TestSilence: tables of one node say that its exporter does not answer, and not that all is well or switched off.
func TestSilence(t *testing.T) {
	all, _ := shipped(t)
	n := 0
	for _, m := range all {
		if m.name != "node" && m.name != "port" {
			continue
		}
		for _, p := range m.flat() {
			if p.Type != "table" || p.Title == "Open findings" || p.Title == "Firing alerts" { // an alert says so there
				continue
			}
			if n++; !strings.Contains(p.Targets[0].Expr, `"`+exporterIsSilent+`"`) {
				t.Errorf("%s/%s: nothing about a silent exporter", m.name, p.Title)
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d tables", n)
	}
}

// TestHeaderLinksKeep: links between dashboards keep what can be chosen there. All cannot be chosen where one node or
// device is shown at a time.
func TestHeaderLinksKeep(t *testing.T) {
	all, _ := shipped(t)
	one := map[string]int{"fleet": 0, "roce": 0, "jobs": 0, "probes": 0, "ping": 0, "node": 1, "port": 2} // what is one: nothing, the node, the device too
	for _, m := range all {
		for _, l := range m.Links {
			to := strings.TrimPrefix(strings.Split(l.URL, "/")[2], "gpufabric-")
			has := func(name string) bool { return strings.Contains(l.URL, "${"+name+":queryparam}") }
			cluster := has("cluster")
			if one[m.name] > 0 {
				cluster = strings.Contains(l.URL, "&var-cluster=${site}") && !cluster
			}
			instance, device := one[m.name] > 0 || one[to] == 0, one[to] == 0
			if to == "fleet" && one[m.name] > 0 {
				instance, device = false, false // the fleet is more than this node
			}
			if !cluster || has("instance") != instance || has("device") != device {
				t.Errorf("%s to %s: %s: cluster %v, instance %v (want %v), device %v (want %v)", m.name, to, l.URL, cluster, has("instance"), instance, has("device"), device)
			}
		}
	}
}

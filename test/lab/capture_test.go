// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	encoding "encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A capture of this kernel, files and netlink answers, serves elsewhere what the exporter serves here: the same
// series with the same values, and each identifier replaced by the same other one wherever it is.
func testCapture(t *testing.T, _ *exporter) {
	const host, file = "trainer-zurich-0815", "/tmp/capture.tar.gz"
	const only = "--collector.device-include=fakehca_[15]|rxe1|siw0" // all would take a minute here
	undone(t, "hostname "+host, "hostname "+read("/proc/sys/kernel/hostname"))
	write(t, "/etc/nccl.conf", "# of alice@"+host+"\nNCCL_IB_HCA=fakehca\n")
	t.Cleanup(func() { os.Remove("/etc/nccl.conf"); os.Remove(file) })
	setCounters(t, "fakehca_1")
	setCounters(t, "fakehca_5")

	before := calls(t)
	out, err := exec.Command("./gpufabric_exporter", "capture", "--file="+file, only).CombinedOutput()
	took := regexp.MustCompile(`of 4 RDMA devices \(([a-z]+)_1, [a-z]+_5, rxe1, siw0\)`).FindStringSubmatch(string(out))
	if err != nil || took == nil || took[1] == "fakehca" || !strings.Contains(string(out), "Left out: "+took[1]+"_2: excluded by flags.") {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	for kind, n := range calls(t).since(before)["fakehca_2"] {
		if n != 0 {
			t.Errorf("the device that is left out had %d calls of %s", n, kind)
		}
	}
	dir := t.TempDir()
	command(t, "tar -xzf "+file+" -C "+dir)
	hides(t, dir, host)

	live, err := startWith(t, only).scrape()
	if err != nil {
		t.Fatal(err)
	}
	for what, x := range map[string]*exporter{
		"demo": startCommand(t, exporterCommand("./gpufabric_exporter", "demo", "--capture="+file)),
		"paths": startWith(t, "--path.sysfs="+dir+"/sys", "--path.procfs="+dir+"/proc", "--path.rootfs="+dir+"/root",
			"--path.netlink="+dir+"/netlink"),
	} {
		replayed, err := x.scrape()
		if err != nil {
			t.Fatal(err)
		}
		replayed = calledAgain(replayed, took[1], "fakehca")
		if err := alike(captured(live), captured(replayed)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		// Without the answers of netlink there would be neither.
		if err := errors.Join(is(1, "hca_netlink_visible", "device", "fakehca_1")(replayed), is(1, "hca_port_info", "device", "siw0", "netdev", "iw0")(replayed)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	t.Logf("%d series of the kernel and of the capture are alike", len(live))
}

// calledAgain gives devices the name back that a capture replaced, because no driver gives such names.
func calledAgain(s scrape, replacement, name string) scrape {
	s = slices.Clone(s)
	for i := range s {
		if number, ok := strings.CutPrefix(s[i].labels["device"], replacement); ok {
			s[i].labels = maps.Clone(s[i].labels)
			s[i].labels["device"] = name + number
		}
	}
	return s
}

// captured leaves out what comes from configuration space, which holds serial numbers and is not captured, and how many
// facts are unknown therefore.
func captured(s scrape) scrape {
	return slices.DeleteFunc(slices.Clone(s), func(m sample) bool {
		switch m.name {
		case "pcie_max_payload_bytes", "pcie_max_read_request_bytes", "pcie_relaxed_ordering", "pcie_acs_redirect", "exporter_facts_unknown":
			return true
		}
		return false
	})
}

// hides checks that no identifier of this guest is in the files of a capture, in any notation.
func hides(t *testing.T, dir, host string) {
	t.Helper()
	words := []string{host, "zurich", "alice"}
	var raw []string // in netlink's bytes
	address := func(a netip.Addr) {
		small := netip.MustParsePrefix("192.168.0.0/16") // one of these may well become another
		if a = a.Unmap(); !a.IsLoopback() && !a.IsUnspecified() && !small.Contains(a) {
			words = append(words, a.String(), a.StringExpanded(), encoding.EncodeToString(a.AsSlice()))
		}
	}
	macs, _ := filepath.Glob("/sys/class/net/*/address")
	for _, file := range macs {
		if mac := read(file); strings.Trim(mac, "0:") != "" {
			words = append(words, mac, strings.ReplaceAll(mac, ":", ""))
		}
	}
	guids, _ := filepath.Glob(class + "/*/node_guid")
	for _, file := range guids {
		guid := read(file)
		var b []byte
		if _, err := fmt.Sscanf(strings.ReplaceAll(guid, ":", ""), "%x", &b); err != nil {
			t.Fatal(err)
		}
		words = append(words, guid)
		raw = append(raw, encoding.EncodeToString(b))
		slices.Reverse(b)
		raw = append(raw, encoding.EncodeToString(b))
	}
	ports, err := kernelPorts()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ports {
		occupied, _, err := p.gids()
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range occupied {
			address(g.addr)
		}
	}
	if len(guids) != len(ports) || len(words) < 60 {
		t.Fatalf("%d GUIDs, identifiers %q", len(guids), words)
	}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		text := strings.ToLower(string(b))
		for _, secret := range words {
			if filepath.Base(filepath.Dir(path)) != "netlink" && has(text, secret) {
				t.Errorf("%s has %q", path, secret)
			}
		}
		for _, secret := range raw {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q", path, secret)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// has reports whether a word is in a text, and not within a longer address or number.
func has(text, word string) bool {
	const more = "0123456789abcdef:."
	for from := 0; ; from++ {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		from += i
		to := from + len(word)
		if (from == 0 || !strings.Contains(more, text[from-1:from])) && (to == len(text) || !strings.Contains(more, text[to:to+1])) {
			return true
		}
	}
}

// alike: the same series with the same values but for identifiers, of which each always has the same counterpart.
func alike(a, b scrape) error {
	moving := regexp.MustCompile(`duration_seconds$|timestamp_seconds$|^exporter_driver_commands_total$`)
	identifying := []string{"gid", "node_guid", "system_image_guid"}
	type pair struct{ text, value string }
	index := func(s scrape) map[string][]pair {
		all := make(map[string][]pair)
		for _, m := range s {
			if moving.MatchString(m.name) {
				continue
			}
			var hidden []string
			labels := make(map[string]string)
			for name, v := range m.labels {
				if !slices.Contains(identifying, name) {
					labels[name] = v
				}
			}
			for _, name := range identifying {
				hidden = append(hidden, m.labels[name])
			}
			key := fmt.Sprint(m.name, labels)
			all[key] = append(all[key], pair{strings.Join(hidden, " "), fmt.Sprint(m.value)})
		}
		return all
	}
	left, right := index(a), index(b)
	var errs []error
	there, back := make(map[string]string), make(map[string]string)
	for key, was := range left {
		is := right[key]
		if len(was) != 1 || len(is) != 1 {
			errs = append(errs, fmt.Errorf("%s: %v became %v", key, was, is))
			continue
		}
		if was[0].value != is[0].value {
			errs = append(errs, fmt.Errorf("%s: %s became %s", key, was[0].value, is[0].value))
		}
		from, to := strings.Split(was[0].text, " "), strings.Split(is[0].text, " ")
		for i, id := range from {
			if known, ok := there[id]; ok && known != to[i] {
				errs = append(errs, fmt.Errorf("%s: %s became %s, and %s elsewhere", key, id, to[i], known))
			}
			if known, ok := back[to[i]]; ok && known != id {
				errs = append(errs, fmt.Errorf("%s: both %s and %s became %s", key, id, known, to[i]))
			}
			if id == to[i] && id != "" {
				errs = append(errs, fmt.Errorf("%s: %s is as before", key, id))
			}
			there[id], back[to[i]] = to[i], id
		}
	}
	for key, is := range right {
		if left[key] == nil {
			errs = append(errs, fmt.Errorf("new: %s %v", key, is))
		}
	}
	if len(left) < 200 || len(there) < 15 {
		errs = append(errs, fmt.Errorf("only %d series with %d identifiers", len(left), len(there)))
	}
	return errors.Join(errs...)
}

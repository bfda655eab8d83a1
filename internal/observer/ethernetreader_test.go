// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/dcbnl"
	"gpufabric_exporter/internal/host/ethtool"
	"gpufabric_exporter/internal/host/sysfs"
)

// TestRecordings answers from the files of a folder, some of which may be missing.
func TestRecordings(t *testing.T) {
	sys, err := sysfs.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close()
	folder := t.TempDir()
	if r, err := ethernetOf("", sys); r != nil || err != nil {
		t.Errorf("a copy of some sysfs: %v, %v", r, err)
	}
	if r, err := ethernetOf(folder, sys); r != nil || err != nil {
		t.Errorf("no recording of interfaces: %v, %v", r, err)
	}
	if _, err := ethernetOf(filepath.Join(folder, "nosuch"), sys); err == nil {
		t.Error("no error without the folder")
	}
	write := func(file, text string) {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(ethtool.File, `[{"command": "ETHTOOL_MSG_PAUSE_GET", "netdev": "eth0", "answer": "05000300010000000500040000000000"},
		{"command": "ETHTOOL_GSTATS", "netdev": "eth0", "statistics": [{"name": "rx_bytes", "value": 18446744073709551615}]}]`)
	r, err := ethernetOf(folder, sys)
	if err != nil || !r.answers() {
		t.Fatal(r, err)
	}
	for range 2 { // the second time anew
		var q fabric.QoS
		if err := r.ReadQoS("eth0", &q, time.Now()); err == nil || !q.Pause.Value.Receive || q.PFC.Reason != fabric.ReasonGone {
			t.Errorf("%+v, %v", q, err)
		}
		list, err := r.Statistics("eth0", func(string) bool { return true }, time.Now())
		if err != nil || len(list) != 1 || list[0].Value.Value != 1<<64-1 {
			t.Errorf("%v, %v", list, err)
		}
		r.Close()
	}
	write(dcbnl.File, "nonsense")
	if _, err := ethernetOf(folder, sys); err == nil {
		t.Error("no error for a file that is no recording")
	}
}

// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/dcbnl"
	"gpufabric_exporter/internal/host/ethtool"
	"gpufabric_exporter/internal/host/netlink"
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

// A socket that breaks costs the interface that was asked about. The next one gets another, and what was asked stays
// counted.
func TestBrokenSocket(t *testing.T) {
	dials := 0
	r := &ethernetReader{
		asked: fabric.Commands{},
		dialDCB: func() (*dcbnl.Client, error) {
			if dials++; dials > 1 {
				return dcbnl.Replay(nil), nil
			}
			c, err := dcbnl.Dial()
			if err != nil {
				t.Skip(err)
			}
			return c, c.Close()
		},
		openTool: func() (*ethtool.Client, error) {
			return ethtool.Replay([]netlink.Exchange{{Command: "ETHTOOL_MSG_PAUSE_GET", NetDev: "eth0", Answer: []byte{5, 0, 3, 0, 1, 0, 0, 0, 5, 0, 4, 0, 0, 0, 0, 0}}})
		},
	}
	defer r.Close()
	var q fabric.QoS
	if err := r.ReadQoS("eth0", &q, time.Now()); !errors.Is(err, netlink.ErrBroken) || q.PFC.Reason != fabric.ReasonIO || !q.Pause.Value.Receive {
		t.Errorf("%v, %+v", err, q)
	}
	if err := r.ReadQoS("eth1", &q, time.Now()); errors.Is(err, netlink.ErrBroken) || !errors.Is(err, unix.ENODEV) || q.PFC.Reason != fabric.ReasonGone {
		t.Errorf("the next interface: %v, %+v", err, q)
	}
	if n := r.Commands()[fabric.CommandDCB]; dials != 2 || n != 2 {
		t.Errorf("dialled %d times, %d questions; want 2 of each", dials, n)
	}
}

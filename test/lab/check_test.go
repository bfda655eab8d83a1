// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// verdict is what the JSON of check says about one subject.
type verdict struct {
	Check, Status, Device string
	Remedy, Evidence      string
}

// judge returns what the command check finds as this user, and its exit code.
func judge(t *testing.T, uid uint32, args ...string) (found []string, list []verdict, code int) {
	t.Helper()
	cmd := exec.Command("./gpufabric_exporter", append([]string{"check", "--output=json"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	begin := time.Now()
	out, err := cmd.Output()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	t.Logf("check as %d took %s, exit code %d", uid, time.Since(begin).Round(time.Millisecond), cmd.ProcessState.ExitCode())
	var report struct{ Verdicts []verdict }
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, v := range report.Verdicts {
		if v.Status != "ok" {
			found = append(found, fmt.Sprint(v.Check, " ", v.Device, " ", v.Status))
		}
	}
	return found, report.Verdicts, cmd.ProcessState.ExitCode()
}

// The command finds what is broken on a real kernel, and nothing else; the user nobody gets the same result,
// and the metrics of a running exporter say the same.
func testCheck(t *testing.T, _ *exporter) {
	lossless := roceSite(t, "dscp: 26, priority: 3, lossless: true")
	write(t, ncclConf, "NCCL_IB_TC=106\nNCCL_IB_HCA=fakehca_0,fakehca_1\n") // which says that these are for training, and have a link
	const state = "/var/lib/gpufabric_exporter"                             // where it is recorded that the node met what the site expects
	if err := os.MkdirAll(state, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(state) })
	write(t, "/tmp/check.prom", "old\n")
	t.Cleanup(func() { os.Remove("/tmp/check.prom") })
	same := []string{lossless, "--collector.device-include=fakehca_[01]"}
	x := startWith(t, append(same, "--observer.fast-interval=200ms", "--observer.medium-interval=500ms", "--observer.slow-interval=1s")...)
	only := append(same, "--only=port_active", "--only=gid_usable", "--only=roce_pfc", "--only=roce_priority")

	expect := func(what string, code int, want ...string) {
		t.Helper()
		eventually(t, what, func() error {
			for _, uid := range []uint32{0, 65534} {
				found, list, got := judge(t, uid, only...)
				if err := diff(what, want, found); err != nil || got != code || len(list) < 4 {
					return errors.Join(err, fmt.Errorf("as %d: exit code %d, want %d; %+v", uid, got, code, list))
				}
			}
			return nil
		})
	}
	expect("nothing is broken", 0)

	undo := dcb(t, "pfc set dev hca0 prio-pfc all:off 3:on")
	dcb(t, "pfc set dev hca0 prio-pfc all:off")()
	expect("PFC is off", 1, "roce_pfc fakehca_0 failed")
	x.agrees(t, is(1, "check_failed", "check", "roce_pfc", "device", "fakehca_0"), none("check_failed", "check", "roce_pfc", "device", "fakehca_1"))
	_, list, _ := judge(t, 0, only...)
	i := slices.IndexFunc(list, func(v verdict) bool { return v.Status == "failed" })
	if i < 0 || !strings.Contains(list[i].Remedy, "dcb pfc set dev hca0 prio-pfc 3:on") {
		t.Fatalf("no remedy: %+v", list)
	}
	// The remedy is what helps.
	_, line, _ := strings.Cut(list[i].Remedy, "or dcb ")
	line, _, _ = strings.Cut(line, ",")
	setDCB(t, line)
	t.Cleanup(undo)
	expect("the remedy was applied", 0)
	x.agrees(t, is(0, "check_failed", "check", "roce_pfc", "device", ""))

	set(t, debug("fakehca_1", "down"), "1")
	expect("a port is down", 1, "port_active fakehca_1 failed")
	x.agrees(t, is(1, "check_failed", "check", "port_active", "device", "fakehca_1"), is(0, "check_failed", "check", "roce_pfc", "device", ""))

	// The file for node_exporter has it too, readable for everybody and alone.
	if _, _, code := judge(t, 0, append(only, "--textfile=/tmp/check.prom")...); code != 1 {
		t.Errorf("exit code %d", code)
	}
	text := read("/tmp/check.prom")
	if !strings.Contains(text, `gpufabric_check_failed{check="port_active",device="fakehca_1",pci_address="",port="1",severity="critical",uuid=""} 1`) ||
		!strings.Contains(text, "gpufabric_check_timestamp_seconds ") {
		t.Errorf("the file is\n%s", text)
	}
	if left, _ := filepath.Glob("/tmp/.check.prom*"); len(left) > 0 {
		t.Errorf("leaves %v", left)
	}

	// The whole table, for who reads the log.
	out, _ := exec.Command("./gpufabric_exporter", append([]string{"check"}, same...)...).Output()
	t.Logf("\n%s", out)
	write(t, debug("fakehca_1", "down"), "0")
	expect("the port is up again", 0)
}

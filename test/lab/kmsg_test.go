// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"fmt"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// testKernelMessages: without root, the messages of the kernel are for all where kernel.dmesg_restrict is 0,
// and for CAP_SYSLOG where it is 1. Without the capability they are then unknown, and no failure is counted.
func testKernelMessages(t *testing.T, _ *exporter) {
	undone(t, "modprobe aer_inject", "modprobe -r aer_inject")
	address := link(class, onPort(t), "device")
	write(t, "kernel.yml", "kernel: {messages: /dev/kmsg}\n")
	syslog := []uintptr{unix.CAP_SYSLOG}
	for _, c := range []struct {
		restrict string
		caps     []uintptr
		read     bool
	}{{"0", nil, true}, {"0", syslog, true}, {"1", syslog, true}, {"1", nil, false}} {
		t.Run(fmt.Sprintf("dmesg_restrict=%s, %d capabilities", c.restrict, len(c.caps)), func(t *testing.T) {
			set(t, "/proc/sys/kernel/dmesg_restrict", c.restrict)
			cmd := exporterCommand("./gpufabric_exporter", "--config.file=kernel.yml", "--observer.fast-interval=100ms", "--observer.slow-interval=1s")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: c.caps}
			x := startCommand(t, cmd)
			if !c.read {
				x.agrees(t, is(0, "exporter_source_up", "source", "kernel"), is(1, "exporter_source_unknown", "source", "kernel", "reason", "privilege"))
			} else {
				x.agrees(t, is(1, "exporter_source_up", "source", "kernel")) // from here on failures count
			}
			inject(t, address, 1<<0, 0) // receiver error
			if c.read {
				x.agrees(t, is(1, "log_failures_total", "source", "kernel", "signature", "aer_corrected"))
				return
			}
			x.agrees(t, is(0, "exporter_source_up", "source", "kernel"), func(s scrape) error {
				if found := s.find("log_failures_total", "source", "kernel"); len(found) > 0 {
					return fmt.Errorf("failures are counted: %v", found)
				}
				return nil
			})
		})
	}
}

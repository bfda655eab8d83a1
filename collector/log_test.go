// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Each signature of a source that is read has a count, 0 included, in its source only; what is not read has no series.
func TestLog(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	set, err := NewSet([]string{"log"})
	if err != nil {
		t.Fatal(err)
	}
	n := &fabric.Node{
		Policy: &fabric.Policy{},
		Logs: fabric.Known(fabric.LogReading{
			Failures: fabric.Failures{{ID: "completion_retry_exceeded", Count: 2, Last: at}}, Skipped: 7, Refused: map[fabric.Refusal]int{fabric.RefusedTooMany: 3},
			Files: []fabric.LogFile{{Transport: fabric.LogTCP}, {Transport: fabric.LogGDR, Setup: 90 * time.Second}, {Transport: fabric.LogGDR, Setup: 1500 * time.Millisecond}},
		}, "logs", at),
		Kernel: fabric.Known(fabric.KernelReading{Failures: fabric.Failures{{ID: "xid_fallen_off", Last: at}}, Lost: 1}, "kernel", at),
	}
	got := withoutHelp(text(t, set.Gather(n, ConfigState{})))
	for _, want := range []string{
		`gpufabric_log_failures_total{kind="cause",signature="completion_retry_exceeded",source="job"} 2`,
		`gpufabric_log_failures_total{kind="consequence",signature="gloo_timeout",source="job"} 0`,
		`gpufabric_log_failures_total{kind="cause",signature="xid_fallen_off",source="kernel"} 0`,
		`gpufabric_log_failure_last_seen_timestamp_seconds{kind="cause",signature="xid_fallen_off",source="kernel"} 1.7e+09`,
		`gpufabric_log_files{transport="gdr"} 2`, `gpufabric_log_files{transport="tcp"} 1`, `gpufabric_log_files{transport="other"} 0`,
		`gpufabric_log_files_refused{reason="too_many"} 3`, `gpufabric_log_skipped_bytes_total 7`, `gpufabric_log_communicator_setup_seconds 90`, `gpufabric_log_kernel_messages_lost_total 1`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("lacks %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, `signature="xid_fallen_off",source="job"`) || strings.Count(got, "last_seen_timestamp_seconds{") != 2 {
		t.Errorf("more than was seen:\n%s", got)
	}
	unread := &fabric.Node{Policy: &fabric.Policy{}}
	if got = withoutHelp(text(t, set.Gather(unread, ConfigState{}))); strings.Contains(got, "gpufabric_log_") || !strings.Contains(got, `gpufabric_scrape_collector_supported{collector="log"} 0`) {
		t.Errorf("nothing is read, and yet\n%s", got)
	}
}

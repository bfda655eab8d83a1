// SPDX-License-Identifier: Apache-2.0

package inspector

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// marker is the line that begins the records of a communicator in a stream of v4.2 to v4.4.
func marker(version string, communicator, nodes, records int) string {
	return fmt.Sprintf(`{"header":{"id":"0x%x","rank":3,"n_ranks":16,"nnodes":%d},"metadata":{"inspector_output_format_version":"%s","git_rev":"","hostname":"node1","pid":4242},"dump_stats":{"coll_records":%d,"coll_dropped_total":7,"coll_dropped_since_last_dump":0,"p2p_records":0,"p2p_dropped_total":0,"p2p_dropped_since_last_dump":0}}`+"\n",
		0x5eed0000+communicator, nodes, version, records)
}

// bare is a record of v4.3 and v4.4, whose header is that of the marker.
func bare(collective string, n uint64, bandwidth float64, duration uint64) string {
	return fmt.Sprintf(`{"coll_perf":{"coll":"%s","coll_algo":"RING","coll_proto":"LL","coll_sn":%d,"coll_msg_size_bytes":268435456,"coll_exec_time_us":%d,"coll_algobw_gbs":1.000000,"coll_busbw_gbs":%f}}`+"\n",
		collective, n, duration, bandwidth)
}

const proxyLine = `{"proxy_trace":{"record_type":"proxy_op_start","proxy_op_sn":12,"is_final":false,"event_trace_ts":{"proxy_op_start_ts":100}}}` + "\n"

// Records belong to the communicator of the marker before them, also where that was read before.
func TestMarkers(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		before, after   string
		samples, totals []string
	}{
		"v4.2": {
			marker("v4.2", 1, 2, 1) + coll30(1, "AllReduce", 5, 1<<28, 100, 1_000_000), coll30(1, "AllReduce", 6, 1<<28, 100, 1_000_000),
			[]string{"AllReduce from_256MiB nodes 100 GB/s 1s"},
			[]string{"AllReduce 2 recorded 2 launched 2 s"},
		},
		"v4.4": {
			marker("v4.4", 1, 1, 2) + bare("AllReduce", 5, 100, 1_000_000) + proxyLine, bare("AllReduce", 6, 100, 1_000_000) + marker("v4.4", 2, 2, 1) + bare("AllGather", 9, 50, 500_000),
			[]string{"AllGather from_256MiB nodes 50 GB/s 500ms", "AllReduce from_256MiB node 100 GB/s 1s"},
			[]string{"AllGather 1 recorded 1 launched 0.5 s", "AllReduce 2 recorded 2 launched 2 s"},
		},
		"without a marker": {bare("AllReduce", 5, 100, 1_000_000), marker("v4.3", 1, 2, 0), nil, nil},
		"odd lines": {
			"Traceback\n" + marker("v4.3", 1, 2, 2) + "{\"coll_perf\":{}}\n[[[\n" + bare("Reduce", 5, 100, 1_000_000), "\x00\x1b[2J\n" + bare("Reduce", 6, 100, 1_000_000),
			[]string{"Reduce from_256MiB nodes 100 GB/s 1s"},
			[]string{"Reduce 2 recorded 2 launched 2 s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &appended{}
			for _, text := range []string{c.before, c.before + c.after} {
				if refused, err := a.read(strings.NewReader(text), int64(len(text)), maxAppended, now); refused != "" || err != nil {
					t.Fatalf("refused %q, %v", refused, err)
				}
			}
			samples, totals := a.samples(now)
			if got := show(samples); !slices.Equal(got, c.samples) {
				t.Errorf("got %q, want %q", got, c.samples)
			}
			if got := showTotals(totals); !slices.Equal(got, c.totals) {
				t.Errorf("got %q, want %q", got, c.totals)
			}
		})
	}
}

// A sample of a large file has the records behind a marker alone.
func TestMarkersInSample(t *testing.T) {
	text := strings.Repeat(marker("v4.4", 1, 2, 8)+strings.Repeat(bare("AllReduce", 5, 100, 1_000), 8), 500)
	a := &appended{}
	now := time.Now()
	for _, size := range []int{len(text) / 500, len(text)} {
		if refused, err := a.read(strings.NewReader(text), int64(size), maxAppended, now); refused != "" || err != nil {
			t.Fatalf("refused %q, %v", refused, err)
		}
	}
	_, totals := a.samples(now)
	if len(totals) != 1 || totals[0].Recorded < 3600 || totals[0].Recorded > 4600 {
		t.Errorf("4000 records: %+v", totals)
	}
}

// Counters of Inspector have no kind, and an odd line costs itself alone.
func TestCountersOfInspector(t *testing.T) {
	const counters = `nccl_collectives_total{version="v5.1",slurm_job_id="7",node="node1",gpu="GPU0"} 412` + "\n" +
		`nccl_collectives_dropped_total{version="v5.1",slurm_job_id="7",node="node1",gpu="GPU0"} 0` + "\n" +
		`nccl_p2p_total{version="v5.1",slurm_job_id="7",node="node1",gpu="GPU0"} 0` + "\n"
	good := metricsOf30("AllReduce", "1-2MB", "a", 2, 100, 10)
	for name, c := range map[string]struct {
		text    string
		want    []string
		refused bool
	}{
		"counters":       {counters + good, []string{"AllReduce 1MiB_to_16MiB nodes 100 GB/s 10µs"}, false},
		"counters alone": {counters, nil, false},
		"odd lines":      {"oops\n" + good + "nccl_bus_bandwidth_gbs{collective=\"AllReduce\"} 1\n# HELP a b\n", []string{"AllReduce 1MiB_to_16MiB nodes 100 GB/s 10µs"}, false},
		"odd alone":      {"oops\n", nil, true},
	} {
		dir, now := t.TempDir(), time.Now()
		write(t, filepath.Join(dir, metricsFile), c.text, now.Add(-time.Minute))
		reading := read(t, start(dir), now)
		var got []string
		for _, f := range reading.Files {
			got = append(got, show(f.Samples)...)
		}
		if !slices.Equal(got, c.want) || (reading.Refused[fabric.RefusedMalformed] > 0) != c.refused {
			t.Errorf("%s: got %q, refused %v", name, got, reading.Refused)
		}
	}
}

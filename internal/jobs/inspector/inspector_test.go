// SPDX-License-Identifier: Apache-2.0

package inspector

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/owned"
)

const (
	uuid        = "5a3d2c10-0000-4000-8000-00000000000a"
	metricsFile = "nccl_inspector_metrics_" + uuid + ".prom"
	logFile     = "node1.example-pid4242.log"
)

// metricsOf30 are lines as tags 2.30.3 to 2.30.7 write them (inspector_prom.cc).
func metricsOf30(collective, size, comm string, nodes int, bandwidth, duration float64) string {
	labels := fmt.Sprintf(`version="v5.1",slurm_job_id="4242",node="node1",gpu="GPU0",comm_name="%s",n_nodes="%d",nranks="16",collective="%s",message_size="%s",algo_proto="RING_SIMPLE"`,
		comm, nodes, collective, size)
	return fmt.Sprintf("nccl_bus_bandwidth_gbs{%s} %.6g\nnccl_collective_exec_time_microseconds{%s} %.6g\n", labels, bandwidth, labels, duration)
}

// metricsOf29 are lines as tags 2.29.3 and 2.29.7 write them.
func metricsOf29(collective, size string, bandwidth, duration float64) string {
	labels := fmt.Sprintf(`comm_id="0x7f8c496ae9f661",hostname="node1",rank="3",slurm_job="train",slurm_job_id="4242",nranks="16",n_nodes="2",gpu_device_id="GPU0",collective="%s",coll_sn="77",timestamp="2026-11-23T02:00:00Z",message_size="%s"`,
		collective, size)
	return fmt.Sprintf("nccl_algorithm_bandwidth_gbs{%s} 1\nnccl_bus_bandwidth_gbs{%s} %.6g\nnccl_collective_exec_time_microseconds{%s} %.6g\n", labels, labels, bandwidth, labels, duration)
}

// record28 is a line as tags 2.28.3 to 2.29.2 write it (json.cc: no blanks).
func record28(collective string, size uint64, bandwidth string, duration uint64) string {
	return fmt.Sprintf(`{"header":{"id":"0x7f8c496ae9f661","rank":3,"n_ranks":16,"nnodes":2},"metadata":{"inspector_output_format_version":"v4.0","git_rev":"","rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":1748030377748202,"hostname":"node1","pid":4242},"coll_perf":{"coll":"%s","coll_sn":1407,"coll_msg_size_bytes":%d,"coll_exec_time_us":%d,"coll_timing_source":"kernel_gpu","coll_algobw_gbs":1.000000,"coll_busbw_gbs":%s}}`+"\n",
		collective, size, duration, bandwidth)
}

// p2p30 is a line of a send as tag 2.30.7 writes it.
func p2p30(operation string, size uint64, bandwidth float64, duration uint64) string {
	return fmt.Sprintf(`{"header":{"id":"0x7f8c496ae9f661","comm_name":"PP \"0\"","rank":3,"n_ranks":2,"nnodes":1},"metadata":{"inspector_output_format_version":"v4.0","pid":4242},"p2p_perf":{"p2p":"%s","p2p_sn":1,"p2p_peer":1,"p2p_msg_size_bytes":%d,"p2p_exec_time_us":%d,"p2p_timing_source":"kernel_gpu","p2p_algobw_gbs":1.000000,"p2p_busbw_gbs":%f}}`+"\n",
		operation, size, duration, bandwidth)
}

// write writes a file that was last changed at that time.
func write(t testing.TB, file, content string, changed time.Time) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, changed, changed); err != nil {
		t.Fatal(err)
	}
}

func start(folder string) *Reader { return New(folder, new(owned.Owners)) }

func read(t testing.TB, r *Reader, now time.Time) fabric.InspectorReading {
	t.Helper()
	reading, err := r.Read(now)
	if err != nil {
		t.Fatal(err)
	}
	return reading
}

// show is a sample in one line, with three digits.
func show(list []fabric.CollectiveSample) []string {
	var out []string
	for _, s := range list {
		scope := "node"
		if s.Nodes {
			scope = "nodes"
		}
		out = append(out, fmt.Sprintf("%s %s %s %.3g GB/s %s", s.Collective, s.Size, scope, s.BusBandwidth/1e9, s.Duration))
	}
	return out
}

// What each release writes is read, and communicators of the same kind are one.
func TestFormats(t *testing.T) {
	for name, c := range map[string]struct {
		file, content string
		want          []string
	}{
		"prometheus, 2.30": {
			metricsFile, metricsOf30("AllReduce", "256-257MB", "DP Group 0", 2, 100, 2000) + metricsOf30("AllReduce", "300-301MB", "DP Group 1", 2, 400, 4000) +
				metricsOf30("AllReduce", "256-257MB", "TP", 1, 450, 500) + metricsOf30("AllGather", "8-9KB", "x", 2, 0.5, 30) + metricsOf30("Invalid", "8-9KB", "x", 2, 0.5, 30),
			[]string{"AllGather under_1MiB nodes 0.5 GB/s 30µs", "AllReduce from_256MiB node 450 GB/s 500µs", "AllReduce from_256MiB nodes 200 GB/s 3ms"},
		},
		"prometheus, 2.29":   {metricsFile, metricsOf29("ReduceScatter", "15.99MB", 180, 90) + metricsOf29("Broadcast", "1023B", 1, 9), []string{"Broadcast under_1MiB nodes 1 GB/s 9µs", "ReduceScatter 1MiB_to_16MiB nodes 180 GB/s 90µs"}},
		"JSON, 2.28":         {logFile, record28("AllReduce", 64<<20, "150.000000", 800) + record28("AllReduce", 64<<20, `"nan"`, 1000), []string{"AllReduce 16MiB_to_256MiB nodes 150 GB/s 900µs"}},
		"JSON, 2.30":         {logFile, p2p30("Send", 512<<20, 40, 12000), []string{"Send from_256MiB node 40 GB/s 12ms"}},
		"half-written line":  {metricsFile, metricsOf30("AllReduce", "1-2MB", "a", 2, 100, 10) + `nccl_bus_bandwidth_gbs{version="v5.1",slurm_jo`, []string{"AllReduce 1MiB_to_16MiB nodes 100 GB/s 10µs"}},
		"half-written value": {metricsFile, metricsOf30("AllReduce", "1-2MB", "a", 2, 100, 10) + strings.TrimSuffix(metricsOf30("AllReduce", "1-2MB", "b", 2, 100, 9000), "000\n"), []string{"AllReduce 1MiB_to_16MiB nodes 100 GB/s 10µs"}},
		"half-written JSON":  {logFile, record28("AllReduce", 1<<20, "3.0", 7) + `{"header":{"id":`, []string{"AllReduce 1MiB_to_16MiB nodes 3 GB/s 7µs"}},
		"nothing measured":   {metricsFile, metricsOf30("AllReduce", "1-2MB", "a", 2, 0, 10), nil},
		"unbelievable":       {metricsFile, metricsOf30("AllReduce", "1-2MB", "a", 2, 1e300, 10) + metricsOf30("AllReduce", "1-2MB", "b", 2, math.Inf(1), math.NaN()), nil},
		"truncated":          {metricsFile, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir, now := t.TempDir(), time.Now()
			write(t, filepath.Join(dir, c.file), c.content, now.Add(-time.Minute))
			reading := read(t, start(dir), now)
			if len(reading.Refused) > 0 {
				t.Errorf("refused %v", reading.Refused)
			}
			var got []string
			for _, f := range reading.Files {
				got = append(got, show(f.Samples)...)
				if (f.GPU == "GPU-"+uuid) == (f.PID == 4242) || f.Owner != uint32(os.Getuid()) {
					t.Errorf("is of %+v", f)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// Only files of Inspector are read; others with such a name are counted.
func TestRefused(t *testing.T) {
	good := metricsOf30("AllReduce", "1-2MB", "a", 2, 100, 10)
	million := "nccl_bus_bandwidth_gbs{" + strings.Repeat(`a="b",`, 1e6) + `collective="AllReduce"} 1` + "\n"
	for name, c := range map[string]struct {
		plant func(dir string) error
		want  fabric.Refusal
	}{
		"link":           {func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, metricsFile)) }, fabric.RefusedNotRegular},
		"FIFO":           {func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, metricsFile), 0o600) }, fabric.RefusedNotRegular},
		"several names":  {func(dir string) error { return twice(dir, good) }, fabric.RefusedNotRegular},
		"million labels": {file(metricsFile, million), fabric.RefusedTooLarge},
		"long line":      {file(metricsFile, million[:3000]+"} 1\n"), fabric.RefusedMalformed},
		"million series": {file(metricsFile, strings.Repeat(good, 1e4)), fabric.RefusedTooLarge},
		"other text":     {file(metricsFile, "root:x:0:0\n"), fabric.RefusedMalformed},
		"open label":     {file(metricsFile, `nccl_bus_bandwidth_gbs{collective="AllReduce} 1`+"\n"), fabric.RefusedMalformed},
		"other metric":   {file(metricsFile, strings.ReplaceAll(good, "nccl_", "node_")), fabric.RefusedMalformed},
		"other JSON":     {file(logFile, `{"header":{}}`+"\n"), fabric.RefusedMalformed},
		"deep JSON":      {file(logFile, strings.Repeat("[", 10_000)+"\n"), fabric.RefusedMalformed},
		"control text":   {file(metricsFile, "nccl_bus\x1b[2J_gbs{collective=\"AllReduce\"} 1\n"), fabric.RefusedMalformed},
		"2^63 nodes":     {file(metricsFile, strings.ReplaceAll(good, `n_nodes="2"`, `n_nodes="9223372036854775808"`)), fabric.RefusedMalformed},
		"elsewhere":      {file("metrics.prom", good), ""},
		"name":           {file("nccl_inspector_metrics_"+uuid+"\n.prom", good), ""},
		"folder":         {func(dir string) error { return os.Mkdir(filepath.Join(dir, metricsFile), 0o700) }, ""},
		"linked folder":  {func(dir string) error { return os.Symlink("/etc", filepath.Join(dir, "4242")) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := c.plant(dir); err != nil {
				t.Fatal(err)
			}
			reading, want := read(t, start(dir), time.Now().Add(5*time.Second)), map[fabric.Refusal]int{}
			if c.want != "" {
				want[c.want] = max(1, strings.Count(name, "several")*2)
			}
			if len(reading.Files) > 0 || !maps.Equal(reading.Refused, want) {
				t.Errorf("read %+v, refused %v, expected %v", reading.Files, reading.Refused, want)
			}
		})
	}
}

func file(name, content string) func(dir string) error {
	return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600) }
}

// twice plants one file under two names.
func twice(dir, content string) error {
	name := filepath.Join(dir, metricsFile)
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		return err
	}
	return os.Link(name, filepath.Join(dir, logFile))
}

// More files than are read are counted, stale ones are none of them, and what a job removed is gone.
func TestFolder(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	job := filepath.Join(dir, "4242")
	if err := os.Mkdir(job, 0o700); err != nil {
		t.Fatal(err)
	}
	good := record28("AllReduce", 1<<20, "3.0", 7)
	for i := range maxFiles + 3 {
		write(t, filepath.Join(dir, fmt.Sprintf("old-pid%d.log", i+1)), good, now.Add(-staleAfter-time.Second))
		write(t, filepath.Join(dir, fmt.Sprintf("ahead-pid%d.log", i+1)), good, now.Add(owned.Ahead+time.Second))
		write(t, filepath.Join(job, fmt.Sprintf("new-pid%d.log", i+1)), good, now.Add(-time.Minute))
	}
	r := start(dir)
	reading := read(t, r, now)
	if len(reading.Files) != maxFiles || reading.Refused[fabric.RefusedTooMany] != 3 {
		t.Errorf("read %d files, refused %v", len(reading.Files), reading.Refused)
	}
	if err := os.RemoveAll(job); err != nil {
		t.Fatal(err)
	}
	if reading = read(t, r, now); len(reading.Files) > 0 || len(r.parsed) > 0 {
		t.Errorf("keeps %d files, %d parsed", len(reading.Files), len(r.parsed))
	}
	if reading, err := start(filepath.Join(dir, "missing")).Read(now); err != nil || len(reading.Files) > 0 {
		t.Errorf("a folder that is missing: %v, %v", reading, err)
	}
	if _, err := start(filepath.Join(dir, "old-pid1.log")).Read(now); err == nil {
		t.Error("lists a file")
	}
}

// A file that did not change is not parsed again, and one that is being written keeps its earlier reading.
func TestUnchanged(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	name := filepath.Join(dir, metricsFile)
	before := metricsOf30("AllReduce", "1-2MB", "a", 2, 100, 10)
	after := strings.ReplaceAll(before, "} 100", "} 200")
	expect := func(r *Reader, now time.Time, want ...string) {
		t.Helper()
		var got []string
		for _, f := range read(t, r, now).Files {
			got = append(got, show(f.Samples)...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, expected %q", got, want)
		}
	}
	const was, is = "AllReduce 1MiB_to_16MiB nodes 100 GB/s 10µs", "AllReduce 1MiB_to_16MiB nodes 200 GB/s 10µs"
	r := start(dir)
	write(t, name, before, now.Add(-time.Minute))
	expect(r, now, was)
	write(t, name, after, now.Add(-time.Minute)) // same length, same time
	expect(r, now, was)
	expect(start(dir), now, is)
	write(t, name, "", now) // truncated, to be written again
	expect(r, now, was)
	expect(start(dir), now)
	write(t, name, after, now)
	expect(r, now.Add(settleAfter), is)
}

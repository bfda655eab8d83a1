// SPDX-License-Identifier: Apache-2.0

package inspector

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Bounds of accepted values, in GB/s: a byte per second, and more than an NVL72 domain has, which is about
// 1,800 for each GPU.
const minBandwidth, maxBandwidth = 1e-9, 1e5

// maxDuration is the largest accepted duration in microseconds: an hour.
const maxDuration = 3.6e9

// kind is the key of samples.
type kind struct {
	collective string
	size       fabric.SizeClass
	nodes      bool
}

// sum is what the samples of one kind add up to.
type sum struct {
	logs       float64 // of the bandwidths in GB/s
	bandwidths int
	duration   float64 // microseconds
	durations  int
}

// sums is bounded: there are only so many kinds.
type sums map[kind]*sum

func (s sums) of(k kind) *sum {
	if s[k] == nil {
		s[k] = new(sum)
	}
	return s[k]
}

// addBandwidth adds GB/s. Inspector writes 0 where nothing was measured.
func (s *sum) addBandwidth(gigabytes float64) {
	if gigabytes >= minBandwidth && gigabytes <= maxBandwidth {
		s.logs, s.bandwidths = s.logs+math.Log(gigabytes), s.bandwidths+1
	}
}

// addDuration adds microseconds, and returns false where they are not accepted.
func (s *sum) addDuration(microseconds float64) bool {
	ok := microseconds > 0 && microseconds <= maxDuration
	if ok {
		s.duration, s.durations = s.duration+microseconds, s.durations+1
	}
	return ok
}

// samples returns the kinds of which both were measured, sorted.
func (s sums) samples() []fabric.CollectiveSample {
	var list []fabric.CollectiveSample
	for k, v := range s {
		if v.bandwidths > 0 && v.durations > 0 {
			list = append(list, fabric.CollectiveSample{
				Collective: k.collective, Size: k.size, Nodes: k.nodes,
				BusBandwidth: math.Round(1e9 * math.Exp(v.logs/float64(v.bandwidths))),
				Duration:     time.Duration(1e3 * v.duration / float64(v.durations)),
			})
		}
	}
	slices.SortFunc(list, func(a, b fabric.CollectiveSample) int {
		return cmp.Or(cmp.Compare(a.Collective, b.Collective), cmp.Compare(a.Size, b.Size), compareBool(a.Nodes, b.Nodes))
	})
	return list
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// parseMetrics reads a file of the Prometheus mode. A last line without an end is left out: it is being
// written. An odd line costs itself alone. False: no line is one that Inspector writes.
func parseMetrics(data []byte) ([]fabric.CollectiveSample, bool) {
	all := sums{}
	odd, fine := false, false
	for {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		if !whole {
			return all.samples(), len(line) <= maxLine && (fine || !odd)
		}
		if data = rest; len(line) > 0 && line[0] != '#' {
			ok := all.addLine(line)
			odd, fine = odd || !ok, fine || ok
		}
	}
}

// addLine adds a line such as nccl_bus_bandwidth_gbs{collective="AllReduce",message_size="4-5GB",n_nodes="2"}
// 178.2, with more labels. It takes no escapes: Inspector writes none. Other metrics of Inspector, such as its
// counters (NCCL_INSPECTOR_PROM_DUMP_STATS), have other labels.
func (s sums) addLine(line []byte) bool {
	if len(line) > maxLine {
		return false
	}
	name, rest, ok := bytes.Cut(line, []byte{'{'})
	end := bytes.LastIndexByte(rest, '}')
	if !ok || end < 0 {
		return false
	}
	l, ok := labelsOf(rest[:end])
	value, numeric := parseFloat(bytes.TrimSpace(rest[end+1:]))
	if !ok || !numeric {
		return false
	}
	add := func(to func(*sum)) bool {
		k, known, ok := l.kind()
		if known {
			to(s.of(k))
		}
		return ok
	}
	switch string(name) {
	case "nccl_bus_bandwidth_gbs", "nccl_p2p_bus_bandwidth_gbs":
		return add(func(of *sum) { of.addBandwidth(value) })
	case "nccl_collective_exec_time_microseconds", "nccl_p2p_exec_time_microseconds":
		return add(func(of *sum) { of.addDuration(value) })
	}
	// a release that is newer than this reader may have more
	return bytes.HasPrefix(name, []byte("nccl_")) && len(bytes.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_")) == 0
}

// labels say what was measured.
type labels struct{ operation, size, nodes []byte }

// labelsOf reads labels. Those that jobs choose, such as comm_name, are passed over. ok: they are labels.
func labelsOf(text []byte) (l labels, ok bool) {
	for len(text) > 0 {
		name, rest, found := bytes.Cut(text, []byte(`="`))
		if !found {
			return l, false
		}
		value, more, found := bytes.Cut(rest, []byte(`",`))
		if !found {
			if value, found = bytes.CutSuffix(rest, []byte{'"'}); !found {
				return l, false
			}
		}
		text = more
		switch string(name) {
		case "collective", "p2p_operation":
			l.operation = value
		case "message_size":
			l.size = value
		case "n_nodes":
			l.nodes = value
		}
	}
	return l, true
}

// kind is the key of what the labels are of. ok: they have a size and a number of nodes. known: and name a kind.
func (l labels) kind() (k kind, known, ok bool) {
	size, ok := parseSize(l.size)
	count, err := strconv.ParseUint(string(l.nodes), 10, 31)
	if !ok || err != nil {
		return k, false, false
	}
	k, known = makeKind(string(l.operation), size, count)
	return k, known, true
}

// makeKind returns false for an operation that is not known, such as "Invalid", which Inspector writes for those.
func makeKind(operation string, size float64, nodes uint64) (kind, bool) {
	i := slices.Index(operations, operation)
	if i < 0 || nodes == 0 {
		return kind{}, false
	}
	return kind{operations[i], fabric.SizeClassOf(size), nodes > 1}, true
}

var operations = fabric.Collectives()

// parseSize reads a size as 2.30 writes it, "4-5GB", of which the lower bound counts, or as 2.29 does,
// "4.25GB". Its units are powers of 1024.
func parseSize(text []byte) (float64, bool) {
	n := bytes.IndexFunc(text, func(c rune) bool { return (c < '0' || c > '9') && c != '.' })
	if n <= 0 {
		return 0, false
	}
	value, ok := parseFloat(text[:n])
	if !ok {
		return 0, false
	}
	unit := text[n:]
	if unit[0] == '-' {
		unit = bytes.TrimLeft(unit[1:], "0123456789")
	}
	i := slices.Index([]string{"B", "KB", "MB", "GB", "TB"}, string(unit))
	if i < 0 {
		return 0, false
	}
	return value * math.Pow(1024, float64(i)), true
}

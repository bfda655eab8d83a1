// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// Change is a difference between two results of a probe, in words.
type Change struct {
	What string `json:"what"` // "NCCL", "path", the name of a setting, "bus bandwidth"
	Old  string `json:"old"`  // empty: a setting that was not there
	New  string `json:"new"`  // likewise
}

// notable is from which difference on a bandwidth counts as another one.
const notable = 0.05

// Changes returns how a result differs from an older one: in what decides on its bandwidth, and in the bandwidth of
// the last measurement, if both made the same and it differs by 5 % or more. What one of them does not know is no
// difference.
func Changes(old, new Result) []Change {
	changes := Differences(old, new)
	a, had := Judged(old)
	b, has := Judged(new)
	if !had || !has || math.Abs(b/a-1) < notable {
		return changes
	}
	before, after := old.Measurements[len(old.Measurements)-1], new.Measurements[len(new.Measurements)-1]
	if before.Op == after.Op && before.Type == after.Type && before.Bytes == after.Bytes && before.Ranks == after.Ranks {
		text := func(v float64) string { return fmt.Sprintf("%.4g GB/s", v/1e9) }
		changes = append(changes, Change{"bus bandwidth", text(a), fmt.Sprintf("%s (%+.0f %%)", text(b), 100*(b/a-1))})
	}
	return changes
}

// Differences are those in what decides on a bandwidth.
func Differences(old, new Result) []Change {
	var changes []Change
	add := func(what, before, after string) {
		if before != after && before != "" && after != "" {
			changes = append(changes, Change{what, before, after})
		}
	}
	add("NCCL", old.NCCL, new.NCCL)
	add("GPU driver", old.Driver, new.Driver)
	add("CUDA", old.CUDA, new.CUDA)
	add("GPUs", strings.Join(old.GPUs, " "), strings.Join(new.GPUs, " "))
	path := func(p Path) string { return string(p) }
	add("path", wordOf(old.Path, path), wordOf(new.Path, path))
	add("network", old.Network, new.Network)
	add("GPUDirect", wordOf(old.GPUDirect, YesNo), wordOf(new.GPUDirect, YesNo))
	add("NVLS", wordOf(old.NVLS, YesNo), wordOf(new.NVLS, YesNo))
	add("SHARP", wordOf(old.SHARP, YesNo), wordOf(new.SHARP, YesNo))
	add("channels", wordOf(old.Channels, strconv.Itoa), wordOf(new.Channels, strconv.Itoa))
	return append(changes, changesOfSettings(old.Settings, new.Settings)...)
}

// wordOf is empty for what is not known.
func wordOf[T any](f Fact[T], word func(T) string) string {
	if f.State == fabric.OK || f.State == fabric.Absent {
		return Word(f, word)
	}
	return ""
}

// changesOfSettings compares NAME=value lists. A probe always has settings of its own, so an empty list is one that is
// not known.
func changesOfSettings(old, new []string) []Change {
	if len(old) == 0 || len(new) == 0 {
		return nil
	}
	before, after := map[string]string{}, map[string]string{}
	var names []string
	for _, list := range []struct {
		settings []string
		values   map[string]string
	}{{old, before}, {new, after}} {
		for _, s := range list.settings {
			name, value, _ := strings.Cut(s, "=")
			list.values[name] = value
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var changes []Change
	for _, name := range slices.Compact(names) {
		a, had := before[name]
		b, has := after[name]
		if had != has || a != b {
			changes = append(changes, Change{name, shown(a, had), shown(b, has)})
		}
	}
	return changes
}

// shown distinguishes an empty setting from a missing one.
func shown(value string, there bool) string {
	if there && value == "" {
		return `""`
	}
	return value
}

// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/simulator"
)

// TestClockThatIsSet makes sure that each time of a reading has what the monotonic clock said, too: by that,
// rates, ages and the order of readings are right when the clock on the wall is set, or after a suspend. It
// cannot be set in a test, so the times are looked at.
func TestClockThatIsSet(t *testing.T) {
	scenario, err := simulator.Find("job-slurm")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := scenario.Build().Materialise(t.TempDir() + "/node")
	if err != nil {
		t.Fatal(err)
	}
	ob, err := New(Options{
		Sysfs: tree.Sysfs(), Procfs: tree.Procfs(), Rootfs: tree.Rootfs(), Ethernet: tree.Ethernet(), GPUs: tree.GPUs(), Ranks: tree.Ranks(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer ob.Close()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	n := ob.Observe(ctx, ^fabric.Want(0)) // everything
	if at := n.At.String(); !strings.Contains(at, " m=") {
		t.Errorf("the node is of %s, which has no monotonic time", at)
	}
	seen, without := 0, map[string]int{}
	walk(reflect.ValueOf(n), "node", func(path string, at time.Time) {
		if at.Before(begin.Add(-time.Minute)) { // such as when the machine booted
			return
		}
		seen++
		if !strings.Contains(at.String(), " m=") {
			without[path]++
		}
	})
	if seen < 1000 {
		t.Errorf("%d times of readings, expected those of all facts", seen)
	}
	for path, n := range without {
		t.Errorf("%s: %d times without what the monotonic clock said", path, n)
	}
}

// walk finds the times in a value.
func walk(v reflect.Value, path string, found func(path string, at time.Time)) {
	if v.IsValid() && v.CanInterface() {
		if at, is := reflect.TypeAssert[time.Time](v); is {
			found(path, at)
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem(), path, found)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				walk(v.Field(i), path+"."+f.Name, found)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			walk(v.Index(i), path+"[]", found)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			walk(v.MapIndex(k), fmt.Sprintf("%s[%v]", path, k), found)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/host/proc"
)

// asked lists the files of procfs that readers ask for, whether they are there or not.
type asked map[string]bool

func (a asked) Begin(p string) error             { a[p] = true; return nil }
func (a asked) Look(string)                      {}
func (a asked) Entry(string, string)             {}
func (a asked) Text(_ string, _ []byte, _ error) {}

// TestProcfsReadersAreCaptured calls each method of proc.FS, and of the readers that these return: a capture
// asks for the same files. TestReplay finds a file that is missing only where it changes a metric of a
// simulated node.
func TestProcfsReadersAreCaptured(t *testing.T) {
	notCaptured := map[string]string{
		"Record": "reads nothing", "Close": "reads nothing", "Starved": "is about this process, at this moment",
		"Initial": "is asked before a probe, of the processes of this moment",
		"Find":    "reads the arguments of processes of users, which stay on the node",
		"Process": "reads processes of users, which stay on the node",
	}
	tree := materialise(t, find(t, "healthy"), nil)
	captured := asked{}
	o := options(tree)
	o.begin = captured.Begin
	take(t, o)

	reader, err := proc.Open(tree.Procfs())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	read := asked{}
	reader.Record(read)
	for readers := []reflect.Value{reflect.ValueOf(reader)}; len(readers) > 0; readers = readers[1:] {
		for i := range readers[0].NumMethod() {
			method, name := readers[0].Method(i), readers[0].Type().Method(i).Name
			if notCaptured[name] != "" {
				delete(notCaptured, name)
				continue
			}
			clear(read)
			var args []reflect.Value
			for in := range method.Type().Ins() {
				if in == reflect.TypeFor[time.Time]() {
					args = append(args, reflect.ValueOf(time.Now()))
				} else {
					args = append(args, reflect.Zero(in))
				}
			}
			results := method.Call(args)
			of := strings.TrimPrefix(readers[0].Type().String(), "*")
			for file := range maps.Keys(read) {
				if !captured[file] {
					t.Errorf("%s.%s reads %s, which a capture does not have: call %s in session.everything of internal/capture/capture.go, "+
						"or say in this test why the file stays on the node", of, name, "/proc/"+file, name)
				}
			}
			for _, r := range results {
				if r.Kind() == reflect.Pointer && strings.HasPrefix(r.Type().String(), "*proc.") {
					readers = append(readers, r)
				} else if len(read) == 0 {
					t.Errorf("%s.%s reads nothing of the simulated node: add its files to internal/simulator/files.go", of, name)
				}
			}
		}
	}
	if len(notCaptured) > 0 {
		t.Errorf("package proc has no methods %q", slices.Sorted(maps.Keys(notCaptured)))
	}
}

// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"
)

// visited counts what Metas yields and complains of a reason other than stuck.
func visited(t *testing.T, metas iter.Seq2[string, Meta]) int {
	t.Helper()
	n := 0
	for name, m := range metas {
		n++
		if m.Reason != ReasonStuck {
			t.Errorf("%s: reason %q, want stuck", name, m.Reason)
		}
	}
	return n
}

// A fact that is added and forgotten in Metas or WithoutFacts would be silent about being unknown.
func TestGPUMetas(t *testing.T) {
	g := GPU{Index: 3, UUID: "GPU-3", Address: "0000:1b:00.0", Name: ok("NVIDIA H100"), NVLinks: ok([]NVLink{{}})}
	unknown := g.WithoutFacts(ReasonStuck, at)
	if got, want := visited(t, unknown.Metas()), countFacts(reflect.TypeFor[GPU]()); got != want {
		t.Errorf("Metas of GPU visits %d facts, there are %d", got, want)
	}
	if unknown.Index != 3 || unknown.UUID != "GPU-3" || unknown.Address != "0000:1b:00.0" {
		t.Errorf("the place is lost: %+v", unknown)
	}

	d := GPUDriver{Released: "maintenance", GPUs: []GPU{g}, P2P: []GPUPair{{A: 0, B: 1}}}
	nothing := d.WithoutFacts(ReasonStuck, at)
	want := countFacts(reflect.TypeFor[GPUDriver]()) + countFacts(reflect.TypeFor[GPUPair]())
	if got := visited(t, nothing.Metas()); got != want {
		t.Errorf("Metas of GPUDriver visits %d facts, there are %d", got, want)
	}
	if len(nothing.GPUs) != 1 || nothing.GPUs[0].Name.Reason != ReasonStuck || nothing.Released != "maintenance" || nothing.P2P[0].B != 1 {
		t.Errorf("%+v", nothing)
	}
}

// What is inside of links and processes counts as soon as there are some.
func TestGPUMetasOfParts(t *testing.T) {
	g := (&GPU{}).WithoutFacts(ReasonStuck, at)
	before := visited(t, g.Metas())
	lost := func(v any) { // makes unknown each fact of a part
		for f, value := range reflect.ValueOf(v).Elem().Fields() {
			if strings.HasPrefix(f.Type.Name(), "Fact[") {
				value.FieldByName("Reason").SetString(string(ReasonStuck))
			}
		}
	}
	link, process, errors := NVLink{}, GPUProcess{}, NVLinkErrors{}
	lost(&link)
	lost(&process)
	lost(&errors)
	link.Errors = []NVLinkErrors{errors}
	g.NVLinks, g.Processes = ok([]NVLink{link}), ok([]GPUProcess{process})
	n := 0
	for _, m := range g.Metas() {
		if m.Reason == ReasonStuck {
			n++
		}
	}
	want := before - 2 + countFacts(reflect.TypeFor[NVLink]()) + countFacts(reflect.TypeFor[GPUProcess]()) + countFacts(reflect.TypeFor[NVLinkErrors]())
	if n != want {
		t.Errorf("Metas visits %d unknown facts of a GPU with a link and a process, want %d", n, want)
	}
	for range g.Metas() { // must be able to stop anywhere
		break
	}
}

func TestGPUDirectMetas(t *testing.T) {
	d := UnknownGPUDirect(ReasonStuck, at)
	if got, want := visited(t, d.Metas()), countFacts(reflect.TypeFor[GPUDirect]()); got != want {
		t.Errorf("Metas visits %d facts, there are %d", got, want)
	}
	stuck := NotKnown[uint64](ReasonStuck, "", time.Time{})
	d.Peermem = ok(Peermem{Version: notKnownLike[string](stuck.Meta()), Bound: notKnownLike[bool](stuck.Meta()), Registered: stuck})
	n := 0
	for _, m := range d.Metas() {
		if m.Reason == ReasonStuck {
			n++
		}
	}
	if want := countFacts(reflect.TypeFor[GPUDirect]()) - 1 + countFacts(reflect.TypeFor[Peermem]()); n != want {
		t.Errorf("Metas visits %d unknown facts of a loaded module, want %d", n, want)
	}
}

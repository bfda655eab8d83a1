// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"iter"
	"reflect"
	"regexp"
	"slices"
	"testing"
)

// found is a fact that the tests find by a way of their own: through everything that Go can put facts in.
type found struct {
	path string
	fact reflect.Value
	tags []string // of the fields that lead to it
	in   bool     // it is inside the value of another fact
}

func (f found) set(s State, r Reason) {
	f.fact.FieldByName("State").SetUint(uint64(s))
	f.fact.FieldByName("Reason").SetString(string(r))
}

func (f found) reason() Reason { return Reason(f.fact.FieldByName("Reason").String()) }

// counted reports whether Unknowns counts the fact while it is unknown.
func (f found) counted() bool {
	return !slices.ContainsFunc(f.tags, func(t string) bool { return t == tagDerived || t == tagEarlier || t == tagApart })
}

func (f found) tag() string { return f.tags[len(f.tags)-1] }

// factsIn finds all facts below v.
func factsIn(v reflect.Value, at found) []found {
	var list []found
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			list = factsIn(v.Elem(), at)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			to := at
			to.path += fmt.Sprintf("[%d]", i)
			list = append(list, factsIn(v.Index(i), to)...)
		}
	case reflect.Struct:
		if isFact(v.Type()) {
			at.fact = v
			inner := at
			inner.in = true
			return append([]found{at}, factsIn(v.FieldByName("Value"), inner)...)
		}
		for f, field := range v.Fields() {
			if f.IsExported() {
				list = append(list, factsIn(field, found{path: at.path + "." + f.Name, tags: append(slices.Clip(at.tags), f.Tag.Get("fact")), in: at.in})...)
			}
		}
	}
	return list
}

// hideable are the facts of one field, of all elements of the lists that lead to it.
type hideable struct {
	path  string
	facts []reflect.Value
}

var indices = regexp.MustCompile(`\[\d+\]`)

// hideables are the facts of part, by field.
func hideables[T any](part *T) []hideable {
	var list []hideable
	for _, f := range factsIn(reflect.ValueOf(part).Elem(), found{}) {
		path := indices.ReplaceAllString(f.path, "")
		i := slices.IndexFunc(list, func(h hideable) bool { return h.path == path })
		if i < 0 {
			list, i = append(list, hideable{path: path}), len(list)
		}
		list[i].facts = append(list[i].facts, f.fact)
	}
	return list
}

// hide makes the facts unknown, and returns what undoes it.
func (h hideable) hide(r Reason) (show func()) {
	var was []reflect.Value
	for _, f := range h.facts {
		was = append(was, reflect.New(f.Type()).Elem())
		was[len(was)-1].Set(f)
		f.Addr().Interface().(hider).hide(Meta{Reason: r, At: at})
	}
	return func() {
		for i, f := range h.facts {
			f.Set(was[i])
		}
	}
}

// fill gives all facts below v a value: lists have two elements.
func fill(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.Struct {
			t.Fatalf("%s: a walk does not look into maps", v.Type())
		}
	case reflect.Pointer:
		if v.Type().Elem().PkgPath() == reflect.TypeFor[Meta]().PkgPath() {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Struct:
		if isFact(v.Type()) {
			v.FieldByName("State").SetUint(uint64(OK))
			fill(t, v.FieldByName("Value"))
			return
		}
		for f, field := range v.Fields() {
			if f.IsExported() {
				fill(t, field)
			}
		}
	}
}

// filled returns a part of a node of which everything is known, and its facts.
func filled[T any](t *testing.T) (*T, []found) {
	part := new(T)
	fill(t, reflect.ValueOf(part).Elem())
	return part, factsIn(reflect.ValueOf(part).Elem(), found{})
}

// testUnknowns makes one fact after the other unknown: Unknowns has each that is read, and nothing else.
func testUnknowns[T any](t *testing.T, of func(*T) iter.Seq2[string, Reason]) {
	part, facts := filled[T](t)
	for _, f := range facts {
		f.set(Unknown, ReasonStuck)
		var got []Reason
		for _, r := range of(part) {
			got = append(got, r)
		}
		if want := f.counted(); want != slices.Equal(got, []Reason{ReasonStuck}) || !want && got != nil {
			t.Errorf("%T%s: Unknowns has %v", *part, f.path, got)
		}
		f.set(OK, "")
	}
	if f := facts[0]; f.counted() {
		f.set(Unknown, "")
		for _, r := range of(part) {
			if r != ReasonNotRead {
				t.Errorf("%T: a fact that was not read is unknown: %s", *part, r)
			}
			break
		}
	}
}

// testWithoutFacts hides the facts of a part that is known. They are all unknown; what is not a fact stays, and so does
// the part itself, which others may be reading.
func testWithoutFacts[T any](t *testing.T, without func(*T) T) {
	part, facts := filled[T](t)
	got := without(part)
	for _, f := range factsIn(reflect.ValueOf(&got).Elem(), found{}) {
		if !f.in && f.reason() != ReasonStuck {
			t.Errorf("%T%s is %s (%s), want unknown (stuck)", got, f.path, State(f.fact.FieldByName("State").Uint()), f.reason())
		}
	}
	for _, f := range facts {
		if f.reason() != "" {
			t.Fatalf("%T%s: the part itself was changed", got, f.path)
		}
	}
	for f, field := range reflect.ValueOf(got).Fields() {
		if f.Type.Kind() == reflect.String && field.String() != "x" || f.Type.Kind() == reflect.Slice && field.Len() != 2 {
			t.Errorf("%T.%s is lost", got, f.Name)
		}
	}
}

// A new field that is unknown must be counted as unknown.
func TestUnknownsHasEveryFactThatIsRead(t *testing.T) {
	testUnknowns(t, (*HCA).Unknowns)
	testUnknowns(t, (*PCIFunction).Unknowns)
	testUnknowns(t, (*GPUDriver).Unknowns)
	testUnknowns(t, (*GPU).Unknowns)
	testUnknowns(t, (*GPUDirect).Unknowns)
}

func TestUnknownsOfNothing(t *testing.T) {
	count := func(facts iter.Seq2[string, Reason]) (n int) {
		for range facts {
			n++
		}
		return n
	}
	var h HCA
	if n := count(h.Unknowns()); n != 14 {
		t.Errorf("%d unknown facts of a device of which only the name is known, want 14", n)
	}
	g := GPU{NVLinks: AbsentFact[[]NVLink]("", at), Processes: ok([]GPUProcess{{}, {}})}
	if n := count(g.Unknowns()); n != 17+2 {
		t.Errorf("%d unknown facts of a GPU without NVLinks, want 17, and the memory of two processes", n)
	}
}

func TestWithoutFactsHidesEveryFact(t *testing.T) {
	testWithoutFacts(t, func(h *HCA) HCA { return h.WithoutFacts(ReasonStuck, at) })
	testWithoutFacts(t, func(f *PCIFunction) PCIFunction { return f.WithoutFacts(ReasonStuck, at) })
	testWithoutFacts(t, func(d *GPUDriver) GPUDriver { return d.WithoutFacts(ReasonStuck, at) })
	testWithoutFacts(t, func(g *GPU) GPU { return g.WithoutFacts(ReasonStuck, at) })
	testWithoutFacts(t, func(*GPUDirect) GPUDirect { return UnknownGPUDirect(ReasonStuck, at) })
	testWithoutFacts(t, func(*PCIConfig) PCIConfig { return UnknownPCIConfig(ReasonStuck, "config", at) })
	testWithoutFacts(t, func(d *NetDev) NetDev { return UnknownNetDev(d.Name, ReasonStuck, at) })
}

// Of a device in another network namespace what cannot change is known, and nothing else.
func TestElsewhereKeepsTheIdentity(t *testing.T) {
	h, _ := filled[HCA](t)
	got := h.Elsewhere(at)
	kept := 0
	for _, f := range factsIn(reflect.ValueOf(&got).Elem(), found{}) {
		known := f.reason() == ""
		if known != (f.tag() == tagIdentity) || !known && f.reason() != ReasonMoved {
			t.Errorf("%s: reason %q", f.path, f.reason())
		}
		if known {
			kept++
		}
	}
	if want := 12 + 2; kept != want || !got.Moved || got.Name != "x" || h.Ports[0].State.State != OK {
		t.Errorf("%d facts are known, want %d: %+v", kept, want, got)
	}
}

func TestForgetAnswers(t *testing.T) {
	q, facts := filled[QoS](t)
	q.ForgetAnswers(ReasonRTNLStuck, at)
	for _, f := range facts {
		if !f.in && (f.reason() == ReasonRTNLStuck) != (f.tag() == tagAnswer) {
			t.Errorf("%s: reason %q", f.path, f.reason())
		}
	}
}

// A tag that is misspelt would make an ordinary fact of what is none.
func TestTags(t *testing.T) {
	n, _ := filled[Node](t)
	for _, f := range factsIn(reflect.ValueOf(n).Elem(), found{}) {
		for _, tag := range f.tags {
			if !slices.Contains([]string{"", tagIdentity, tagAnswer, tagDerived, tagEarlier, tagApart}, tag) {
				t.Errorf("%s: there is no tag %q", f.path, tag)
			}
		}
	}
}

// BenchmarkUnknowns walks what every scrape walks for facts_unknown: an RDMA device, its PCI function and a GPU with 18
// NVLinks, of which nearly everything is known.
func BenchmarkUnknowns(b *testing.B) {
	t := &testing.T{}
	h, _ := filled[HCA](t)
	h.Ports = h.Ports[:1]
	f, _ := filled[PCIFunction](t)
	g, _ := filled[GPU](t)
	for len(g.NVLinks.Value) < 18 {
		g.NVLinks.Value = append(g.NVLinks.Value, g.NVLinks.Value[0])
	}
	h.Netlink, f.Driver, g.Fabric = Fact[bool]{}, Fact[string]{}, Fact[GPUFabric]{}
	for name, facts := range map[string]iter.Seq2[string, Reason]{"device": h.Unknowns(), "function": f.Unknowns(), "GPU": g.Unknowns()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for range facts {
				}
			}
		})
	}
}

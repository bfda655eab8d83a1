// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"iter"
	"reflect"
	"slices"
	"strings"
)

// Tags of fields, as in `fact:"derived"`. A field without a tag is an ordinary fact: read, counted while it
// is unknown, and unknown when its device does not answer.
const (
	tagIdentity = "identity" // cannot change while a driver has the device: known of devices in other network namespaces
	tagAnswer   = "answer"   // what the driver of a network interface answers, not a file
	tagDerived  = "derived"  // follows from other facts
	tagEarlier  = "earlier"  // the reading before the last
	tagApart    = "apart"    // not counted with what it is part of: GPUs of the driver, single counters
)

// walk leads to every fact in a T: in its fields, in structs and slices of structs below them, and in the
// values of facts. It is made from the type, once, so that a new field needs no line in a list of fields.
// Facts behind pointers, in maps and in arrays are not found; a test fails when there are any.
type walk[T any] struct {
	all  []step
	read []step // without what is derived, earlier or apart
}

// step is a field that is a fact, or that has facts in it.
type step struct {
	field int // its index
	name  string
	fact  bool
	tag   string
	list  bool   // inner belongs to the elements of a slice
	inner []step // of the field or, if it is a fact, of its value
}

func walkOf[T any]() walk[T] {
	t := reflect.TypeFor[T]()
	return walk[T]{all: stepsOf(t), read: stepsOf(t, tagDerived, tagEarlier, tagApart)}
}

func stepsOf(t reflect.Type, without ...string) []step {
	var steps []step
	for i := range t.NumField() {
		f := t.Field(i)
		s := step{field: i, name: f.Name, fact: isFact(f.Type), tag: f.Tag.Get("fact")}
		if slices.Contains(without, s.tag) {
			continue
		}
		inner := f.Type
		if s.fact {
			inner = inner.Field(factValue).Type
		}
		if s.list = inner.Kind() == reflect.Slice; s.list {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner.PkgPath() == t.PkgPath() {
			s.inner = stepsOf(inner, without...)
		}
		if s.fact || s.inner != nil {
			steps = append(steps, s)
		}
	}
	return steps
}

func isFact(t reflect.Type) bool {
	return t.PkgPath() == reflect.TypeFor[Meta]().PkgPath() && strings.HasPrefix(t.Name(), "Fact[")
}

// Indices of the fields of a Fact.
const (
	factValue  = 0
	factState  = 1
	factReason = 2
)

// unknowns iterates over the facts that are read and unknown: the name of the field and the reason.
func (w walk[T]) unknowns(part *T) iter.Seq2[string, Reason] {
	return func(yield func(string, Reason) bool) { unknowns(w.read, reflect.ValueOf(part).Elem(), yield) }
}

// unknowns is part of every scrape: it looks at fields in place and makes no Meta of what is known.
func unknowns(steps []step, v reflect.Value, yield func(string, Reason) bool) bool {
	for i := range steps {
		s := &steps[i]
		f := v.Field(s.field)
		if s.fact {
			state := State(f.Field(factState).Uint()) //nolint:gosec // a State
			if state == Unknown && !yield(s.name, cmp.Or(Reason(f.Field(factReason).String()), ReasonNotRead)) {
				return false
			}
			if state != OK || s.inner == nil {
				continue
			}
			f = f.Field(factValue)
		}
		if !s.list {
			if !unknowns(s.inner, f, yield) {
				return false
			}
			continue
		}
		for k := range f.Len() {
			if !unknowns(s.inner, f.Index(k), yield) {
				return false
			}
		}
	}
	return true
}

// hide makes the facts whose tag is chosen unknown as m says. Everything else stays.
func (w walk[T]) hide(part *T, m Meta, chosen func(tag string) bool) {
	hide(w.all, reflect.ValueOf(part).Elem(), m, chosen)
}

// without returns a copy of part in which every fact is unknown as m says.
func (w walk[T]) without(part T, m Meta) T {
	w.hide(&part, m, func(string) bool { return true })
	return part
}

func hide(steps []step, v reflect.Value, m Meta, chosen func(tag string) bool) {
	for i := range steps {
		s, f := &steps[i], v.Field(steps[i].field)
		switch {
		case s.fact && chosen(s.tag):
			f.Addr().Interface().(hider).hide(m)
		case s.fact:
		case !s.list:
			hide(s.inner, f, m, chosen)
		case f.Len() > 0: // the elements belong to others too
			own := reflect.MakeSlice(f.Type(), f.Len(), f.Len())
			reflect.Copy(own, f)
			for k := range own.Len() {
				hide(s.inner, own.Index(k), m, chosen)
			}
			f.Set(own)
		}
	}
}

// hider is a *Fact of any type.
type hider interface{ hide(m Meta) }

func (f *Fact[T]) hide(m Meta) { *f = Fact[T]{Reason: m.Reason, Source: m.Source, At: m.At} }

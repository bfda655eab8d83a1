// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"fmt"

	"gpufabric_exporter/internal/fabric"
)

// Fact is a fact of the node as documents have it: its value only where it is known, else why not.
type Fact[T any] struct{ fabric.Fact[T] }

// Unknown reports whether the fact could not be read.
func (f Fact[T]) Unknown() bool { return f.State == fabric.Unknown }

// Text is the value, or absent or unknown.
func (f Fact[T]) Text() string {
	if v, known := f.Get(); known {
		return fmt.Sprint(v)
	}
	return f.State.String()
}

// MarshalJSON implements json.Marshaler.
func (f Fact[T]) MarshalJSON() ([]byte, error) {
	m := f.Meta()
	to := struct {
		State  string        `json:"state"`            // ok, absent or unknown
		Value  *T            `json:"value,omitempty"`  // missing unless state is ok
		Reason fabric.Reason `json:"reason,omitempty"` // why it is unknown
		Source string        `json:"source,omitempty"` // file or netlink attribute
	}{State: m.State.String(), Reason: m.Reason, Source: m.Source}
	if v, known := f.Get(); known {
		to.Value = &v
	}
	return json.Marshal(to)
}

func factOf[T any](f fabric.Fact[T]) Fact[T] { return Fact[T]{f} }

// mapped converts a fact and its value.
func mapped[T, U any](f fabric.Fact[T], as func(T) U) Fact[U] {
	to := Fact[U]{fabric.Fact[U]{State: f.State, Reason: f.Reason, Source: f.Source, At: f.At}}
	if v, ok := f.Get(); ok {
		to.Value = as(v)
	}
	return to
}

// worded is a fact whose value is a word.
func worded[T ~string](f fabric.Fact[T]) Fact[string] {
	return mapped(f, func(v T) string { return string(v) })
}

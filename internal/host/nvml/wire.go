// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// wire goes over a message, writing values to it or reading them from it. After an error it does nothing any more.
// Methods that return a bool report whether the value that was read is valid.
type wire struct {
	buf    []byte
	at     int
	decode bool
	tier   tier
	now    time.Time
	err    error
}

// fail ends the walk: the message itself is damaged, not just one value in it.
func (w *wire) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fabric.Because(fabric.ReasonMalformed, fmt.Sprintf("nvml: message at byte %d: ", w.at)+fmt.Sprintf(format,
			args...))
	}
}

func (w *wire) byte(v *byte) {
	switch {
	case w.err != nil:
	case !w.decode:
		w.buf = append(w.buf, *v)
	case w.at >= len(w.buf):
		w.fail("ends early")
	default:
		*v = w.buf[w.at]
		w.at++
	}
}

func (w *wire) uint(v *uint64) bool {
	switch {
	case w.err != nil:
		return false
	case !w.decode:
		w.buf = binary.AppendUvarint(w.buf, *v)
		return true
	}
	u, n := binary.Uvarint(w.buf[w.at:])
	if n <= 0 {
		w.fail("no number")
		return false
	}
	*v = u
	w.at += n
	return true
}

// int is for values from 0 to limit.
func (w *wire) int(v *int, limit int) bool {
	u := uint64(max(*v, 0))
	if !w.decode && *v < 0 {
		u = math.MaxUint64 // which no reader takes for a value
	}
	ok := w.uint(&u)
	if w.decode && ok && u <= uint64(limit) {
		*v = int(u)
		return true
	}
	return !w.decode
}

// count is the length of a list. A length that cannot be ends the walk, before anything is allocated.
func (w *wire) count(n, limit int) int {
	u := uint64(n)
	w.uint(&u)
	if w.decode && w.err == nil && u > uint64(min(limit, len(w.buf)-w.at)) {
		w.fail("a list of %d, expected %d at most", u, limit)
	}
	if w.err != nil {
		return 0
	}
	return int(u)
}

// text is printable ASCII without quotes: it ends up in label values.
func (w *wire) text(v *string, limit int) bool {
	n := w.count(len(*v), 1<<16)
	if w.err != nil {
		return false
	}
	if !w.decode {
		w.buf = append(w.buf, *v...)
		return true
	}
	raw := w.buf[w.at : w.at+n]
	w.at += n
	if n == 0 || n > limit || slices.ContainsFunc(raw,
		func(c byte) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' }) {
		return false
	}
	*v = string(raw)
	return true
}

func (w *wire) bool(v *bool) bool {
	var b byte
	if *v {
		b = 1
	}
	w.byte(&b)
	*v = b == 1
	return b <= 1
}

func (w *wire) version() {
	v := byte(version)
	w.byte(&v)
	if w.err == nil && v != version {
		w.fail("version %d, expected %d", v, version)
	}
}

// enum is a value of a table. One that is not in it can be written, and is distinct from all others when it is read.
func enum[T comparable](w *wire, v *T, table []T) bool {
	b := byte(slices.Index(table, *v)) // 255: not in it
	w.byte(&b)
	if w.decode && w.err == nil && int(b) < len(table) {
		*v = table[b]
		return true
	}
	return !w.decode
}

// reasons are those that the server gives, in the order of the wire.
var reasons = []fabric.Reason{
	fabric.ReasonNotRead, fabric.ReasonMissing, fabric.ReasonPrivilege, fabric.ReasonUnsupported, fabric.ReasonIO,
	fabric.ReasonMalformed, fabric.ReasonGone, fabric.ReasonPanic,
}

func (w *wire) reason(r *fabric.Reason) {
	if !enum(w, r, reasons) {
		*r = fabric.ReasonMalformed
	}
}

// The marks of facts. What follows them are reasons.
const (
	markOK byte = iota
	markAbsent
	markUnknown
)

// fact is how a value is known, and the value. A value that may not be makes the fact unknown(malformed).
func fact[T any](w *wire, f *fabric.Fact[T], source string, value func(*wire, *T) bool) {
	if !w.decode {
		switch f.State {
		case fabric.OK:
			w.buf = append(w.buf, markOK)
			value(w, &f.Value)
		case fabric.Absent:
			w.buf = append(w.buf, markAbsent)
		default:
			w.buf = append(w.buf, markUnknown+byte(max(slices.Index(reasons, f.Reason), 0)))
		}
		return
	}
	var mark byte
	if w.byte(&mark); w.err != nil {
		return
	}
	switch {
	case mark == markOK:
		var v T
		if value(w, &v) {
			*f = fabric.Known(v, source, w.now)
		} else {
			*f = fabric.UnknownFact[T](fabric.ReasonMalformed, source, w.now)
		}
	case mark == markAbsent:
		*f = fabric.AbsentFact[T](source, w.now)
	case int(mark-markUnknown) < len(reasons):
		*f = fabric.UnknownFact[T](reasons[mark-markUnknown], source, w.now)
	default:
		w.fail("mark %d", mark)
	}
}

// SPDX-License-Identifier: Apache-2.0

package status

import (
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxText = 2000 // bytes of a text
	maxName = 64   // bytes of the name of a part
	maxList = 512  // entries of a list
)

// bound cuts texts and lists that are too long, takes characters out of texts that are none or change how
// others are shown, and makes empty lists of those that are nil.
func bound(d *Document) {
	d.LeftOut = bounded(reflect.ValueOf(d).Elem())
}

func bounded(v reflect.Value) (leftOut int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(clean(v.String(), maxText))
	case reflect.Pointer:
		if !v.IsNil() {
			leftOut = bounded(v.Elem())
		}
	case reflect.Slice:
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		if v.Len() > maxList {
			leftOut = v.Len() - maxList
			v.SetLen(maxList)
		}
		for i := range v.Len() {
			leftOut += bounded(v.Index(i))
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return 0
		}
		for about, field := range v.Fields() {
			if about.IsExported() && about.Tag.Get("json") != "-" {
				leftOut += bounded(field)
			}
		}
	}
	return leftOut
}

// clean returns a text of at most that many bytes, without control characters and those that change the
// direction of others.
func clean(s string, most int) string {
	if len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || Visible(r) != r }) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		r = Visible(r)
		if b.Len()+utf8.RuneLen(r) > most-len("…") {
			b.WriteString("…")
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Visible is a character as documents and pages show it: not a control, nor one that changes the direction of others.
func Visible(r rune) rune {
	switch {
	case unicode.IsPrint(r):
		return r
	case unicode.IsSpace(r):
		return ' '
	}
	return utf8.RuneError
}

// short is the name of a part.
func short(name string) string { return clean(name, maxName) }

// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"fmt"
	"reflect"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// flatten makes a map of all that is known: the path of each fact and plain value, to how it is known. Facts
// of lists are there beside the facts in them.
func flatten(d fabric.GPUDriver) map[string]string {
	flat := map[string]string{}
	flattenInto(flat, "", reflect.ValueOf(d))
	return flat
}

func flattenInto(flat map[string]string, path string, v reflect.Value) {
	switch {
	case v.Kind() == reflect.Struct && strings.HasPrefix(v.Type().Name(), "Fact["):
		switch state := fabric.State(v.FieldByName("State").Uint()); state {
		case fabric.Unknown:
			flat[path] = fmt.Sprintf("unknown(%s)", v.FieldByName("Reason"))
		case fabric.Absent:
			flat[path] = "absent"
		default:
			flat[path] = "ok"
			flattenInto(flat, path+"=", v.FieldByName("Value"))
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			flattenInto(flat, path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			flattenInto(flat, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	default:
		flat[path] = fmt.Sprintf("%v", v)
	}
}

// differences returns what differs in b, by path without numbers of GPUs and links, and what it is in b.
func differences(a, b fabric.GPUDriver) map[string]string {
	diff := map[string]string{}
	was, is := flatten(a), flatten(b)
	for path, v := range is {
		if was[path] != v {
			diff[plain(path)] = v
		}
	}
	for path := range was {
		if _, ok := is[path]; !ok && !gone(is, path) {
			diff[plain(path)] = "missing"
		}
	}
	return diff
}

// gone reports whether a value is not there because the fact that had it is no longer known.
func gone(is map[string]string, path string) bool {
	for i := range path {
		if path[i] == '=' {
			if v, ok := is[path[:i]]; ok && v != "ok" {
				return true
			}
		}
	}
	return false
}

func plain(path string) string {
	var b strings.Builder
	skip := false
	for _, r := range path {
		switch {
		case r == '[':
			skip = true
		case r == ']':
			skip = false
		case !skip:
			b.WriteRune(r)
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}

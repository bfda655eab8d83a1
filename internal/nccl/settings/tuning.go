// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// functions are the names that may stand before a list in NCCL_ALGO and NCCL_PROTO (ncclFuncStr, src/init.cc
// of 2.24.3 to 2.30.7).
const functions = "Broadcast|Reduce|AllGather|ReduceScatter|AllReduce"

// collNet is what NCCL_ALGO called CollNetDirect and CollNetChain before they were two (ncclAlgoStr,
// src/init.cc of 2.5.6 to 2.13.4).
const collNet = "CollNet"

// refusal is why NCCL from 2.24 on does not start with a list of algorithms or protocols.
type refusal struct {
	word  string
	valid string // what may stand in its place; empty: the word itself is fine, but not there
}

// refused reads NCCL_ALGO or NCCL_PROTO as parseList (src/graph/tuning.cc) of NCCL 2.24.3 to 2.30.7 does:
// entries between semicolons, each a list of names between commas, with the name of a function and a colon
// before it in all but the first; "^" before a list means all but these. Case does not count; empty parts do
// not either.
func (v Variable) refused(value string) (refusal, bool) {
	names := strings.Split(v.Valid, "|")
	for at := 0; at < len(value); {
		entry, _, _ := strings.Cut(value[at:], ";")
		first := at == 0
		at += len(entry) + 1
		if entry == "" {
			continue
		}
		parts := slices.Collect(fields(entry, ':'))
		var list string
		switch {
		case len(parts) > 1 && !isWord(parts[0], strings.Split(functions, "|")):
			return refusal{parts[0], functions}, true
		case len(parts) > 1:
			list = parts[1]
		case len(parts) == 1 && first:
			list = parts[0]
		default:
			return refusal{word: entry}, true
		}
		for word := range fields(strings.TrimPrefix(list, "^"), ',') {
			if !isWord(word, names) {
				return refusal{word, v.Valid}, true
			}
		}
	}
	return refusal{}, false
}

// Kinds of lists in NCCL_ALGO and NCCL_PROTO, as values of advice.
const (
	listOnly     = "list" // NCCL takes these alone
	listExcept   = "^"    // NCCL takes all but these
	listFunction = "f:"   // it is for one function
)

// tunes reports whether a value of NCCL_ALGO or NCCL_PROTO has a list of that kind, or one that enables that word.
func (v Variable) tunes(value, kind string) bool {
	for entry := range fields(value, ';') {
		parts := slices.Collect(fields(entry, ':'))
		if len(parts) == 0 {
			continue
		}
		list, except := strings.CutPrefix(parts[len(parts)-1], "^")
		found := false
		switch kind {
		case listOnly:
			found = !except
		case listExcept:
			found = except
		case listFunction:
			found = len(parts) > 1
		default:
			found = isWord(kind, strings.Split(list, ",")) != except
		}
		if found {
			return true
		}
	}
	return false
}

// fields yields what is between separators, without empty parts, as strtok does.
func fields(s string, separator byte) iter.Seq[string] {
	return strings.FieldsFuncSeq(s, func(r rune) bool { return r == rune(separator) })
}

func isWord(word string, of []string) bool {
	return slices.ContainsFunc(of, func(w string) bool { return strings.EqualFold(w, word) })
}

// checkTuning reports what NCCL refuses in a list of algorithms or protocols.
func (r *report) checkTuning(st statement, v Variable) {
	bad, refused := v.refused(st.value)
	if !refused {
		return
	}
	rule, what, then := RuleRejectedValue, "is none of "+bad.valid, "older releases ignore the word"
	if v.Name == "NCCL_PROTO" {
		then += ", and fail in the first collective where no other is left"
	}
	switch {
	case v.Name == "NCCL_ALGO" && strings.EqualFold(bad.word, collNet):
		rule, what, then = RuleWithdrawnValue, "is a word of NCCL before 2.14", "releases in between ignore the word"
	case bad.valid == "":
		what = "has no function before it, as all entries but the first must"
	}
	r.add(st.line, rule, st.name, "%s in %s=%s %s: NCCL from 2.24 on refuses to start, %s", quote(bad.word), st.name,
		quote(st.value), what, then)
}

// cidrProblem says what is wrong with NCCL_IB_ADDR_RANGE for addresses of a family; empty: nothing.
func cidrProblem(value string, v6 bool) string {
	family := "IPv4"
	if v6 {
		family = "IPv6"
	}
	switch address, bits := fabric.ParseNCCLRange(value, v6); {
	case !address.IsValid():
		return fmt.Sprintf("is no range of %s addresses (NCCL_IB_ADDR_FAMILY): NCCL takes any address", family)
	case bits < 0:
		return "has a negative length: NCCL finds no address in it"
	}
	return ""
}

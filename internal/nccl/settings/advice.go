// SPDX-License-Identifier: Apache-2.0

package settings

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
)

// Advice is what a value of a variable means for a job, where NCCL takes it as it is written.
type Advice struct {
	Name string
	// words separated by |, a span of numbers as in the column range of variables, empty, or * for any; of
	// NCCL_ALGO and NCCL_PROTO a word that is enabled or a kind of list
	Value    string
	Releases string // "2.21..", "..2.20" or "2.14..2.22", both ends included; empty: all
	Verdict  string // default, works, not_recommended, deprecated, ignored or refused
	Severity string // info, warning or critical
	Text     string // what NCCL does with it; empty for a default
	Better   string // what to write instead; empty: nothing
	File     string // of NCCL, that does it
	Release  string // of NCCL, in which File was read
}

// AdviceOn returns what is known of a value of a variable, for any release.
func AdviceOn(name, value string) []Advice {
	v, known := Describe(name)
	if !known {
		return nil
	}
	var list []Advice
	for _, a := range adviceTable() {
		if a.Name == name && a.matches(v, value) {
			list = append(list, a)
		}
	}
	return list
}

func (a Advice) matches(v Variable, value string) bool {
	switch {
	case a.Value == emptyValue || value == "":
		return a.Value == emptyValue && value == ""
	case a.Value == "*":
		return true
	}
	if v.Parser == ParserTuning {
		return v.tunes(value, a.Value)
	}
	n, isNumber := v.Number(value)
	if v.Parser == ParserLevel && value[0] >= '0' && value[0] <= '9' {
		n, isNumber = ParseNumber(value)
	}
	if spans, err := parseRanges(a.Value); err == nil {
		return isNumber && spans[0].has(n)
	}
	if isNumber {
		want, err := strconv.ParseInt(a.Value, 0, 64) // a word is no number, unlike to NCCL
		return err == nil && want == n
	}
	for word := range strings.SplitSeq(a.Value, "|") {
		if strings.EqualFold(word, value) {
			return true
		}
	}
	return false
}

// emptyValue is the value of advice for a variable that is set to nothing.
const emptyValue = "empty"

//go:embed advice.tsv
var adviceTSV string

const adviceColumns = "name\tvalue\treleases\tverdict\tseverity\ttext\tbetter\tsource"

var adviceTable = sync.OnceValue(func() []Advice {
	table, err := parseAdvice(adviceTSV)
	if err != nil {
		panic(err) // the table is part of the program, and a test reads it
	}
	return table
})

func parseAdvice(tsv string) ([]Advice, error) {
	rows, err := rowsOf("advice.tsv", tsv, adviceColumns)
	if err != nil {
		return nil, err
	}
	var table []Advice
	for _, c := range rows {
		file, release, _ := strings.Cut(c[7], " ")
		table = append(table, Advice{c[0], c[1], c[2], c[3], c[4], c[5], c[6], file, release})
	}
	return table, nil
}

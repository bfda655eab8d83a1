// SPDX-License-Identifier: Apache-2.0

package settings

import (
	_ "embed"
	"strings"
	"sync"
)

// Void is what a value of a variable makes of other variables.
type Void struct {
	By       Advice // Name, Value, Verdict, Severity, Text, Better, File and Release
	patterns []string
}

// Concerns reports whether the value makes a setting void.
func (v Void) Concerns(name, value string) bool {
	if name == v.By.Name {
		return false
	}
	for _, pattern := range v.patterns {
		family, is := strings.CutSuffix(pattern, "*")
		variable, only, exact := strings.Cut(pattern, "=")
		switch {
		case is && strings.HasPrefix(name, family), !exact && name == pattern:
			return true
		case exact && name == variable && strings.EqualFold(value, only):
			return true
		}
	}
	return false
}

// VoidBy returns what a value of a variable makes of others.
func VoidBy(name, value string) []Void {
	v, known := Describe(name)
	if !known || value == "" {
		return nil
	}
	var list []Void
	for _, one := range voidTable() {
		if one.By.Name == name && one.By.matches(v, value) {
			list = append(list, one)
		}
	}
	return list
}

//go:embed void.tsv
var voidTSV string

const voidColumns = "name\tvalue\tvoids\tverdict\tseverity\treason\tbetter\tsource"

var voidTable = sync.OnceValue(func() []Void {
	table, err := parseVoid(voidTSV)
	if err != nil {
		panic(err) // the table is part of the program, and a test reads it
	}
	return table
})

func parseVoid(tsv string) ([]Void, error) {
	rows, err := rowsOf("void.tsv", tsv, voidColumns)
	if err != nil {
		return nil, err
	}
	var table []Void
	for _, c := range rows {
		file, release, _ := strings.Cut(c[7], " ")
		by := Advice{
			Name: c[0], Value: c[1], Verdict: c[3], Severity: c[4], Text: c[5], Better: c[6], File: file, Release: release,
		}
		table = append(table, Void{by, strings.Split(c[2], "|")})
	}
	return table, nil
}

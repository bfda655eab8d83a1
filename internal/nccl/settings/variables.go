// SPDX-License-Identifier: Apache-2.0

package settings

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// NewestNCCL is the newest release that the table of variables knows.
const NewestNCCL = "2.30.7"

// Status says whose variable it is.
type Status string

// Statuses.
const (
	StatusCurrent   Status = "current"   // NCCL reads it
	StatusRemoved   Status = "removed"   // NCCL read it once
	StatusPlugin    Status = "plugin"    // a plugin or an extension of NCCL reads it
	StatusTool      Status = "tool"      // a program around NCCL reads it
	StatusFramework Status = "framework" // a training framework reads or read it
	StatusMistaken  Status = "mistaken"  // people set it, nothing reads it
)

// Parser says how NCCL reads a value.
type Parser string

// Parsers.
const (
	ParserNone   Parser = "none"   // NCCL does not read it
	ParserNumber Parser = "number" // NCCL_PARAM, see ParseNumber
	// 0, F, FALSE, 1, T or TRUE in any case, else the default; before 2.30.5 a number
	ParserBoolean     Parser = "boolean"
	ParserOne         Parser = "one"          // strtol, and only 1 acts
	ParserKeyword     Parser = "keyword"      // one of Valid exactly, else ignored
	ParserKeywordFold Parser = "keyword_fold" // one of Valid in any case, else ignored
	ParserLevel       Parser = "level"        // one of Valid exactly or, from the days before 2.5, a number; else ignored
	// lists of words of Valid, for some functions or all (parseList of graph/tuning.cc)
	ParserTuning  Parser = "tuning"
	ParserCIDR    Parser = "cidr"    // address/length, see fabric.ParseNCCLRange
	ParserPattern Parser = "pattern" // what Pattern matches, else ignored
	ParserText    Parser = "text"
)

// Variable is what is known about a variable.
type Variable struct {
	Name       string // one that ends in * stands for every name that begins so and has no entry of its own
	Status     Status
	Parser     Parser
	Type       string         // int, bool, enum, list, path, ...
	Default    string         // for people
	Valid      string         // for people; for keywords, levels and lists exactly the words, separated by |
	Ranges     []Range        // of numbers that NCCL and verbs take as they are written; none: any
	Below      Outside        // what becomes of numbers below the last of the ranges
	Above      Outside        // what becomes of other numbers that the ranges do not have
	Pattern    *regexp.Regexp // of ParserPattern; else nil
	Since      string         // the first release that has it; with <= that one or an earlier one
	Deprecated string         // the release that deprecated it
	Removed    string         // the last release that has it; with < the last one before
	Instead    string         // what to use in its place
	Documented bool           // in NCCL's user guide
	Note       string
	// Source is the file that reads the variable: of NCCL NewestNCCL, of the release Removed where it is no longer read,
	// else of the repository that it begins with. Since, Removed, the defaults and the ranges were read there,
	// in every tag.
	Source   string
	Verified []string // the releases that showed in test/nccl what is said of it, some with OverRDMA
}

// OverRDMA follows the release where only a job over RDMA showed it.
const OverRDMA = "/rdma"

// Variables returns every variable in the table, sorted by name. The caller may change the slice.
func Variables() []Variable { return slices.Clone(variables()) }

// Describe returns what is known about the variable of that name, or else about its family.
func Describe(name string) (Variable, bool) {
	v, ok := find(name)
	for end := len(name); !ok && end > len(prefix); {
		if end = strings.LastIndexByte(name[:end], '_'); end >= 0 {
			v, ok = find(name[:end+1] + "*")
		}
	}
	return v, ok
}

func find(name string) (Variable, bool) {
	table := variables()
	i, ok := slices.BinarySearchFunc(table, name, func(v Variable,
		name string,
	) int {
		return strings.Compare(v.Name, name)
	})
	if !ok {
		return Variable{}, false
	}
	return table[i], true
}

//go:embed variables.tsv
var variablesTSV string

// variables parses the table when it is needed first: most processes of this binary never do.
var variables = sync.OnceValue(func() []Variable {
	table, err := parseVariables(variablesTSV)
	if err != nil {
		panic(err) // the table is part of the program, and a test reads it
	}
	return table
})

const variableColumns = "name\tstatus\tparser\ttype\tdefault\tvalid\trange\toutside\tsince\tdeprecated\tremoved\tinstead\tdocumented\tnote\tsource\tverified"

func parseVariables(tsv string) ([]Variable, error) {
	rows, err := rowsOf("variables.tsv", tsv, variableColumns)
	if err != nil {
		return nil, err
	}
	var table []Variable
	for _, c := range rows {
		var ranges []Range
		var pattern *regexp.Regexp
		var err error
		if Parser(c[2]) == ParserPattern {
			pattern, err = regexp.Compile("^(?i:" + c[6] + ")$")
		} else {
			ranges, err = parseRanges(c[6])
		}
		if err != nil {
			return nil, fmt.Errorf("variables.tsv: %s: %w", c[0], err)
		}
		below, above := parseOutside(c[7])
		table = append(table, Variable{
			Name: c[0], Status: Status(c[1]), Parser: Parser(c[2]), Type: c[3], Default: c[4], Valid: c[5], Ranges: ranges,
			Below: below, Above: above, Pattern: pattern,
			Since: c[8], Deprecated: c[9], Removed: c[10], Instead: c[11], Documented: c[12] == "yes", Note: c[13],
			Source: c[14], Verified: strings.Fields(c[15]),
		})
	}
	return table, nil
}

// rowsOf splits a table, which begins with its columns.
func rowsOf(file, tsv, columns string) (rows [][]string, err error) {
	header, lines, _ := strings.Cut(tsv, "\n")
	if header != columns {
		return nil, fmt.Errorf("%s: columns are %q, expected %q", file, header, columns)
	}
	for line := range strings.Lines(lines) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(row) != strings.Count(columns, "\t")+1 {
			return nil, fmt.Errorf("%s: %s: %d columns, expected those of the header", file, row[0], len(row))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

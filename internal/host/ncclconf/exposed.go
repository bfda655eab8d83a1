// SPDX-License-Identifier: Apache-2.0

package ncclconf

import (
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// Exposed returns what may be shown of a variable that a job set, or false where nothing may: names that are not in the
// table of variables are left out, as they could say anything. A value stays if it is a number or a word that the table
// has for the variable, or the name of a network of NCCL's; any other is "set", with Masked.
func Exposed(name, value string) (fabric.NCCLVariable, bool) {
	v, ok := find(name)
	if !ok || strings.HasSuffix(v.Name, "*") {
		return fabric.NCCLVariable{}, false
	}
	shown := fabric.NCCLVariable{Name: v.Name, Value: value}
	if n, isNumber := v.Number(value); isNumber {
		shown.Number, shown.IsNumber = n, true
	}
	if _, err := strconv.ParseInt(value, 0, 64); err == nil && len(value) <= 20 || value == "" || isKnownWord(v, value) {
		return shown, true
	}
	return fabric.NCCLVariable{Name: v.Name, Value: "set", Masked: true}, true
}

// isKnownWord tells whether a value is a word of the table, or one of those that text variables usually have.
func isKnownWord(v Variable, value string) bool {
	same := func(word string) bool { return strings.EqualFold(word, value) }
	switch v.Parser {
	case ParserKeyword, ParserKeywordFold, ParserLevel, ParserTuning:
		return slices.ContainsFunc(strings.Split(v.Valid, "|"), same)
	case ParserBoolean:
		return slices.ContainsFunc([]string{"T", "TRUE", "F", "FALSE"}, same)
	}
	switch v.Name {
	case "NCCL_NET":
		return slices.ContainsFunc([]string{"IB", "Socket", "AWS Libfabric", "Libfabric", "FasTrak", "gIB", "GPUDirectTCPX", "UCX"}, same)
	case "NCCL_NET_PLUGIN":
		return slices.ContainsFunc([]string{"none", "aws-ofi", "ofi", "ucx", "tcpx", "fastrak", "gib"}, same)
	}
	return false
}

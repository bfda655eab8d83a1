// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/lazyregexp"
)

// Exposed returns what may be shown of a variable that a job set, or false where nothing may: names that are not in the
// table of variables are left out, as they could say anything. A value stays if it is a number or a word that the table
// has for the variable, the name of a network of NCCL's, or names that drivers give; any other is "set", with Masked.
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

// ExposedConf returns what may be shown of an nccl.conf, as Exposed does: the first line with a name counts,
// and lines that NCCL takes otherwise than they are written are left out.
func ExposedConf(text []byte) []fabric.NCCLVariable {
	const most = 128
	var list []fabric.NCCLVariable
	for s := range ParseConf(text) {
		if !s.Usable() || len(list) == most || slices.ContainsFunc(list,
			func(v fabric.NCCLVariable) bool { return v.Name == s.Name }) {
			continue
		}
		if v, ok := Exposed(s.Name, s.Value); ok {
			v.Source = systemFile
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b fabric.NCCLVariable) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// driversNames is a list of names that drivers, the kernel and udev give to RDMA devices, as NCCL_IB_HCA has it, or to
// interfaces, which are there by mistake: no other text looks so.
var driversNames = lazyregexp.New(`^\^?=?` + deviceName + `(,` + deviceName + `){0,63}$`)

const deviceName = `((mlx[45](_(bond_)?)?|bnxt_re|irdma|rxe|siw|erdma_|efa_|hns_|qedr|ionic_|mana_)\d{0,3}` +
	`|(ib|roce|rdma|en)(P\d{1,5})?(p\d{1,5})?s\d{1,5}(f\d{1,3})?((np|d)\d{1,3})?|(eth|ib|bond|eno)\d{1,3})(:\d{1,3}){0,3}`

// isKnownWord reports whether a value is a word of the table, or one of those that text variables usually have.
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
		return slices.ContainsFunc([]string{
			"IB", "Socket", "AWS Libfabric", "Libfabric", "FasTrak", "gIB", "GPUDirectTCPX",
			"UCX",
		}, same)
	case "NCCL_IB_HCA":
		return driversNames().MatchString(value)
	case "NCCL_NET_PLUGIN":
		return slices.ContainsFunc([]string{"none", "aws-ofi", "ofi", "ucx", "tcpx", "fastrak", "gib"}, same)
	}
	return false
}

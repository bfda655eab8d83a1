// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// The expectations were printed by a C program that calls strtoll(s, NULL, 0) of glibc 2.36; ok is false
// where NCCL takes the default: the text is empty or errno is set.
func TestParseNumber(t *testing.T) {
	tests := []struct {
		value  string
		number int64
		ok     bool
	}{
		{"0", 0, true},
		{"1", 1, true},
		{"-1", -1, true},
		{"+1", 1, true},
		{"106", 106, true},
		{" 106", 106, true},
		{"\t\n\v\f\r 7", 7, true},
		{"\u00a07", 0, true},
		{"7 ", 7, true},
		{"7\n", 7, true},
		{"10#c", 10, true},
		{"1M", 1, true},
		{"8M", 8, true},
		{"8388608", 8388608, true},
		{"1e6", 1, true},
		{"3.9", 3, true},
		{"0x10", 16, true},
		{"0X1f", 31, true},
		{"0x", 0, true},
		{"0xg", 0, true},
		{"0x-1", 0, true},
		{"-0x10", -16, true},
		{"+0xA", 10, true},
		{"00x10", 0, true},
		{"010", 8, true},
		{"-010", -8, true},
		{"08", 0, true},
		{"0779", 63, true},
		{"0b11", 0, true},
		{"true", 0, true},
		{"yes", 0, true},
		{"on", 0, true},
		{"FALSE", 0, true},
		{"T", 0, true},
		{"", 0, false},
		{"-", 0, true},
		{"+", 0, true},
		{"- 5", 0, true},
		{"--5", 0, true},
		{"+-5", 0, true},
		{"5-3", 5, true},
		{"1,2", 1, true},
		{"\"1\"", 0, true},
		{"'1'", 0, true},
		{"٣", 0, true},
		{"9223372036854775807", 9223372036854775807, true},
		{"9223372036854775808", 0, false},
		{"-9223372036854775808", -9223372036854775808, true},
		{"-9223372036854775809", 0, false},
		{"0x7fffffffffffffff", 9223372036854775807, true},
		{"0x8000000000000000", 0, false},
		{"-0x8000000000000000", -9223372036854775808, true},
		{"0777777777777777777777", 9223372036854775807, true},
		{"01000000000000000000000", 0, false},
		{"99999999999999999999999999M", 0, false},
		{"18446744073709551615", 0, false},
		{"000000000000000000000000000001", 1, true},
		{" ", 0, true},
		{"x1", 0, true},
		{"1\x00 2", 1, true},
		{"_1", 0, true},
		{"1_000", 1, true},
	}
	for _, test := range tests {
		if n, ok := ParseNumber(test.value); n != test.number || ok != test.ok {
			t.Errorf("ParseNumber(%q) = %d, %v, want %d, %v", test.value, n, ok, test.number, test.ok)
		}
	}
}

func TestVariableNumber(t *testing.T) {
	tests := []struct {
		parser Parser
		value  string
		number int64
		ok     bool
	}{
		{ParserNumber, "1M", 1, true},
		{ParserNumber, "", 0, false},
		{ParserText, "5", 0, false},
		{ParserLevel, "5", 0, false},
		{ParserKeyword, "5", 0, false},
		{ParserNone, "5", 0, false},
		{ParserBoolean, "1", 1, true},
		{ParserBoolean, "t", 1, true},
		{ParserBoolean, "True", 1, true},
		{ParserBoolean, "0", 0, true},
		{ParserBoolean, "F", 0, true},
		{ParserBoolean, "false", 0, true},
		{ParserBoolean, "2", 0, false},
		{ParserBoolean, " 1", 0, false},
		{ParserBoolean, "yes", 0, false},
		{ParserBoolean, "", 0, false},
		{ParserOne, "1", 1, true},
		{ParserOne, "0x1", 1, true},
		{ParserOne, "1x", 1, true},
		{ParserOne, "true", 0, true},
		{ParserOne, "", 0, false},
		{ParserOne, "4294967297", 1, true}, // an int holds the lower half
		{ParserOne, "99999999999999999999", -1, true},
	}
	for _, test := range tests {
		v := Variable{Parser: test.parser}
		if n, ok := v.Number(test.value); n != test.number || ok != test.ok {
			t.Errorf("%s variable: Number(%q) = %d, %v, want %d, %v", test.parser, test.value, n, ok, test.number, test.ok)
		}
	}
}

// What ends every job is fatal, however it is written; what NCCL cuts, clamps or leaves out is not.
func TestHarmOfNumbers(t *testing.T) {
	for text, want := range map[string]fabric.NCCLHarm{
		"NCCL_BUFFSIZE=4M": fabric.NCCLFatal, "NCCL_BUFFSIZE=true": fabric.NCCLFatal, "NCCL_BUFFSIZE=-1": fabric.NCCLFatal, "NCCL_CONNECT_ROUND_MAX_PEERS=0": fabric.NCCLFatal,
		"NCCL_NTHREADS=100000": fabric.NCCLMisread, "NCCL_IB_TC=300": fabric.NCCLMisread, "NCCL_IB_TIMEOUT=32": fabric.NCCLMisread, "NCCL_IB_TIMEOUT=22x": fabric.NCCLMisread,
		"NCCL_BUFFSIZE=99999999999999999999": fabric.NCCLMisread,
	} {
		name, value, _ := strings.Cut(text, "=")
		found := CheckValue(Setting{Name: name, Value: value})
		if len(found) != 1 || found[0].Harm != want {
			t.Errorf("%s: %+v, expected harm %d", text, found, want)
		}
	}
}

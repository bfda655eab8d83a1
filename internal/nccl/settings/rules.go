// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"slices"

	"gpufabric_exporter/internal/fabric"
)

// Rules of findings. The ids are stable: they are label values.
const (
	RuleNotASetting    = "not_a_setting"
	RuleLineTooLong    = "line_too_long"
	RuleValueTooLong   = "value_too_long"
	RuleCarriageReturn = "carriage_return"
	RuleUnclosedQuote  = "unclosed_quote"
	RuleShellSyntax    = "shell_syntax"
	RuleExportKeyword  = "export_keyword"
	RuleBlankInName    = "blank_in_name"
	RuleFileTooLarge   = "file_too_large"
	RuleMoreFindings   = "more_findings"

	RuleConfFileIgnored  = "conf_file_ignored"
	RuleConfFileMissing  = "conf_file_missing"
	RuleConfFileRelative = "conf_file_relative"

	RuleUnknownVariable    = "unknown_variable"
	RuleRemovedVariable    = "removed_variable"
	RuleDeprecatedVariable = "deprecated_variable"
	RuleNotAnNCCLVariable  = "not_an_nccl_variable"
	RuleOverridden         = "overridden"

	RuleQuotedValue      = "quoted_value"
	RuleInlineComment    = "inline_comment"
	RuleBlankAroundValue = "blank_around_value"
	RuleNotANumber       = "not_a_number"
	RuleTrailingGarbage  = "trailing_garbage"
	RuleOctalNumber      = "octal_number"
	RuleOverflow         = "overflow"
	RuleUnknownValue     = "unknown_value"
	RuleOutOfRange       = "out_of_range"
	RuleRejectedValue    = "rejected_value"
	RuleWithdrawnValue   = "withdrawn_value"
	RuleTCLikePriority   = "ib_tc_looks_like_a_priority"
)

// Rule documents one kind of finding.
type Rule struct {
	ID      string
	Harm    fabric.NCCLHarm
	Summary string // one sentence, without a full stop
}

// harmOf returns what a finding of that rule means.
func harmOf(id string) fabric.NCCLHarm {
	for i := range rules {
		if rules[i].ID == id {
			return rules[i].Harm
		}
	}
	return fabric.NCCLMisread
}

// Rules returns every rule there can be a finding of.
func Rules() []Rule { return slices.Clone(rules[:]) }

var rules = [...]Rule{
	{RuleNotASetting, fabric.NCCLMisread, "A line that is not NAME=value is skipped silently"},
	{RuleLineTooLong, fabric.NCCLMisread, "NCCL from 2.30.3 on reads 4095 bytes of a line and takes the rest for a line of its own"},
	{RuleValueTooLong, fabric.NCCLMisread, "A value in an nccl.conf is cut after 1023 bytes; an environment string of 128 KiB or more cannot exist"},
	{RuleCarriageReturn, fabric.NCCLMisread, "NCCL before 2.30.3 takes the carriage return of a DOS line end for a part of the value"},
	{RuleUnclosedQuote, fabric.NCCLMisread, "A quote that is not closed on its line swallows the lines that follow; the setting is left out here"},
	{RuleShellSyntax, fabric.NCCLMisread, "The value is taken as systemd takes it; a shell that sources the file would see another one"},
	{RuleExportKeyword, fabric.NCCLMisread, "An nccl.conf is no shell script: with export before it, the variable is not set"},
	{RuleBlankInName, fabric.NCCLMisread, "Blanks before or after the name belong to the name: the variable is not set"},
	{RuleFileTooLarge, fabric.NCCLMisread, "Only the first MiB of the file has been read"},
	{RuleMoreFindings, fabric.NCCLNote, "There are more findings in the file than are listed"},

	{RuleConfFileIgnored, fabric.NCCLMisread, "NCCL_CONF_FILE counts only in the process environment, because it is read before the files are"},
	{RuleConfFileMissing, fabric.NCCLMisread, "NCCL_CONF_FILE names a file that does not exist: NCCL reads neither it nor ~/.nccl.conf"},
	{RuleConfFileRelative, fabric.NCCLMisread, "A relative NCCL_CONF_FILE depends on the directory a job is started in; it is not followed here, and ~ is not expanded by NCCL"},

	{RuleUnknownVariable, fabric.NCCLMisread, "No release of NCCL up to " + NewestNCCL + " knows the variable: a typo, or one of a plugin"},
	{RuleRemovedVariable, fabric.NCCLMisread, "Newer releases of NCCL do not read the variable any more"},
	{RuleDeprecatedVariable, fabric.NCCLNote, "NCCL reads the variable, which has a successor"},
	{RuleNotAnNCCLVariable, fabric.NCCLNote, "The variable belongs to a framework or a tool; NCCL does not read it"},
	{RuleOverridden, fabric.NCCLNote, "The setting has no effect, because one that takes precedence has another value"},

	{RuleQuotedValue, fabric.NCCLMisread, "The quotes are a part of the value that NCCL sees"},
	{RuleInlineComment, fabric.NCCLMisread, "A comment behind the value is a part of the value"},
	{RuleBlankAroundValue, fabric.NCCLMisread, "Blanks around a text are a part of it"},
	{RuleNotANumber, fabric.NCCLMisread, "A value without digits is 0 where NCCL expects a number, also true and yes"},
	{RuleTrailingGarbage, fabric.NCCLMisread, "NCCL reads a number up to the first character that is not a digit: 8M is 8"},
	{RuleOctalNumber, fabric.NCCLMisread, "A number with a leading 0 is octal"},
	{RuleOverflow, fabric.NCCLMisread, "The number does not fit in 64 bits: NCCL uses its default"},
	{RuleUnknownValue, fabric.NCCLMisread, "The value is none that the variable accepts, and NCCL ignores it"},
	{RuleOutOfRange, fabric.NCCLMisread, "The number is outside what NCCL or a queue pair has room for: it is cut, replaced, ignored or refused"},
	{RuleRejectedValue, fabric.NCCLFatal, "NCCL 2.24 and later refuse to start with a word in NCCL_ALGO or NCCL_PROTO that no release knows"},
	{RuleWithdrawnValue, fabric.NCCLMisread, "NCCL 2.24 and later refuse to start with a word in NCCL_ALGO that releases before 2.14 knew"},
	{RuleTCLikePriority, fabric.NCCLMisread, "A traffic class is DSCP and ECN bits, not a priority: below 8 it is DSCP 0 or 1"},
}

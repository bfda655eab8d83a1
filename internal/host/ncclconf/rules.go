// SPDX-License-Identifier: Apache-2.0

package ncclconf

import "slices"

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
	RuleTCLikePriority   = "ib_tc_looks_like_a_priority"
)

// Rule documents one kind of finding.
type Rule struct {
	ID      string
	Info    bool   // nothing is wrong, but it explains what is in effect
	Summary string // one sentence
}

// Rules returns every rule there can be a finding of.
func Rules() []Rule { return slices.Clone(rules[:]) }

var rules = [...]Rule{
	{RuleNotASetting, false, "A line that is not NAME=value is skipped without a word."},
	{RuleLineTooLong, false, "NCCL from 2.30.3 on reads 4095 bytes of a line and takes the rest for a line of its own."},
	{RuleValueTooLong, false, "A value in an nccl.conf is cut after 1023 bytes; an environment string of 128 KiB or more cannot exist."},
	{RuleCarriageReturn, false, "NCCL before 2.30.3 takes the carriage return of a DOS line end for a part of the value."},
	{RuleUnclosedQuote, false, "A quote that is not closed on its line swallows the lines that follow; the setting is left out here."},
	{RuleShellSyntax, false, "The value is taken as systemd takes it; a shell that sources the file would see another one."},
	{RuleExportKeyword, false, "An nccl.conf is no shell script: with export before it, the variable is not set."},
	{RuleBlankInName, false, "Blanks before or after the name belong to the name: the variable is not set."},
	{RuleFileTooLarge, false, "Only the first MiB of the file has been read."},
	{RuleMoreFindings, true, "There are more findings in the file than are listed."},

	{RuleConfFileIgnored, false, "NCCL_CONF_FILE counts only in the process environment, because it is read before the files are."},
	{RuleConfFileMissing, false, "NCCL_CONF_FILE names a file that does not exist: NCCL reads neither it nor ~/.nccl.conf."},
	{RuleConfFileRelative, false, "A relative NCCL_CONF_FILE depends on the directory a job is started in; it is not followed here, and ~ is not expanded by NCCL."},

	{RuleUnknownVariable, false, "No release of NCCL up to " + NewestNCCL + " knows the variable: a typo, or one of a plugin."},
	{RuleRemovedVariable, false, "Newer releases of NCCL do not read the variable any more."},
	{RuleDeprecatedVariable, true, "NCCL still reads the variable, but it has a successor."},
	{RuleNotAnNCCLVariable, true, "The variable belongs to a framework or a tool; NCCL does not read it."},
	{RuleOverridden, true, "The setting has no effect, because one that takes precedence has another value."},

	{RuleQuotedValue, false, "The quotes are a part of the value that NCCL sees."},
	{RuleInlineComment, false, "A comment behind the value is a part of the value."},
	{RuleBlankAroundValue, false, "Blanks around a text are a part of it."},
	{RuleNotANumber, false, "A value without digits is 0 where NCCL expects a number, also true and yes."},
	{RuleTrailingGarbage, false, "NCCL reads a number up to the first character that is not a digit: 8M is 8."},
	{RuleOctalNumber, false, "A number with a leading 0 is octal."},
	{RuleOverflow, false, "The number does not fit in 64 bits: NCCL uses its default."},
	{RuleUnknownValue, false, "The value is none that the variable accepts, and NCCL ignores it."},
	{RuleTCLikePriority, false, "A traffic class is DSCP and ECN bits, not a priority: below 8 it is DSCP 0 or 1."},
}

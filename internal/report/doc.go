// SPDX-License-Identifier: Apache-2.0

// Package report is the report on NCCL of one node: what the node is, what is wrong with it, what was
// measured, and what to set.
//
// Collect makes Facts, which are the JSON of the command report, of what was observed and measured.
// Facts.Document puts them into words, also against earlier Facts (ParseFacts), and package document writes
// them. All of it is pure: nothing is read, measured or kept, and any number of goroutines may call it. What
// was not measured is said to be so, with the command that would measure it; an unknown fact stays unknown,
// with its reason. Names, evidence, logs and earlier reports are not trusted: texts and tables are bounded
// and escaped by package document, lists by this one. The only errors are those of ParseFacts, which say what
// was expected.
package report

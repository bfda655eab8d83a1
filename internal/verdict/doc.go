// SPDX-License-Identifier: Apache-2.0

// Package verdict has the words in which everything that judges speaks: a Check and its Severity, the Subject
// and Status of a Verdict with evidence, consequence and remedy, and how verdicts become what people read:
// Group, Finding and Gap.
//
// Checks of a node are in package diagnose and in the packages below it, settings of jobs are judged by
// package nccl/lint. Nothing here does I/O, keeps state or locks.
//
// There are no errors. A fact that is not known makes a verdict unknown with the fact's reason, never ok.
// Names in commands are filled in and quoted for a shell by FilledRemedy.
package verdict

// SPDX-License-Identifier: Apache-2.0

// Package diagnose turns the facts of one node into verdicts: what is wrong, what is right, and what is not known.
//
// The catalogue of checks is data, one row per check, and each check is a pure function over a fabric.Node.
// The rows are in the packages below, by what they are about, in the words of package verdict. The same
// catalogue drives the check command, the landing page, the check_failed metrics, the alert rules' labels and
// docs/CHECKS.md. Nothing here does I/O, keeps state or locks; a node may be diagnosed by any number of goroutines.
//
// There are no errors. A fact that is not known makes the verdict unknown with the fact's reason, never ok: hiding a
// fact from a check cannot turn a failed or unknown verdict into a good one.
//
// # One judgement, several readers
//
// The check command and the exporter judge by the same configuration (package config) and the same memory of
// the hardware (package inventory). A failure about what should be there is critical only where a source
// states that it should (docs/ROLES.md): without one it is unknown.
//
// Checks that compare readings (Check.Rate) run in "check --interval" and on the landing page. They have no
// metrics: alert rules see more of the past. Runbooks and Grafana are addressed through config.Links, names
// in commands are filled in and quoted for a shell by FilledRemedy, and the landing page remembers since when
// this process has seen a finding (page.Sightings).
//
// As metrics, a failed or unknown verdict has one series per subject, and a check that passes has a single 0:
// one per verdict would be several times as many, and rules read them every 15 s.
package diagnose

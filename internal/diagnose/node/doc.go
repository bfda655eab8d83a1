// SPDX-License-Identifier: Apache-2.0

// Package node has the checks of a node as a whole: what is missing, what does not answer, what differs from
// its manifest. Package diagnose has the rules: no I/O, no state, and what is not known is never ok.
package node

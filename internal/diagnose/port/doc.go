// SPDX-License-Identifier: Apache-2.0

// Package port has the checks of ports, and what asks each port or compares it with its peers.
// Package diagnose has the rules: no I/O, no state, and what is not known is never ok.
package port

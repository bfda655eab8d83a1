// SPDX-License-Identifier: Apache-2.0

// Package roce has the checks of RoCE: addresses, the chain of settings, and what traffic shows of them.
// Package diagnose has the rules: no I/O, no state, and what is not known is never ok.
package roce

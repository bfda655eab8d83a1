// SPDX-License-Identifier: Apache-2.0

// Package nccl has the checks of the configuration of NCCL, and of the place where a job runs.
// Package diagnose has the rules: no I/O, no state, and what is not known is never ok.
package nccl

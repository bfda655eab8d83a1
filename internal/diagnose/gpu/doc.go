// SPDX-License-Identifier: Apache-2.0

// Package gpu has the checks of GPUs, of their way to NICs, and of GPUDirect RDMA.
// Package diagnose has the rules: no I/O, no state, and what is not known is never ok.
package gpu

// SPDX-License-Identifier: Apache-2.0

// Package progress judges from answers of NCCL's RAS subsystem whether the ranks of a job progress together,
// and decides which process may be asked.
//
// # Which process is asked
//
// Asking has crashed jobs. Asker therefore refuses versions of NCCL with a known crash, processes in their
// first ten minutes, and whatever it does not know: the version of each process that listens on the port,
// because the kernel may connect to any of them. Every node of a job gets the same answer, so only that of
// rank 0 asks. Pace says how long to wait after an answer or an error: a process that ended the connection is
// never asked again.
//
// # Verdicts
//
// RAS counts collectives when they are launched, not when they are done, and a rank may be some launches
// ahead. Judge therefore compares three answers, Interval apart. Ranks are behind if they are at least two
// collectives behind the median of their communicator in each of the answers. A rank behind that moves is a
// straggler; one that does not is stalled; if no rank moves in any communicator, and ranks are apart or their
// GPUs are busy, the job hangs.
//
// All functions are pure but for Pace, which one goroutine uses. What is not known is a state of its own.
package progress

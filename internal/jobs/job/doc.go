// SPDX-License-Identifier: Apache-2.0

// Package job judges the training and inference jobs that run on a node: which processes are NCCL ranks, and
// whether NCCL moves their data over RDMA or over TCP.
//
// A Tracker is fed with nodes that were observed (Update) and returns the jobs as they are then. It compares
// each reading with the one before, so the first reading of a rank has no verdict. It reads nothing and has
// no clock: all times are those of the readings. It may be used by any number of goroutines; a reading that
// was seen already is not counted twice. There are no errors: what is not known is a verdict of its own, with
// the reason.
//
// Users control everything about their ranks, and may forge it: texts are restricted to safe characters and
// bounded, jobs and ranks are bounded, and jobs that ended leave with the next reading.
//
// # Ranks
//
// A rank is a process that holds a GPU and shows a communicator (fabric.RankCandidate has the evidence): a
// listener of NCCL's RAS subsystem (NCCL 2.24 and later), a mapped /dev/shm/nccl-* segment, a verbs context,
// or connections as those of NCCL's bootstrap. The last is weak, because Gloo has such connections, too. A
// mapped libnccl is no evidence: importing PyTorch maps it. A forked
// child (a data loader) that inherited the sockets or GPU files of a rank belongs to that rank.
//
// # Verdicts
//
// TCP is confirmed if at two readings in a row the GPU is busy, all descriptors of the rank could be read, it
// has no uverbs descriptor and no verbs context, neither TCPX nor FasTrak is loaded, the communicator is
// certain, and between the readings its sockets between ephemeral ports carried comparable amounts of data in
// both directions, to hosts to which the job has quiet connections of the bootstrap as well. Directions are
// added up over the ranks of the job on the node, because in a ring one
// rank sends to the next node and another receives from the previous one. Anything less is suspected.
//
// RDMA is confirmed if the rank has queue pairs, its devices carried data, no other job has contexts on them,
// and its sockets were quiet. A loaded plugin alone is no evidence: its devices have to carry data. What was
// not observed is unknown.
//
// A verdict that is known changes after two readings in a row that contradict it. What is unknown contradicts
// nothing: the last verdict stands for an hour (keep), while the process lives as far as is known. A job is
// as bad as its worst rank.
package job

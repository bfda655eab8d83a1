// SPDX-License-Identifier: Apache-2.0

// Package probes measures the training fabric of this node with short NCCL collectives, on a schedule and by hand, on
// GPUs that are verified idle. It is pure Go: NCCL and CUDA run in processes of their own, one for each rank, which this
// package asks step by step over the protocol of rank.go. They are never loaded into the exporter.
//
// Harm comes first. The gate opens only when every source could be read and reports idle; while a probe runs, any other process
// on its GPUs has the ranks killed. Between probes nothing is held: no process, no memory of a GPU, no lock.
//
// What ranks, logs, the state file and the node say is not trusted: sizes, counts and times are bounded.
//
// # From schedule to result
//
// A Prober decides when a probe is due and judges its result. It asks a Machine what could be probed and has it run one probe
// at a time. For a real node the Machine is a Host: it makes a Plan, has the Gate opened, and Run asks the RankProcess of each
// Rank. Probes are off until the configuration enables them (probes.enabled).
//
//  1. Plan (plan*.go): from the node to ranks, GPUs and the environment of each rank. transport makes a communicator of one rank
//     and reads the chosen network from NCCL's log; node uses all GPUs; rail has two ranks, which NCCL takes for different
//     hosts, meet in one HCA port; socket does the same over TCP; calibrate runs by hand only. Files from which ranks take settings, plugins
//     and libraries (as NCCL and the loader find them) and every path in a variable must not be writable by others (package
//     ownership, ncclprobe.Vet). If one is, the probe is skipped instead of run without it: without the plugin of the site it
//     would take another path than its jobs, which is a false alarm.
//  2. Gate (gate*.go, lock.go): a source that cannot be read keeps it shut. So does a scheduler whose jobs cannot be seen, unless
//     a command of the site (idle_command) reports that the node is free. GPUs are watched for a minute before a run, every
//     100 ms during it, and twice before a rank opens one. After it, the driver is asked until it shows nothing of the ranks, for
//     10 s at most. Outside of the node's PID namespace the gate never opens: NVML lists only processes that it can see.
//     During maintenance of GPUs, the worker that the gate asks releases them like that of the exporter (GateOptions.Maintenance).
//  3. Run (run*.go): one process per rank, asked step by step: open, make an id, connect, measure, close. All ranks get a step
//     together, and the next one when all have answered. So no rank waits for another without a deadline, and the number of
//     iterations is decided once for all.
//  4. Rank (package ncclprobe): answers in time even when a library hangs, and names the function. It verifies every result.
//  5. Judgement (baseline.go, fault.go): median and MAD of results with the same fingerprint. A result below the limit is
//     measured again; only a second one makes a regression. Regressed results do not enter the baseline. Small messages have a
//     median of their own under the same conditions. Faults are decided here and have a series only while they exist: alert rules
//     over all probes would cost more than all other rules.
//  6. Memory (state*.go): one file with a checksum, replaced atomically, in a folder that other users cannot reach. It and the
//     empty lock file are all that probes write.
//
// What the budget limits is the time with a CUDA context, not the traffic, because the context is what takes GPU time from
// jobs (duty). It survives restarts.
package probes

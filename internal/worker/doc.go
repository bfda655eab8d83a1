// SPDX-License-Identifier: Apache-2.0

// Package worker runs what must not run in the exporter's own process: vendor libraries, in which any call
// may crash, hang or print. A Process is a child of this binary that answers one request at a time over a
// pipe. It starts when it is first asked, starts again with back-off after it failed (1 s, doubling to 5
// min), is killed when it does not answer, and can be ended within seconds so that it holds nothing open.
// Child and Serve are the other end. A Task is a child for one run: it is started once, has a pipe for its
// library's log, and can be killed at any moment; its other end is TaskChild. A Command is
// a program of the site.
//
// The child is the leader of a process group of its own, which is killed as a whole. It dies with the exporter,
// however that ends: the kernel kills it when the thread that started it dies (PDEATHSIG), so a goroutine that is
// locked to its thread starts each child and stays until it is reaped. A child may retire: one that ends with status 0
// after an answer has not failed, and the next request to a Process starts another. A killed child that the kernel does
// not release, because it hangs in a driver, has no successor in its Process until it is gone.
//
// All methods may be called from any goroutine. What a child sends and prints is bounded before it is used.
// Errors are those below, with what is known of the child's end: its exit status and the line that it died with.
//
// # Privileges
//
// A child can never have more privileges than it begins with. The goroutine that starts it has a thread to
// itself, which sets no_new_privs, drops its capabilities and bounding set, enters the Room of the run, and
// then forks. All three are attributes of threads; Go starts no thread from a locked one, and this thread
// ends with its goroutine, so the exporter keeps its own.
//
//   - A root exporter runs NVML and ranks as nobody where every user may open the devices and read the libraries
//     (InPlaceOfRoot). Elsewhere they are root without capabilities, and the debug log gives the reason.
//   - Ranks keep CAP_IPC_LOCK where RLIMIT_MEMLOCK cannot be lifted (Options.PinsMemory), and no other capability.
//   - There is no seccomp filter: the system calls of CUDA and NCCL change with each release, and a filter that
//     kills a rank would be a false alarm.
//   - The exporter, the worker for NVML and that of RDMA ping are not dumpable. Ranks are,
//     because NCCL's plugins access the memory
//     of other ranks of the same user.
//
// # Shared memory
//
// A Room is a mount namespace with its own /dev/shm, one for all ranks of a run, because NCCL uses shared
// memory only where both sides see one device. Without CAP_SYS_ADMIN the maps of the ranks are read ten times
// a second instead, and the files seen there are removed at the end; files of other processes never are.
//
// # Limits of supervision
//
// What a child leaves in its process group is killed and, where the exporter is the init of a container, reaped.
//
// A guarded child (Options.Guarded) leaves nothing, also not in another session, however it or the exporter
// ends: its guard, which runs no foreign code, is a subreaper (PR_SET_CHILD_SUBREAPER) and so becomes the
// parent of all that the child leaves. The exporter itself is none, because it could not tell what a child
// left from what others start in its container, whose init it may be. A guard that is killed by another takes
// the child with it, and not what has a session of its own.
//
// Of other children, a process in another session is not found, and what they started outlives an exporter
// that is killed, because the signal of the kernel goes to the child only. These are ranks, whose process the
// prober must know, and Commands, which are the site's.
package worker

// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"

	"gpufabric_exporter/internal/fabric"
)

// GPUReader asks the GPUs' driver now: nothing of what it is asked for comes from a cache. Facts have the time when
// the reading began. PIDs are those of the namespace that this process is in.
type GPUReader interface {
	// Read reads what changes with jobs: processes, memory, utilisation, reasons for low clocks. With modes it also reads
	// compute mode, MIG, persistence and the errors of links.
	Read(ctx context.Context, modes bool) (fabric.GPUDriver, error)
	// Processes reads the processes of all GPUs, ten times a second while a probe runs. Of a GPU, only UUID, Lost and
	// Processes are used.
	Processes(ctx context.Context) ([]fabric.GPU, error)
	// Release releases the GPUs until the next call.
	Release()
}

// ProcessReader reads procfs.
type ProcessReader interface {
	// Initial returns nil if this process and procfs are in the initial PID namespace of the node, and procfs shows all
	// processes. Elsewhere the driver leaves out processes of other namespaces, so that an empty list proves nothing.
	Initial() error
	// Find returns the processes whose command (comm) is wanted. Processes that end meanwhile are no error; one whose
	// name cannot be read is.
	Find(ctx context.Context, wanted func(command string) bool) ([]fabric.Process, error)
	// Process returns one process without its arguments.
	Process(pid int) (fabric.Process, error)
}

// CgroupReader looks for the groups of schedulers.
type CgroupReader interface {
	Cgroups() (fabric.Cgroups, error)
}

// PodReader asks the kubelet.
type PodReader interface {
	// GPUs names the containers that have a GPU ("namespace/pod/container"). Kubelet is false if it has no socket here.
	GPUs(ctx context.Context) (containers []string, kubelet bool, err error)
}

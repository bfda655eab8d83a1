// SPDX-License-Identifier: Apache-2.0

package fabric

// Process is a process as procfs shows it.
type Process struct {
	PID    int
	Parent int    // PID of the process that started it, or of who adopted it; 0: outside of what procfs shows
	User   uint32 // real user ID, 0: root
	// NSPIDs are its PIDs in the namespace of procfs, which is PID, and in those nested in it that the process is in
	// (NSpid of /proc/<pid>/status). One means that it is in the namespace of procfs itself.
	NSPIDs []int
	// Command is the first 15 bytes of the name of the program (comm). The owner of the process can change it.
	Command string
	Args    []string // of the command line; bounded
}

// Cgroups is what the control groups of a node show of schedulers.
type Cgroups struct {
	Slurm     bool     // slurmd has made groups here
	SlurmJobs []string // ids of the jobs that have a group, "123"; bounded
	Pods      bool     // kubelet has made groups here
}

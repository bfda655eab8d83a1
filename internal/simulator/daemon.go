// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strconv"
)

// Daemon is a process of the host that runs for long. Process 1 is there without an entry.
type Daemon struct {
	PID     int
	Name    string
	User    int
	Memlock Memlock
}

// Memlock is how much memory a process may lock, as /proc/<pid>/limits prints it: bytes, or "unlimited".
type Memlock struct{ Soft, Hard string }

const unlimited = "unlimited"

// slurmd is the daemon of Slurm as its own unit starts it.
func slurmd(pid int) Daemon {
	return Daemon{PID: pid, Name: "slurmd", Memlock: Memlock{unlimited, unlimited}}
}

// containerd has the limit that systemd sets where the unit sets none.
func containerd(pid int) Daemon {
	return Daemon{PID: pid, Name: "containerd", Memlock: Memlock{"8388608", "8388608"}}
}

// daemon returns the daemon of that name, or nil.
func (n *Node) daemon(name string) *Daemon {
	return lookup(n.Daemons, func(d Daemon) bool { return d.Name == name })
}

// daemons lays out what procfs has of processes (fs/proc/base.c and fs/proc/array.c in the kernel), as far as readers need it.
func (f files) daemons(n *Node) {
	for _, d := range append([]Daemon{{PID: 1, Name: "systemd", Memlock: Memlock{"67108864", "67108864"}}}, n.Daemons...) {
		const row = "%-25s %-20s %-20s %-10s\n"
		dir := procfs + "/" + strconv.Itoa(d.PID)
		f.text(dir+"/comm", d.Name)
		f.text(dir+"/status", fmt.Sprintf("Name:\t%s\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t%d\nPid:\t%d\nPPid:\t%d\nUid:\t%[5]d\t%[5]d\t%[5]d\t%[5]d\n",
			d.Name, d.PID, d.PID, min(1, d.PID-1), d.User))
		f.text(dir+"/limits", fmt.Sprintf(row+row+row+row, "Limit", "Soft Limit", "Hard Limit", "Units",
			"Max cpu time", unlimited, unlimited, "seconds", "Max locked memory", d.Memlock.Soft, d.Memlock.Hard, "bytes", "Max nice priority", "0", "0", ""))
	}
}

// SPDX-License-Identifier: Apache-2.0

package log

import (
	"strconv"
	"strings"
)

// Node is what a file that is given with a log shows of the host.
type Node struct {
	Exclusive    bool // GPUs are in compute mode Exclusive_Process
	PeerMemory   bool // ls does not find the peer memory of amdgpu
	FreeAboveAll bool // the kernel counts more free contiguous memory (CMA) than it has
	Processes    int  // that mpirun starts, 0: not said

	contiguous int // KiB, and 1 more
}

// shows takes a line of nvidia-smi, /proc/meminfo or ls, or of a command.
func (n *Node) shows(words []string, line string) {
	switch {
	case words[0] == "CmaTotal:" && len(words) > 1:
		if total, err := strconv.Atoi(words[1]); err == nil && total >= 0 {
			n.contiguous = total + 1
		}
	case words[0] == "CmaFree:" && len(words) > 1:
		free, err := strconv.Atoi(words[1])
		n.FreeAboveAll = err == nil && n.contiguous > 0 && free > n.contiguous
	case strings.HasPrefix(line, "ls: ") && strings.Contains(line, "memory_peers/amdkfd"):
		n.PeerMemory = true
	case strings.HasSuffix(line, " Exclusive_Process"):
		n.Exclusive = true
	}
	for i, w := range words[:len(words)-1] {
		if count, err := strconv.Atoi(words[i+1]); w == "-np" && err == nil && count > 0 && count < maxRanks {
			n.Processes = max(n.Processes, count)
		}
	}
}

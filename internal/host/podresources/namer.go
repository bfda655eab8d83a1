// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"context"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// again is when a Namer asks once more for what it could not name. It asks at once when a container appears.
const again = time.Minute

// Namer names the pods of processes over many readings. A container keeps its name as long as readings
// contain one of its processes, because the kubelet may later assign its GPUs to another container. A Namer
// serves one goroutine at a time.
type Namer struct {
	list  func(context.Context) (list []Container, kubelet bool, err error)
	names map[string]name // by pod and container ID
	asked time.Time
	about map[string]bool // pods and container IDs that were there then, without a name
	err   error           // of the last question
}

type name struct{ job, container string }

// NewNamer returns a Namer that asks with list, as Client.Containers does.
func NewNamer(list func(context.Context) ([]Container, bool, error)) *Namer {
	return &Namer{list: list, names: map[string]name{}}
}

// Name names the pods of the processes in the list, and returns the error of the last question. What has no
// name keeps the UID of its pod.
func (n *Namer) Name(ctx context.Context, list []fabric.RankCandidate, now time.Time) error {
	here, fresh, missing := map[string]bool{}, false, map[string]bool{}
	for i := range list {
		w := &list[i].Workload.Value
		if w.Pod == "" || w.ContainerID == "" {
			continue
		}
		here[keyOf(w)] = true
		if _, known := n.names[keyOf(w)]; !known {
			missing[keyOf(w)] = true
			fresh = fresh || !n.about[keyOf(w)]
		}
	}
	for id := range n.names {
		if !here[id] {
			delete(n.names, id)
		}
	}
	if len(missing) > 0 && (fresh || now.Sub(n.asked) >= again) {
		n.asked, n.about = now, missing
		n.err = n.ask(ctx, list)
	}
	for i := range list {
		w := &list[i].Workload.Value
		if as, known := n.names[keyOf(w)]; known {
			// a scheduler in the pod has a name of its own for the job
			if w.Container = as.container; w.Scheduler == "kubernetes" {
				w.Job = as.job
			}
		}
	}
	return n.err
}

// keyOf is what a container is known by: what stands in the control group of one pod is not taken for that of another.
func keyOf(w *fabric.Workload) string { return w.Pod + "/" + w.ContainerID }

// ask asks the kubelet, and notes the pod of each container.
func (n *Namer) ask(ctx context.Context, list []fabric.RankCandidate) error {
	containers, _, err := n.list(ctx)
	for id, c := range owners(list, containers) {
		if _, known := n.names[id]; !known {
			n.names[id] = name{c.Namespace + "/" + c.Pod, c.Name}
		}
	}
	return err
}

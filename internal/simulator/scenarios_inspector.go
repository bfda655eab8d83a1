// SPDX-License-Identifier: Apache-2.0

package simulator

// slowedFrom is the step from which the collectives of a job are slow: after two intervals of Inspector.
const slowedFrom = 2 * inspectorInterval

// inspectorScenarios are jobs that measure their collectives by NCCL Inspector.
func inspectorScenarios() []Scenario {
	return []Scenario{
		{
			Name: "job-inspector", Platform: h100, Jobs: rdmaJob("slurm/4242", "verbs"), site: inspecting,
			Summary: "nothing is wrong with a job that uses NCCL Inspector",
			Truth:   "Each minute for an hour, each rank writes what an AllReduce of all 16 ranks (360 GB/s) and an AllGather of the 8 of the node (350 GB/s) reached.",
			edit:    func(n *Node) { n.inspected(0) },
		},
		{
			Name: "job-bandwidth-falls", Platform: h100, Jobs: rdmaJob("slurm/4242", "verbs"), site: inspecting,
			Summary: "the collectives of a job fall to a third of their bandwidth",
			Truth:   "After two minutes AllReduce between the nodes reaches 120 instead of 360 GB/s by NCCL Inspector, and AllGather within the node is as fast as before. The node looks well: the fault is in the network or on the other node.",
			edit:    func(n *Node) { n.inspected(slowedFrom) },
		},
	}
}

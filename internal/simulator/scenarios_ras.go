// SPDX-License-Identifier: Apache-2.0

package simulator

const (
	asking   = "nccl:\n  ask_ras: true\n"
	rasFrom  = 45       // step, by which two readings have seen a healthy job
	rasNCCL  = "2.30.7" // whose RAS is asked
	rasSlurm = "slurm/4242"
)

// rasScenarios are jobs that look well on the node, and of which NCCL RAS reports what is wrong.
func rasScenarios() []Scenario {
	with := func(t Trouble) func(n *Node) {
		t.From = rasFrom
		return func(n *Node) {
			n.train(jobPlan{devices: rails8(), queuePairs: 64, version: rasNCCL})
			n.Jobs[0].Trouble = t
		}
	}
	return []Scenario{
		{
			Name: "job-hang", Platform: h100, Jobs: rdmaJob(rasSlurm, "verbs"), policy: asking,
			Summary: "a job hangs: one rank did not launch what the others wait for",
			Truth:   "After 45 s RDMA carries nothing while the GPUs stay busy. NCCL RAS reports that rank 11, on the other node, is one collective behind and no rank moves.",
			edit:    with(Trouble{Stops: true, Rank: 11, Behind: 1}),
		},
		{
			Name: "job-rank-dead", Platform: h100, Jobs: rdmaJob(rasSlurm, "verbs"), policy: asking,
			Summary: "a job lost a rank",
			Truth:   "After 45 s RDMA carries nothing while the GPUs stay busy. NCCL RAS gave up on the process of rank 12, on the other node.",
			edit:    with(Trouble{Stops: true, Rank: 12, Dead: true}),
		},
		{
			Name: "job-straggler", Platform: h100, Jobs: rdmaJob(rasSlurm, "verbs"), policy: asking,
			Summary: "a rank holds up its job",
			Truth:   "After 45 s the GPU of rank 3 is mostly idle and the others stay busy. NCCL RAS reports that the rank is four collectives behind, and moves.",
			edit:    with(Trouble{Rank: 3, Behind: 4, Idle: true}),
		},
	}
}

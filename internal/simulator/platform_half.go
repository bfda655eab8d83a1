// SPDX-License-Identifier: Apache-2.0

package simulator

import "strings"

// halfCabled is the B200 node on a fabric that was built for half of its ports: every second rail has a cable, NCCL_IB_HCA
// lists those four, and the site expects four. GPUs without one go through the rail of their neighbour.
func halfCabled() platform {
	return platform{name: "half-cabled", build: buildHalfCabled, gdr: []GDRLabel{{Path: viaDMABuf}}, config: `expected:
  compute_ports: 4
  port_rate_gigabits_per_second: {compute: 400}
`}
}

func buildHalfCabled() *Node {
	n := buildDGXB200()
	n.Host.Name = "dgx-b200-61"
	n.Files[ncclConf] = strings.Replace(n.Files[ncclConf], "NCCL_IB_HCA=mlx5\n", "NCCL_IB_HCA==mlx5_0,mlx5_2,mlx5_4,mlx5_6\n", 1)
	for _, device := range []string{"mlx5_1", "mlx5_3", "mlx5_5", "mlx5_7"} {
		n.LinkDown(device)
		n.HCA(device).silence(n)
	}
	return n
}

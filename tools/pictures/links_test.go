// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestLinks(t *testing.T) {
	boards := []board{{uid: "gpufabric-port"}, {uid: "gpufabric-node"}}
	const port = "http://127.0.0.1:3000/d/gpufabric-port/gpu-fabric-port?var-cluster=All&var-instance=gpu-06"
	tests := []struct{ name, text, to, want string }{
		{"port", "mlx5_3", port + "&var-device=mlx5_3", ""},
		{"first of several", "mlx5_3, mlx5_4", port + "&var-device=mlx5_3", ""},
		{"first of many", "8 devices", port + "&var-device=mlx5_0", ""},
		{"all of many", "8 devices", port + "&var-device=mlx5_0,mlx5_1", "var-device is not what the link says"},
		{"none of many", "8 devices", port + "&var-device=", "var-device is empty"},
		{"end of a name", "3", port + "&var-device=mlx5_3&3&0", ""},
		{"end of another name", "3", port + "&var-device=mlx5_13", "var-device is not what the link says"},
		{"end of a name of EFA", "113s0", port + "&var-device=rdmap113s0", ""},
		{"GPU", "GPU 2 (0000:52:00.0)", port + "&var-device=All", ""},
		{"figure that leads to its panel", "128", port + "&var-device=All&viewPanel=7", ""},
		{"device for all", "mlx5_3", port + "&var-device=All", "var-device is not what the link says"},
		{"empty cell", "", port + "&var-device=", ""},
		{"no device", "mlx5_3", port + "&var-device=", "var-device is empty"},
		{"node", "10.0.0.1:9100", "http://127.0.0.1:3000/d/gpufabric-node/x?var-instance=10.0.0.1:9100", ""},
		{"runbook", "The port is not active", "https://wiki.example/check-ports.md#port_active", ""},
		{"value for the name", "mlx5_3", port + "&var-device=mlx5_3%200", "var-device is not what the link says"},
		{"all of several", "mlx5_3, mlx5_4", port + "&var-device=mlx5_3,mlx5_4", "var-device is not what the link says"},
		{"another node", "gpu-07", port, "var-instance is not what the link says"},
		{"not filled in", "mlx5_3", port + "&var-device=%24%7B__data.fields.Device%7D", "Grafana did not fill in var-device"},
		{"runbook not filled in", "x", "https://wiki.example/$%7B__value.text%7D.md", "Grafana did not fill in the address"},
		{"job", "slurm/7", "http://127.0.0.1:3000/d/gpufabric-node/x?var-training_job=slurm%2F7", ""},
		{"job of a node", "slurm/7", "http://127.0.0.1:3000/d/gpufabric-node/x?var-instance=gpu-05&var-training_job=slurm%2F7", ""},
		{"all jobs", "-", "http://127.0.0.1:3000/d/gpufabric-node/x?var-training_job=All", ""},
		{"all jobs for one", "slurm/7", "http://127.0.0.1:3000/d/gpufabric-node/x?var-training_job=All", "var-training_job is not what the link says"},
		{"no job", "-", "http://127.0.0.1:3000/d/gpufabric-node/x?var-training_job=", "var-training_job is not what the link says"},
		{"another job", "slurm/7", "http://127.0.0.1:3000/d/gpufabric-node/x?var-training_job=slurm%2F8", "var-training_job is not what the link says"},
		{"no dashboard", "gpu-06", "http://127.0.0.1:3000/d/gpufabric-nodes/x?var-instance=gpu-06", "no such dashboard"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := panelState{Title: "Rails", Links: []linkState{{test.text, test.to}}}
			err := lost([]panelState{p}, boards)
			if (err == nil) != (test.want == "") || err != nil && !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"strings"
	"testing"
)

const (
	noDevice   = "ignored (warning): The container has no RDMA device"
	ownNetwork = "wrong_here (warning): The container has a network of its own"
	tooLittle  = "wrong_here (warning): The container may lock too little memory"
	perhaps    = "undecided (info): How much memory the container may lock"
	noFabric   = "refused (critical): The container has no RDMA device"
)

// contains reports which of these findings a text has.
func contained(text string) string {
	var found []string
	for name, finding := range map[string]string{"device": noDevice, "network": ownNetwork, "limit": tooLittle, "memory": perhaps, "fabric": noFabric} {
		if strings.Contains(text, finding) {
			found = append(found, name)
		}
	}
	return strings.Join(found, " ")
}

// What a container lacks makes NCCL fall back in silence, or fail.
func TestCommandsOfContainers(t *testing.T) {
	for _, c := range []struct{ options, want string }{
		{"", "device"},
		{"--device /dev/infiniband --ulimit memlock=-1", ""},
		{"--device=/dev/infiniband:/dev/infiniband --cap-add=IPC_LOCK", ""},
		{"--device=/dev/infiniband/uverbs0 --ulimit memlock=-1:-1", ""},
		{"--device=/dev/infiniband", "memory"},
		{"--device=/dev/infiniband --ulimit memlock=65536", "limit"},
		{"--privileged", ""},
		{"--privileged=false", "device"},
		{"-v /dev/infiniband:/dev/infiniband", "device"},
		{"--device nvidia.com/gpu=all", "device"},
		{"--device example.com/rdma=all", ""},
		{"-e MELLANOX_VISIBLE_DEVICES=all", ""},
		{"--env-file $FILE", ""},
		{"$EXTRA_ARGS", ""},
		{"\"${options[@]}\"", ""},
		{"--gpus all --rm -it $IMAGE", "device"},
		{"--network $NET", "device"},
	} {
		got := lintText(t, "sudo docker run "+c.options+" -e NCCL_IB_HCA=mlx5_6 image ./a\n", FormatShell, "2.30.7")
		if contained(got) != c.want {
			t.Errorf("%s: %q, want %q\n%s", c.options, contained(got), c.want, got)
		}
	}
	for script, want := range map[string]string{
		"podman run -e NCCL_IB_HCA=mlx5_6 i":                                                        "device",
		"docker exec -e NCCL_IB_HCA=mlx5_6 i ./a":                                                   "",
		"apptainer run --env NCCL_IB_HCA=mlx5_6 i":                                                  "",
		"docker run -e NCCL_NET=IB i":                                                               "fabric",
		"docker run -e NCCL_NET=Socket -e NCCL_IB_HCA=x i":                                          "",
		"docker run -e NCCL_IB_DISABLE=1 -e NCCL_IB_HCA=x i":                                        "",
		"docker run -e NCCL_IB_DISABLE=0 i":                                                         "",
		"docker run -e NCCL_IB_DISABLE=0 i torchrun --nnodes 2 a.py":                                "device",
		"docker run -e NCCL_SOCKET_IFNAME=ens9 i":                                                   "network",
		"docker run --net host -e NCCL_SOCKET_IFNAME=ens9 i":                                        "",
		"docker run -e NCCL_SOCKET_IFNAME=eth i":                                                    "",
		"docker run -e NCCL_SOCKET_IFNAME==eth i":                                                   "network",
		"docker run -e NCCL_SOCKET_IFNAME=^ens9 i":                                                  "",
		"podman run -e NCCL_SOCKET_IFNAME=ens9 i":                                                   "",
		"ssh n \"docker run i bash -c 'NCCL_IB_TC=106 ./a'\"":                                       "device",
		"export NCCL_IB_HCA=mlx5_6\ndocker run -v /a:/b i ./a\n":                                    "",
		"docker run -e NCCL_IB_HCA=mlx5_6 --device /dev/infiniband --ulimit memlock=-1 i\n./a -e x": "",
	} {
		if got := contained(lintText(t, script+"\n", FormatShell, "2.30.7")); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
}

func TestPods(t *testing.T) {
	const gpu = "resources: {limits: {nvidia.com/gpu: 8}}"
	pod := func(of, container string) string {
		return "kind: Pod\n" + of + "\nspec:\n  containers:\n  - env: [{name: NCCL_IB_HCA, value: mlx5_6}]\n    " + container + "\n"
	}
	for _, c := range []struct{ text, want string }{
		{pod("", gpu), "device"},
		{pod("", "x: y"), ""},
		{pod("", "resources: {limits: {nvidia.com/gpu: 8, rdma/ib: 1}}"), "memory"},
		{pod("", "resources: {limits: {nvidia.com/gpu: 8, nvidia.com/hostdev: 8}}\n    securityContext: {capabilities: {add: [IPC_LOCK]}}"), ""},
		{pod("", "resources: {limits: {nvidia.com/gpu: 8, github.com/fuse: 1}}"), ""},
		{pod("", "resources: {limits: {nvidia.com/mig-1g.5gb: 1}}"), "device"},
		{pod("", "resources: {limits: {amd.com/gpu: 8}}"), "device"},
		{pod("", gpu+"\n    securityContext: {privileged: true}"), ""},
		{pod("metadata: {annotations: {k8s.v1.cni.cncf.io/networks: a}}", gpu), ""},
		{pod("metadata: {annotations: {prometheus.io/scrape: a}}", gpu), "device"},
		{strings.Replace(pod("", gpu), "spec:", "spec:\n  resourceClaims: [{name: a}]", 1), ""},
		{strings.Replace(pod("", gpu), "spec:", "spec:\n  runtimeClassName: kata", 1), ""},
		{strings.Replace(pod("", gpu), "spec:", "spec:\n  volumes: [{name: a, hostPath: {path: /dev/infiniband}}]", 1), "device"},
		{strings.Replace(pod("", gpu), "NCCL_IB_HCA, value: mlx5_6", "NCCL_SOCKET_IFNAME, value: ib0", 1), "network"},
		{strings.Replace(strings.Replace(pod("", gpu), "NCCL_IB_HCA, value: mlx5_6", "NCCL_SOCKET_IFNAME, value: ib0", 1), "spec:", "spec:\n  hostNetwork: true", 1), ""},
		{"services:\n  a:\n    environment: {NCCL_IB_HCA: mlx5_6}\n", "device"},
		{"services:\n  a:\n    environment: [NCCL_IB_HCA=mlx5_6]\n    devices: [\"/dev/infiniband:/dev/infiniband\"]\n    ulimits: {memlock: -1}\n", ""},
		{"services:\n  a:\n    environment: [NCCL_IB_HCA=mlx5_6]\n    devices: [/dev/infiniband]\n    ulimits: {memlock: {soft: 1024, hard: 2048}}\n", "limit"},
		{"services:\n  a:\n    environment: [NCCL_SOCKET_IFNAME=ens9]\n    network_mode: host\n", ""},
		{"services:\n  a:\n    environment: [NCCL_SOCKET_IFNAME=ens9]\n", "network"},
		{"services:\n  a:\n    environment: [NCCL_SOCKET_IFNAME=ens9]\n    networks: [host]\n", ""},
		{"services:\n  a:\n    environment: [NCCL_IB_HCA=mlx5_6]\n    extends: b\n", ""},
		{"services:\n  a:\n    environment: [NCCL_IB_HCA=mlx5_6]\n    deploy: {resources: {reservations: {devices: [{driver: nvidia}]}}}\n", "device"},
		{"services:\n  a:\n    environment: [NCCL_IB_HCA=mlx5_6]\n    deploy: {resources: {reservations: {devices: [{driver: cdi}]}}}\n", ""},
		{"services:\n  a:\n    environment: [NCCL_IB_HCA=mlx5_6]\n    deploy: {resources: {reservations: {devices: [{driver: cdi, device_ids: [nvidia.com/gpu=all]}]}}}\n", "device"},
		{"kind: ConfigMap\nmetadata: {name: a}\ndata: {NCCL_IB_HCA: mlx5_6}\n---\nspec: {containers: [{" + gpu + ", envFrom: [{configMapRef: {name: a}}]}]}\n", "device"},
		{"kind: ConfigMap\nmetadata: {name: a}\ndata: {NCCL_IB_HCA: mlx5_6}\n---\nspec: {containers: [{" + gpu + ", envFrom: [{configMapRef: {name: b}}]}]}\n", ""},
		{ // what a launcher sets counts where the GPUs are
			"kind: MPIJob\nlauncher:\n  containers:\n  - args: [mpirun, -x, NCCL_IB_HCA=mlx5_6]\nworker:\n  containers:\n  - " + gpu + "\n", "device",
		},
		{"kind: MPIJob\nlauncher:\n  containers:\n  - args: [mpirun, -x, NCCL_IB_HCA=mlx5_6]\nworker:\n  containers:\n  - resources: {limits: {nvidia.com/gpu: 1, rdma/a: 1}}\n    securityContext: {capabilities: {add: [IPC_LOCK]}}\n", ""},
		{"kind: Pod\nspec: {containers: [{env: [{name: NCCL_IB_HCA, value: a}]}]}\n---\nspec: {containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}\n", ""},
	} {
		got := lintText(t, c.text, FormatManifest, "2.30.7")
		if contained(got) != c.want {
			t.Errorf("%q, want %q of\n%s\n%s", contained(got), c.want, c.text, got)
		}
	}
	efa := "kind: Pod\nspec:\n  containers:\n  - resources: {limits: {nvidia.com/gpu: 8, X: 1}}\n    env:\n    - {name: FI_PROVIDER, value: efa}\n    - {name: NCCL_DEBUG, value: WARN}\n"
	if got := lintText(t, efa, FormatManifest, "2.30.7"); !strings.Contains(got, "6 =: ignored (warning): FI_PROVIDER=efa, and the container has no EFA device") {
		t.Errorf("without EFA: %s", got)
	}
	if got := lintText(t, strings.Replace(efa, "X", "vpc.amazonaws.com/efa", 1), FormatManifest, "2.30.7"); strings.Contains(got, "warning") {
		t.Errorf("with EFA: %s", got)
	}
}

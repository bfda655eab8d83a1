// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

func TestDecodeContainers(t *testing.T) {
	message := pod("ml", "train-0", container("main", devices("nvidia.com/gpu", "GPU-a", "GPU-b"), number, fixed64)) +
		pod("ml", "sliced", container("c", devices("nvidia.com/gpu.shared", "GPU-c::0", "GPU-c::3"))) +
		pod("ml", "mig", container("c", devices("nvidia.com/mig-1g.5gb", "MIG-d"))) +
		pod("gke", "p", container("sidecar"), container("c", devices("nvidia.com/gpu", "nvidia3", "nvidia5/gi1"))) +
		pod("dra", "p", container("c", claim("gpu.nvidia.com", "k8s.gpu.nvidia.com/claim=0123-gpu-4"), claim("gpu.nvidia.com", "k8s.gpu.nvidia.com/device=gpu-6"))) +
		pod("net", "p", container("c", devices("nvidia.com/rdma_shared", "0", "1"), claim("dra.net", "dra.net/nic=eth1")))
	want := []Container{
		{"ml", "train-0", "main", []string{"GPU-a", "GPU-b"}, nil},
		{"ml", "sliced", "c", []string{"GPU-c"}, nil},
		{"ml", "mig", "c", []string{"MIG-d"}, nil},
		{"gke", "p", "c", nil, []int{3, 5}},
		{"dra", "p", "c", nil, []int{4, 6}},
	}
	got, err := decodeContainers([]byte(message))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v, want\n%+v", err, got, want)
	}
	for name, odd := range map[string]string{
		"quotes":    pod("ml", "a\"}", container("c", devices("nvidia.com/gpu", "GPU-a"))),
		"long name": pod("ml", strings.Repeat("a", 254), container("c", devices("nvidia.com/gpu", "GPU-a"))),
		"cut off":   message[:len(message)-3],
	} {
		if got, err := decodeContainers([]byte(odd)); fabric.ReasonOf(err) != fabric.ReasonMalformed || got != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestContainersAreAsked(t *testing.T) {
	c := kubelet(t, reply("0", framed(pod("ml", "a", container("c", devices("nvidia.com/gpu", "GPU-a"))))))
	list, found, err := c.Containers(t.Context())
	if err != nil || !found || len(list) != 1 || list[0].Pod != "a" {
		t.Errorf("%+v, %t, %v", list, found, err)
	}
	if list, found, err := New(t.TempDir() + "/none").Containers(t.Context()); err != nil || found || list != nil {
		t.Errorf("without a kubelet: %+v, %t, %v", list, found, err)
	}
	if _, found, err := kubelet(t, reply("13", "")).Containers(t.Context()); err == nil || !found {
		t.Errorf("a refusal: %t, %v", found, err)
	}
}

// Processes are named by their GPUs; where several containers have the same GPU, by all GPUs of a container's processes.
func TestJoin(t *testing.T) {
	containers := []Container{
		{"ml", "alone", "main", []string{"GPU-a", "GPU-b"}, nil},
		{"ml", "shared-1", "c", []string{"GPU-c"}, nil},
		{"ml", "shared-2", "c", []string{"GPU-c", "GPU-d"}, nil},
		{"gke", "minor", "c", nil, []int{7}},
	}
	process := func(scheduler, id string, minors []int, uuids ...string) fabric.RankCandidate {
		at := time.Time{}
		r := fabric.RankCandidate{
			Workload: fabric.Known(fabric.Workload{Scheduler: scheduler, Job: "uid-" + id, Pod: "uid-" + id, ContainerID: id}, "", at),
			GPUs:     fabric.None[[]string]("NVML", at),
			Files:    fabric.Known(fabric.OpenFiles{GPUs: minors}, "", at),
		}
		if len(uuids) > 0 {
			r.GPUs = fabric.Known(uuids, "NVML", at)
		}
		return r
	}
	list := []fabric.RankCandidate{
		process("kubernetes", "1", []int{0}, "GPU-a"),
		process("kubernetes", "1", []int{1}, "GPU-b"),
		process("kubernetes", "2", []int{2}, "GPU-c"), // of either
		process("kubernetes", "3", []int{2}, "GPU-c"), // of the second, as the next one shows
		process("kubernetes", "3", []int{3}, "GPU-d"),
		process("kubernetes", "4", []int{7}),
		process("kubernetes", "5", []int{6, 7}), // more GPUs than any has
		process("slurm", "1", []int{0}, "GPU-a"),
		process("kubernetes", "6", nil),
	}
	list[5].GPUs = fabric.NotKnown[[]string](fabric.ReasonMissing, "NVML", time.Time{})
	Join(list, containers)
	for i, want := range []string{"ml/alone main", "ml/alone main", "uid-2 ", "ml/shared-2 c", "ml/shared-2 c", "gke/minor c", "uid-5 ", "uid-1 main", "uid-6 "} {
		if w := list[i].Workload.Value; w.Job+" "+w.Container != want {
			t.Errorf("process %d: %s %s, want %s", i, w.Job, w.Container, want)
		}
	}
}

func FuzzDecodeContainers(f *testing.F) {
	f.Add([]byte(pod("ml", "a", container("c", devices("nvidia.com/gpu", "GPU-a::1", "nvidia0"), claim("gpu.nvidia.com", "x/y=gpu-1")))))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := decodeContainers(b)
		if err != nil && (list != nil || fabric.ReasonOf(err) != fabric.ReasonMalformed) {
			t.Errorf("%+v, %v", list, err)
		}
		for _, c := range list {
			if strings.ContainsAny(c.Namespace+c.Pod+c.Name, "\n\"{}") || len(c.UUIDs)+len(c.Minors) > maxDevices {
				t.Errorf("%+v", c)
			}
		}
	})
}

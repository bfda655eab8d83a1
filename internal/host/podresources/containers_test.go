// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"context"
	"errors"
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
		pod("dra", "p", container("c", claim("gpu.nvidia.com", "k8s.gpu.nvidia.com/claim=0123-gpu-4"), claim("gpu.nvidia.com", "k8s.gpu.nvidia.com/device=gpu-6"),
			claim("gpu.nvidia.com", "k8s.gpu.nvidia.com/claim=0123-gpu-2-mig-19-4-1"))) +
		pod("net", "p", container("c", devices("nvidia.com/rdma_shared", "0", "1"), claim("dra.net", "dra.net/nic=eth1")))
	want := []Container{
		{"ml", "train-0", "main", []string{"GPU-a", "GPU-b"}, nil},
		{"ml", "sliced", "c", []string{"GPU-c"}, nil},
		{"ml", "mig", "c", []string{"MIG-d"}, nil},
		{"gke", "p", "c", nil, []int{3, 5}},
		{"dra", "p", "c", nil, []int{4, 6, 2}},
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

// Processes are named by their GPUs; where several containers have the same GPU, by all GPUs of a container's
// processes.
func TestName(t *testing.T) {
	containers := []Container{
		{"ml", "alone", "main", []string{"GPU-a", "GPU-b"}, nil},
		{"ml", "shared-1", "c", []string{"GPU-c"}, nil},
		{"ml", "shared-2", "c", []string{"GPU-c", "GPU-d"}, nil},
		{"gke", "minor", "c", nil, []int{7}},
		{"ml", "mig-1", "c", []string{"MIG-1"}, nil},
		{"ml", "mig-2", "c", []string{"MIG-2"}, nil},
	}
	process := func(scheduler, id string, minors []int, uuids ...string) fabric.RankCandidate {
		at := time.Time{}
		r := fabric.RankCandidate{
			Workload: fabric.Known(fabric.Workload{Scheduler: scheduler, Job: "uid-" + id, Pod: "uid-" + id, ContainerID: id}, "", at),
			GPUs:     fabric.AbsentFact[[]string]("NVML", at),
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
		process("kubernetes", "7", []int{4}, "GPU-e"), // in MIG devices of one GPU
		process("kubernetes", "8", []int{4}, "GPU-e"),
		process("kubernetes", "9", []int{4}, "GPU-e"), // in one that is not known
	}
	list[9].Instances, list[10].Instances = []string{"MIG-1"}, []string{"MIG-2"}
	list[5].GPUs = fabric.UnknownFact[[]string](fabric.ReasonMissing, "NVML", time.Time{})
	n := NewNamer(func(context.Context) ([]Container, bool, error) { return containers, true, nil })
	if err := n.Name(t.Context(), list, time.Time{}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"ml/alone main", "ml/alone main", "uid-2 ", "ml/shared-2 c", "ml/shared-2 c", "gke/minor c", "uid-5 ", "uid-1 main", "uid-6 ", "ml/mig-1 c", "ml/mig-2 c", "uid-9 "} {
		if w := list[i].Workload.Value; w.Job+" "+w.Container != want {
			t.Errorf("process %d: %s %s, want %s", i, w.Job, w.Container, want)
		}
	}
}

// A pod that names a group of its own like the container of another pod keeps neither its name from that one
// nor gets it.
func TestNameOfAnotherPod(t *testing.T) {
	process := func(pod, uuid string) fabric.RankCandidate {
		w := fabric.Workload{Scheduler: "kubernetes", Job: pod, Pod: pod, ContainerID: "c0ffee"}
		return fabric.RankCandidate{Workload: fabric.Known(w, "", time.Time{}), GPUs: fabric.Known([]string{uuid}, "NVML", time.Time{})}
	}
	list := []fabric.RankCandidate{process("mallory", "GPU-b"), process("alice", "GPU-a")}
	n := NewNamer(func(context.Context) ([]Container, bool, error) {
		return []Container{{"ml", "alice", "c", []string{"GPU-a"}, nil}}, true, nil
	})
	if err := n.Name(t.Context(), list, time.Time{}); err != nil || list[0].Workload.Value.Job != "mallory" || list[1].Workload.Value.Job != "ml/alice" {
		t.Errorf("%v: %+v", err, list)
	}
}

// The kubelet is asked when a container appears, and once in a while for what has no name; never about what
// has one. A name is kept, and no other container has it.
func TestNamerAsks(t *testing.T) {
	at := time.Unix(1e9, 0)
	process := func(id, uuid string) fabric.RankCandidate {
		return fabric.RankCandidate{
			Workload: fabric.Known(fabric.Workload{Scheduler: "kubernetes", Job: "uid-" + id, Pod: "uid-" + id, ContainerID: id}, "", at),
			GPUs:     fabric.Known([]string{uuid}, "NVML", at),
		}
	}
	asked := 0
	containers, failure := []Container{{"ml", "a", "c", []string{"GPU-a"}, nil}}, error(nil)
	n := NewNamer(func(context.Context) ([]Container, bool, error) { asked++; return containers, true, failure })
	for _, c := range []struct {
		what  string
		after time.Duration
		now   func()
		list  []fabric.RankCandidate
		names string
		asked int
	}{
		{"no pod", 0, nil, []fabric.RankCandidate{{}}, "", 0},
		{"the first", 5 * time.Second, nil, []fabric.RankCandidate{process("1", "GPU-a")}, "ml/a", 1},
		{"the same", 10 * time.Second, nil, []fabric.RankCandidate{process("1", "GPU-a")}, "ml/a", 1},
		{"one without a name", 15 * time.Second, nil, []fabric.RankCandidate{process("1", "GPU-a"), process("2", "MIG-x")}, "ml/a uid-2", 2},
		{"the same, soon", 20 * time.Second, nil, []fabric.RankCandidate{process("1", "GPU-a"), process("2", "MIG-x")}, "ml/a uid-2", 2},
		{"the same, later", 80 * time.Second, nil, []fabric.RankCandidate{process("1", "GPU-a"), process("2", "MIG-x")}, "ml/a uid-2", 3},
		{
			"the GPU is given to another pod, and the kubelet fails",
			85 * time.Second, func() { containers, failure = nil, errors.New("no answer") },
			[]fabric.RankCandidate{process("1", "GPU-a"), process("3", "GPU-a")},
			"ml/a uid-3", 4,
		},
		{
			"the next pod",
			90 * time.Second, func() { containers, failure = []Container{{"ml", "b", "c", []string{"GPU-a"}, nil}}, nil },
			[]fabric.RankCandidate{process("4", "GPU-a")},
			"ml/b", 5,
		},
	} {
		if c.now != nil {
			c.now()
		}
		err := n.Name(t.Context(), c.list, at.Add(c.after))
		var names []string
		for _, r := range c.list {
			names = append(names, r.Workload.Value.Job)
		}
		if got := strings.Join(names, " "); got != c.names || asked != c.asked || (err != nil) != (failure != nil) {
			t.Errorf("%s: %q after %d questions, %v; want %q after %d", c.what, got, asked, err, c.names, c.asked)
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

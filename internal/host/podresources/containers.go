// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"gpufabric_exporter/internal/fabric"
)

// Container is one that has been given GPUs. The API has neither the UID of its pod nor its own ID: a process
// is found in it by its GPUs.
type Container struct {
	Namespace, Pod, Name string
	UUIDs                []string // of GPUs or MIG devices; those of replicas (time-slicing, MPS) without their number
	Minors               []int    // of /dev/nvidiaN: Google's plugin and dynamic resource allocation name no UUIDs
}

// Containers lists the containers that have been given a GPU. kubelet is false if there is no socket.
func (c *Client) Containers(ctx context.Context) (list []Container, kubelet bool, err error) {
	return ask(ctx, c, decodeContainers)
}

// decodeContainers reads the same message as decode, and what was given to each container.
func decodeContainers(message []byte) (list []Container, err error) {
	err = pods(message, identifier, func(pod []Container, namespace, name string) {
		for _, c := range pod {
			c.Namespace, c.Pod = namespace, name
			list = append(list, c)
		}
	}, func(value []byte) (v Container, has bool, err error) {
		v, err = devicesOf(value)
		return v, len(v.UUIDs)+len(v.Minors) > 0, err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func devicesOf(b []byte) (v Container, err error) {
	take := func(number protowire.Number) func(protowire.Number, []byte) error {
		return func(n protowire.Number, value []byte) error {
			if n != number {
				return nil
			}
			id, err := text(value)
			if err == nil {
				v.add(id)
			}
			return err
		}
	}
	err = fields(b, func(number protowire.Number, value []byte) (err error) {
		switch number {
		case 1:
			v.Name, err = identifier(value)
		case 2: // a device plugin: the ids that it has given
			err = fields(value, take(2))
		case 5: // claims: the names of the devices for the runtime
			err = fields(value, func(n protowire.Number, claim []byte) error {
				if n != 4 {
					return nil
				}
				return fields(claim, func(n protowire.Number, device []byte) error {
					if n != 1 {
						return nil
					}
					return fields(device, take(1))
				})
			})
		}
		return err
	})
	return v, err
}

const maxDevices = 1 << 8 // of a container

// add adds a device by its id:
//
//	GPU-<uuid>, MIG-<uuid>, GPU-<uuid>::<replica>   NVIDIA's device plugin
//	nvidia<minor>, nvidia<minor>/gi<n>, nvidia<minor>/vgpu<n>   Google's
//	<vendor>/<class>=gpu-<minor>, =<claim>-gpu-<minor>, each with -mig-<profile...>   NVIDIA's driver for DRA
func (c *Container) add(id string) {
	if len(c.UUIDs)+len(c.Minors) >= maxDevices {
		return
	}
	if _, device, ok := strings.Cut(id, "="); ok {
		if i := strings.LastIndex(device, "gpu-"); i >= 0 {
			minor, _, _ := strings.Cut(device[i+len("gpu-"):], "-mig-")
			c.minor(minor)
		}
		return
	}
	bare, _, _ := strings.Cut(id, "::")
	if strings.HasPrefix(bare, "GPU-") || strings.HasPrefix(bare, "MIG-") {
		if !slices.Contains(c.UUIDs, bare) {
			c.UUIDs = append(c.UUIDs, bare)
		}
		return
	}
	if device, ok := strings.CutPrefix(id, "nvidia"); ok {
		device, _, _ = strings.Cut(device, "/")
		c.minor(device)
	}
}

func (c *Container) minor(digits string) {
	if n, err := strconv.ParseUint(digits, 10, 8); err == nil && !slices.Contains(c.Minors, int(n)) {
		c.Minors = append(c.Minors, int(n))
	}
}

// identifier reads a name as Kubernetes accepts it.
func identifier(b []byte) (string, error) {
	if len(b) > 253 || strings.Trim(string(b), "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
		return "", malformed("a name of %d bytes that Kubernetes does not accept", len(b))
	}
	return string(b), nil
}

// owners are the containers that processes of a pod are in, by pod and container ID, as their GPUs show. A
// container that shares its GPUs with others is distinguished from them by all of its processes together.
// What stays ambiguous is left out.
func owners(list []fabric.RankCandidate, containers []Container) map[string]Container {
	possible := map[string][]Container{}
	for i := range list {
		w := &list[i].Workload.Value
		if w.Pod == "" || w.ContainerID == "" {
			continue
		}
		from, seen := possible[keyOf(w)]
		if !seen {
			from = containers
		}
		possible[keyOf(w)] = slices.DeleteFunc(slices.Clone(from), func(c Container) bool { return !c.has(list[i]) })
	}
	of := map[string]Container{}
	for id, found := range possible {
		if len(found) == 1 {
			of[id] = found[0]
		}
	}
	return of
}

// has reports whether all GPUs of a process, or all MIG devices that it runs in, are among those of the
// container. GPUs that are not known are not.
func (c Container) has(r fabric.RankCandidate) bool {
	if uuids, ok := r.GPUs.Get(); ok && len(c.UUIDs) > 0 {
		if len(r.Instances) > 0 {
			uuids = r.Instances
		}
		return len(uuids) > 0 && !slices.ContainsFunc(uuids, func(u string) bool { return !slices.Contains(c.UUIDs, u) })
	}
	files, ok := r.Files.Get()
	return ok && len(c.Minors) > 0 && len(files.GPUs) > 0 &&
		!slices.ContainsFunc(files.GPUs, func(n int) bool { return !slices.Contains(c.Minors, n) })
}

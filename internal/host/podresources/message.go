// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"unicode/utf8"
)

// newMessage is the request, a message without fields.
func newMessage() io.Reader { return bytes.NewReader(make([]byte, frame)) }

// Largest accepted numbers, far beyond what a node can run.
const (
	maxContainers = 1 << 14 // of all pods
	maxText       = 1 << 10 // bytes of a name
)

// The fields that are read, by their numbers (k8s.io/kubelet/pkg/apis/podresources/v1/api.proto):
//
//	ListPodResourcesResponse  1 pod_resources
//	PodResources              1 name, 2 namespace, 3 containers
//	ContainerResources        1 name, 2 devices, 5 dynamic_resources
//	ContainerDevices          1 resource_name, 2 device_ids
//	DynamicResource           4 claim_resources
//	ClaimResource             1 cdi_devices, 2 driver_name
//	CDIDevice                 1 name
//
// All of them are strings or messages. Others are skipped, which is how protobuf grows.

// fields calls f with each field of a message that is a string or a message.
func fields(b []byte, f func(number uint64, value []byte) error) error {
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 || key>>3 == 0 || key>>3 >= 1<<29 {
			return malformed("no field of protobuf at %d bytes from the end", len(b))
		}
		b = b[n:]
		skip := 0
		switch key & 7 {
		case 0:
			if _, skip = binary.Uvarint(b); skip <= 0 {
				return malformed("field %d is no number", key>>3)
			}
		case 1:
			skip = 8
		case 5:
			skip = 4
		case 2:
			length, n := binary.Uvarint(b)
			if n <= 0 || length > uint64(len(b)-n) {
				return malformed("field %d is longer than its message", key>>3)
			}
			if err := f(key>>3, b[n:n+int(length)]); err != nil {
				return err
			}
			skip = n + int(length)
		default: // groups, which version 3 does not have
			return malformed("field %d has the type %d", key>>3, key&7)
		}
		if skip > len(b) {
			return malformed("field %d ends early", key>>3)
		}
		b = b[skip:]
	}
	return nil
}

func text(b []byte) (string, error) {
	if len(b) > maxText || !utf8.Valid(b) {
		return "", malformed("a text of %d bytes, expected UTF-8 of %d at most", len(b), maxText)
	}
	return string(b), nil
}

// decode returns the containers that have a GPU.
func decode(message []byte) (containers []string, err error) {
	seen := 0
	err = fields(message, func(number uint64, pod []byte) error {
		if number != 1 {
			return nil
		}
		var name, namespace string
		var with []string
		err := fields(pod, func(number uint64, value []byte) (err error) {
			switch number {
			case 1:
				name, err = text(value)
			case 2:
				namespace, err = text(value)
			case 3:
				if seen++; seen > maxContainers {
					return malformed("more than %d containers", maxContainers)
				}
				var container string
				var has bool
				if container, has, err = decodeContainer(value); has {
					with = append(with, container)
				}
			}
			return err
		})
		for _, container := range with {
			containers = append(containers, namespace+"/"+name+"/"+container)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return containers, nil
}

func decodeContainer(b []byte) (name string, gpu bool, err error) {
	// texts looks at all strings that are so deep in messages of these fields.
	var texts func(b []byte, path ...[]uint64) error
	texts = func(b []byte, path ...[]uint64) error {
		return fields(b, func(number uint64, value []byte) error {
			for _, wanted := range path[0] {
				if number != wanted {
					continue
				}
				if len(path) > 1 {
					return texts(value, path[1:]...)
				}
				s, err := text(value)
				gpu = gpu || isGPU(s)
				return err
			}
			return nil
		})
	}
	err = fields(b, func(number uint64, value []byte) (err error) {
		switch number {
		case 1:
			name, err = text(value)
		case 2: // a name of the resource and what of it was given
			err = texts(value, []uint64{1, 2})
		case 5: // a claim: the driver, and the names of what it gives to the runtime
			if err = texts(value, []uint64{4}, []uint64{2}); err == nil {
				err = texts(value, []uint64{4}, []uint64{1}, []uint64{1})
			}
		}
		return err
	})
	return name, gpu, err
}

// isGPU reports whether a name is that of GPUs, of a part of one or of a driver of them: nvidia.com/gpu, nvidia.com/mig-1g.5gb,
// amd.com/gpu, gpu.nvidia.com, aliyun.com/gpu-mem; or an id that plugins give them, GPU-<uuid>, MIG-<uuid>. It is better
// to take something for a GPU that is none than the other way round.
func isGPU(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "gpu") || strings.Contains(name, "nvidia.com") || strings.HasPrefix(name, "mig-")
}

// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
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
func fields(b []byte, f func(number protowire.Number, value []byte) error) error {
	for len(b) > 0 {
		number, kind, tag := protowire.ConsumeTag(b)
		if tag < 0 || !number.IsValid() {
			return malformed("no field of protobuf at %d bytes from the end", len(b))
		}
		if kind == protowire.StartGroupType || kind == protowire.EndGroupType { // which version 3 does not have
			return malformed("field %d is a group", number)
		}
		size := protowire.ConsumeFieldValue(number, kind, b[tag:])
		if size < 0 {
			return malformed("field %d: %v", number, protowire.ParseError(size))
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(b[tag:])
			if err := f(number, value); err != nil {
				return err
			}
		}
		b = b[tag+size:]
	}
	return nil
}

func text(b []byte) (string, error) {
	if len(b) > maxText || !utf8.Valid(b) {
		return "", malformed("a text of %d bytes, expected UTF-8 of %d at most", len(b), maxText)
	}
	return string(b), nil
}

// pods calls f for each pod of a message with what container takes of its containers. name reads names of pods.
func pods[T any](message []byte, name func([]byte) (string, error), f func(list []T, namespace, name string),
	container func([]byte) (T, bool, error),
) error {
	seen := 0
	return fields(message, func(number protowire.Number, pod []byte) error {
		if number != 1 {
			return nil
		}
		var called, namespace string
		var list []T
		err := fields(pod, func(number protowire.Number, value []byte) (err error) {
			switch number {
			case 1:
				called, err = name(value)
			case 2:
				namespace, err = name(value)
			case 3:
				if seen++; seen > maxContainers {
					return malformed("more than %d containers", maxContainers)
				}
				var v T
				var has bool
				if v, has, err = container(value); has {
					list = append(list, v)
				}
			}
			return err
		})
		f(list, namespace, called)
		return err
	})
}

// decode returns the containers that have a GPU.
func decode(message []byte) (containers []string, err error) {
	err = pods(message, text, func(pod []string, namespace, name string) {
		for _, container := range pod {
			containers = append(containers, namespace+"/"+name+"/"+container)
		}
	}, decodeContainer)
	if err != nil {
		return nil, err
	}
	return containers, nil
}

func decodeContainer(b []byte) (name string, gpu bool, err error) {
	// texts looks at all strings that are so deep in messages of these fields.
	var texts func(b []byte, path ...[]protowire.Number) error
	texts = func(b []byte, path ...[]protowire.Number) error {
		return fields(b, func(number protowire.Number, value []byte) error {
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
	err = fields(b, func(number protowire.Number, value []byte) (err error) {
		switch number {
		case 1:
			name, err = text(value)
		case 2: // a name of the resource and what of it was given
			err = texts(value, []protowire.Number{1, 2})
		case 5: // a claim: the driver, and the names of what it gives to the runtime
			if err = texts(value, []protowire.Number{4}, []protowire.Number{2}); err == nil {
				err = texts(value, []protowire.Number{4}, []protowire.Number{1}, []protowire.Number{1})
			}
		}
		return err
	})
	return name, gpu, err
}

// isGPU reports whether a name is that of GPUs, of a part of one or of a driver of them: nvidia.com/gpu,
// nvidia.com/mig-1g.5gb, amd.com/gpu, gpu.nvidia.com, aliyun.com/gpu-mem; or an id that plugins give them,
// GPU-<uuid>, MIG-<uuid>. It is better to take something for a GPU that is none than the other way round.
func isGPU(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "gpu") || strings.Contains(name, "nvidia.com") || strings.HasPrefix(name, "mig-")
}

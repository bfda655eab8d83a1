// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"gpufabric_exporter/internal/simulator"
)

func gunzip(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// keep leaves the first n devices of a node.
func keep(node *simulator.Node, n int) *simulator.Node {
	node.HCAs = node.HCAs[:n]
	return node
}

// multiply makes a node of n devices that are all like the first.
func multiply(node *simulator.Node, n int) *simulator.Node {
	first := node.HCAs[0]
	node.HCAs = nil
	for i := range n {
		h := first
		h.Name = fmt.Sprintf("mlx5_%d", i)
		node.HCAs = append(node.HCAs, h)
	}
	return node
}

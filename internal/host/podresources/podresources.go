// SPDX-License-Identifier: Apache-2.0

// Package podresources asks the kubelet which containers have GPUs, over its PodResources API: one call of gRPC,
// /v1.PodResourcesLister/List, on a socket of the node. gRPC is HTTP/2 with a five byte frame around a
// protobuf message and the status in a trailer; net/http speaks it, and the message has a handful of fields.
//
// A Client may be used by any number of goroutines. Whatever is not a complete answer is an error.
package podresources

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// DefaultSocket is where the kubelet listens.
const DefaultSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"

const (
	method   = "/v1.PodResourcesLister/List"
	timeout  = 2 * time.Second
	maxReply = 16 << 20 // bytes, as the kubelet's own clients allow
	frame    = 5        // bytes before a message: a flag and its length
)

// Client asks one kubelet.
type Client struct{ socket string }

// New returns a Client of the kubelet with that socket; empty: DefaultSocket.
func New(socket string) *Client {
	if socket == "" {
		socket = DefaultSocket
	}
	return &Client{socket}
}

// GPUs names the containers that have been given a GPU, "namespace/pod/container", by a device plugin or by dynamic
// resource allocation. kubelet is false if there is no socket.
//
// Before Kubernetes 1.34 the kubelet does not list what was allocated dynamically, unless its feature gate
// KubeletPodResourcesDynamicResources is set. So what it noted of GPUs beside the socket, while it lists
// none, is an error.
func (c *Client) GPUs(ctx context.Context) (containers []string, kubelet bool, err error) {
	return ask(ctx, c, func(message []byte) ([]string, error) {
		containers, err := decode(message)
		if err == nil && len(containers) == 0 {
			err = c.claims()
		}
		return containers, err
	})
}

// ask makes the call and decodes the answer. kubelet is false if there is no socket.
func ask[T any](ctx context.Context, c *Client, decode func(message []byte) ([]T, error)) (list []T, kubelet bool,
	err error,
) {
	if _, err := os.Lstat(c.socket); errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	message, err := c.call(ctx)
	if err == nil {
		list, err = decode(message)
	}
	if err != nil {
		return nil, true, fmt.Errorf("PodResources of %s: %w", c.socket, err)
	}
	return list, true, nil
}

// claims looks into the kubelet's note of the claims that are in use (draManagerStateFileName of
// pkg/kubelet/cm/dra), which a container may not see. Its answer is ignored unless it is about GPUs.
func (c *Client) claims() error {
	file, err := os.Open(filepath.Join(filepath.Dir(c.socket), "..", "dra_manager_state"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // nothing was written
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return malformed("%s is no file", file.Name())
	}
	note, err := io.ReadAll(io.LimitReader(file, maxReply+1))
	switch {
	case err != nil:
		return err
	case len(note) > maxReply:
		return malformed("%s is longer than %d bytes", file.Name(), maxReply)
	case isGPU(string(note)):
		return fmt.Errorf("%s has claims of GPUs, and the kubelet lists none", file.Name())
	}
	return nil
}

// call makes the call and returns the message of the answer. It keeps no connection.
func (c *Client) call(ctx context.Context) ([]byte, error) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols:              &protocols,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.socket)
		},
	}
	defer transport.CloseIdleConnections()
	request := &http.Request{
		Method: http.MethodPost, URL: &url.URL{Scheme: "http", Host: "localhost", Path: method},
		Header: http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}},
		Body:   io.NopCloser(newMessage()), ContentLength: frame,
	}
	response, err := transport.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // all of it was read, or it is no good
	if response.StatusCode != http.StatusOK {
		return nil, malformed("the kubelet answers %s, expected 200 OK", response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, frame+maxReply+1))
	if err != nil {
		return nil, err
	}
	status := response.Trailer.Get("Grpc-Status")
	if status == "" {
		status = response.Header.Get("Grpc-Status") // of an answer without a message
	}
	if status != "0" {
		text := response.Trailer.Get("Grpc-Message") + response.Header.Get("Grpc-Message")
		return nil, fmt.Errorf("status %.16q of gRPC (%.200q), expected 0", status, text)
	}
	if len(body) > frame+maxReply || len(body) < frame || body[0] != 0 ||
		uint64(binary.BigEndian.Uint32(body[1:])) != uint64(len(body)-frame) {
		return nil, malformed("an answer of %d bytes is not one message of %d bytes at most", len(body), maxReply)
	}
	return body[frame:], nil
}

func malformed(format string, args ...any) error {
	return fabric.Because(fabric.ReasonMalformed, fmt.Sprintf(format, args...))
}

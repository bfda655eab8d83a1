// SPDX-License-Identifier: Apache-2.0

// Command gpufabric_exporter tells Prometheus what the training fabric of a GPU node is, and whether it is right.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"gpufabric_exporter/exporter"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := exporter.Run(ctx, os.Args[1:], exporter.Options{Stdout: os.Stdout, Stderr: os.Stderr})
	stop()
	os.Exit(code)
}

// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"io"
	"net"
	"testing"

	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/site"
)

// run runs the program.
func run(t testing.TB, o Options, stdout, stderr io.Writer, args ...string) int {
	t.Helper()
	return New(&o).Run(t.Context(), args, stdout, stderr)
}

// start runs the program until it listens. It is stopped when the test ends.
func start(t *testing.T, o Options, args ...string) *commandtest.Serving {
	t.Helper()
	return commandtest.Start(t, func(ctx context.Context, stdout, stderr io.Writer, onListen func([]net.Addr)) int {
		o.Exporter.OnListen = onListen
		return New(&o).Run(ctx, append(args, "--web.listen-address=127.0.0.1:0"), stdout, stderr)
	})
}

// withDefault has another file in place of the default configuration.
func withDefault(file string) Options {
	return Options{Site: site.Site{Config: site.Config{Default: file}}}
}

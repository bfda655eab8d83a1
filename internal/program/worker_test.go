// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
)

func TestGPUWorkerCommand(t *testing.T) {
	for _, test := range []struct {
		args string
		err  error
		code int
		text string
	}{
		{"gpu-worker --library=/opt/libnvidia-ml.so.1", nil, command.OK, ""},
		{"gpu-worker --library=x", errors.New("no pipe"), command.Failure, "gpufabric_exporter: error: no pipe\n"},
		{"gpu-worker", nil, command.Usage, "--library"},
		{"gpu-worker --library=x --path.sysfs=/sys", nil, command.Usage, "--path.sysfs: gpu-worker does not take this flag"},
	} {
		var stderr commandtest.Output
		library := ""
		o := Options{ServeGPUs: func(_ context.Context, l string) error {
			library = l
			return test.err
		}}
		if code := run(t, o, io.Discard, &stderr, strings.Fields(test.args)...); code != test.code || !strings.Contains(stderr.String(), test.text) {
			t.Errorf("%s: exit code %d: %s", test.args, code, stderr.String())
		}
		if test.code == command.OK && library != "/opt/libnvidia-ml.so.1" {
			t.Error(library)
		}
	}
	var help, stderr commandtest.Output
	run(t, Options{}, &help, &stderr, "--help")
	if strings.Contains(help.String(), "gpu-worker") {
		t.Error("not hidden")
	}
	commandtest.Contains(t, help.String(), "--gpu.nvml-library", "--gpu.maintenance-file")
	if code := run(t, Options{}, io.Discard, &stderr, "gpu-worker", "--library=x"); code != command.Failure {
		t.Errorf("exit code %d without a worker", code)
	}
}

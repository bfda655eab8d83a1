// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// A question without a file has no answer, and takes no descriptor for its own: that of the zero value is stdin.
func TestUnnamedQuestion(t *testing.T) {
	var q question
	r := (&FS{}).reader()
	if got := askOnce(r, &q, time.Unix(0, 0), parseInt(0, 1)); got.State != fabric.Unknown {
		t.Errorf("got %+v", got)
	}
	if r.preads != 0 {
		t.Error("it is read")
	}
}

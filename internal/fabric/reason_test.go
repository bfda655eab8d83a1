// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
	"testing"
)

func TestReasonOf(t *testing.T) {
	for err, want := range map[error]Reason{
		syscall.EACCES: ReasonPrivilege, syscall.EPERM: ReasonPrivilege, syscall.EAFNOSUPPORT: ReasonPrivilege, syscall.EINVAL: ReasonUnsupported,
		syscall.EOPNOTSUPP: ReasonUnsupported, syscall.ENOSYS: ReasonUnsupported, syscall.ENOENT: ReasonMissing,
		syscall.EPROTONOSUPPORT: ReasonMissing, syscall.ENODEV: ReasonGone, syscall.ENXIO: ReasonGone,
		syscall.EIO: ReasonIO, syscall.EISDIR: ReasonIO, syscall.ELOOP: ReasonIO, syscall.ETIMEDOUT: ReasonIO, syscall.EMSGSIZE: ReasonIO,
		errors.New("anything"):                               ReasonIO,
		Because(ReasonMalformed, "nonsense"):                 ReasonMalformed,
		errors.Join(syscall.EIO, Because(ReasonGone, "off")): ReasonGone, // a reader knows better
	} {
		if got := ReasonOf(fmt.Errorf("context: %w", &fs.PathError{Op: "read", Path: "x", Err: err})); got != want {
			t.Errorf("ReasonOf(%v) = %s, want %s", err, got, want)
		}
		if !slices.Contains(Reasons(), want) {
			t.Errorf("%s is no reason", want)
		}
	}
	if got := ReasonOf(nil); got != "" {
		t.Errorf("ReasonOf(nil) = %s", got)
	}
}

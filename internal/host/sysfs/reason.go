// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// ErrGone means that the device left while it was open. Close it and list the devices again.
var ErrGone = errors.New("device is gone")

var errMalformed = errors.New("not what sysfs promises")

// ReasonOf tells why something could not be read, as a fact says it.
func ReasonOf(err error) fabric.Reason {
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	switch {
	case err == nil:
		return ""
	case is(errMalformed):
		return fabric.ReasonMalformed
	case is(ErrGone, unix.ENODEV, unix.ENXIO):
		return fabric.ReasonGone
	case is(unix.EACCES, unix.EPERM):
		return fabric.ReasonPrivilege
	case is(unix.EINVAL, unix.EOPNOTSUPP, unix.ENOSYS):
		return fabric.ReasonUnsupported
	case is(unix.ENOENT):
		return fabric.ReasonMissing
	default:
		return fabric.ReasonIO
	}
}

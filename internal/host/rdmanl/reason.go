// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"errors"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// ReasonOf tells why something could not be read, as a fact says it. EINVAL counts as a refusal of the driver: that
// a device is gone shows when the devices are listed again.
func ReasonOf(err error) fabric.Reason {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case err == nil:
		return ""
	case is(ErrMalformed):
		return fabric.ReasonMalformed
	case is(unix.ENODEV), is(unix.ENXIO):
		return fabric.ReasonGone
	case is(unix.EACCES), is(unix.EPERM):
		return fabric.ReasonPrivilege
	case is(unix.EPROTONOSUPPORT):
		return fabric.ReasonMissing
	case is(errors.ErrUnsupported), is(unix.EINVAL):
		return fabric.ReasonUnsupported
	default:
		return fabric.ReasonIO
	}
}

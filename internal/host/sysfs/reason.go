// SPDX-License-Identifier: Apache-2.0

package sysfs

import "gpufabric_exporter/internal/fabric"

// ErrGone means that the device is gone while it was open. Close it and list the devices again.
var ErrGone = fabric.Because(fabric.ReasonGone, "device is gone")

var errMalformed = fabric.Because(fabric.ReasonMalformed, "not what sysfs promises")

// errUnnamed is a mistake in this package: an attribute that was not made with a name.
var errUnnamed = fabric.Because(fabric.ReasonNotRead, "the attribute has no file")

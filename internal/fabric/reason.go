// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"io/fs"
	"syscall"
)

// Because returns an error for a reader to wrap, where no error of the system says what it knows.
func Because(r Reason, text string) error { return &reasonError{r, text} }

type reasonError struct {
	reason Reason
	text   string
}

func (e *reasonError) Error() string { return e.text }

// ReasonOf returns the reason of a fact for which a read failed with err.
func ReasonOf(err error) Reason {
	is := func(target error) bool { return errors.Is(err, target) }
	own, known := errors.AsType[*reasonError](err)
	switch {
	case err == nil:
		return ""
	case known:
		return own.reason
	case is(syscall.ENODEV), is(syscall.ENXIO):
		return ReasonGone
	// the latter is how filters deny sockets: no kernel lacks the families that are used
	case is(fs.ErrPermission), is(syscall.EAFNOSUPPORT):
		return ReasonPrivilege
	case is(errors.ErrUnsupported), is(syscall.EINVAL):
		return ReasonUnsupported
	case is(fs.ErrNotExist), is(syscall.EPROTONOSUPPORT): // a netlink protocol whose module is not loaded
		return ReasonMissing
	default:
		return ReasonIO
	}
}

// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"io"

	"gpufabric_exporter/internal/ownership"
)

// maxFile is how much of a file is read. Real ones have a few hundred bytes.
const maxFile = 1 << 20

var errNoRoot = errors.New("root file system of the host")

// content is what is read of a file.
type content struct {
	data  []byte // the first MiB
	whole bool   // there is no more
	// who else can have written it or can put another one there, see package ownership; nil: only root and this user
	others error
}

// readHostFile reads a regular file of the host. A name is looked up as a process whose root directory is root would do
// it, without ever leaving it.
//
// The files may belong to a user. A FIFO or device is not opened, or opened without waiting if it takes the
// place of a file at that moment, and never read. Reading ends at the size the file had when it was opened,
// which is 0 in procfs, so that a link to /proc/kmsg neither blocks nor consumes anything.
func readHostFile(root, name string) (content, error) {
	found, err := ownership.Open(root, name)
	if err != nil {
		return content{}, err
	}
	defer found.File.Close()
	info, err := found.File.Stat()
	if err != nil {
		return content{}, err
	}
	data, err := io.ReadAll(io.LimitReader(found.File, min(info.Size(), maxFile)))
	return content{data, info.Size() <= maxFile, found.Others}, err
}

// displayPath makes a path fit for output: it may come from a file.
func displayPath(p string) string {
	if quoted := fmt.Sprintf("%q", p); quoted != `"`+p+`"` {
		return quoted
	}
	return p
}

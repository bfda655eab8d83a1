// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"io/fs"
	"path"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// dmiID has what the firmware says of the machine (drivers/firmware/dmi-id.c). Of its files only those that
// every user may read, and that say what kind of machine it is, are read.
const dmiID = "class/dmi/id"

// DMI reads what the firmware says that the machine is. It cannot change while the kernel runs: what is known
// is taken from last. A kernel without DMI has none of it; a root without classes says nothing.
func (f *FS) DMI(last fabric.DMI, now time.Time) fabric.DMI {
	id := &dir{fs: f, path: dmiID}
	defer id.close()
	_, err := id.fd()
	if errors.Is(err, fs.ErrNotExist) {
		if _, none := f.root.Stat(path.Dir(netClass)); none == nil {
			err = nil // all files are missing
		}
	}
	r := f.reader()
	read := func(last fabric.Fact[string], name string) fabric.Fact[string] {
		switch {
		case last.State != fabric.Unknown:
			return last
		case err != nil:
			return fabric.UnknownFact[string](fabric.ReasonOf(err), dmiID+"/"+name, now)
		}
		return optional(textFact(r.readOnce(id, name), now))
	}
	return fabric.DMI{
		Vendor: read(last.Vendor, fabric.DMIVendor), Product: read(last.Product, fabric.DMIProduct),
		Version:     read(last.Version, fabric.DMIVersion),
		BoardVendor: read(last.BoardVendor, fabric.DMIBoardVendor), Board: read(last.Board, fabric.DMIBoard),
		AssetTag: read(last.AssetTag, fabric.DMIAssetTag),
	}
}

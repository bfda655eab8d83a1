// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"os"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/inside"
)

// observeInside reads what a job finds here. Until that is read, and where a folder does not answer, nothing of it is known.
func (l *look) observeInside() {
	r := inside.Reader{Dev: l.o.Rootfs + "/dev", Sysfs: l.o.Sysfs, Procfs: l.o.Procfs, Root: l.o.Rootfs, LibraryPath: l.o.LibraryPath, Environment: os.LookupEnv}
	fresh := since[fabric.Inside](l.now, l.o.FastInterval)
	l.inside.refresh(l.ctx, fresh, func(_ fabric.Inside, now time.Time) (fabric.Inside, error) { return r.Read(now), nil })
	in, _ := sourced(l, l.inside, fabric.SourceInside, fresh)
	l.n.Inside = &in
}

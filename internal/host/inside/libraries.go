// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"path"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/lazyregexp"
	"gpufabric_exporter/internal/library"
)

const (
	libverbs     = "libibverbs.so.1"
	libc         = "libc.so.6"
	pluginPrefix = "libnccl-net"
	netPlugin    = "NCCL_NET_PLUGIN"
)

// provider is the file of a driver of libibverbs. The number is that of the interface between both.
var provider = lazyregexp.New(`^lib([a-z0-9_]{1,32})-rdmav[0-9]{1,3}\.so$`)

// libraries looks for the libraries that RDMA needs. What is not found is absent only where the C library is
// found: else the loader of this place has folders that are not known here.
func (r *Reader) libraries(in *fabric.Inside, now time.Time) {
	_, whole := library.Find(r.Root, library.Locate(r.Root, libc, r.LibraryPath)...)
	for _, dir := range library.Folders(r.LibraryPath) {
		whole = whole && path.IsAbs(dir) && !strings.Contains(dir, "$")
	}
	found, ok := library.Find(r.Root, library.Locate(r.Root, libverbs, r.LibraryPath)...)
	switch {
	case ok:
		in.Libverbs = fabric.Known(fabric.Library(found), libverbs, now)
	case whole:
		in.Libverbs = fabric.AbsentFact[fabric.Library](libverbs, now)
	default:
		in.Libverbs = fabric.UnknownFact[fabric.Library](fabric.ReasonNotRead, libverbs, now)
	}
	in.Providers = fabric.Known(r.providers(found.Path), "lib*-rdmav*.so", now)
	if !whole && len(in.Providers.Value) == 0 {
		in.Providers = fabric.UnknownFact[[]string](fabric.ReasonNotRead, "lib*-rdmav*.so", now)
	}
	in.Plugins = fabric.Known(r.plugins(), pluginPrefix+"*.so", now)
	if !whole {
		in.Plugins = fabric.UnknownFact[[]string](fabric.ReasonNotRead, pluginPrefix+"*.so", now)
	}
}

// providers returns the drivers in the folder libibverbs beside the library and beside others, and in these
// folders themselves, as before rdma-core 17.
func (r *Reader) providers(verbs string) []string {
	dirs := library.StandardFolders(r.Root)
	if verbs != "" {
		dirs = append(dirs, path.Dir(verbs))
	}
	for _, dir := range library.Folders(r.LibraryPath) {
		if path.IsAbs(dir) {
			dirs = append(dirs, dir)
		}
	}
	var all []string
	for _, dir := range dirs {
		for _, file := range slices.Concat(library.Files(r.Root, path.Join(dir, "libibverbs"), "lib"),
			library.Files(r.Root, dir, "lib")) {
			if m := provider().FindStringSubmatch(path.Base(file)); m != nil {
				all = append(all, m[1])
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// plugins returns the network plugins of NCCL that there are.
func (r *Reader) plugins() []string {
	all := library.Matching(r.Root, pluginPrefix, r.LibraryPath)
	named, _ := r.Environment(netPlugin)
	for name := range strings.SplitSeq(named[:min(len(named), maxVariable)], ",") {
		if strings.HasPrefix(name, "/") {
			if found, ok := library.Find(r.Root, name); ok {
				all = append(all, found.Path)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

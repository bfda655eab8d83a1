// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"path"
	"slices"
	"strings"
)

// plainFolders are what stays of paths below the root of the file system.
const plainFolders = "etc nccl.conf var run nvidia-topologyd virtualTopology.xml usr opt lib share local home root mnt srv shared"

// path replaces the names in a path of the archive.
func (a *anonymiser) path(p string) string {
	old := strings.Split(p, "/")
	is := slices.Clone(old)
	for i := range old {
		is[i] = a.component(old[:i], old[i])
	}
	return strings.Join(is, "/")
}

// link replaces the names in the target of a symbolic link, which is relative to its directory.
func (a *anonymiser) link(name, target string) string {
	at := strings.Split(path.Dir(name), "/")
	is := strings.Split(target, "/")
	for i, c := range is {
		switch c {
		case "", ".":
		case "..":
			at = at[:max(len(at)-1, 0)]
		default:
			is[i] = a.component(at, c)
			at = append(slices.Clone(at), c)
		}
	}
	return strings.Join(is, "/")
}

// component replaces a name below a directory: that of an interface or RDMA device, and below the root of the
// file system all that are not those of every system.
func (a *anonymiser) component(dir []string, name string) string {
	if len(dir) == 0 {
		return name
	}
	parent, grandparent := dir[len(dir)-1], ""
	if len(dir) > 1 {
		grandparent = dir[len(dir)-2]
	}
	switch {
	case dir[0] == rootPart:
		if slices.Contains(strings.Fields(plainFolders), name) {
			return name
		}
		return a.word(name)
	case dir[0] != sysPart:
		return name
	case parent == "net", parent == "infiniband", parent == path.Base(configRDMACM):
		return a.device(name)
	case grandparent == "net" && (strings.HasPrefix(name, "lower_") || strings.HasPrefix(name, "upper_")):
		return name[:len("lower_")] + a.device(name[len("lower_"):])
	}
	return a.uuid(name)
}

// message replaces the names in what the manifest says.
func (a *anonymiser) message(s string) string {
	if is, ok := a.devices[s]; ok {
		return is
	}
	s = notBlank().ReplaceAllStringFunc(s, func(w string) string {
		part, _, below := strings.Cut(w, "/")
		switch is, ok := a.devices[w]; {
		case ok:
			return is
		case below && slices.Contains([]string{sysPart, rootPart}, part):
			return a.path(w)
		case below && slices.Contains([]string{"class", "devices", "bus", "kernel"}, part):
			return strings.TrimPrefix(a.path(sysPart+"/"+w), sysPart+"/")
		}
		return a.text(w)
	})
	return a.scrub(s)
}

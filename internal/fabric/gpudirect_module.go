// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/counters"
)

// version is the first two numbers of one.
type version struct{ major, minor int }

func (v version) String() string { return strconv.Itoa(v.major) + "." + strconv.Itoa(v.minor) }

func (v version) before(o version) bool {
	return v.major < o.major || v.major == o.major && v.minor < o.minor
}

// parseVersion reads "6.8.0-1030-nvidia", "13.0", "11.7".
func parseVersion(s string) (version, bool) {
	major, rest, ok := strings.Cut(s, ".")
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	a, err := strconv.ParseUint(major, 10, 16)
	b, err2 := strconv.ParseUint(rest[:end], 10, 16)
	return version{int(a), int(b)}, ok && err == nil && err2 == nil
}

// gdrWord is an answer with what it comes from in words.
type gdrWord struct {
	Fact[bool]
	text string
}

func word(is Fact[bool], format string, args ...any) gdrWord {
	return gdrWord{is, fmt.Sprintf(format, args...)}
}

// module: a NIC reaches GPU memory through dma-buf, which NCCL prefers, or a peer-memory module.
func (j *gdrJudge) module() {
	buf, peer := j.in.dmaBuf(), j.in.peermem()
	switch {
	case buf.Or(false):
		j.Path = GDRDMABuf
		j.pass("dma-buf: %s", buf.text)
	case peer.Or(false):
		j.Path = GDRPeermem
		j.pass("%s", peer.text)
	case buf.State == OK && peer.State == OK:
		j.block(GDRModule, "%s; no dma-buf: %s", peer.text, buf.text)
	case buf.State != OK:
		j.dunno(buf.Meta(), "%s; dma-buf: %s", peer.text, buf.text)
	default:
		j.dunno(peer.Meta(), "%s; no dma-buf: %s", peer.text, buf.text)
	}
}

// peermem: NCCL looks at files alone, those of nvidia_peermem and of the client that it is in ib_core. That a module is
// bound where ib_core shows no clients is taken on trust, as NCCL does.
func (in *GDRInputs) peermem() gdrWord {
	f := in.Direct.Peermem
	p, loaded := f.Get()
	bound, known := p.Bound.Get()
	name := cmp.Or(p.Module, "a peer-memory module")
	switch {
	case f.State == Absent:
		return word(Known(false, f.Source, f.At), "no peer-memory module is loaded")
	case !loaded:
		return word(unknownLike[bool](f.Meta()), "whether a peer-memory module is loaded is not known")
	case known && bound:
		return word(p.Bound, "%s is loaded and bound", name)
	case known:
		return word(p.Bound, "%s is loaded, but not registered with ib_core: it was built for another version", name)
	case p.Bound.Meta().Reason == ReasonMissing && p.Module == ModuleNvidiaPeermem:
		return word(Known(true, f.Source, f.At), "%s is loaded", name)
	}
	return word(unknownLike[bool](p.Bound.Meta()), "%s is loaded; whether it is registered with ib_core is not known",
		name)
}

// dmaBuf: the GPU driver exports, kernel and NIC driver take, NCCL wants to (ncclGpuGdrSupport and dmaBufSupported of
// init.cc, ncclIbDmaBufSupport of transport/net_ib/gdr.cc).
func (in *GDRInputs) dmaBuf() gdrWord {
	var texts []string
	verdict := gdrWord{Fact: Known(true, gdrSource, in.At)}
	for _, w := range []gdrWord{in.openModule(), in.cuda(), in.kernel(), in.enabled()} {
		switch is, known := w.Get(); {
		case known && !is:
			return w
		case !known && verdict.State == OK:
			verdict = w
		}
		texts = append(texts, w.text)
	}
	if verdict.State == OK {
		verdict.text = strings.Join(texts, ", ")
	}
	return verdict
}

func (in *GDRInputs) openModule() gdrWord {
	f := in.Direct.OpenModule
	switch open, known := f.Get(); {
	case known && open:
		return word(f, "open kernel module")
	case known || f.State == Absent:
		return word(Known(false, f.Source, f.At), "the GPU driver's kernel module is not the open one")
	}
	return word(unknownLike[bool](f.Meta()), "whether the GPU driver's kernel module is the open one is not known")
}

func (in *GDRInputs) cuda() gdrWord {
	text, known := in.CUDA.Get()
	v, ok := parseVersion(text)
	switch needed := (version{11, 7}); {
	case known && ok && v.before(needed):
		return word(Known(false, in.CUDA.Source, in.CUDA.At), "the driver's CUDA %s is older than %s", v, needed)
	case known && ok:
		return word(Known(true, in.CUDA.Source, in.CUDA.At), "CUDA %s", v)
	case known:
		return word(UnknownFact[bool](ReasonMalformed, in.CUDA.Source, in.CUDA.At), "%q is no version of CUDA", text)
	}
	return word(unknownLike[bool](in.CUDA.Meta()), "the version of CUDA is not known")
}

func (in *GDRInputs) kernel() gdrWord {
	text, known := in.Kernel.Get()
	v, ok := parseVersion(text)
	driver, driverKnown := in.NICDriver.Get()
	since := counters.TraitsOf(driver).DMABuf
	switch needed := (version{5, 12}); {
	case known && ok && v.before(needed):
		return word(Known(false, in.Kernel.Source, in.Kernel.At), "Linux %s is older than %s", v, needed)
	case known && !ok:
		return word(UnknownFact[bool](ReasonMalformed, in.Kernel.Source, in.Kernel.At), "%q is no version of Linux", text)
	case !known:
		return word(unknownLike[bool](in.Kernel.Meta()), "the version of Linux is not known")
	case !driverKnown && in.NIC == "": // as on a flat PCI bus
		return word(unknownLike[bool](in.NICDriver.Meta()),
			"which NIC is nearest to the GPU is not known, so whether its driver takes a dma-buf is not known")
	case !driverKnown:
		return word(unknownLike[bool](in.NICDriver.Meta()),
			"the driver of %s is not known (ethtool -i <interface> shows it), so whether it takes a dma-buf is not known",
			in.NIC)
	case since == counters.Linux{}:
		return word(UnknownFact[bool](ReasonUnsupported, in.NICDriver.Source, in.NICDriver.At),
			"whether driver %s takes a dma-buf is not known", driver)
	case v.before(version{since.Major, since.Minor}):
		return word(UnknownFact[bool](ReasonUnsupported, in.NICDriver.Source, in.NICDriver.At),
			"whether driver %s takes a dma-buf on Linux %s is not known", driver, v)
	}
	return word(Known(true, in.Kernel.Source, in.Kernel.At), "Linux %s with %s", v, driver)
}

func (in *GDRInputs) enabled() gdrWord {
	nccl, known := in.NCCL.Get()
	switch {
	case !known:
		return word(unknownLike[bool](in.NCCL.Meta()), "whether NCCL_DMABUF_ENABLE is 0 is not known")
	case nccl.Number("NCCL_DMABUF_ENABLE", 1) == 0:
		return word(Known(false, in.NCCL.Source, in.At), "NCCL_DMABUF_ENABLE is 0")
	}
	return word(Known(true, in.NCCL.Source, in.At), "NCCL_DMABUF_ENABLE is not 0")
}

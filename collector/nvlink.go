// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"strconv"

	"gpufabric_exporter/internal/fabric"
)

func hasNVLink(n *fabric.Node) (bool, string) {
	if ok, why := hasGPUDriver(n); !ok {
		return false, why
	}
	if len(n.GPUDriver.GPUs) == 0 {
		return false, "the driver has no GPU"
	}
	for i := range n.GPUDriver.GPUs {
		if f := n.GPUDriver.GPUs[i].NVLinks; f.State == fabric.Unknown || len(f.Or(nil)) > 0 {
			return true, ""
		}
	}
	return false, "no GPU has NVLinks"
}

func collectNVLink(n *fabric.Node, emit emit) {
	for g := range gpus(n) {
		links := g.NVLinks.Or(nil)
		if len(links) == 0 {
			continue
		}
		uuid := label(g.UUID)
		emit(nvlinkLinks, float64(len(links)), uuid)
		number(emit, nvlinkLinksActive, g.Active(), uuid)
		if v, ok := speedOf(links); ok {
			emit(nvlinkSpeed, v, uuid)
		}
		for _, kind := range fabric.NVLinkErrorKinds() {
			if v, ok := errorsOf(links, kind); ok {
				emit(nvlinkErrors, v, uuid, string(kind))
			}
		}
	}
}

// speedOf adds up the links that are up.
func speedOf(links []fabric.NVLink) (sum float64, known bool) {
	for i := range links {
		active, ok := links[i].Active.Get()
		speed, told := links[i].Speed.Get()
		switch {
		case !ok || active && !told:
			return 0, false
		case active:
			sum += speed
		}
	}
	return sum, true
}

// errorsOf adds up one kind. Without the share of one link the sum would fall, and rise again by all of it later.
func errorsOf(links []fabric.NVLink, kind fabric.NVLinkError) (sum float64, known bool) {
	for i := range links {
		k := slices.IndexFunc(links[i].Errors, func(e fabric.NVLinkErrors) bool { return e.Kind == kind })
		if k < 0 {
			return 0, false
		}
		v, ok := links[i].Errors[k].Count.Get()
		if !ok {
			return 0, false
		}
		sum += float64(v)
	}
	return sum, true
}

// collectNVLinkLinks is about each link.
func collectNVLinkLinks(n *fabric.Node, emit emit) {
	for g := range gpus(n) {
		links := g.NVLinks.Or(nil)
		for i := range links {
			l := &links[i]
			if slices.ContainsFunc(links[:i], func(o fabric.NVLink) bool { return o.Number == l.Number }) {
				continue
			}
			uuid, at := label(g.UUID), strconv.Itoa(l.Number)
			emit(nvlinkLinkInfo, 1, uuid, at, label(l.Remote.Or("")), string(l.RemoteKind.Or("")))
			boolean(emit, nvlinkLinkActive, l.Active, uuid, at)
			number(emit, nvlinkLinkSpeed, l.Speed, uuid, at)
			for _, kind := range fabric.NVLinkErrorKinds() {
				k := slices.IndexFunc(l.Errors, func(e fabric.NVLinkErrors) bool { return e.Kind == kind })
				if k >= 0 {
					number(emit, nvlinkLinkErrors, l.Errors[k].Count, uuid, at, string(kind))
				}
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"slices"
)

const (
	landingWidth, landingHeight = 1280, 726 // what it found, and the map of the node

	margin = 16 // pixels below the last panel or row
)

// reduce copies the upper part of a PNG, down to a margin below bottom, with the 256 colours that most of its
// pixels have; others take the nearest. Grafana's pages are few colours and smooth edges of letters. It is a
// quarter of the size.
func reduce(from io.Reader, to io.Writer, bottom int) error {
	full, err := png.Decode(from)
	if err != nil {
		return fmt.Errorf("picture of the browser: %w", err)
	}
	part := full.Bounds()
	if bottom > 0 {
		part.Max.Y = min(part.Max.Y, part.Min.Y+bottom+margin)
	}
	counts := map[color.Color]int{}
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			counts[full.At(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(code(a), code(b))) // the same palette each time
	})
	palette := color.Palette(colors[:min(len(colors), 256)])
	nearest := make(map[color.Color]uint8, len(colors))
	for _, c := range colors {
		nearest[c] = uint8(palette.Index(c))
	}
	out := image.NewPaletted(part, palette)
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			out.SetColorIndex(x, y, nearest[full.At(x, y)])
		}
	}
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	return encoder.Encode(to, out)
}

func code(c color.Color) uint64 {
	r, g, b, a := c.RGBA()
	return uint64(r)<<48 | uint64(g)<<32 | uint64(b)<<16 | uint64(a)
}

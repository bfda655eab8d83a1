// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

const (
	largest = 400_000 // bytes of a picture
	frame   = 200     // pixels that a headless window may be higher than what it shows
)

// photograph has a browser draw the page and returns a PNG with 256 colours. The browser reaches no network.
func photograph(ctx context.Context, browser, dir, page string, height int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	from, to := filepath.Join(dir, "page.html"), filepath.Join(dir, "page.png")
	if err := os.WriteFile(from, []byte(page), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--no-first-run", "--disable-background-networking", "--disable-extensions", "--host-resolver-rules=MAP * ~NOTFOUND",
		"--force-device-scale-factor=1", "--user-data-dir="+filepath.Join(dir, "profile"),
		"--window-size="+strconv.Itoa(pageWidth)+","+strconv.Itoa(height+frame), "--screenshot="+to, "file://"+from)
	cmd.WaitDelay = 5 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%.2000s", browser, err, out)
	}
	f, err := os.Open(to)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	full, err := png.Decode(f)
	if err != nil {
		return nil, err
	}
	if b := full.Bounds(); b.Dx() != pageWidth || b.Dy() < height {
		return nil, fmt.Errorf("%s made a picture of %v, want %d by %d", browser, b.Size(), pageWidth, height)
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&out, reduced(full, image.Rect(0, 0, pageWidth, height))); err != nil {
		return nil, err
	}
	if out.Len() > largest {
		return nil, fmt.Errorf("the picture has %d bytes, more than %d", out.Len(), largest)
	}
	return out.Bytes(), nil
}

// shade is a colour and how many pixels have it.
type shade struct {
	c     [3]uint8
	count int
}

// reduced is a part of a picture with 256 colours: those of a median cut.
func reduced(from image.Image, part image.Rectangle) *image.Paletted {
	counts := map[[3]uint8]int{}
	at := func(x, y int) [3]uint8 {
		r, g, b, _ := from.At(x, y).RGBA()
		return [3]uint8{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8)}
	}
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			counts[at(x, y)]++
		}
	}
	var all []shade
	for c, n := range counts {
		all = append(all, shade{c, n})
	}
	slices.SortFunc(all, func(a, b shade) int { return bytes.Compare(a.c[:], b.c[:]) }) // the same picture each time
	boxes := [][]shade{all}
	for len(boxes) < 256 {
		i, channel := widest(boxes)
		if i < 0 {
			break
		}
		box := boxes[i]
		slices.SortStableFunc(box, func(a, b shade) int { return cmp.Compare(a.c[channel], b.c[channel]) })
		total, half := 0, 0
		for _, s := range box {
			total += s.count
		}
		cut := 0
		for cut < len(box)-1 && (cut == 0 || half+box[cut].count <= total/2) {
			half += box[cut].count
			cut++
		}
		boxes[i] = box[:cut]
		boxes = append(boxes, box[cut:])
	}
	out := image.NewPaletted(part, nil)
	index := map[[3]uint8]uint8{}
	for i, box := range boxes {
		c := middle(box)
		out.Palette = append(out.Palette, color.RGBA{c[0], c[1], c[2], 255})
		for _, s := range box {
			index[s.c] = uint8(i)
		}
	}
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			out.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	return out
}

// middle is the colour that most pixels of a box have, or their mean where no colour has half of them.
func middle(box []shade) (c [3]uint8) {
	total := 0
	var sums [3]int
	for _, s := range box {
		total += s.count
		for i := range sums {
			sums[i] += int(s.c[i]) * s.count
		}
	}
	if most := slices.MaxFunc(box, func(a, b shade) int { return cmp.Compare(a.count, b.count) }); 2*most.count >= total {
		return most.c
	}
	for i := range c {
		c[i] = uint8(sums[i] / total)
	}
	return c
}

// widest is the box whose colours differ most, and in which channel; -1 where each has one colour.
func widest(boxes [][]shade) (best, channel int) {
	best, width := -1, 0
	for i, box := range boxes {
		for c := range 3 {
			least, most := uint8(255), uint8(0)
			for _, s := range box {
				least, most = min(least, s.c[c]), max(most, s.c[c])
			}
			if len(box) > 1 && int(most)-int(least) > width {
				best, channel, width = i, c, int(most)-int(least)
			}
		}
	}
	return best, channel
}

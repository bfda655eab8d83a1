// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// browser is a program that "makes" the picture.
func browser(t *testing.T, picture image.Image, more string) string {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "picture.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, picture); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "browser")
	script := "#!/bin/sh\nfor a in \"$@\"; do case $a in --screenshot=*) cp " + f.Name() + " \"${a#*=}\";; esac; done\n" + more
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPhotograph(t *testing.T) {
	wide := image.NewRGBA(image.Rect(0, 0, pageWidth, 50))
	for x := range pageWidth {
		wide.Set(x, 3, color.RGBA{uint8(x), uint8(x / 7), uint8(x / 3), 255})
	}
	text, err := photograph(t.Context(), browser(t, wide, ""), t.TempDir(), "<html>", 40)
	if err != nil {
		t.Fatal(err)
	}
	got, err := png.Decode(bytes.NewReader(text))
	if err != nil || got.Bounds().Dy() != 40 || got.Bounds().Dx() != pageWidth {
		t.Fatalf("picture %v, %v", got.Bounds(), err)
	}
	p, ok := got.(*image.Paletted)
	if !ok || len(p.Palette) > 256 {
		t.Fatalf("the picture is a %T", got)
	}
	for x := range pageWidth {
		r, g, b, _ := got.At(x, 3).RGBA()
		want := [3]int{x % 256, x / 7 % 256, x / 3 % 256}
		for i, v := range []uint32{r, g, b} {
			if d := int(v>>8) - want[i]; d > 24 || d < -24 {
				t.Fatalf("pixel %d has channel %d off by %d", x, i, d)
			}
		}
	}
	if _, err := photograph(t.Context(), browser(t, wide, ""), t.TempDir(), "<html>", 60); err == nil {
		t.Error("a picture that ends before the page is taken")
	}
	if _, err := photograph(t.Context(), browser(t, wide, "echo no display >&2; exit 3"), t.TempDir(), "<html>", 40); err == nil || !strings.Contains(err.Error(), "no display") {
		t.Errorf("a browser that fails: %v", err)
	}
}

// TestFarmEnds shows why a program of the farm ended, at once, and leaves nothing.
func TestFarmEnds(t *testing.T) {
	dir := t.TempDir()
	write := func(name, script string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	f := farm{programs: dir, rules: dir, settle: time.Minute, scrape: time.Second}
	f.exporter = write("exporter", `[ "$2" = --list ] && echo "healthy  fine" && exit; exec sleep 600`)
	write("prometheus", "echo a rule is wrong; exit 1")
	var said strings.Builder
	_, err := f.start(t.Context(), &said)
	if err == nil || !strings.Contains(err.Error(), "prometheus ended") || !strings.Contains(err.Error(), "a rule is wrong") {
		t.Errorf("start: %v", err)
	}
	contains(t, said.String(), "LEFT OUT: gpu-04")
	if len(f.running) != 4 {
		t.Errorf("%d programs were started, want three nodes and Prometheus", len(f.running))
	}
	f.stop()
	for _, cmd := range f.running {
		if cmd.ProcessState == nil {
			t.Errorf("%s still runs", cmd.Path)
		}
	}
	if _, err := os.Stat(f.dir); err == nil {
		t.Errorf("%s is left", f.dir)
	}
}

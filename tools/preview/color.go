// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// The colours of Grafana's dark theme.
const (
	colorPage   = "#111217"
	colorPanel  = "#181b1f"
	colorBorder = "#24282e"
	colorGrid   = "#2a2e35"
	colorText   = "#ccccdc"
	colorWeak   = "#8e8e9c"
	colorLink   = "#6e9fff"
)

// shades are from dark to super-light.
var shades = map[string][5]string{
	"red":    {"#C4162A", "#E02F44", "#F2495C", "#FF7383", "#FFA6B0"},
	"orange": {"#FA6400", "#FF780A", "#FF9830", "#FFB357", "#FFCB7D"},
	"yellow": {"#E0B400", "#F2CC0C", "#FADE2A", "#FFEE52", "#FFF899"},
	"green":  {"#37872D", "#56A64B", "#73BF69", "#96D98D", "#C8F2C2"},
	"blue":   {"#1F60C4", "#3274D9", "#5794F2", "#8AB8FF", "#C0D8FF"},
	"purple": {"#8F3BB8", "#A352CC", "#B877D9", "#CA95E5", "#DEB6F2"},
}

var prefixes = []string{"dark-", "semi-dark-", "", "light-", "super-light-"}

// classic is the palette of series.
var classic = []string{
	"#73BF69", "#F2CC0C", "#8AB8FF", "#FF780A", "#F2495C", "#5794F2", "#B877D9", "#705DA0", "#37872D", "#FADE2A", "#447EBC", "#C15C17",
	"#890F02", "#0A437C", "#6D1F62", "#584477", "#B7DBAB", "#F4D598", "#70DBED", "#F9BA8F", "#F29191", "#82B5D8", "#E5A8E2", "#AEA2E0",
}

// schemes are the colour scales of heatmaps, from the least to the greatest.
var schemes = map[string][]string{
	"RdYlGn":   {"#a50026", "#d73027", "#f46d43", "#fdae61", "#fee08b", "#ffffbf", "#d9ef8b", "#a6d96a", "#66bd63", "#1a9850", "#006837"},
	"Spectral": {"#9e0142", "#d53e4f", "#f46d43", "#fdae61", "#fee08b", "#ffffbf", "#e6f598", "#abdda4", "#66c2a5", "#3288bd", "#5e4fa2"},
	"Oranges":  {"#fff5eb", "#fee6ce", "#fdd0a2", "#fdae6b", "#fd8d3c", "#f16913", "#d94801", "#a63603", "#7f2704"},
	"Blues":    {"#f7fbff", "#deebf7", "#c6dbef", "#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#08519c", "#08306b"},
	"Greens":   {"#f7fcf5", "#e5f5e0", "#c7e9c0", "#a1d99b", "#74c476", "#41ab5d", "#238b45", "#006d2c", "#00441b"},
	"Viridis":  {"#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"},
	"Turbo":    {"#30123b", "#4669e0", "#29bbec", "#31f199", "#a3fd3c", "#edd03a", "#fb8022", "#d23105", "#7a0403"},
}

// continuous are the colour modes of fields that go from the minimum to the maximum.
var continuous = map[string][]string{
	"continuous-GrYlRd": {"#73BF69", "#FADE2A", "#F2495C"},
	"continuous-RdYlGr": {"#F2495C", "#FADE2A", "#73BF69"},
	"continuous-BlYlRd": {"#5794F2", "#FADE2A", "#F2495C"},
	"continuous-BlPu":   {"#5794F2", "#B877D9"},
	"continuous-blues":  {colorPanel, "#5794F2"},
	"continuous-greens": {colorPanel, "#73BF69"},
}

var hexColor = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

// paint returns the hexadecimal form of a colour of Grafana.
func paint(name string) (string, error) {
	switch name {
	case "transparent", "rgba(0,0,0,0)":
		return colorPanel, nil
	case "text":
		return colorText, nil
	case "gray", "grey":
		return "#808080", nil
	case "white":
		return "#FFFFFF", nil
	}
	for hue, list := range shades {
		for i, prefix := range prefixes {
			if name == prefix+hue {
				return list[i], nil
			}
		}
	}
	if hexColor.MatchString(name) {
		return name, nil
	}
	return "", fmt.Errorf("color %q is not known", name)
}

// painted is paint for what check has seen.
func painted(name string) string {
	c, err := paint(name)
	if err != nil {
		return colorText
	}
	return c
}

// between returns the colour at a place, 0 to 1, of a scale.
func between(scale []string, at float64) string {
	at = min(max(at, 0), 1) * float64(len(scale)-1)
	i := min(int(at), len(scale)-2)
	return mix(scale[i], scale[i+1], at-float64(i))
}

// mix returns a colour that has a share, 0 to 1, of the second one.
func mix(a, b string, share float64) string {
	var out [3]int
	x, y := rgb(a), rgb(b)
	for i := range out {
		out[i] = int(math.Round(float64(x[i])*(1-share) + float64(y[i])*share))
	}
	return fmt.Sprintf("#%02x%02x%02x", out[0], out[1], out[2])
}

func rgb(hex string) (c [3]int) {
	for i := range c {
		v, err := strconv.ParseInt(hex[1+2*i:3+2*i], 16, 32)
		if err == nil {
			c[i] = int(v)
		}
	}
	return c
}

// over returns black or white, whichever can be read over a colour.
func over(background string) string {
	c := rgb(background)
	if 299*c[0]+587*c[1]+114*c[2] > 140_000 {
		return "#111217"
	}
	return "#f7f8fa"
}

// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestLegible(t *testing.T) {
	for was, want := range map[string]string{
		"":                              "",
		"mlx5_0: ok, 20 °C é 中\n\tx\n":  "mlx5_0: ok, 20 °C é 中\n\tx\n",
		"\x1b[2J\r\a\x00\x7f":           `\u001b[2J\u000d\u0007\u0000\u007f`,
		"\u009b31m\u0085":               `\u009b31m\u0085`,
		"\x9b31m":                       "\ufffd31m",
		"a\u202eb\u2066c\u200bd\ufeffe": `a\u202eb\u2066c\u200bd\ufeffe`,
		"\u00a0\u2028\u2029\u00ad":      `\u00a0\u2028\u2029\u00ad`,
		"\u3164\u115f\u034f\ufe0f":      `\u3164\u115f\u034f\ufe0f`, // letters and marks of no width
		"\U000e0041":                    `\udb40\udc41`,             // a tag character
	} {
		var b bytes.Buffer
		if n, err := (legible{&b}).Write([]byte(was)); n != len(was) || err != nil || b.String() != want {
			t.Errorf("%q became %q, want %q (%d, %v)", was, b.String(), want, n, err)
		}
		var back string
		if err := json.Unmarshal([]byte(`"`+strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(want)+`"`), &back); err != nil || back != strings.ToValidUTF8(was, "\ufffd") {
			t.Errorf("in JSON %q is %q, %v", want, back, err)
		}
	}
	if got := OneLine("a\nb\tc"); got != `a\u000ab\u0009c` {
		t.Error(got)
	}
}

// Only terminals get colours, and only those who want them.
func TestColours(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal can be had here: %v", err)
	}
	defer terminal.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "report"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const painted, plain = "\x1b[31mFAILED\x1b[0m", "FAILED"
	for _, c := range []struct {
		name string
		to   io.Writer
		want string
	}{{"terminal", terminal, painted}, {"file", file, plain}, {"no file", new(bytes.Buffer), plain}} {
		if got := Colours(c.to)(Red, plain); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	t.Setenv("NO_COLOR", "1")
	if got := Colours(terminal)(Red, plain); got != plain {
		t.Errorf("NO_COLOR: %q", got)
	}
}

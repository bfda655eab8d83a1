// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// FuzzReadFrame: what a child sends may be anything. What is taken for a frame is written as it was read.
func FuzzReadFrame(f *testing.F) {
	var good bytes.Buffer
	_ = writeFrame(&good, frame{kindAnswer, 7, []byte("payload")})
	f.Add(good.Bytes())
	f.Add(good.Bytes()[:8])
	f.Add([]byte{0, 0, 0, 4, 'a'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 'a', 0, 0, 0, 0})
	f.Add([]byte("Driver/library version mismatch"))
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 64
		got, err := readFrame(bytes.NewReader(data), limit)
		switch {
		case err == nil && len(got.payload) > limit:
			t.Errorf("%d bytes", len(got.payload))
		case err == nil:
			var again bytes.Buffer
			if err := writeFrame(&again, got); err != nil || !bytes.HasPrefix(data, again.Bytes()) {
				t.Errorf("%v: %x became %x", err, data, again.Bytes())
			}
		case errors.Is(err, io.EOF) != (len(data) == 0):
			t.Errorf("%d bytes: %v", len(data), err)
		}
	})
}

func TestServe(t *testing.T) {
	var in, out bytes.Buffer
	for i, q := range []string{"echo a", "refuse", "panic", "echo never"} {
		_ = writeFrame(&in, frame{kindRequest, uint32(i), []byte(q)})
	}
	err := Serve(t.Context(), &in, &out, handleForTest)
	if err == nil || !strings.Contains(err.Error(), "out of luck") {
		t.Error(err)
	}
	for i, want := range []frame{{kindAnswer, 0, []byte("a")}, {kindError, 1, []byte("driver not loaded  [31m")}, {kindError, 2, []byte("the handler panicked: out of luck")}} {
		got, err := readFrame(&out, 100)
		if err != nil || got.kind != want.kind || got.number != want.number || !bytes.Equal(got.payload, want.payload) {
			t.Errorf("%d: got %q %v, expected %q", i, got.payload, err, want.payload)
		}
	}
	if out.Len() != 0 {
		t.Errorf("then %q", out.Bytes())
	}

	if err := Serve(t.Context(), strings.NewReader("hello, worker"), &out, handleForTest); !errors.Is(err, errFrame) {
		t.Error(err)
	}
	if err := Serve(t.Context(), strings.NewReader("\x00\x00\x00\x05a\x00\x00\x00\x01"), &out, handleForTest); !errors.Is(err, errFrame) {
		t.Error(err)
	}
	if err := Serve(t.Context(), strings.NewReader("\x00\x00\x00\x05q"), &out, handleForTest); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if err := Serve(t.Context(), strings.NewReader(""), &out, handleForTest); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Serve(ctx, strings.NewReader("never read"), &out, handleForTest); err != nil {
		t.Error(err)
	}
}

func TestBackoff(t *testing.T) {
	b := backoff{least: time.Second, most: 5 * time.Minute}
	now := time.Unix(1e9, 0)
	var delays []time.Duration
	for range 11 {
		b.failed(now)
		delays = append(delays, b.wait(now))
	}
	if delays[0] != time.Second || delays[1] != 2*time.Second || delays[8] != 256*time.Second || delays[9] != 5*time.Minute || delays[10] != 5*time.Minute {
		t.Error(delays)
	}
	if w := b.wait(now.Add(299 * time.Second)); w != time.Second {
		t.Error(w)
	}
	if w := b.wait(now.Add(time.Hour)); w != 0 {
		t.Error(w)
	}
	b.answered(4 * time.Minute) // one answer and then a crash are no success
	if b.failed(now); b.wait(now) != 5*time.Minute {
		t.Error(b.wait(now))
	}
	b.answered(5 * time.Minute)
	if b.failed(now); b.wait(now) != time.Second {
		t.Error(b.wait(now))
	}
	b.forget()
	if b.wait(now) != 0 {
		t.Error(b.wait(now))
	}
}

func TestHarvest(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1e9, 0)
	h := &harvest{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), now: func() time.Time { return now }}
	for range 100 {
		h.write([]byte("again\n \n"))
	}
	h.write([]byte(strings.Repeat("y", 1<<20)))
	if len(h.line) != maxLine {
		t.Errorf("keeps %d bytes", len(h.line))
	}
	h.write([]byte("\n"))
	now = now.Add(time.Minute)
	h.read(strings.NewReader("a\x00\xffb\x1b[0m\nfatal error: first\npanic: second\ngs 0x0\nlast"))
	text := out.String()
	if n := strings.Count(text, "line=again"); n != linesPerMinute {
		t.Errorf("%d lines", n)
	}
	for _, want := range []string{"lines=71", `line="a ?b [0m"`, "line=last"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %s:\n%s", want, text)
		}
	}
	if h.epitaph() != "fatal error: first" {
		t.Error(h.epitaph())
	}
}

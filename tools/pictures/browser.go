// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var browsers = []string{"chromium", "chromium-browser", "google-chrome"}

// panelsJS finds the panels of a page of Grafana 9.3 to 12.
//
//go:embed panels.js
var panelsJS string

const (
	quiet    = 3 * time.Second // without requests, and a page is complete
	patience = 3 * time.Minute // for a page, on a busy machine
)

// panelState is a panel as a page shows it.
type panelState struct {
	Title   string      `json:"title"`
	Problem string      `json:"problem"` // what the panel shows instead of data, or nothing
	Cut     []string    `json:"cut"`     // cells of a table whose text ends in an ellipsis
	Links   []linkState `json:"links"`
}

// linkState is a link of a panel.
type linkState struct {
	Text string `json:"text"`
	To   string `json:"to"` // URL
}

// pageState is a page of Grafana.
type pageState struct {
	Panels  []panelState `json:"panels"`
	Bottom  int          `json:"bottom"` // where its last panel or row ends, in pixels; 0: it has none
	picture []byte       // PNG
}

func findBrowser(name string) (string, error) {
	names := browsers
	if name != "" {
		names = []string{name}
	}
	for _, n := range names {
		if path, err := exec.LookPath(n); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no browser: want %s in PATH (Debian: apt install chromium), or -browser=PROGRAM",
		strings.Join(names, ", "))
}

// openBrowser starts a browser that reaches nothing but loopback, and returns its context. cancel ends it and
// waits for that.
func openBrowser(ctx context.Context, program string) (_ context.Context, cancel func(), err error) {
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(program),
		chromedp.DisableGPU,
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("lang", "en-US"),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.*"))
	ctx, ended := chromedp.NewExecAllocator(ctx, options...)
	ctx, closed := chromedp.NewContext(ctx)
	cancel = func() { closed(); ended() }
	if err := chromedp.Do(ctx); err != nil {
		cancel()
		return nil, nil, fmt.Errorf("start %s: %w", program, err)
	}
	return ctx, cancel, nil
}

// shootAll writes the pictures of all dashboards, and of the landing page. A dashboard with a problem does not keep the
// others from being written.
func shootAll(ctx context.Context, o *options, boards []board, s span, grafana, landing string,
	stdout io.Writer,
) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	ctx, cancel, err := openBrowser(ctx, o.browser)
	if err != nil {
		return err
	}
	defer cancel()
	var wrong []error
	for _, b := range boards {
		if ctx.Err() != nil {
			break
		}
		path := filepath.Join(o.out, b.name+".png")
		page, err := shoot(ctx, b.address(grafana, s), o.width, b.height(), b.titles)
		if err == nil {
			err = errors.Join(page.write(path), lost(page.Panels, boards))
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("dashboard %s: %w", b.name, err))
			continue
		}
		fmt.Fprintf(stdout, "%s: %d panels\n", path, len(page.Panels))
	}
	if o.landing != "" {
		page, err := shoot(ctx, "http://"+landing+"/", landingWidth, landingHeight, nil)
		if err == nil {
			err = page.write(o.landing)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("landing page of %s: %w", landingNode, err))
		}
	}
	return errors.Join(wrong...)
}

// shoot opens a page in a tab of its own and takes a picture when its network is quiet and it has panels with these
// titles. Where a panel shows an error, the error names it.
func shoot(ctx context.Context, address string, width, height int, titles []string) (*pageState, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the page is not complete after %s", patience))
	defer cancel()
	ctx, closed := chromedp.NewContext(ctx)
	defer closed()
	traffic := &traffic{open: map[network.RequestID]bool{}, last: time.Now()}
	if err := chromedp.Listen(ctx, traffic.event); err != nil {
		return nil, err
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		return nil, err
	}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(int64(width), int64(height)),
		chromedp.Navigate(address)); err != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	page, err := settle(ctx, traffic, titles)
	queries, scripts := traffic.problems()
	if err != nil {
		return nil, errors.Join(context.Cause(ctx), err, scripts)
	}
	if err := errors.Join(missing(page.Panels, titles), problems(page.Panels), queries); err != nil {
		return nil, errors.Join(err, scripts)
	}
	page.picture, err = chromedp.Run(ctx, chromedp.CaptureScreenshot())
	return &page, err
}

// settle returns the page when the network is quiet and the titles are there, or when the network has been
// quiet for long.
func settle(ctx context.Context, t *traffic, titles []string) (pageState, error) {
	for {
		page, err := chromedp.Run(ctx, chromedp.Evaluate[pageState](panelsJS))
		if err != nil {
			return page, err
		}
		calm := t.calm()
		if calm >= quiet && missing(page.Panels, titles) == nil || calm >= 5*quiet {
			return page, nil
		}
		select {
		case <-ctx.Done():
			return page, errors.Join(ctx.Err(), missing(page.Panels, titles))
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// problems names the panels that show an error, or cut a text.
func problems(panels []panelState) error {
	var wrong []error
	for _, p := range panels {
		if p.Problem != "" {
			wrong = append(wrong, fmt.Errorf("panel %q: %s", p.Title, p.Problem))
		}
		for _, text := range p.Cut {
			wrong = append(wrong, fmt.Errorf("panel %q: a column is too narrow for %s", p.Title, text))
		}
	}
	return errors.Join(wrong...)
}

// missing names the titles that no panel has.
func missing(panels []panelState, titles []string) error {
	if len(panels) == 0 && len(titles) > 0 {
		return errors.New("no panels on the page")
	}
	var wrong []error
	for _, title := range titles {
		if !slices.ContainsFunc(panels, func(p panelState) bool { return p.Title == title }) {
			wrong = append(wrong, fmt.Errorf("panel %q: not on the page", title))
		}
	}
	return errors.Join(wrong...)
}

// traffic follows the requests of a page. Safe for concurrent use.
type traffic struct {
	mu   sync.Mutex
	open map[network.RequestID]bool
	last time.Time // of a request or an answer

	failed, thrown []error // queries, and exceptions that no script caught; the first few of both
}

func (t *traffic) event(event any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		t.open[e.RequestID] = true
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 && strings.Contains(e.Response.URL, "/api/ds/query") {
			t.failed = few(t.failed, fmt.Errorf("%s: status %d", e.Response.URL, e.Response.Status))
		}
	case *runtime.EventExceptionThrown:
		t.thrown = few(t.thrown, fmt.Errorf("script of the page: %s", said(e.ExceptionDetails)))
	case *network.EventLoadingFinished:
		delete(t.open, e.RequestID)
	case *network.EventLoadingFailed:
		delete(t.open, e.RequestID)
	default:
		return
	}
	t.last = time.Now()
}

func few(all []error, err error) []error {
	if len(all) < 5 {
		return append(all, err)
	}
	return all
}

// calm is how long no request has been sent and all have been answered.
func (t *traffic) calm() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.open) > 0 {
		return 0
	}
	return time.Since(t.last)
}

// problems returns the requests for data that failed, also those of annotations, which no panel shows; and exceptions,
// which explain a page that is not complete. Pages that are complete may have some.
func (t *traffic) problems() (queries, scripts error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.failed...), errors.Join(t.thrown...)
}

// write writes the part of the picture that is worth showing.
func (p *pageState) write(path string) error {
	var out bytes.Buffer
	if err := reduce(bytes.NewReader(p.picture), &out, p.Bottom); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// said is the text of an uncaught exception of a script.
func said(e *runtime.ExceptionDetails) string {
	if e.Exception != nil && e.Exception.Description != "" {
		first, _, _ := strings.Cut(e.Exception.Description, "\n")
		return first
	}
	return e.Text
}

// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/site"
)

// newHandlerOf answers with everything switched on.
func newHandlerOf(t *testing.T, ob site.Observer, maxRequests int) *handler {
	t.Helper()
	set, err := collector.NewSet([]string{"hca"})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	e := &Exporter{Site: new(site.Site), Web: Web{TelemetryPath: "/metrics", EnablePprof: true, MaxRequests: maxRequests}}
	return newHandler(e, Node{}, set, ob, newReloader(Node{}, config.Config{}, ob, (*hostProber)(nil), nil, nil, log), log)
}

// allRoutes are the routes of a handler with everything switched on.
func allRoutes(t *testing.T, ob site.Observer, maxRequests int) []route {
	t.Helper()
	return newHandlerOf(t, ob, maxRequests).routes()
}

// request is the method and the path of a route.
func (r route) request() (method, path string) {
	method, path, found := strings.Cut(r.pattern, " ")
	if !found {
		method, path = http.MethodGet, r.pattern
	}
	return method, strings.TrimSuffix(path, "{$}")
}

// TestEveryPathIsProtected requests each path that is answered: by plain HTTP where TLS is on, without the
// certificate of a client, without a password, and with both.
func TestEveryPathIsProtected(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("opensesame"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	a := commandtest.NewAuthority(t)
	a.Issue("server", x509.ExtKeyUsageServerAuth)
	client := a.Issue("prometheus", x509.ExtKeyUsageClientAuth)
	p := start(t, &fakeObserver{node: healthy}, "--web.enable-pprof", a.Config("tls_server_config:", "  cert_file: server.crt", "  key_file: server.key",
		"  client_auth_type: RequireAndVerifyClientCert", "  client_ca_file: ca.crt", "basic_auth_users:", "  prometheus: "+string(hash)))
	address := p.Addrs[0].String()
	ask := func(method, url string, certs ...tls.Certificate) (status int, body string) {
		t.Helper()
		p.Trust(a.Pool, certs...)
		r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := p.Client.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		b := make([]byte, 4096)
		n, _ := answer.Body.Read(b)
		return answer.StatusCode, string(b[:n])
	}
	for _, r := range allRoutes(t, &fakeObserver{node: healthy}, 0) {
		method, path := r.request()
		if strings.HasSuffix(path, "/profile") || strings.HasSuffix(path, "/trace") {
			path += "?seconds=1"
		}
		for name, got := range map[string]func() (int, string){
			"plain HTTP":       func() (int, string) { return ask(method, "http://prometheus:opensesame@"+address+path, client) },
			"no certificate":   func() (int, string) { return ask(method, "https://prometheus:opensesame@"+address+path) },
			"no password":      func() (int, string) { return ask(method, "https://"+address+path, client) },
			"a wrong password": func() (int, string) { return ask(method, "https://prometheus:wrong@"+address+path, client) },
		} {
			want := map[string]int{"plain HTTP": 400, "no certificate": 0, "no password": 401, "a wrong password": 401}[name]
			status, body := got()
			if name == "a wrong password" && status == http.StatusTooManyRequests { // by now
				status = want
			}
			if status != want || strings.Contains(body, "mlx5") || strings.Contains(body, "gpufabric_hca") {
				t.Errorf("%s with %s: %d %q, expected %d", r.pattern, name, status, body, want)
			}
		}
		if status, body := ask(method, "https://prometheus:opensesame@"+address+path, client); status == 0 || status == http.StatusBadRequest || status == http.StatusUnauthorized || body == "404 page not found\n" {
			t.Errorf("%s with both: %d %q", r.pattern, status, body)
		}
	}
}

// TestEveryPathIsLimited takes the only place. What is answered nevertheless is named here: it costs nothing,
// or has a limit of its own.
func TestEveryPathIsLimited(t *testing.T) {
	ob := &fakeObserver{node: healthy, hold: make(chan struct{}), asked: make(chan context.Context, 16)}
	routes := allRoutes(t, ob, 1)
	metrics := routes[slices.IndexFunc(routes, func(r route) bool { return r.pattern == "GET /metrics" })]
	done := make(chan struct{})
	go func() {
		metrics.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
		close(done)
	}()
	<-ob.asked
	unlimited := []string{"GET /-/healthy", "GET /-/ready", "POST /-/reload"}
	for _, r := range routes {
		if slices.Contains(unlimited, r.pattern) {
			continue
		}
		method, path := r.request()
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d while all places are taken, expected 503", r.pattern, w.Code)
		}
	}
	close(ob.hold)
	<-done
}

// TestNoSecretIsShown: no page and no line of the log has a secret or the environment of this process.
func TestNoSecretIsShown(t *testing.T) {
	const password, environment = "opensesame", "hf_plantedplantedplanted"
	t.Setenv("HF_TOKEN", environment)
	t.Setenv("NCCL_ACME_PASSWORD", environment)
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	a := commandtest.NewAuthority(t)
	flag := a.Config("basic_auth_users:", "  prometheus: "+string(hash))
	secrets := []string{password, string(hash), environment}
	p := start(t, &fakeObserver{node: healthy}, "--web.enable-pprof", "--log.level=debug", flag)
	look := func(where, text string) {
		t.Helper()
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("%s shows %q", where, s)
			}
		}
	}
	p.URL = "http://prometheus:" + password + "@" + p.Addrs[0].String()
	p.Client.Timeout = time.Minute
	for _, r := range allRoutes(t, &fakeObserver{node: healthy}, 0) {
		method, path := r.request()
		if path == "/debug/pprof/cmdline" || path == "/debug/pprof/profile" || path == "/debug/pprof/trace" { // arguments and memory of this test
			continue
		}
		_, body, header := p.Do(method, path)
		look(path, body)
		for name, values := range header {
			look(path+", header "+name, strings.Join(values, " "))
		}
	}
	p.URL = "http://prometheus:wrong" + password + "@" + p.Addrs[0].String()
	for range 3 {
		p.Get("/metrics")
	}
	look("log", p.Stderr.String()+p.Stdout.String())

	// A file that is wrong is named in the error, and not quoted.
	file := filepath.Join(t.TempDir(), "web.yml")
	if err := os.WriteFile(file, []byte("basic_auth_users:\n  prometheus: "+password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs output
	if code := run(t.Context(), []string{"--web.listen-address=127.0.0.1:0", "--web.config.file=" + file}, options{Stdout: &out, Stderr: &errs, site: site.Site{}}); code == 0 {
		t.Error("a password in clear is accepted")
	}
	look("an error", out.String()+errs.String())
}

// TestPromisedEndpoints compares the paths that are answered with the row of endpoints in docs/SUPPORT.md,
// which has all but HTML pages and profiles.
func TestPromisedEndpoints(t *testing.T) {
	text, err := os.ReadFile("../docs/SUPPORT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, row, _ := strings.Cut(string(text), "\n| endpoints | ")
	row, _, _ = strings.Cut(row, " |")
	var promised, answered []string
	for path := range strings.SplitSeq(row, ", ") {
		promised = append(promised, strings.Trim(path, "`"))
	}
	for _, r := range allRoutes(t, &fakeObserver{node: healthy}, 0) {
		if _, path := r.request(); path != "/" && path != ProbesPath && !strings.HasPrefix(path, "/debug/pprof/") {
			answered = append(answered, path)
		}
	}
	slices.Sort(promised)
	if slices.Sort(answered); !slices.Equal(promised, answered) {
		t.Errorf("docs/SUPPORT.md promises %q, and %q are answered: keep what is promised, and add what is new", promised, answered)
	}
}

// TestHeadersAreLimited sends more than a server has to keep.
func TestHeadersAreLimited(t *testing.T) {
	p := start(t, &fakeObserver{node: healthy})
	if status, _, _ := p.Get("/metrics", "X-Long", strings.Repeat("a", 2*maxHeaderBytes)); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%d, expected 431", status)
	}
}

// What all clients together may have sent of their requests fits into the memory of the unit: many short headers take most.
func TestHeadersFitIntoMemory(t *testing.T) {
	const slack, clients, most = 4 << 10, 16, 64 << 20 // net/http reads a little more than it is told
	var text strings.Builder
	text.WriteString("GET / HTTP/1.1\r\nHost: a\r\n")
	for i := 0; text.Len() < maxHeaderBytes+slack; i++ {
		fmt.Fprintf(&text, "%x:\r\n", i)
	}
	text.WriteString("\r\n")
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	var kept []*http.Request
	for range clients {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text.String())))
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, r)
	}
	if all := (heap() - before) / clients * maxConnections; all > most {
		t.Errorf("%d clients take %d MiB", maxConnections, all>>20)
	}
	runtime.KeepAlive(kept)
}

// TestSecurityDocument compares the limits in docs/SECURITY.md with those of this package.
func TestSecurityDocument(t *testing.T) {
	text, err := os.ReadFile("../docs/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range [][2]string{
		{"headers of a request", fmt.Sprintf("%d KiB", maxHeaderBytes>>10)},
		{"what a client sends before a request", fmt.Sprintf("%d KiB", maxHandshake>>10)},
		{"time to send a request", readTimeout.String()},
		{"time to read an answer", fmt.Sprintf("%s after the deadline of the scrape or page, %s for others", slowClient, writeTimeout)},
		{"idle connection", idleTimeout.String()},
		{"connections", fmt.Sprintf("%d, or a quarter of the limit of open files if less", maxConnections)},
		{"answers that wait to be read", fmt.Sprintf("%d MiB", maxUnsent>>20)},
		{"an answer that is not made", fmt.Sprintf("%s after its deadline", overdue)},
		{"reloads", fmt.Sprintf("one at a time; a burst of %d, then one per second", reloadBurst)},
		{"a scrape", fmt.Sprintf("%s, or the timeout of the scraper minus `--timeout-offset`, at most %s", defaultScrapeTimeout, mostScrapeTimeout)},
		{"a page", pageTimeout.String()},
		{"passwords that were not accepted before", fmt.Sprintf("%d per second for a client, %d for all", guessesOfClient, guessesOfAll)},
		{"lines of the log about connections that fail", fmt.Sprintf("%d at once, then one in %s, which says how many were left out", rationBurst, rationEvery)},
	} {
		if row := "| " + row[0] + " | " + row[1] + " |"; !strings.Contains(string(text), row) {
			t.Errorf("docs/SECURITY.md lacks %q", row)
		}
	}
}

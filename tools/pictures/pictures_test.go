// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// TestMain is also the programs that pictures starts: see site.
func TestMain(m *testing.M) {
	if role := os.Getenv("PICTURES_STAND_IN"); role != "" {
		if err := standIn(role, os.Args[1:]); err != nil {
			panic(err)
		}
		return
	}
	m.Run()
}

// standIn answers as an exporter, a Prometheus with data of all nodes, or a Grafana that has one page.
func standIn(role string, args []string) error {
	pid := filepath.Join(os.Getenv("PICTURES_PIDS"), strconv.Itoa(os.Getpid()))
	if err := os.WriteFile(pid, nil, 0o600); err != nil {
		return err
	}
	flags := flag.NewFlagSet(role, flag.ContinueOnError)
	address := flags.String("web.listen-address", "", "")
	config := flags.String("config", "", "")
	for _, ignored := range []string{"scenario", "break-after", "config.file", "storage.tsdb.path", "homepath"} {
		flags.String(ignored, "", "")
	}
	if role != "prometheus" {
		args = args[1:] // the command
	}
	if role == "failing" {
		return errors.New("no such scenario")
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if role == "grafana" {
		ini, err := os.ReadFile(*config)
		if err != nil {
			return err
		}
		found := regexp.MustCompile(`http_addr = (.+)\nhttp_port = (.+)\n`).FindStringSubmatch(string(ini))
		*address = net.JoinHostPort(found[1], found[2])
	}
	return http.ListenAndServe(*address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case role == "prometheus":
			fmt.Fprintf(w, `{"status": "success", "data": {"result": [%s{}]}}`, strings.Repeat("{},", len(nodes())))
		case strings.HasPrefix(r.URL.Path, "/d/"):
			http.ServeFile(w, r, os.Getenv("PICTURES_PAGE"))
		}
	}))
}

// site is a machine with a stand-in for each program. The returned arguments are valid.
func site(t *testing.T, page string) (args []string, dir string) {
	t.Helper()
	dir = t.TempDir()
	files := map[string]string{
		"grafana/conf/defaults.ini":   "",
		"grafana/public/index.html":   "",
		"grafana/bin/grafana":         "grafana",
		"exporter":                    "exporter",
		"programs/prometheus":         "prometheus",
		"rules/a.rules.yml":           "groups: []",
		"page.html":                   page,
		"pids/README":                 "",
		"dashboards/fleet.json":       `{"uid": "fleet-uid", "templating": {"list": [{"name": "instance"}]}, "panels": [` + panel("Ports", 0) + `, ` + panel("GPUs", 8) + `]}`,
		"elsewhere/bin/unrelated.txt": "",
	}
	for name, text := range files {
		path, mode := filepath.Join(dir, name), os.FileMode(0o600)
		if role := text; slices.Contains([]string{"grafana", "exporter", "prometheus"}, role) {
			text, mode = script(t, dir, role), 0o700
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, text, mode)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	return []string{
		"-grafana=" + at("grafana"), "-exporter=" + at("exporter"), "-programs=" + at("programs"), "-rules=" + at("rules"),
		"-dashboards=" + at("dashboards"), "-out=" + at("out"), "-collect=0s", "-width=800",
	}, dir
}

func panel(title string, y int) string {
	return fmt.Sprintf(`{"type": "table", "title": %q, "gridPos": {"x": 0, "y": %d, "w": 24, "h": 8}}`, title, y)
}

// script is a program that runs this test as a stand-in.
func script(t *testing.T, dir, role string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("#!/bin/sh\nPICTURES_STAND_IN=%s PICTURES_PIDS='%s/pids' PICTURES_PAGE='%s/page.html' exec '%s' \"$@\"\n", role, dir, dir, self)
}

// needBrowser skips a test where no Chromium is installed.
func needBrowser(t *testing.T) string {
	t.Helper()
	program, err := findBrowser("")
	if err != nil {
		t.Skip(err)
	}
	return program
}

// section is a panel of Grafana 9.3 with content.
func section(title, content string) string {
	return `<section class="panel-container" style="height: 300px" aria-label="` + title + ` panel"><header data-testid="data-testid Panel header ` + title + `"></header>` + content + `</section>`
}

const full = `<div class="panel-content">1</div>`

func TestArguments(t *testing.T) {
	needBrowser(t)
	tests := map[string]struct {
		change func(args []string, dir string) []string
		want   string
	}{
		"no Grafana given":  {func(a []string, _ string) []string { return a[1:] }, "-grafana is missing: want Grafana's home folder"},
		"no such folder":    {func(a []string, dir string) []string { return append(a, "-grafana="+dir+"/none") }, "none: no such file"},
		"not Grafana":       {func(a []string, dir string) []string { return append(a, "-grafana="+dir+"/elsewhere") }, "elsewhere is not Grafana's home folder: it has no conf/defaults.ini"},
		"Grafana's sources": {func(a []string, dir string) []string { os.RemoveAll(dir + "/grafana/bin"); return a }, "has neither bin/grafana nor bin/grafana-server"},
		"no browser":        {func(a []string, dir string) []string { return append(a, "-browser="+dir+"/chrome") }, "no browser: want"},
		"no Prometheus":     {func(a []string, dir string) []string { return append(a, "-programs="+dir+"/rules") }, "rules/prometheus: no such file"},
		"no rules":          {func(a []string, dir string) []string { return append(a, "-rules="+dir+"/out") }, "no *.rules.yml in"},
		"no dashboards":     {func(a []string, dir string) []string { return append(a, "-dashboards="+dir+"/out") }, "no *.json in"},
		"surplus":           {func(a []string, _ string) []string { return append(a, "fleet") }, `unexpected argument "fleet"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			args, dir := site(t, "")
			err := run(t.Context(), test.change(args, dir), io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if left, _ := os.ReadDir(filepath.Join(dir, "pids")); len(left) > 1 {
				t.Errorf("started %d programs, want none", len(left)-1)
			}
		})
	}
}

// TestSubjects opens shipped dashboards with variables that they have, for nodes that are simulated.
func TestSubjects(t *testing.T) {
	boards, err := readBoards("../../dashboards")
	if err != nil {
		t.Fatal(err)
	}
	for name, variables := range subjects() {
		i := slices.IndexFunc(boards, func(b board) bool { return b.name == name })
		if i < 0 {
			t.Errorf("there is no dashboard %s", name)
			continue
		}
		for v, value := range variables {
			if !slices.Contains(boards[i].variables, v) {
				t.Errorf("dashboard %s has no variable %s, only %q", name, v, boards[i].variables)
			}
			if v == "instance" && !slices.ContainsFunc(nodes(), func(n struct{ instance, scenario string }) bool { return n.instance == value }) {
				t.Errorf("dashboard %s: there is no node %s", name, value)
			}
		}
	}
}

func TestServer(t *testing.T) {
	_, dir := site(t, "")
	home := filepath.Join(dir, "grafana")
	if got, err := server(home); err != nil || !slices.Equal(got, []string{home + "/bin/grafana", "server"}) {
		t.Errorf("server = %q, %v; want bin/grafana server", got, err)
	}
	if err := os.Rename(home+"/bin/grafana", home+"/bin/grafana-server"); err != nil {
		t.Fatal(err)
	}
	if got, err := server(home); err != nil || !slices.Equal(got, []string{home + "/bin/grafana-server"}) {
		t.Errorf("server = %q, %v; want bin/grafana-server", got, err)
	}
}

func TestConfiguration(t *testing.T) {
	dir := t.TempDir()
	ini, err := configure(dir, "127.0.0.1:3456", `/a "folder": of dashboards`, "http://127.0.0.1:9090")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(ini)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"http_addr = 127.0.0.1\nhttp_port = 3456\n", "data = " + dir + "\n", "provisioning = " + dir + "/provisioning\n",
		"[auth.anonymous]\nenabled = true\norg_role = Viewer\n", "check_for_updates = false\n", "preinstall_disabled = true\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("grafana.ini lacks %q:\n%s", want, text)
		}
	}
	var provisioned struct {
		Datasources []struct{ Type, URL, Access string }
		Providers   []struct {
			Type    string
			Options struct{ Path string }
		}
	}
	for _, name := range []string{"datasources/prometheus.yml", "dashboards/gpufabric.yml"} {
		text, err := os.ReadFile(filepath.Join(dir, "provisioning", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, &provisioned); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if d := provisioned.Datasources; len(d) != 1 || d[0].Type != "prometheus" || d[0].URL != "http://127.0.0.1:9090" || d[0].Access != "proxy" {
		t.Errorf("data sources %+v", d)
	}
	if p := provisioned.Providers; len(p) != 1 || p[0].Type != "file" || p[0].Options.Path != `/a "folder": of dashboards` {
		t.Errorf("providers %+v", p)
	}
	if got := withoutSettings([]string{"HOME=/root", "GF_SERVER_HTTP_PORT=1"}); !slices.Equal(got, []string{"GF_SERVER_HTTP_PORT="}) {
		t.Errorf("environment %q, want Grafana's variables empty", got)
	}
}

// TestPanels reads panels as different versions of Grafana mark them.
func TestPanels(t *testing.T) {
	ctx, cancel, err := openBrowser(context.Background(), needBrowser(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cancel)
	later := func(title, more string) string { // Grafana 10.2 to 12
		return `<section data-testid="data-testid Panel header ` + title + `"><h2>` + title + `</h2>` + more + `<div data-testid="data-testid panel content">1</div></section>`
	}
	cell := func(text string) string { // of a table
		return `<div class="panel-content"><div role="cell"><div style="width: 90px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap">` + text + `</div></div></div>`
	}
	tests := []struct{ name, body, want string }{
		{"9.3, fine", section("Ports", full), ""},
		{"9.3, query", section("Ports", `<button class="panel-info-corner panel-info-corner--error" aria-label="Panel header error"></button>`+full), `panel "Ports": shows that a query failed`},
		{"9.3, description", section("Ports", `<button class="panel-info-corner panel-info-corner--info" aria-label="Panel header info"></button>`+full), ""},
		{"9.3, type", section("Ports", `<div class="panel-content"><div role="alert">Panel plugin not found: tabel</div></div>`), `panel "Ports": shows "Panel plugin not found: tabel"`},
		{"9.3, data source", section("Ports", ""), `panel "Ports": shows nothing: its data source or type is missing`},
		{"column fits", section("Ports", cell("mlx5_0")), ""},
		{"column too narrow", section("Ports", cell("mlx5_0, mlx5_1, mlx5_2")), `panel "Ports": a column is too narrow for mlx5_0, mlx5_1, mlx5_2 (`},
		{"10.1, query", later("Ports", `<button aria-label="Panel status"></button>`), `panel "Ports": shows that a query failed`},
		{"12, fine", later("Ports", `<button data-testid="data-testid Panel header item description"></button>`), ""},
		{"12, query", later("Ports", `<button data-testid="data-testid Panel status error"></button>`), `panel "Ports": shows that a query failed`},
		{"another panel", section("GPUs", full), `panel "Ports": not on the page`},
		{"no panel", "Loading Grafana", "no panels on the page"},
		{"query of no panel", section("Ports", full) + `<script>fetch("/api/ds/query?status=400")</script>`, "/api/ds/query?status=400: status 400"},
		{"script", `Loading Grafana<script>throw new Error("broken here")</script>`, "broken here"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, "<!doctype html>"+test.body)
			page, err := shoot(ctx, server, 800, 600, []string{"Ports"})
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want == "" && (page.Bottom < 10 || !bytes.HasPrefix(page.picture, []byte("\x89PNG"))):
				t.Errorf("bottom %d, picture %.8q", page.Bottom, page.picture)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// newServer serves a page on loopback, with the status that is in the address.
func newServer(t *testing.T, page string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, err := strconv.Atoi(r.URL.Query().Get("status")); err == nil {
			w.WriteHeader(status)
		}
		io.WriteString(w, page)
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return "http://" + l.Addr().String()
}

// TestRun runs everything over stand-ins. Whatever happens, nothing that was started is left.
func TestRun(t *testing.T) {
	needBrowser(t)
	tests := map[string]struct {
		page   string
		change func(args []string, dir string) []string
		want   string // error
	}{
		"pictures":      {section("Ports", full) + section("GPUs", full), nil, ""},
		"panel fails":   {section("Ports", full) + section("GPUs", `<div role="alert">parse error</div>`), nil, `dashboard fleet: panel "GPUs": shows "parse error"`},
		"link astray":   {section("Ports", full) + section("GPUs", full+`<a href="/d/none/x?var-instance=gpu-01">gpu-01</a>`), nil, `dashboard fleet: panel "GPUs": link "gpu-01" to`},
		"exporter ends": {"", func(a []string, dir string) []string { return append(a, "-exporter="+failing(t, dir)) }, "no such scenario"},
		"Grafana ends": {"", func(a []string, dir string) []string {
			os.Rename(failing(t, dir), dir+"/grafana/bin/grafana")
			return a
		}, "grafana has ended by itself"},
		"deadline passes": {"", func(a []string, _ string) []string { return append(a, "-collect=1h", "-deadline=5s") }, "not finished after 5s"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args, dir := site(t, "<!doctype html><body style='margin: 0'>"+test.page)
			if test.change != nil {
				args = test.change(args, dir)
			}
			err := run(t.Context(), args, io.Discard)
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if size := pictureSize(t, dir+"/out/fleet.png"); size != image.Pt(800, 2*300+margin) {
					t.Errorf("picture of %v, want it to end below the last panel", size)
				}
			} else if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			pids, _ := filepath.Glob(dir + "/pids/[0-9]*")
			if len(pids) == 0 {
				t.Error("nothing was started")
			}
			for _, path := range pids {
				if pid, _ := strconv.Atoi(filepath.Base(path)); syscall.Kill(pid, 0) == nil {
					t.Errorf("process %d still runs", pid)
				}
			}
		})
	}
}

// failing is a program that ends at once with an error message.
func failing(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "failing")
	write(t, path, script(t, dir, "failing"), 0o700)
	return path
}

// write writes a file that may be a program. No process of a test beside this one starts meanwhile: it would
// hold the file open for writing until its own exec, and to start the file would fail with ETXTBSY.
func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func pictureSize(t *testing.T, path string) image.Point {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	config, err := png.DecodeConfig(f)
	if err != nil {
		t.Fatal(err)
	}
	return image.Pt(config.Width, config.Height)
}

// TestReduce has more colours than fit: frequent ones stay, others become their neighbours, and what is below
// is cut off.
func TestReduce(t *testing.T) {
	from := image.NewRGBA(image.Rect(0, 0, 300, 100))
	red, dark := color.RGBA{224, 47, 68, 255}, color.RGBA{17, 18, 23, 255}
	for y := range 100 {
		for x := range 300 {
			from.Set(x, y, dark)
			if y < 10 {
				from.Set(x, y, red)
			}
		}
	}
	for y := range 100 {
		from.Set(y, 20, color.RGBA{uint8(y), 200, 0, 255})
		from.Set(100+y, 20, color.RGBA{uint8(y), 210, 0, 255})
		from.Set(200+y, 20, color.RGBA{uint8(y), 220, 0, 255})
	}
	var in, out bytes.Buffer
	if err := png.Encode(&in, from); err != nil {
		t.Fatal(err)
	}
	if err := reduce(&in, &out, 40); err != nil {
		t.Fatal(err)
	}
	got, err := png.Decode(&out)
	if err != nil {
		t.Fatal(err)
	}
	if got.Bounds().Dy() != 40+margin {
		t.Errorf("height %d, want %d", got.Bounds().Dy(), 40+margin)
	}
	for y, want := range map[int]color.RGBA{5: red, 50: dark} {
		if c := color.RGBAModel.Convert(got.At(150, y)); c != want {
			t.Errorf("row %d is %v, want %v", y, c, want)
		}
	}
	for x := range 300 {
		was, is := from.RGBAAt(x, 20), color.RGBAModel.Convert(got.At(x, 20)).(color.RGBA)
		if d := int(was.R) - int(is.R); d*d > 50*50 || is.G < 195 {
			t.Errorf("pixel %d was %v and is %v", x, was, is)
		}
	}
}

// TestCancelled ends at once when the context is cancelled.
func TestCancelled(t *testing.T) {
	needBrowser(t)
	args, _ := site(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Second, cancel)
	if err := run(ctx, append(args, "-collect=1h"), io.Discard); err == nil {
		t.Error("no error")
	}
}

// TestAddresses: no other run, and no program that listens on port 0, gets the same address; else a program
// that starts a second later could not listen.
func TestAddresses(t *testing.T) {
	a, b := newPrograms(t.TempDir()), newPrograms(t.TempDir())
	all := map[string]bool{}
	for range 20 {
		for _, p := range []*programs{a, b} {
			address, err := p.address()
			if err != nil {
				t.Fatal(err)
			}
			host, port, err := net.SplitHostPort(address)
			if err != nil {
				t.Fatal(err)
			}
			if n, _ := strconv.Atoi(port); all[address] || host != p.host || a.host == b.host || n >= firstEphemeral || !net.ParseIP(host).IsLoopback() {
				t.Errorf("address %s of runs at %s and %s", address, a.host, b.host)
			}
			all[address] = true
		}
	}
	next := ":" + strconv.Itoa(a.port+1)
	taken, err := net.Listen("tcp4", next) // another program may have it: then it is taken, too
	if err == nil {
		defer taken.Close()
	}
	if address, err := a.address(); err != nil || strings.HasSuffix(address, next) {
		t.Errorf("address %s, %v; want a port after %s, which is taken", address, err, next)
	}
}

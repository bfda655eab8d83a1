// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// board is what is needed of a dashboard.
type board struct {
	name      string // of its file
	uid       string
	variables []string
	titles    []string // of the panels that its page shows, without those in closed rows
	rows      int      // of the grid, down to the last panel
}

// span is a time range.
type span struct{ from, to time.Time }

// readBoards reads the dashboards of a folder.
func readBoards(folder string) ([]board, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no *.json in %s (-dashboards)", folder)
	}
	var all []board
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		b, err := readBoard(strings.TrimSuffix(filepath.Base(path), ".json"), text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, b)
	}
	return all, nil
}

func readBoard(name string, text []byte) (board, error) {
	var model struct {
		UID        string
		Templating struct{ List []struct{ Name string } }
		Panels     []struct {
			Type, Title string
			GridPos     struct{ Y, H int }
		}
	}
	if err := json.Unmarshal(text, &model); err != nil {
		return board{}, err
	}
	if model.UID == "" || len(model.Panels) == 0 {
		return board{}, errors.New("not a dashboard: want a uid and panels")
	}
	b := board{name: name, uid: model.UID}
	for _, v := range model.Templating.List {
		b.variables = append(b.variables, v.Name)
	}
	for _, p := range model.Panels {
		b.rows = max(b.rows, p.GridPos.Y+p.GridPos.H)
		if p.Type != "row" && p.Title != "" && !strings.Contains(p.Title, "$") { // Grafana fills in variables
			b.titles = append(b.titles, p.Title)
		}
	}
	return b, nil
}

// address is the page of the dashboard without Grafana's menus.
func (b board) address(grafana string, s span) string {
	query := url.Values{"orgId": {"1"}, "from": {millis(s.from)}, "to": {millis(s.to)}, "kiosk": {"1"}}
	for name, value := range subjects()[b.name] {
		query.Set("var-"+name, value)
	}
	return grafana + "/d/" + url.PathEscape(b.uid) + "/picture?" + query.Encode()
}

// height is at least that of the page in pixels: Grafana draws only what a window shows.
func (b board) height() int { return 38*b.rows + 300 }

func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

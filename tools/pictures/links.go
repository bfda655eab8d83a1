// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// lost returns an error for each panel with a link that leads to the wrong place: Grafana did not fill in a
// variable, there is no such dashboard, or a cell with the name of a node or device leads to another one.
func lost(panels []panelState, boards []board) error {
	var wrong []error
	for _, p := range panels {
		for _, l := range p.Links {
			if why := astray(l.Text, l.To, boards); why != "" {
				wrong = append(wrong, fmt.Errorf("panel %q: link %q to %s: %s", p.Title, l.Text, l.To, why))
				break
			}
		}
	}
	return errors.Join(wrong...)
}

// number is what a cell says that has more devices than fit, and gpus what one says that leads to the node of GPUs.
var (
	number = regexp.MustCompile(`^[0-9]+ devices$`)
	gpus   = regexp.MustCompile(`^(GPU .*|[0-9]+ GPUs)$`)
)

// astray says what is wrong with a link of that text, or nothing.
func astray(text, to string, boards []board) string {
	u, err := url.Parse(to)
	if err != nil {
		return err.Error()
	}
	query := u.Query()
	for name, values := range query {
		if strings.Contains(strings.Join(values, ""), "${") {
			return "Grafana did not fill in " + name
		}
	}
	if strings.Contains(u.Path+u.Fragment, "${") {
		return "Grafana did not fill in the address"
	}
	uid, ok := strings.CutPrefix(u.Path, "/d/")
	if !ok {
		return "" // a runbook
	}
	uid, _, _ = strings.Cut(uid, "/")
	if !slices.ContainsFunc(boards, func(b board) bool { return b.uid == uid }) {
		return "no such dashboard"
	}
	subject := "var-instance"
	switch {
	case query.Has("viewPanel"):
		return "" // of a figure, to the panel that explains it
	case query.Has("var-device") && query.Get("var-device") == "" && text == "":
		return "" // of an empty cell, which has nothing to click on
	case query.Has("var-device") && query.Get("var-device") == "":
		return "var-device is empty"
	case query.Get("var-device") == "All" && (text == "" || gpus.MatchString(text)):
		return ""
	case query.Has("var-device"):
		subject = "var-device"
	case query.Get("var-training_job") == "All" && text == "-":
		return "" // of a row without the name of a job
	case query.Has("var-training_job"):
		subject = "var-training_job"
	}
	// A cell may have several devices, or their number: it leads to the first.
	shown, _, _ := strings.Cut(text, ",")
	if leadsTo := query.Get(subject); number.MatchString(text) && leadsTo != "" && !strings.ContainsAny(leadsTo, ", ") {
		return ""
	} else if text != "" && leadsTo != shown && !(subject == "var-device" && endOf(leadsTo, shown)) {
		return subject + " is not what the link says"
	}
	return ""
}

// endOf reports whether a cell shows the end of the name of a device, as the grid of many rails does.
func endOf(device, shown string) bool {
	return strings.HasSuffix(device, "_"+shown) || strings.TrimLeft(device, "abcdefghijklmnopqrstuvwxyz") == shown
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// client asks a Prometheus.
type client struct{ base string }

const (
	patience = 30 * time.Second
	longest  = 64 << 20 // bytes of an answer
)

// ask calls a method of the API and decodes the data of its answer. An error of Prometheus is an error.
func (c client) ask(ctx context.Context, path string, form url.Values, data any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/api/v1/"+path+"?"+form.Encode(), nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, longest+1))
	switch {
	case err != nil:
		return err
	case len(body) > longest:
		return fmt.Errorf("the answer has more than %d bytes", longest)
	}
	var said struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return fmt.Errorf("%s: %w", answer.Status, err)
	}
	if said.Status != "success" {
		return errors.New(said.Error)
	}
	return json.Unmarshal(said.Data, data)
}

// query asks for an instant vector.
func (c client) query(ctx context.Context, expr string, at time.Time) ([]Series, error) {
	return c.matrix(ctx, "query", url.Values{"query": {expr}, "time": {stamp(at)}})
}

// queryRange asks for a value at each step.
func (c client) queryRange(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]Series, error) {
	return c.matrix(ctx, "query_range", url.Values{
		"query": {expr}, "start": {stamp(from)}, "end": {stamp(to)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
	})
}

func (c client) matrix(ctx context.Context, path string, form url.Values) ([]Series, error) {
	var data struct {
		ResultType string
		Result     json.RawMessage
	}
	if err := c.ask(ctx, path, form, &data); err != nil {
		return nil, err
	}
	var result []struct {
		Metric map[string]string
		Value  *sample
		Values []sample
	}
	if data.ResultType == "scalar" {
		var s sample
		if err := json.Unmarshal(data.Result, &s); err != nil {
			return nil, err
		}
		return []Series{{Points: []Point{Point(s)}}}, nil
	}
	if err := json.Unmarshal(data.Result, &result); err != nil {
		return nil, fmt.Errorf("%s: %w", data.ResultType, err)
	}
	var all []Series
	for _, r := range result {
		s := Series{Labels: r.Metric}
		if r.Value != nil {
			r.Values = append(r.Values, *r.Value)
		}
		for _, v := range r.Values {
			s.Points = append(s.Points, Point(v))
		}
		all = append(all, s)
	}
	return all, nil
}

// values returns the values that a label has in the series of a selector; of all series where that is empty.
func (c client) values(ctx context.Context, selector, label string, from, to time.Time) ([]string, error) {
	form := url.Values{"start": {stamp(from)}, "end": {stamp(to)}}
	if selector != "" {
		form.Set("match[]", selector)
	}
	var list []string
	return list, c.ask(ctx, "label/"+url.PathEscape(label)+"/values", form, &list)
}

// sample is a Point as Prometheus writes it: [1700000000.123, "NaN"].
type sample Point

func (s *sample) UnmarshalJSON(text []byte) error {
	var pair [2]any
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	at, _ := pair[0].(float64)
	value, ok := pair[1].(string)
	v, err := strconv.ParseFloat(value, 64)
	if !ok || err != nil {
		return fmt.Errorf("sample %s: want a time and a number in quotes", text)
	}
	s.At, s.Value = time.UnixMilli(int64(math.Round(at*1000))), v
	return nil
}

func stamp(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }

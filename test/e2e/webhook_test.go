// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// message is one alert of a notification.
type message struct {
	Status string            `json:"status"` // firing, resolved
	Labels map[string]string `json:"labels"`

	at       time.Time // when it came
	receiver string
	post     int // the number of the notification that it came with
}

// webhook receives the notifications of Alertmanager.
type webhook struct {
	*httptest.Server

	mu    sync.Mutex
	posts int
	all   []message
}

func listen(t *testing.T) *webhook {
	w := new(webhook)
	w.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		at := time.Now()
		var n struct {
			Receiver string    `json:"receiver"`
			Alerts   []message `json:"alerts"`
		}
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
			t.Errorf("notification: %v", err)
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.posts++
		for _, m := range n.Alerts {
			m.at, m.receiver, m.post = at, n.Receiver, w.posts
			w.all = append(w.all, m)
		}
	}))
	t.Cleanup(w.Close)
	return w
}

// first returns when the first message with that status came about an alert of a node and device.
func (w *webhook) first(status, instance, alert, device string) (time.Time, bool) {
	for _, m := range w.messages() {
		if m.Status == status && m.Labels["instance"] == instance && m.Labels["alertname"] == alert && m.Labels["device"] == device {
			return m.at, true
		}
	}
	return time.Time{}, false
}

// messages returns what has come so far.
func (w *webhook) messages() []message {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]message(nil), w.all...)
}

// SPDX-License-Identifier: Apache-2.0

package errand

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What an errand runs into costs its caller an error, and neither the process nor later errands.
func TestErrandThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e Errand[int]
		for name, do := range map[string]func() (int, error){
			"boom":        func() (int, error) { panic("boom") },
			"index":       func() (int, error) { return []int{}[time.Now().Nanosecond()], nil },
			"without end": func() (int, error) { runtime.Goexit(); return 0, nil },
		} {
			_, err := e.Run(t.Context(), time.Second, do)
			if !errors.Is(err, ErrPanic) || !strings.Contains(err.Error(), "errand_test.go") {
				t.Errorf("%s: %v, expected a panic and where it was", name, err)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s was waited for: %v", name, err)
			}
		}
		late := make(chan struct{})
		if _, err := e.Run(t.Context(), time.Second, func() (int, error) { <-late; panic("late") }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, expected the end of the patience", err)
		}
		close(late)
		synctest.Wait()
		if v, err := e.Run(t.Context(), time.Second, func() (int, error) { return 7, nil }); v != 7 || err != nil {
			t.Errorf("the next errand: %d, %v", v, err)
		}
	})
}

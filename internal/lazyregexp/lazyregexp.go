// SPDX-License-Identifier: Apache-2.0

// Package lazyregexp holds the regular expressions of package variables that few processes need. The exporter and its
// workers compiled 1.2 MB of them at start that most never use.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns an expression in the syntax of the package regexp. It is compiled by the first call, which
// panics if that is not possible, and may be used by several goroutines.
func New(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

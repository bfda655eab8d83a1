// SPDX-License-Identifier: Apache-2.0

package page

import "gpufabric_exporter/internal/fabric"

// What the page of probes takes from here until it is here itself.

// Cell is one value of a table.
type Cell = cell

// Style is the style of all pages.
func Style() string { return landingCSS }

// Show makes a cell of a fact.
func Show[T any](f fabric.Fact[T], text func(T) string) Cell { return show(f, text) }

// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/page"
)

// What this page has of internal/page, where it goes next.
type (
	cell       page.Cell
	link       page.Link
	namedValue struct{ Name, Value string }
)

var landingCSS = page.Style()

func show[T any](f fabric.Fact[T], text func(T) string) cell { return cell(page.Show(f, text)) }

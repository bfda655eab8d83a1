// SPDX-License-Identifier: Apache-2.0

// Package exposition holds the metric families of a scrape and writes them in the formats that scrapers ask for.
//
// What Prometheus asks for, its text format and OpenMetrics 1.0, is written straight from the families. Package
// expfmt of Prometheus writes the rest: the other formats, and the families of a registry.
//
// The reason is cost. expfmt takes families as protobuf messages, nine objects per series; making, writing
// and collecting them was more than half of the CPU time of a scrape. A Family here is a name and rows of
// values. Series, text and compressed text are made in memory of earlier scrapes, and text that follows from
// names alone (Head) is kept, because names hardly ever change. Values are never kept.
//
// Scrapers must not notice the difference. Tests compare the text with expfmt byte for byte, for every
// scenario and fuzzed, and the answers of the exporter with those of promhttp, for all formats and encodings
// that a client may ask for.
package exposition

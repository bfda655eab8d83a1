// SPDX-License-Identifier: Apache-2.0

package inspector

import (
	"bytes"
	"math"
	"strconv"
)

// record is what a line of the JSON mode has of interest.
type record struct {
	kind
	known      bool // the kind is
	sequence   sequence
	sequential bool    // the sequence is
	number     uint64  // in the sequence
	bandwidth  float64 // GB/s, 0: Inspector has none
	duration   float64 // microseconds
}

// The keys of collectives, and of sends and receives.
var (
	collKeys = keys{`"coll":"`, `"coll_sn":`, `"coll_msg_size_bytes":`, `"coll_exec_time_us":`, `"coll_busbw_gbs":`}
	p2pKeys  = keys{`"p2p":"`, `"p2p_sn":`, `"p2p_msg_size_bytes":`, `"p2p_exec_time_us":`, `"p2p_busbw_gbs":`}
)

type keys struct{ operation, number, size, duration, bandwidth string }

// lineKind is what a line of the JSON mode is.
type lineKind uint8

const (
	lineOdd    lineKind = iota // none that Inspector writes
	linePassed                 // one that says nothing of interest
	lineRecord
)

// origin is what the header of a line says. From v4.3 on it stands before the records of a communicator alone,
// in a line with the counts of records (dump_stats).
type origin struct {
	known              bool
	nodes              uint64
	communicator, rank uint64
}

func parseOrigin(header []byte) (o origin) {
	o.nodes, o.known = whole(header, `"nnodes":`)
	o.communicator, _ = strconv.ParseUint(string(bytes.TrimSuffix(value(header, `"id":"0x`), []byte{'"'})), 16, 64)
	o.rank, _ = whole(header, `"rank":`)
	return o
}

// parseLine reads a line of the JSON mode, behind lines whose origin is at. It looks for keys where a parser of
// JSON would take ten times as long: Inspector writes no blanks (json.cc), and no text has a quoted key in it,
// since quotes are escaped.
func parseLine(line []byte, at *origin) (r record, kind lineKind) {
	line = bytes.TrimSpace(line)
	if !bytes.HasSuffix(line, []byte(`}}`)) {
		return r, lineOdd
	}
	of := *at
	header, body, perf := bytes.Cut(line, []byte(`_perf":{`))
	if has := bytes.HasPrefix(line, []byte(`{"header":{`)); has {
		of = parseOrigin(header)
		if _, _, stats := bytes.Cut(header, []byte(`"dump_stats":{`)); stats && !perf && of.known {
			*at = of
			return r, linePassed
		}
		if !of.known {
			return r, lineOdd
		}
	} else if bytes.HasPrefix(line, []byte(`{"proxy_trace":{`)) {
		return r, linePassed
	} else if bare := len(header) == len(`{"coll`) || len(header) == len(`{"p2p`); !bare {
		return r, lineOdd
	}
	if !perf {
		return r, lineOdd
	}
	if r, perf = parseRecord(header, body, of); !perf {
		return r, lineOdd
	}
	if !of.known { // the line with the header was not read
		return r, linePassed
	}
	return r, lineRecord
}

// parseRecord reads the part of a line that is of one operation. False: Inspector does not write it.
func parseRecord(header, perf []byte, of origin) (r record, ok bool) {
	key := collKeys
	if r.sequential = bytes.HasSuffix(header, []byte(`"coll`)); !r.sequential {
		if key = p2pKeys; !bytes.HasSuffix(header, []byte(`"p2p`)) {
			return r, false
		}
	}
	size, sized := decimal(perf, key.size)
	duration, timed := decimal(perf, key.duration)
	number, numbered := whole(perf, key.number)
	if !sized || !timed || !numbered {
		return r, false
	}
	if r.bandwidth, ok = decimal(perf, key.bandwidth); !ok && string(value(perf, key.bandwidth)) != `"nan"` {
		return r, false
	}
	r.duration, r.number = duration, number
	operation, _, _ := bytes.Cut(after(perf, key.operation), []byte{'"'})
	r.kind, r.known = makeKind(string(operation), size, of.nodes)
	r.sequence = sequence{of.communicator, of.rank, r.collective}
	return r, true
}

// after returns what comes after a key.
func after(text []byte, key string) []byte {
	i := bytes.Index(text, []byte(key))
	if i < 0 {
		return nil
	}
	return text[i+len(key):]
}

// value returns the text of a value that is no object, up to the next one.
func value(text []byte, key string) []byte {
	text = after(text, key)
	if i := bytes.IndexAny(text, ",}"); i >= 0 {
		return text[:i]
	}
	return text
}

func whole(text []byte, key string) (uint64, bool) {
	n, err := strconv.ParseUint(string(value(text, key)), 10, 64)
	return n, err == nil
}

func decimal(text []byte, key string) (float64, bool) {
	n, ok := parseFloat(value(text, key))
	return n, ok && !math.IsNaN(n) && !math.IsInf(n, 0)
}

// parseFloat parses a number as Inspector writes it: digits and a point (%f), or six digits and an exponent
// (%g). For others, such as the largest ones, strconv takes up to 30 µs.
func parseFloat(text []byte) (float64, bool) {
	const longest, mostDigits, mostExponent = 24, len("-1.23456"), "300"
	mantissa, exponent, scaled := bytes.Cut(text, []byte{'e'})
	exponent = bytes.TrimLeft(exponent, "+-0")
	if len(text) > longest || scaled && (len(mantissa) > mostDigits || len(exponent) > len(mostExponent) ||
		len(exponent) == len(mostExponent) && string(exponent) > mostExponent) {
		return 0, false
	}
	if bytes.ContainsAny(text, "xX_pP") {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(text), 64)
	return n, err == nil
}

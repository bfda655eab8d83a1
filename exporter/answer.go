// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/common/expfmt"

	"gpufabric_exporter/collector"
)

// answer makes the body of an answer to a scraper, in its buffers. It is complete before any of it is sent,
// so that it is sent with its length and in one write.
type answer struct {
	gathered     collector.Gathered
	text, packed bytes.Buffer
	gzip         *gzip.Writer
}

// answers keeps the buffers of answers for reuse.
type answers struct{ pool sync.Pool }

func (p *answers) get() *answer {
	a, ok := p.pool.Get().(*answer)
	if !ok {
		// All is compressed at once: no state, of 1 MiB, is needed. The default level takes several times as long for a
		// seventh fewer bytes.
		w, _ := gzip.NewWriterLevel(nil, gzip.StatelessCompression) // the level is valid
		a = &answer{gzip: w}
	}
	a.text.Reset()
	return a
}

func (p *answers) put(a *answer) { p.pool.Put(a) }

// body returns the text, compressed if the scraper prefers that, and sets the headers for it. It shares no
// memory with the answer.
func (a *answer) body(header http.Header, r *http.Request, format expfmt.Format) []byte {
	body := &a.text
	header.Add("Vary", "Accept")
	header.Add("Vary", "Accept-Encoding")
	header.Set("Content-Type", string(format))
	if prefersGzip(r.Header) {
		header.Set("Content-Encoding", "gzip")
		body = &a.packed
		body.Reset()
		a.gzip.Reset(body)
		_, _ = a.gzip.Write(a.text.Bytes()) // writing to a buffer does not fail
		_ = a.gzip.Close()
	}
	header.Set("Content-Length", strconv.Itoa(body.Len()))
	return bytes.Clone(body.Bytes())
}

// prefersGzip reports whether a client prefers gzip to no compression. A client that states no preference gets none.
func prefersGzip(h http.Header) bool {
	var packed, identity float64
	for _, list := range h.Values("Accept-Encoding") {
		for item := range strings.SplitSeq(list, ",") {
			coding, parameter, weighed := strings.Cut(item, ";")
			weight := 1.0
			if weighed {
				q, _ := strings.CutPrefix(strings.TrimSpace(parameter), "q=")
				weight, _ = strconv.ParseFloat(q, 64) // a weight that is not a number counts as 0
			}
			coding = strings.TrimSpace(coding)
			if coding == "gzip" || coding == "*" {
				packed = max(packed, weight)
			}
			if coding == "identity" || coding == "*" {
				identity = max(identity, weight)
			}
		}
	}
	return packed > identity
}

// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/internal/lazyregexp"
)

// gpuPatience is how many times the limit the GPU driver has to answer: the first answer comes with the
// initialisation of all GPUs, which takes seconds for each.
const gpuPatience = 7

// gpus asks the GPU driver once.
func (s *session) gpus(u *unit) error {
	if s.o.GPUs == nil || !u.begin(gpusName) {
		return nil
	}
	driver, err := s.o.GPUs(time.Now())
	if err != nil {
		return err
	}
	text, err := marshalGPUs(driver)
	if err == nil {
		u.put(gpusName, entry{kind: regular, text: text})
	}
	return err
}

var (
	uuids    = lazyregexp.New(`(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	uuidLike = lazyregexp.New(`(?i)^(?:(?:GPU|MIG)-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

// uuid replaces each UUID in a text. A UUID of zeros identifies no GPU.
func (a *anonymiser) uuid(s string) string {
	return uuids().ReplaceAllStringFunc(s, func(m string) string {
		if strings.Trim(m, "0-") == "" {
			return m
		}
		var digits strings.Builder
		for i := range uint64(2) {
			v := strconv.FormatUint(a.random("uuid "+strings.ToLower(m), i), 16)
			digits.WriteString(strings.Repeat("0", 16-len(v)) + v)
		}
		return punctuate(digits.String(), m)
	})
}

// identity replaces what must be a UUID, or whatever else it is.
func (a *anonymiser) identity(s string) string {
	if s == "" || uuidLike().MatchString(s) {
		return a.uuid(s)
	}
	return a.word(s)
}

// gpuText rewrites what the GPU driver answered. All that identifies is UUIDs: of GPUs, and of the cluster of
// a rack. Why the exporter released the GPUs may name a file.
func (a *anonymiser) gpuText(s string) string {
	driver, err := parseGPUs([]byte(s))
	if err != nil {
		return "" // cannot be: it was marshalled here
	}
	for i := range driver.GPUs {
		g := &driver.GPUs[i]
		g.UUID, g.Fabric.Value.Cluster = a.identity(g.UUID), a.identity(g.Fabric.Value.Cluster)
		for k := range g.Processes.Value {
			p := &g.Processes.Value[k]
			p.Instance = a.identity(p.Instance)
		}
	}
	if driver.Released != "" {
		driver.Released = "when it was captured, for a reason of its own"
	}
	text, err := marshalGPUs(driver)
	if err != nil {
		return ""
	}
	return text
}

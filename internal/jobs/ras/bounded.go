// SPDX-License-Identifier: Apache-2.0

package ras

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// Bounds on what a report takes in memory, beside its bytes.
const (
	leastElement = 64      // bytes of an element of a list: NCCL writes more than 100
	mostCounts   = 4 << 10 // bytes of the counts of collectives of a rank: NCCL writes some 300
)

var (
	errShort  = errors.New("a list has elements that are shorter than NCCL writes them")
	errCounts = errors.New("a rank has more counts of collectives than NCCL, or more than 2^64 collectives")
)

// list refuses elements of a few bytes each: in memory, each would take a hundred.
type list[T any] []T

// UnmarshalJSON reads one element at a time.
func (l *list[T]) UnmarshalJSON(b []byte) error {
	in := json.NewDecoder(bytes.NewReader(b))
	switch begin, err := in.Token(); {
	case err != nil:
		return err
	case begin == nil: // null
		return nil
	case begin == json.Delim('{'):
		return &json.UnmarshalTypeError{Value: "object"}
	case begin != json.Delim('['):
		return &json.UnmarshalTypeError{Value: fmt.Sprintf("%T", begin)}
	}
	for in.More() {
		var element T
		if err := in.Decode(&element); err != nil {
			return err
		}
		if *l = append(*l, element); int64(len(*l)) > in.InputOffset()/leastElement {
			return errShort
		}
	}
	return nil
}

// counts are the sum of the counts of collectives of a rank.
type counts struct {
	sum uint64
	any bool
}

// UnmarshalJSON adds them up.
func (c *counts) UnmarshalJSON(b []byte) error {
	if len(b) > mostCounts {
		return errCounts
	}
	var each map[string]uint64
	if err := json.Unmarshal(b, &each); err != nil {
		return err
	}
	*c = counts{any: len(each) > 0}
	for _, n := range each {
		if n > math.MaxUint64-c.sum {
			return errCounts
		}
		c.sum += n
	}
	return nil
}

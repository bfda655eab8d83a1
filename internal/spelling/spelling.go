// SPDX-License-Identifier: Apache-2.0

// Package spelling lists valid words, and finds the one that a user probably meant.
package spelling

import (
	"strconv"
	"strings"
)

// maxWord bounds what is compared, in bytes. No name of this program is longer.
const maxWord = 64

// Hint returns "; did you mean NAME?" for the end of an error, or nothing where no name is near.
func Hint(word string, names []string) string {
	if near := nearest(word, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// List joins words for a sentence: "a, b or c".
func List(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Names returns the words that things of a type are named by.
func Names[T ~string](list []T) []string {
	all := make([]string, len(list))
	for i, w := range list {
		all[i] = string(w)
	}
	return all
}

// Few joins the first of a list that may be long.
func Few(list []string, most int) string {
	if len(list) > most {
		return strings.Join(list[:most], ", ") + " and " + strconv.Itoa(len(list)-most) + " more"
	}
	return strings.Join(list, ", ")
}

// Plural is a number of things: "1 GPU is idle", "2 GPUs are idle".
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// nearest returns the name with the fewest edits, the first one of several, or nothing where that would be a
// guess: a word may have one wrong letter, and one more for each four letters behind its last dot, three at
// most. A name that has the word inside is the next best, the shortest one. Case does not count, nor does
// which of "-", "_" and " " separates.
func nearest(word string, names []string) string {
	if len(word) > maxWord {
		return ""
	}
	word = plain(word)
	last := word[strings.LastIndexByte(word, '.')+1:]
	best, limit := "", 1+min(3, 1+len(last)/4)
	within := ""
	for _, name := range names {
		p := plain(name)
		if d := Distance(word, p, limit); d < limit {
			best, limit = name, d
		}
		if len(word) > 2 && strings.Contains(p, word) && (within == "" || len(name) < len(within)) {
			within = name
		}
	}
	if best == "" {
		return within
	}
	return best
}

func plain(s string) string {
	return strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(s))
}

// Distance is the number of bytes to insert, delete, replace or swap with their neighbour (optimal string alignment);
// limit where there are as many or more, or a word is longer than 64 bytes.
func Distance(a, b string, limit int) int {
	if len(a) > maxWord || len(b) > maxWord || len(a) >= len(b)+limit || len(b) >= len(a)+limit {
		return limit
	}
	var before, last, row [maxWord + 1]int // rows of the table, of which three are needed
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last = last, row
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return min(row[len(b)], limit)
}

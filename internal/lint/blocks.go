// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
)

// Bounds of a script.
const (
	maxBlocks = 100     // blocks in each other
	maxParts  = 200_000 // commands
)

// block is a part of a script between two words, while it is read.
type block struct {
	begin   string // the word that begins it: if, case, ...
	bodies  [][]part
	usual   bool   // one of the bodies is always reached: there is an else
	alone   bool   // it is a part of a pipeline, or in the background: a subshell runs it
	name    string // of the function whose body it is; empty: it is none
	pattern bool   // of a case: a pattern follows
}

// blocks are those that a script is in, the innermost last. The first one is the script.
type blocks struct {
	stack []block
	parts int
	err   error // a bound was reached
}

func newBlocks() blocks { return blocks{stack: []block{{bodies: [][]part{nil}}}} }

// top is the innermost block.
func (b *blocks) top() *block { return &b.stack[len(b.stack)-1] }

// add adds a part to the innermost block. A program that runs twice in a row is one.
func (b *blocks) add(p part) {
	t := b.top()
	last := &t.bodies[len(t.bodies)-1]
	if n := len(*last); p.kind == partRun && n > 0 && (*last)[n-1].kind == partRun && (*last)[n-1].name == p.name {
		return
	}
	if b.parts++; b.parts > maxParts && b.err == nil {
		b.err = fmt.Errorf("expected at most %d commands", maxParts)
	}
	if b.err == nil {
		*last = append(*last, p)
	}
}

func (b *blocks) open(begin string, line int) {
	if len(b.stack) > maxBlocks && b.err == nil {
		b.err = fmt.Errorf("line %d: expected at most %d blocks (if, case, loops, functions, subshells) in each other", line, maxBlocks)
	}
	if b.err == nil {
		b.stack = append(b.stack, block{begin: begin, bodies: [][]part{nil}})
	}
}

// otherwise begins the next body of an if or a case.
func (b *blocks) otherwise(begin string, usual bool) {
	if t := b.top(); t.begin == begin {
		t.bodies = append(t.bodies, nil)
		t.usual = t.usual || usual
	}
}

// close ends the innermost block that begins with one of the words, and those in it that nothing ended.
func (b *blocks) close(alone bool, begins ...string) {
	at := len(b.stack) - 1
	for at > 0 && !slices.Contains(begins, b.stack[at].begin) {
		at--
	}
	if at == 0 {
		return
	}
	b.stack[at].alone = b.stack[at].alone || alone
	b.closeTo(at)
}

// closeTo ends blocks until there are n.
func (b *blocks) closeTo(n int) {
	for len(b.stack) > n {
		t := *b.top()
		b.stack = b.stack[:len(b.stack)-1]
		if t.alone && t.name == "" {
			b.add(part{kind: partScope, body: [][]part{{t.part()}}})
			continue
		}
		if p := t.part(); p.kind == partScope && p.name == inline {
			for _, one := range p.body[0] {
				b.add(one)
			}
		} else {
			b.add(p)
		}
	}
}

// inline marks what has no environment of its own.
const inline = "{"

// part is what a block does.
func (t *block) part() part {
	switch t.begin {
	case "for", "while", "until":
		return part{kind: partLoop, body: t.bodies}
	case "if", "case", "&&":
		if t.usual {
			return part{kind: partChoice, body: t.bodies}
		}
		return part{kind: partBranch, body: t.bodies}
	}
	if t.begin == "(" {
		if t.name == "" {
			return part{kind: partScope, body: t.bodies}
		}
		t.bodies = [][]part{{{kind: partScope, body: t.bodies}}}
	}
	if t.name != "" {
		return part{kind: partFunction, name: t.name, body: t.bodies}
	}
	return part{kind: partScope, name: inline, body: t.bodies}
}

// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// add adds a part to the block that is read. A program that runs twice in a row is one.
func (k *shellReader) add(p part) {
	if n := len(k.parts); p.kind == partRun && n > 0 && k.parts[n-1].kind == partRun && k.parts[n-1].name == p.name {
		return
	}
	if k.count++; k.count > maxParts && k.err == nil {
		k.err = fmt.Errorf("expected at most %d commands", maxParts)
	}
	if k.err == nil {
		k.parts = append(k.parts, p)
	}
}

// block returns the parts of what stands in a block.
func (k *shellReader) block(inside func()) []part {
	if k.depth++; k.depth > maxBlocks && k.err == nil {
		k.err = fmt.Errorf("line %d: expected at most %d blocks (if, case, loops, functions, subshells) in each other",
			k.lineAt(k.at), maxBlocks)
	}
	outside := k.parts
	k.parts = nil
	if k.err == nil {
		inside()
	}
	k.depth--
	body := k.parts
	k.parts = outside
	return body
}

// alone reads what has an environment of its own.
func (k *shellReader) alone(inside func()) {
	k.add(part{kind: partScope, body: [][]part{k.block(inside)}})
}

// statement reads a statement of the text that begins at that byte.
func (k *shellReader) statement(s *syntax.Stmt, begin int) {
	if k.err != nil {
		return
	}
	k.lineAt(begin + int(s.Pos().Offset())) //nolint:gosec // at most MaxInput
	k.documents(s, begin)
	if s.Background || s.Coprocess {
		k.alone(func() { k.compound(s.Cmd, begin) })
		return
	}
	k.compound(s.Cmd, begin)
}

func (k *shellReader) statements(list []*syntax.Stmt, begin int) {
	for _, s := range list {
		k.statement(s, begin)
	}
}

// compound reads a command, which may have others in it.
func (k *shellReader) compound(command syntax.Command, begin int) {
	switch c := command.(type) {
	case *syntax.CallExpr:
		k.call(c, begin)
	case *syntax.DeclClause:
		k.declaration(c, begin)
	case *syntax.Block:
		for _, p := range k.block(func() { k.statements(c.Stmts, begin) }) {
			k.add(p)
		}
	case *syntax.Subshell:
		k.alone(func() { k.statements(c.Stmts, begin) })
	case *syntax.IfClause:
		k.choice(c, begin)
	case *syntax.CaseClause:
		k.cases(c, begin)
	case *syntax.WhileClause:
		k.loop(begin, c.Cond, c.Do)
	case *syntax.ForClause:
		if list, ok := c.Loop.(*syntax.WordIter); ok {
			k.texts(append([]word{{text: "for"}}, k.words(list.Items, begin)...))
		}
		k.loop(begin, nil, c.Do)
	case *syntax.FuncDecl:
		if body := k.block(func() { k.statement(c.Body, begin) }); c.Name != nil && isName(c.Name.Value) {
			k.add(part{kind: partFunction, name: c.Name.Value, body: [][]part{body}})
		}
	case *syntax.BinaryCmd:
		k.chain(c, begin)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			k.statement(c.Stmt, begin)
		}
	case *syntax.CoprocClause:
		k.alone(func() { k.statement(c.Stmt, begin) })
	case *syntax.TestClause, *syntax.ArithmCmd, *syntax.LetClause:
		k.sure = false
	}
}

func (k *shellReader) loop(begin int, condition, body []*syntax.Stmt) {
	k.add(part{kind: partLoop, body: [][]part{k.block(func() {
		k.statements(condition, begin)
		k.statements(body,
			begin)
	})}})
}

// choice reads if, elif and else.
func (k *shellReader) choice(c *syntax.IfClause, begin int) {
	p := part{kind: partBranch}
	for ; c != nil; c = c.Else {
		if !c.ThenPos.IsValid() {
			p.kind = partChoice
		}
		p.body = append(p.body, k.block(func() { k.statements(c.Cond, begin); k.statements(c.Then, begin) }))
	}
	k.add(p)
}

func (k *shellReader) cases(c *syntax.CaseClause, begin int) {
	p := part{kind: partBranch}
	for _, item := range c.Items {
		if len(item.Patterns) == 1 && item.Patterns[0].Lit() == "*" {
			p.kind = partChoice
		}
		p.body = append(p.body, k.block(func() { k.statements(item.Stmts, begin) }))
	}
	k.add(p)
}

// chain reads statements with &&, || and | between them. What follows a command that may fail is not always
// reached; parts of a pipeline have an environment of their own.
func (k *shellReader) chain(c *syntax.BinaryCmd, begin int) {
	var list []*syntax.Stmt
	var operators []syntax.BinCmdOperator
	for {
		list, operators = append(list, c.Y), append(operators, c.Op)
		next, ok := c.X.Cmd.(*syntax.BinaryCmd)
		if !ok || len(c.X.Redirs) > 0 || c.X.Negated {
			break
		}
		c = next
	}
	list = append(list, c.X)
	slices.Reverse(list)
	slices.Reverse(operators)
	if operators[0] == syntax.Pipe || operators[0] == syntax.PipeAll {
		for _, s := range list {
			k.alone(func() { k.statement(s, begin) })
		}
		return
	}
	k.statement(list[0], begin)
	for i := 1; i < len(list); {
		if operators[i-1] == syntax.AndStmt && k.sure {
			k.statement(list[i], begin)
			i++
			continue
		}
		k.add(part{kind: partBranch, body: [][]part{k.block(func() {
			for ok := true; ok; ok = i < len(list) && operators[i-1] == syntax.AndStmt {
				k.statement(list[i], begin)
				i++
			}
		})}})
	}
}

// call reads a simple command, or assignments without one.
func (k *shellReader) call(c *syntax.CallExpr, begin int) {
	before := len(k.in.settings)
	own := make([]word, 0, len(c.Assigns))
	for _, a := range c.Assigns {
		own = append(own, k.assignment(a, begin)...)
	}
	args := k.words(c.Args, begin)
	switch {
	case len(own) > 0 && (len(args) == 0 || c.Assigns[0].Name.Value == "Environment"):
		k.assignments(append(own, args...))
		k.sure = true
	case len(args) > 0:
		k.command(own, args[0], args[1:])
	}
	if all := append(own, args...); len(k.in.settings) == before &&
		(len(args) == 0 || !slices.Contains(conditions, args[0].text)) {
		k.texts(all)
	}
}

// assignment returns NAME=value as a word. The values of an array are most often options of a command.
func (k *shellReader) assignment(a *syntax.Assign, begin int) []word {
	switch {
	case a.Array != nil:
		values := make([]word, 0, len(a.Array.Elems))
		for _, e := range a.Array.Elems {
			if e.Value != nil {
				values = append(values, k.word(e.Value, begin))
			}
		}
		k.own = nil
		k.options("", values)
		for _, p := range k.own {
			k.add(p)
		}
		return nil
	case a.Name == nil && a.Value != nil:
		return []word{k.word(a.Value, begin)}
	case a.Name == nil || a.Index != nil:
		return nil
	case a.Naked:
		return []word{{text: a.Name.Value, line: k.lineAt(begin + int(a.Pos().Offset()))}} //nolint:gosec // at most MaxInput
	}
	w := word{line: k.lineAt(begin + int(a.Pos().Offset()))} //nolint:gosec // at most MaxInput
	if a.Value != nil {
		w = k.word(a.Value, begin)
	}
	sign := "="
	if a.Append {
		sign = "+="
	}
	w.text, w.assigns = a.Name.Value+sign+w.text, ""
	return []word{w}
}

// declaration reads export, declare and the like.
func (k *shellReader) declaration(c *syntax.DeclClause, begin int) {
	var args []word
	for _, a := range c.Args {
		args = append(args, k.assignment(a, begin)...)
	}
	before := len(k.in.settings)
	line := k.lineAt(begin + int(c.Pos().Offset())) //nolint:gosec // at most MaxInput
	k.command(nil, word{text: c.Variant.Value, line: line}, args)
	if len(k.in.settings) == before {
		k.texts(append([]word{{text: c.Variant.Value}}, args...))
	}
}

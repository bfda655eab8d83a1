// SPDX-License-Identifier: Apache-2.0

package netlink

import "errors"

// Rules say which attributes of one level stay in a copy of it, and what becomes of their payloads. All others are
// left out: the content of an attribute that is not known is not known either.
type Rules map[uint16]Rule

// Rule returns what stands for the payload of an attribute. For a nest it is Rewrite of other Rules.
type Rule func(payload []byte) ([]byte, error)

// ErrLeaveOut is what a Rule returns to have the whole message left out.
var ErrLeaveOut = errors.New("to be left out")

// Keep is the Rule of a payload that identifies neither a host nor a user.
func Keep(payload []byte) ([]byte, error) { return payload, nil }

// Rename is the Rule of a name, whose replacement may be ErrLeaveOut.
func Rename(name func(string) (string, error)) Rule {
	return func(payload []byte) ([]byte, error) {
		d := Decoder{data: payload}
		old := d.Text()
		if d.err != nil {
			return nil, d.err
		}
		s, err := name(old)
		return append([]byte(s), 0), err
	}
}

// Rewrite returns the attributes in b that stay. It fails where b is malformed.
func (r Rules) Rewrite(b []byte) ([]byte, error) {
	out := []byte{}
	d := Decode(b, nil)
	for d.Next() {
		rule, stays := r[d.kind]
		if !stays {
			continue
		}
		payload, err := rule(d.data)
		if err != nil {
			return nil, err
		}
		out = Append(out, d.kind, payload)
	}
	return out, d.err
}

// Rewrite returns the exchange with another name for its interface, and with what rewrite makes of each message. A
// message that is malformed becomes one that is malformed and empty otherwise.
func (e Exchange) Rewrite(name func(netdev string) string, rewrite Rule) Exchange {
	if e.NetDev != "" {
		e.NetDev = name(e.NetDev)
	}
	if e.Answer != nil {
		e.Answer, _ = rewritten(e.Answer, rewrite)
	}
	if e.Messages != nil {
		messages := []Bytes{}
		for _, m := range e.Messages {
			if b, stays := rewritten(m, rewrite); stays {
				messages = append(messages, b)
			}
		}
		e.Messages = messages
	}
	return e
}

func rewritten(message Bytes, rewrite Rule) (b Bytes, stays bool) {
	b, err := rewrite(message)
	if err != nil {
		b = Bytes{0} // no attribute is that short
	}
	return b, !errors.Is(err, ErrLeaveOut)
}

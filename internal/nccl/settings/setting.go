// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"iter"

	"gpufabric_exporter/internal/fabric"
)

// Setting is one line that sets a variable, as the reader of its file understands it. Credentials in values are masked.
type Setting struct {
	Line        int
	Name, Value string // Name is exactly what is set; empty where nothing is
	Flaw        string // the rule that the line itself breaks; empty: none
	Masked      bool   // the value had a credential
}

// Usable reports whether the line sets what it seems to set.
func (s Setting) Usable() bool { return usable(s.statement()) }

func (s Setting) statement() statement {
	return statement{line: s.Line, name: s.Name, value: s.Value, flaw: s.Flaw, masked: s.Masked}
}

// ParseConf yields what NCCL sets from an nccl.conf (setEnvFile of src/misc/param.cc). The first setting of a
// name counts.
func ParseConf(data []byte) iter.Seq[Setting] { return settings(parseConf(data)) }

// ParseEnvironment yields the settings of an environment file as systemd reads it. The last setting of a name counts.
func ParseEnvironment(data []byte) iter.Seq[Setting] { return settings(parseEnvironment(data)) }

func settings(all iter.Seq[statement]) iter.Seq[Setting] {
	return func(yield func(Setting) bool) {
		for st := range all {
			if !yield(Setting{Line: st.line, Name: st.name, Value: st.value, Flaw: st.flaw, Masked: st.masked}) {
				return
			}
		}
	}
}

// CheckName says why a line does not set the variable that it seems to set, and what that variable is. ok: it sets it.
func CheckName(s Setting) (bare string, f fabric.NCCLFinding, ok bool) {
	bare, rule, text := nameFlaw(s.statement())
	return bare, fabric.NCCLFinding{Rule: rule, Harm: harmOf(rule), Name: identifierIn(bare), Text: text}, rule == ""
}

// CheckValue says what NCCL does otherwise than the value of a variable says. It is empty for a value that
// NCCL takes as it is written, and for a variable that NCCL does not read.
func CheckValue(s Setting) []fabric.NCCLFinding {
	v, known := Describe(s.Name)
	if !known || v.Status != StatusCurrent || s.Value == "" {
		return nil
	}
	var r report
	r.checkValue(s.statement(), v)
	return r.close()
}

// CheckAddressRange says what is wrong with a value of NCCL_IB_ADDR_RANGE beside one of NCCL_IB_ADDR_FAMILY;
// empty: nothing.
func CheckAddressRange(value, family string) string { return cidrProblem(value, family == "AF_INET6") }

// Similar returns the variable of NCCL whose name is nearest to one that is misspelt, or nothing.
func Similar(name string) string { return similar(name) }

// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"strings"

	"gpufabric_exporter/internal/lazyregexp"
)

// Mask stands for a credential that is not shown.
const Mask = "***"

const credentialWords = `token|passw(?:or)?d|passphrase|secret|api[_-]?key|credentials?`

var (
	// user:password@host, with or without scheme://; what looks so may be masked.
	userInfo = lazyregexp.New(`(?i)([a-z][a-z0-9+.-]*://)[^\s/@"']*(?::[^\s@"']*)?@|([^\s,;=/@:"'()\[\]]+):[^\s,@"']+@`)
	// password=..., api-key: ..., also as a part of a longer name.
	assigned = lazyregexp.New(`(?i)([\w-]*(?:` + credentialWords + `)[\w-]*["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,;&"']+)`)
	bearer   = lazyregexp.New(`(?i)\b(bearer|basic) [a-z0-9._~+/=-]{8,}`)
	// credential finds names of variables whose value is one.
	credential = lazyregexp.New(`(?i)(?:` + credentialWords + `)`)
	// issued finds tokens by the beginning that their issuer gives them: Hugging Face, GitHub, GitLab, OpenAI,
	// Slack, AWS, Google, NVIDIA, package registries, and JSON web tokens.
	issued = lazyregexp.New(`(?:^|[^A-Za-z0-9])(?:hf_|gh[pousr]_|github_pat_|glpat-|sk-|xox[abeprs]-|A[KS]IA|AIza|ya29\.|nvapi-|pypi-|npm_|dckr_pat_|eyJ)[A-Za-z0-9_.+=-]{8,}`)
	// long finds words that may be random.
	long = lazyregexp.New(`[A-Za-z0-9_+=-]{30,}`)
)

// MaskCredentials returns a text in which passwords and tokens are replaced by Mask: the user part of a URL,
// what stands behind password= and the like, and what an Authorization header has.
func MaskCredentials(s string) string {
	if !strings.ContainsAny(s, "@=:") && !strings.Contains(s, " ") {
		return s
	}
	s = userInfo().ReplaceAllString(s, "${1}"+Mask+"@")
	s = assigned().ReplaceAllString(s, "${1}"+Mask)
	return bearer().ReplaceAllString(s, "${1} "+Mask)
}

// MaskNamed is MaskCredentials for the value of a variable, which may be a credential because its name says so.
func MaskNamed(name, value string) string {
	if value != "" && credential().MatchString(name) {
		return Mask
	}
	return MaskCredentials(value)
}

// MaskValue is MaskNamed, and MaskTokens.
func MaskValue(name, value string) string { return MaskTokens(MaskNamed(name, value)) }

// MaskTokens replaces what has the shape of a token: the beginning that an issuer gives it, 32 hexadecimal
// digits or more, or 30 characters or more of which many are capital letters, small letters and digits.
func MaskTokens(s string) string {
	s = issued().ReplaceAllString(s, Mask)
	return long().ReplaceAllStringFunc(s, func(word string) string {
		var upper, lower, digits, hex int
		for _, c := range []byte(word) {
			switch {
			case '0' <= c && c <= '9':
				digits++
			case 'a' <= c && c <= 'z':
				lower++
			case 'A' <= c && c <= 'Z':
				upper++
			}
			if strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 {
				hex++
			}
		}
		const some = 3
		if digits >= some && (upper >= some && lower >= some || hex == len(word) && digits < len(word)) {
			return Mask
		}
		return word
	})
}

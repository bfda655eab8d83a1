// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"regexp"
	"strings"
)

// Mask stands for a credential that is not shown.
const Mask = "***"

const credentialWords = `token|passw(?:or)?d|passphrase|secret|api[_-]?key|credentials?`

var (
	// user:password@host, with or without scheme://; what looks so may be masked.
	userInfo = regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)[^\s/@"']*(?::[^\s@"']*)?@|([^\s,;=/@:"'()\[\]]+):[^\s,@"']+@`)
	// password=..., api-key: ..., also as a part of a longer name.
	assigned = regexp.MustCompile(`(?i)([\w-]*(?:` + credentialWords + `)[\w-]*["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,;&"']+)`)
	bearer   = regexp.MustCompile(`(?i)\b(bearer|basic) [a-z0-9._~+/=-]{8,}`)
	// credential finds names of variables whose value is one.
	credential = regexp.MustCompile(`(?i)(?:` + credentialWords + `)`)
)

// MaskCredentials returns a text in which passwords and tokens are replaced by Mask: the user part of a URL, what stands
// behind password= and the like, and what an Authorization header has.
func MaskCredentials(s string) string {
	if !strings.ContainsAny(s, "@=:") && !strings.Contains(s, " ") {
		return s
	}
	s = userInfo.ReplaceAllString(s, "${1}"+Mask+"@")
	s = assigned.ReplaceAllString(s, "${1}"+Mask)
	return bearer.ReplaceAllString(s, "${1} "+Mask)
}

// MaskValue is MaskCredentials for the value of a variable, which may be a credential because its name says so.
func MaskValue(name, value string) string {
	if value != "" && credential.MatchString(name) {
		return Mask
	}
	return MaskCredentials(value)
}

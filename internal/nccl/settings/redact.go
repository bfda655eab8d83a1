// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"encoding/hex"
	"strings"

	"gpufabric_exporter/internal/host/openat"
	"gpufabric_exporter/internal/lazyregexp"
)

// Redactions say what of the files that are read here may leave the node in a capture. A configuration file
// of a user has none: it stays there.
func Redactions() []openat.Redaction {
	return []openat.Redaction{
		{File: strings.TrimPrefix(systemFile, "/"), Keep: keepConf},
		// All that is taken from it is that it is there.
		{File: strings.TrimPrefix(virtualTopology, "/"), Keep: func(string, openat.Replacements) string { return "" }, Empty: true},
	}
}

var (
	settingName     = lazyregexp.New(`(?i)^[\s\x{feff}]*(?:export\s+)?NCCL_[A-Z0-9_]{1,64}\s*$`)
	beforeName      = lazyregexp.New(`(?i)^[\s\x{feff}]*(?:export\s+)?`)
	namesInterfaces = lazyregexp.New(`(?i)IFNAME|HCA`)
	listed          = lazyregexp.New(`[^,;:=^\s"']+`)
)

// keepConf rewrites a file that NCCL reads. Only settings of NCCL keep their names, and of their values only what is
// known to identify no one; of all other lines nothing stays but that they are there.
func keepConf(text string, with openat.Replacements) string {
	return openat.Lines(text, func(line string) string {
		line, returned := strings.CutSuffix(line, "\r")
		end := ""
		if returned {
			end = "\r"
		}
		name, value, ok := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(line, "#"):
			return "#" + end
		case strings.TrimSpace(line) == "":
			return line + end
		case !ok:
			return openat.Removed + end
		case !settingName().MatchString(name):
			return strings.ToUpper(openat.Removed) + "=" + end
		}
		return keepSetting(name, value, with) + end
	})
}

// keepSetting rewrites a variable of NCCL. One that NCCL does not have may be called and be set to anything: that there
// is one stays.
func keepSetting(name, value string, with openat.Replacements) string {
	bare := strings.TrimSpace(beforeName().ReplaceAllString(name, ""))
	if _, ok := Describe(strings.ToUpper(bare)); !ok {
		// Names that differ in their case differ: NCCL knows the variable only as it is written.
		name = strings.Replace(name, bare, bare[:len(prefix)]+strings.ToUpper(with.Word(hex.EncodeToString([]byte(bare)))), 1)
		if value != "" {
			value = with.Word(value)
		}
		return name + "=" + value
	}
	if !namesInterfaces().MatchString(name) {
		return name + "=" + with.Words(value)
	}
	return name + "=" + listed().ReplaceAllStringFunc(value, with.Listed)
}

// SPDX-License-Identifier: Apache-2.0

package openat

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks bounds the symbolic links on one path, as MAXSYMLINKS of the kernel.
const maxLinks = 40

// Follow follows every symbolic link in a path, like realpath(3) but below a root. target returns the
// relative target of a link, and EINVAL for what is none; outside makes the error of a link, or of the path,
// that leads out of the root.
func Follow(p string, target func(link string) (string, error), outside func(link string) error) (string, error) {
	at, link, links := ".", p, 0
	for rest := strings.Split(p, "/"); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if at == "." {
				return "", outside(link)
			}
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, name)
		to, err := target(next)
		switch {
		case errors.Is(err, unix.EINVAL):
			at = next
			continue
		case err != nil:
			return "", err
		}
		link = next
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: %w", p, unix.ELOOP)
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return at, nil
}

// SPDX-License-Identifier: Apache-2.0

// Command release describes the binaries of a release (make release): the licences of what is linked into
// them, a bill of materials, and what they were built from. It takes the modules from the binary itself, and
// reads nothing from the network. The same binary gives the same bits. It runs in the root of the repository.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

const usage = `usage:
  release licences BINARY                          the licences of all modules in the binary
  release sbom VERSION BINARY                      bill of materials, SPDX 2.3
  release provenance VERSION COMMIT BINARY FILE... in-toto statement: what the files were built from`

// repository is where the project lives; it is part of identifiers only.
const repository = "https://github.com/gpufabric/gpufabric_exporter"

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "licences":
		b, err := read(args[1])
		if err != nil {
			return err
		}
		return writeLicences(w, b)
	case len(args) == 3 && args[0] == "sbom":
		built, err := epoch()
		if err != nil {
			return err
		}
		b, err := read(args[2])
		if err != nil {
			return err
		}
		return writeSPDX(w, b, args[1], built)
	case len(args) > 4 && args[0] == "provenance":
		b, err := read(args[3])
		if err != nil {
			return err
		}
		return writeProvenance(w, b, args[1], args[2], args[4:])
	}
	return errors.New("wrong arguments\n" + usage)
}

// epoch is the time of the release, which is that of its commit.
func epoch() (time.Time, error) {
	const name = "SOURCE_DATE_EPOCH"
	seconds, err := strconv.ParseInt(os.Getenv(name), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s is %q, expected seconds since 1970: make sets it", name, os.Getenv(name))
	}
	return time.Unix(seconds, 0).UTC(), nil
}

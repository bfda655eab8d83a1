// SPDX-License-Identifier: Apache-2.0

package ncclprobe

// Trusted says why a file below root must not be run: others than root and the user of this process own it or one of the
// directories above it, or may write to them.
func Trusted(root, name string) error { return trusted(root, name) }

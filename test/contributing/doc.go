// SPDX-License-Identifier: Apache-2.0

// Package contributing follows docs/CONTRIBUTING.md on copies of the tree.
package contributing

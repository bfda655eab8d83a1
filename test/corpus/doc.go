// SPDX-License-Identifier: Apache-2.0

// Package corpus measures the catalogue of checks on labelled nodes: every scenario of the simulator, and compositions
// of two or three single facts that go wrong on random devices of healthy ones. The condition of a node is known before
// any check runs: labels_test.go says which checks must find which condition, mutations_test.go what each mutation
// makes wrong and what it hides. Misses and false findings are printed by name and lower the figures; labels do not
// follow checks.
//
// There is nothing here but tests. They run in parallel; each group of nodes has a tree and an observer of its own.
package corpus

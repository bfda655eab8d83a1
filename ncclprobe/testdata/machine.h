// SPDX-License-Identifier: Apache-2.0
//
// What the file "machine" beside the library says. It is read again whenever it changes, so that things can happen to a
// running process. All functions may be called from any thread.
//
// A line is a word and its arguments. With "rank N" (libnccl) or "gpu N" (libcuda) before the word, it holds for that rank or
// GPU only; with "host NAME", "peer NAME" or "hca NAME", for processes of that host, that have a rank of that host in their
// communicator, or that use that HCA. The last line with a word wins. ncclprobetest has the list of words.
//
// Faults that every function of both libraries obeys, with the name of the function:
//
//   error FUNCTION CODE     it answers CODE and does nothing
//   hang FUNCTION           it never returns
//   crash FUNCTION          it writes to address 0
//   exit FUNCTION CODE      it ends the process
#pragma once
#include <pthread.h>
#include <stddef.h>

// ANYONE is for callers that do not know yet which rank or GPU they are: only lines without a number hold for them.
enum { ANYONE = -1 };

// machine_scope is "rank" or "gpu"; each library has one.
extern const char machine_scope[];

// machine_path is the path of a file beside the library.
void machine_path(const char *name, char *to, size_t size);

// machine_place says which peers and HCAs this process has: names, with a space before and after each.
void machine_place(const char *peers, const char *hcas);

double machine_number(const char *word, int who, double preset);
void machine_text(const char *word, int who, const char *preset, char *to, size_t size);

// machine_fault reports whether there is a line FAULT WHERE, and its number, if it has one.
int machine_fault(const char *fault, const char *where, int who, long *number);

// machine_enter is the begin of every function: what it answers without doing anything, or 0.
int machine_enter(const char *function, int who);

// thread_start starts a thread that ends with the process and gets no signals but those that it causes itself: a Go
// program must not have its own signals handled on it.
int thread_start(void *(*run)(void *), void *argument);

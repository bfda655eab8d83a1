// SPDX-License-Identifier: Apache-2.0

package main

/*
#define _GNU_SOURCE
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

// drop_read_only unmaps the pages of this program that no process writes. A kernel that refuses costs memory only.
static int drop_read_only(struct dl_phdr_info *program, size_t length, void *data) {
	uintptr_t page = sysconf(_SC_PAGESIZE);
	for (int i = 0; i < program->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &program->dlpi_phdr[i];
		if (segment->p_type != PT_LOAD || segment->p_flags & PF_W) continue;
		uintptr_t start = program->dlpi_addr + segment->p_vaddr;
		uintptr_t from = (start + page - 1) & -page, to = (start + segment->p_filesz) & -page;
		if (from < to) madvise((void *)from, to - from, MADV_DONTNEED);
	}
	return 1; // the first one is this program, and the others are libraries
}

static void drop_loaded(void) { dl_iterate_phdr(drop_read_only, 0); }
*/
import "C"

// dropLoaded unmaps what only the start of the process needed: relocations, initial values and their code, an
// eighth of the exporter's memory and half of a worker's. All of it stays in the page cache, from which the
// kernel maps what is used again. Breakpoints that a debugger or a uprobe set earlier are lost.
func dropLoaded() { C.drop_loaded() }

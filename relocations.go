// SPDX-License-Identifier: Apache-2.0

package main

/*
#define _GNU_SOURCE
#include <link.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

// drop_in gives up the pages of a table if it lies in a segment that is only read. They stay in the page cache.
static int drop_in(struct dl_phdr_info *program, uintptr_t table, uintptr_t size) {
	uintptr_t page = sysconf(_SC_PAGESIZE);
	for (int i = 0; i < program->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &program->dlpi_phdr[i];
		uintptr_t start = program->dlpi_addr + segment->p_vaddr;
		if (segment->p_type != PT_LOAD || segment->p_flags != PF_R || table < start || table + size > start + segment->p_filesz) continue;
		uintptr_t from = (table + page - 1) & -page, to = (table + size) & -page;
		if (from < to) madvise((void *)from, to - from, MADV_DONTNEED); // a kernel that refuses costs memory only
		return 1;
	}
	return 0;
}

static int drop_of(struct dl_phdr_info *program, size_t length, void *data) {
	uintptr_t table = 0, size = 0;
	for (int i = 0; i < program->dlpi_phnum; i++) {
		if (program->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
		for (const ElfW(Dyn) *d = (void *)(program->dlpi_addr + program->dlpi_phdr[i].p_vaddr); d->d_tag != DT_NULL; d++) {
			if (d->d_tag == DT_RELA) table = d->d_un.d_ptr;
			if (d->d_tag == DT_RELASZ) size = d->d_un.d_val;
		}
	}
	if (!drop_in(program, table, size)) drop_in(program, program->dlpi_addr + table, size); // not every loader writes addresses there
	return 1; // the first one is this program
}

// The loader has read the relocations of a position-independent program, 2.4 MiB, for the only time. Each process of this
// program would keep them in its memory.
__attribute__((constructor)) static void drop_relocations(void) { dl_iterate_phdr(drop_of, 0); }
*/
import "C"

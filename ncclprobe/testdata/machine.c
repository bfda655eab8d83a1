// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "machine.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_LINES = 128 };

struct line { int who; char host[48], peer[48], hca[48], word[24], first[64], second[64]; };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct line lines[MAX_LINES];
static int n;
static struct stat seen;
static char our_host[64], our_peers[4096], our_hcas[1024];

void machine_place(const char *peers, const char *hcas)
{
	pthread_mutex_lock(&mutex);
	snprintf(our_peers, sizeof our_peers, "%s", peers);
	snprintf(our_hcas, sizeof our_hcas, "%s", hcas);
	pthread_mutex_unlock(&mutex);
}

// scope reads what a line begins with, and returns how much of it that is.
static int scope(const char *text, struct line *l)
{
	char word[8], name[48];
	int all = 0, n = 0;
	while (n = 0, sscanf(text + all, " %7s %47s %n", word, name, &n) == 2) {
		char *to = !strcmp(word, "host") ? l->host : !strcmp(word, "peer") ? l->peer : !strcmp(word, "hca") ? l->hca : NULL;
		if (!to)
			break;
		strcpy(to, name);
		all += n;
	}
	return all;
}

static int among(const char *names, const char *name)
{
	char word[80];
	snprintf(word, sizeof word, " %s ", name);
	return !*name || strstr(names, word) != NULL;
}

// here reports whether a line holds for this process.
static int here(const struct line *l)
{
	if (!*our_host)
		gethostname(our_host, sizeof our_host - 1);
	return (!*l->host || !strcmp(l->host, our_host)) && among(our_peers, l->peer) && among(our_hcas, l->hca);
}

void machine_path(const char *name, char *to, size_t size)
{
	Dl_info info;
	if (!dladdr(lines, &info))
		abort();
	const char *slash = strrchr(info.dli_fname, '/');
	snprintf(to, size, "%.*s%s", slash ? (int)(slash + 1 - info.dli_fname) : 0, info.dli_fname, name);
}

static void parse(FILE *f)
{
	char text[512];
	n = 0;
	while (f && n < MAX_LINES && fgets(text, sizeof text, f)) {
		struct line *l = &lines[n];
		int skip = 0;
		*l = (struct line){.who = ANYONE};
		const char *rest = text + scope(text, l);
		char owner[8];
		if (sscanf(rest, " %7s %d %n", owner, &l->who, &skip) < 2 || strcmp(owner, machine_scope)) {
			if (!strncmp(rest, "rank ", 5) || !strncmp(rest, "gpu ", 4))
				continue; // of the other library
			l->who = ANYONE, skip = 0;
		}
		if (sscanf(rest + skip, "%23s %63s %63s", l->word, l->first, l->second) > 0 && *l->word != '#')
			n++;
	}
}

// describe reads the file if it is another one than last time. Callers hold mutex.
static void describe(void)
{
	static char path[4096];
	struct stat now = {0};
	if (!*path)
		machine_path("machine", path, sizeof path);
	stat(path, &now); // all 0 without one
	// Two descriptions within one tick of the clock have the same time, never the same inode: Describe renames.
	if (now.st_ino == seen.st_ino && now.st_size == seen.st_size && !memcmp(&now.st_mtim, &seen.st_mtim, sizeof now.st_mtim))
		return;
	seen = now;
	FILE *f = fopen(path, "re");
	parse(f);
	if (f)
		fclose(f);
}

// find copies the last line that has the word, and the argument where that is not NULL.
static int find(const char *word, const char *argument, int who, struct line *to)
{
	int found = 0;
	pthread_mutex_lock(&mutex);
	describe();
	for (int i = n - 1; i >= 0 && !found; i--) {
		const struct line *l = &lines[i];
		if ((l->who == ANYONE || l->who == who) && here(l) && !strcmp(l->word, word) && (!argument || !strcmp(l->first, argument)))
			*to = *l, found = 1;
	}
	pthread_mutex_unlock(&mutex);
	return found;
}

double machine_number(const char *word, int who, double preset)
{
	struct line l;
	return find(word, NULL, who, &l) ? strtod(l.first, NULL) : preset;
}

void machine_text(const char *word, int who, const char *preset, char *to, size_t size)
{
	struct line l;
	snprintf(to, size, "%s", find(word, NULL, who, &l) ? l.first : preset);
}

int machine_fault(const char *fault, const char *where, int who, long *number)
{
	struct line l;
	if (!find(fault, where, who, &l))
		return 0;
	if (number)
		*number = strtol(l.second, NULL, 0);
	return 1;
}

// record writes the function into the file "calls" beside the library, if there was one at the first call.
static void record(const char *function)
{
	static int fd = -1, looked;
	char path[4096], line[80];
	pthread_mutex_lock(&mutex);
	if (!looked++) {
		machine_path("calls", path, sizeof path);
		fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	}
	pthread_mutex_unlock(&mutex);
	int n = fd < 0 ? 0 : snprintf(line, sizeof line, "%s\n", function);
	if (n && write(fd, line, (size_t)n) != n)
		abort();
}

int machine_enter(const char *function, int who)
{
	long code = 0;
	record(function);
	if (machine_fault("crash", function, who, NULL))
		*(volatile int *)0 = 1;
	if (machine_fault("exit", function, who, &code))
		_exit((int)code);
	if (machine_fault("hang", function, who, NULL))
		for (;;)
			pause();
	machine_fault("error", function, who, &code);
	return (int)code;
}

int thread_start(void *(*run)(void *), void *argument)
{
	sigset_t all, before;
	sigfillset(&all);
	const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		sigdelset(&all, own[i]);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_t thread;
	int err = pthread_create(&thread, NULL, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err ? err : pthread_detach(thread);
}

// SPDX-License-Identifier: Apache-2.0
//
// The log of the stand-in: NCCL_DEBUG, NCCL_DEBUG_FILE and NCCL_DEBUG_SUBSYS, which are read once, and lines in the form
// that they have in each version. As in the real one, what goes to a standard output that is a pipe comes out only with exit(3).
#define _GNU_SOURCE
#include "nccl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NONE, VERSION, WARN, INFO }; // NCCL_DEBUG; ABORT and TRACE say no more here

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static FILE *out;
static int level;
static int subsystems;
static char host[256];
static char last[1024];

static const struct { const char *name; int bits; } names[] = {
	{"INIT", LOG_INIT}, {"COLL", LOG_COLL}, {"P2P", LOG_P2P}, {"SHM", LOG_SHM}, {"NET", LOG_NET}, {"GRAPH", LOG_GRAPH},
	{"ENV", LOG_ENV}, {"BOOTSTRAP", LOG_BOOTSTRAP}, {"PROFILE", LOG_PROFILE}, {"ALL", LOG_ALL},
};

static int parse_subsystems(const char *text)
{
	int version = version_code(ANYONE);
	if (!text)
		return LOG_INIT | (version >= 21600 ? LOG_ENV : 0) | (version >= 22300 ? LOG_BOOTSTRAP : 0);
	int invert = *text == '^', bits = invert ? ~0 : 0;
	char *copy = strdup(text + invert), *rest = copy;
	for (char *word; (word = strsep(&rest, ","));)
		for (size_t i = 0; i < sizeof names / sizeof *names; i++)
			if (!strcasecmp(word, names[i].name))
				bits = invert ? bits & ~names[i].bits : bits | names[i].bits;
	free(copy);
	return bits;
}

// expand writes the name of the file, with %h and %p replaced.
static void expand(const char *from, char *to, size_t size)
{
	size_t n = 0;
	for (; *from && n < size - 1; from++) {
		if (*from == '%' && (from[1] == 'h' || from[1] == 'p')) {
			from++;
			int wrote = *from == 'h' ? snprintf(to + n, size - n, "%s", host) : snprintf(to + n, size - n, "%d", (int)getpid());
			n = n + (size_t)wrote < size ? n + (size_t)wrote : size - 1;
		} else {
			to[n++] = *from;
		}
	}
	to[n] = 0;
}

static void start(void)
{
	if (out)
		return;
	out = stdout;
	const char *l = getenv("NCCL_DEBUG"), *file = getenv("NCCL_DEBUG_FILE");
	static const char *const levels[] = {"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"};
	for (int i = 0; l && i < 6; i++)
		if (!strcasecmp(l, levels[i]))
			level = i;
	subsystems = parse_subsystems(getenv("NCCL_DEBUG_SUBSYS"));
	gethostname(host, sizeof host - 1);
	host[strcspn(host, ".")] = 0;
	char path[4096];
	if (level <= VERSION || !file)
		return;
	expand(file, path, sizeof path);
	FILE *f = fopen(path, "we");
	if (f) {
		setlinebuf(f);
		out = f;
	}
}

static void prefix(int device) { fprintf(out, "%s:%d:%d [%d] ", host, (int)getpid(), (int)gettid(), device); }

void log_info(int device, int subsystem, const char *format, ...)
{
	va_list arguments;
	pthread_mutex_lock(&mutex);
	start();
	if (level >= INFO && subsystem & subsystems) {
		prefix(device);
		fputs("NCCL INFO ", out);
		va_start(arguments, format);
		vfprintf(out, format, arguments);
		va_end(arguments);
		fputc('\n', out);
	}
	pthread_mutex_unlock(&mutex);
}

// log_warn says it, and remembers it for GetLastError. The place is a file and a line, and from 2.30.5 on a function.
void log_warn(int device, const char *where, const char *format, ...)
{
	va_list arguments;
	int version = version_code(ANYONE);
	pthread_mutex_lock(&mutex);
	start();
	va_start(arguments, format);
	vsnprintf(last, sizeof last, format, arguments);
	va_end(arguments);
	if (level >= WARN) {
		char at[32] = "";
		time_t now = time(NULL);
		struct tm t;
		if (version >= 22602)
			strftime(at, sizeof at, "[%F %T] ", localtime_r(&now, &t));
		fprintf(out, "\n%s", at);
		prefix(device);
		fprintf(out, "%s %sNCCL WARN %s\n", where, version >= 23005 ? "(standin) " : "", last);
	}
	pthread_mutex_unlock(&mutex);
}

const char *log_last(void)
{
	static _Thread_local char copy[sizeof last];
	pthread_mutex_lock(&mutex);
	memcpy(copy, last, sizeof copy);
	pthread_mutex_unlock(&mutex);
	return copy;
}

void log_version(int device, int rank)
{
	char version[64], cuda[32];
	machine_text("version", rank, standin_version, version, sizeof version);
	machine_text("built_for_cuda", rank, "12.9", cuda, sizeof cuda);
	pthread_mutex_lock(&mutex);
	start();
	int l = level;
	if ((l == VERSION || l == WARN) && rank == 0)
		fprintf(out, "NCCL version %s+cuda%s\n", version, cuda);
	pthread_mutex_unlock(&mutex);
	if (l >= INFO)
		log_info(device, LOG_ALL, "NCCL version %s+cuda%s", version, cuda);
}

void log_bootstrap(int device, int version)
{
	static atomic_int said;
	char where[64];
	network_address(where, sizeof where);
	if (!said++)
		log_info(device, version >= 22304 ? LOG_BOOTSTRAP : LOG_INIT, "Bootstrap%s: Using %s", version >= 22403 ? "" : " ", where);
}

// log_flood writes that many bytes of lines that say nothing, if anybody wants a log.
void log_flood(double bytes)
{
	char lines[1 << 16];
	size_t n = 0;
	pthread_mutex_lock(&mutex);
	start();
	while (n < sizeof lines - 512)
		n += (size_t)snprintf(lines + n, 512, "%s:%d:%d [0] NCCL INFO Channel 00/64 : %0160d\n", host, (int)getpid(), (int)gettid(), 0);
	for (double wrote = 0; level >= INFO && wrote < bytes; wrote += (double)n)
		fwrite(lines, 1, n, out);
	if (level >= INFO && machine_fault("lie", "log", ANYONE, NULL))
		for (unsigned i = 0, noise = 1; i < 1 << 16; i++)
			fputc((int)((noise = noise * 1664525 + 1013904223) >> 24), out);
	pthread_mutex_unlock(&mutex);
}

// SPDX-License-Identifier: Apache-2.0

package main

/*
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// parent_of returns the parent of a process, 0 if it is not known.
static pid_t parent_of(const char *pid) {
	char path[300], text[512];
	snprintf(path, sizeof path, "/proc/%s/stat", pid);
	FILE *f = fopen(path, "re");
	if (f == NULL) {
		return 0;
	}
	size_t n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = 0;
	char *name = strrchr(text, ')'); // the name may have any character
	int parent = 0;
	return name != NULL && sscanf(name + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

// kill_children kills all children of this process and returns how many it found. Only this process reaps
// them, so that their numbers are theirs.
static int kill_children(void) {
	int found = 0;
	DIR *proc = opendir("/proc");
	if (proc == NULL) {
		return 0;
	}
	for (struct dirent *e; (e = readdir(proc)) != NULL;) {
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && parent_of(e->d_name) == getpid()) {
			kill((pid_t)atoi(e->d_name), SIGKILL);
			found++;
		}
	}
	closedir(proc);
	return found;
}

// bury kills and reaps what is left, level by level: what a killed process has started becomes a child of
// this one. It ends when nothing is left, or when procfs has not shown for a second what is.
static void bury(void) {
	for (int blind = 0; blind < 100;) {
		pid_t pid;
		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		}
		if (pid < 0 && errno == ECHILD) {
			return;
		}
		blind = kill_children() > 0 ? 0 : blind + 1;
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	}
}

// The worker for NVML has a guard: a process that runs no foreign code, and ends the worker and all that its
// library has started, whatever session that is in, when the worker ends, when the guard is asked to
// (SIGTERM) and when the exporter dies. It is forked before Go's runtime begins, while there is one thread,
// and shares its memory with the worker until one of them writes. Its end is that of the worker. A guard that
// is killed takes the worker with it, and not what has a session of its own.
__attribute__((constructor)) static void guard(int argc, char **argv) {
	if (argc < 2 || strcmp(argv[1], "gpu-worker") != 0) {
		return;
	}
	pid_t exporter = getppid(), self = getpid();
	sigset_t all, before, awaited;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before); // what is not awaited below is ignored by a guard
	signal(SIGCHLD, SIG_DFL);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL) != 0) {
		_exit(70);
	}
	pid_t worker = fork();
	if (worker < 0) {
		_exit(71);
	}
	if (worker == 0) {
		prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
		if (getppid() != self) { // it died before
			_exit(72);
		}
		sigprocmask(SIG_SETMASK, &before, NULL);
		return; // to Go
	}
	prctl(PR_SET_PDEATHSIG, (unsigned long)SIGTERM, 0UL, 0UL, 0UL);
	prctl(PR_SET_NAME, "gpufabric_guard", 0UL, 0UL, 0UL);
	prctl(PR_SET_DUMPABLE, 0UL, 0UL, 0UL, 0UL);
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	for (int fd = (int)sysconf(_SC_OPEN_MAX) < 1024 ? (int)sysconf(_SC_OPEN_MAX) : 1024; fd >= 0; fd--) {
		close(fd); // the pipes end with the worker
	}
	if (getppid() != exporter) {
		kill(worker, SIGKILL);
	}
	sigemptyset(&awaited);
	sigaddset(&awaited, SIGCHLD);
	sigaddset(&awaited, SIGTERM);
	sigaddset(&awaited, SIGINT);
	for (int status, ended = 0;;) {
		int got = sigwaitinfo(&awaited, NULL);
		if (got == SIGTERM || got == SIGINT) {
			kill(worker, SIGKILL);
		}
		int how;
		for (pid_t pid; (pid = waitpid(-1, &how, WNOHANG)) > 0;) {
			if (pid == worker) {
				ended = 1, status = how;
			}
		}
		if (!ended) {
			continue;
		}
		bury();
		if (WIFSIGNALED(status)) {
			signal(WTERMSIG(status), SIG_DFL);
			sigemptyset(&all);
			kill(self, WTERMSIG(status));
			sigprocmask(SIG_SETMASK, &all, NULL);
		}
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 73);
	}
}
*/
import "C"

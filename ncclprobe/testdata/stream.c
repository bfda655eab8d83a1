// SPDX-License-Identifier: Apache-2.0
//
// Streams and events of the stand-in for libcuda.so.1. A stream has a thread that does what is queued in it, in order; its
// owner sees NOT_READY until that is done. The only kernels are functions of the host (cuLaunchHostFunc).
#include "cuda.h"

#include <stdlib.h>
#include <time.h>

struct event {
	struct context *context;
	unsigned flags;
	int users;   // the application, and each record that is queued
	int queued;  // records that were not reached yet
	int happened, gone;
	struct timespec at;
	struct event *next;
};

struct item { void (*run)(void *); void *argument; struct event *event; struct item *next; };

struct stream {
	struct context *context;
	int pending, closing;
	struct item *first, **end;
	struct stream *next;
};

// One lock and one condition for everything: who waits looks again after each thing that was done.
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct stream *streams;
static struct event *events;
static _Thread_local struct stream *running;

enum { DISABLE_TIMING = 2 };

// Callers of what follows hold mutex.

static void unlink_event(struct event *e)
{
	for (struct event **at = &events; *at; at = &(*at)->next)
		if (*at == e) {
			*at = e->next;
			return;
		}
}

static void drop(struct event *e)
{
	if (!--e->users)
		free(e);
}

static void unlink_stream(struct stream *s)
{
	for (struct stream **at = &streams; *at; at = &(*at)->next)
		if (*at == s) {
			*at = s->next;
			return;
		}
}

static void finish(struct event *e)
{
	clock_gettime(CLOCK_MONOTONIC, &e->at);
	if (!--e->queued)
		e->happened = 1;
	drop(e);
}

static void *work(void *argument)
{
	struct stream *s = running = argument;
	pthread_mutex_lock(&mutex);
	for (;;) {
		while (!s->first && !s->closing)
			pthread_cond_wait(&changed, &mutex);
		struct item *i = s->first;
		if (!i)
			break;
		if (!(s->first = i->next))
			s->end = &s->first;
		if (i->event)
			finish(i->event);
		else {
			pthread_mutex_unlock(&mutex);
			i->run(i->argument); // in a broken context, too: it does nothing there, but its owner counts what has ended
			pthread_mutex_lock(&mutex);
		}
		s->pending--, s->context->pending--;
		free(i);
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&mutex);
	free(s);
	return NULL;
}

static struct stream *create(struct context *c)
{
	struct stream *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->context = c, s->end = &s->first;
	if (thread_start(work, s)) {
		free(s);
		return NULL;
	}
	return s;
}

// find answers the stream of a handle that belongs to the current context, or NULL. Handles up to 2 are the default stream.
static struct stream *find(struct stream *handle)
{
	if ((uintptr_t)handle <= 2)
		return current->null ? current->null : (current->null = create(current));
	for (struct stream *s = streams; s; s = s->next)
		if (s == handle)
			return s->context == current ? s : NULL;
	return NULL;
}

static struct event *find_event(struct event *handle)
{
	for (struct event *e = events; e; e = e->next)
		if (e == handle)
			return e->context == current ? e : NULL;
	return NULL;
}

static int push(struct stream *s, struct item item)
{
	struct item *i = malloc(sizeof *i);
	if (!i)
		return OUT_OF_MEMORY;
	*i = item;
	i->next = NULL;
	*s->end = i, s->end = &i->next;
	s->pending++, s->context->pending++;
	pthread_cond_broadcast(&changed);
	return OK;
}

// Until here.

void streams_wait(const struct context *c)
{
	pthread_mutex_lock(&mutex);
	while (c->pending)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
}

void streams_forget(struct context *c)
{
	pthread_mutex_lock(&mutex);
	for (struct stream *s = streams, *next; s; s = next) {
		next = s->next;
		if (s->context == c)
			unlink_stream(s), s->closing = 1;
	}
	for (struct event *e = events, *next; e; e = next) {
		next = e->next;
		if (e->context == c)
			unlink_event(e), drop(e);
	}
	if (c->null)
		c->null->closing = 1, c->null = NULL;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

int cuStreamCreateWithPriority(struct stream **to, unsigned flags, int priority)
{
	ENTER(CONTEXT);
	(void)priority; // any is clamped to the range
	if (!to || flags > 1)
		return INVALID_VALUE;
	pthread_mutex_lock(&mutex);
	struct stream *s = create(current);
	if (s)
		s->next = streams, streams = s;
	pthread_mutex_unlock(&mutex);
	*to = s;
	return s ? OK : OUT_OF_MEMORY;
}

int cuStreamCreate(struct stream **to, unsigned flags) { return cuStreamCreateWithPriority(to, flags, 0); }

int cuStreamQuery(struct stream *handle)
{
	ENTER(CONTEXT);
	pthread_mutex_lock(&mutex);
	struct stream *s = find(handle);
	int ret = !s ? INVALID_HANDLE : s->pending ? NOT_READY : OK;
	pthread_mutex_unlock(&mutex);
	return ret;
}

int cuStreamSynchronize(struct stream *handle)
{
	ENTER(CONTEXT);
	pthread_mutex_lock(&mutex);
	struct stream *s = find(handle);
	while (s && s->pending)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
	return s ? current->poison : INVALID_HANDLE;
}

// cuStreamDestroy returns at once, and the stream goes when its work is done.
int cuStreamDestroy_v2(struct stream *handle)
{
	ENTER(CONTEXT);
	pthread_mutex_lock(&mutex);
	struct stream *s = (uintptr_t)handle <= 2 ? NULL : find(handle);
	if (s) {
		unlink_stream(s);
		s->closing = 1;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&mutex);
	return s ? OK : INVALID_HANDLE;
}

int cuLaunchHostFunc(struct stream *handle, void (*run)(void *), void *argument)
{
	ENTER(CONTEXT);
	pthread_mutex_lock(&mutex);
	struct stream *s = find(handle);
	int ret = s ? push(s, (struct item){.run = run, .argument = argument}) : INVALID_HANDLE;
	pthread_mutex_unlock(&mutex);
	return ret;
}

// standinFault is called by what runs in a stream, and breaks the context like a fault of a kernel; 0 does not. It answers what
// the context is broken with. No real driver has it.
int standinFault(int code)
{
	if (!running)
		return 0;
	if (code)
		running->context->poison = code;
	return running->context->poison;
}

int cuEventCreate(struct event **to, unsigned flags)
{
	ENTER(CONTEXT);
	struct event *e = to && flags < 8 ? calloc(1, sizeof *e) : NULL;
	if (!e)
		return INVALID_VALUE;
	pthread_mutex_lock(&mutex);
	*e = (struct event){.context = current, .flags = flags, .users = 1, .next = events};
	events = e;
	pthread_mutex_unlock(&mutex);
	*to = e;
	return OK;
}

int cuEventRecord(struct event *event, struct stream *handle)
{
	ENTER(CONTEXT);
	pthread_mutex_lock(&mutex);
	struct stream *s = find(handle);
	struct event *e = find_event(event);
	int ret = s && e ? push(s, (struct item){.event = e}) : INVALID_HANDLE;
	if (!ret)
		e->users++, e->queued++, e->happened = 0;
	pthread_mutex_unlock(&mutex);
	return ret;
}

int cuEventQuery(struct event *event)
{
	ENTER(CONTEXT);
	pthread_mutex_lock(&mutex);
	const struct event *e = find_event(event);
	int ret = !e ? INVALID_HANDLE : e->queued ? NOT_READY : OK;
	pthread_mutex_unlock(&mutex);
	return ret;
}

int cuEventSynchronize(struct event *event)
{
	ENTER(CONTEXT);
	pthread_mutex_lock(&mutex);
	struct event *e;
	while ((e = find_event(event)) && e->queued)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
	return e ? current->poison : INVALID_HANDLE;
}

int cuEventElapsedTime(float *ms, struct event *start, struct event *stop)
{
	ENTER(CONTEXT);
	if (!ms)
		return INVALID_VALUE;
	pthread_mutex_lock(&mutex);
	const struct event *a = find_event(start), *b = find_event(stop);
	int ret = OK;
	if (!a || !b || (a->flags | b->flags) & DISABLE_TIMING)
		ret = INVALID_HANDLE;
	else if (a->queued || b->queued)
		ret = NOT_READY;
	else if (!a->happened || !b->happened)
		ret = INVALID_HANDLE; // never recorded
	else
		*ms = (float)((double)(b->at.tv_sec - a->at.tv_sec) * 1e3 + (double)(b->at.tv_nsec - a->at.tv_nsec) / 1e6);
	pthread_mutex_unlock(&mutex);
	return ret;
}

int cuEventDestroy_v2(struct event *event)
{
	ENTER(CONTEXT);
	pthread_mutex_lock(&mutex);
	struct event *e = find_event(event);
	if (e)
		unlink_event(e), drop(e);
	pthread_mutex_unlock(&mutex);
	return e ? OK : INVALID_HANDLE;
}

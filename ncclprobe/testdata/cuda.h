// SPDX-License-Identifier: Apache-2.0
//
// Inside of the stand-in for libcuda.so.1.
#pragma once
#include "machine.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// CUresult
enum {
	OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, DEVICE_UNAVAILABLE = 46, NO_DEVICE = 100, INVALID_DEVICE = 101, OPERATING_SYSTEM = 304,
	INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_READY = 600, ILLEGAL_ADDRESS = 700, CONTEXT_IS_DESTROYED = 709,
};

// A context is the primary one of its device, the only kind there is here.
struct context {
	int device, retained, lock;
	unsigned flags;
	int pending;       // what is queued in all streams, also in those that were destroyed meanwhile
	atomic_int poison; // what every call answers from now on, as after a fault of a kernel
	struct stream *null; // the default stream
};

// What a function needs before it can do anything.
enum need { NOTHING, DRIVER, CONTEXT };

// cuda_enter answers what the function is to answer at once, or OK. The GPU is -1 for functions that have no argument for it.
int cuda_enter(const char *function, enum need need, int gpu);
#define ENTER(need) do { int ret_ = cuda_enter(__func__, need, ANYONE); if (ret_) return ret_; } while (0)
#define ENTER_GPU(gpu) do { int ret_ = known(gpu) ? cuda_enter(__func__, DRIVER, gpu) : INVALID_DEVICE; if (ret_) return ret_; } while (0)

extern _Thread_local struct context *current;

// streams_wait returns when nothing is queued in the context: some calls of the driver wait for all kernels.
void streams_wait(const struct context *c);

// streams_forget makes all streams and events of the context invalid.
void streams_forget(struct context *c);

// memory_forget frees all memory of the context.
void memory_forget(const struct context *c);

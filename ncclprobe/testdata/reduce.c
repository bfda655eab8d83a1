// SPDX-License-Identifier: Apache-2.0
//
// Types and reductions. float16 is the compiler's, bfloat16 the upper half of a float, rounded to even like the GPU does.
#include "nccl.h"

#include <string.h>

size_t type_size(int type)
{
	static const size_t sizes[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
	return sizes[type];
}

static float widen(uint16_t v)
{
	uint32_t bits = (uint32_t)v << 16;
	float f;
	memcpy(&f, &bits, 4);
	return f;
}

static uint16_t narrow(float f)
{
	uint32_t bits;
	memcpy(&bits, &f, 4);
	if ((bits & 0x7fffffff) > 0x7f800000)
		return 0x7fff; // not a number
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define SAME(v) (v)
#define LOOP(T, M, load, store, expression) \
	for (size_t i = 0; i < count; i++) { \
		M a = load(((const T *)to)[i]), b = load(((const T *)from)[i]); \
		((T *)to)[i] = (T)store((M)(expression)); \
	}
#define OPERATE(T, M, load, store) \
	switch (op) { \
	case PROD: LOOP(T, M, load, store, a * b) break; \
	case MAX: LOOP(T, M, load, store, a > b ? a : b) break; \
	case MIN: LOOP(T, M, load, store, a < b ? a : b) break; \
	default: LOOP(T, M, load, store, a + b) break; \
	}

void reduce(int type, int op, char *to, const char *from, size_t count)
{
	switch (type) {
	case INT8: OPERATE(int8_t, int, SAME, SAME) break;
	case UINT8: OPERATE(uint8_t, unsigned, SAME, SAME) break;
	case INT32: OPERATE(int32_t, int64_t, SAME, SAME) break;
	case UINT32: OPERATE(uint32_t, uint32_t, SAME, SAME) break;
	case INT64: OPERATE(int64_t, int64_t, SAME, SAME) break;
	case UINT64: OPERATE(uint64_t, uint64_t, SAME, SAME) break;
	case FLOAT16: OPERATE(_Float16, float, SAME, SAME) break;
	case FLOAT32: OPERATE(float, float, SAME, SAME) break;
	case FLOAT64: OPERATE(double, double, SAME, SAME) break;
	case BFLOAT16: OPERATE(uint16_t, float, widen, narrow) break;
	}
}

#define DIVIDE(T, M, load, store) for (size_t i = 0; i < count; i++) ((T *)data)[i] = (T)store((M)(load(((T *)data)[i]) / (M)by));

void divide(int type, char *data, size_t count, int by)
{
	switch (type) {
	case INT8: DIVIDE(int8_t, int, SAME, SAME) break;
	case UINT8: DIVIDE(uint8_t, unsigned, SAME, SAME) break;
	case INT32: DIVIDE(int32_t, int64_t, SAME, SAME) break;
	case UINT32: DIVIDE(uint32_t, uint32_t, SAME, SAME) break;
	case INT64: DIVIDE(int64_t, int64_t, SAME, SAME) break;
	case UINT64: DIVIDE(uint64_t, uint64_t, SAME, SAME) break;
	case FLOAT16: DIVIDE(_Float16, float, SAME, SAME) break;
	case FLOAT32: DIVIDE(float, float, SAME, SAME) break;
	case FLOAT64: DIVIDE(double, double, SAME, SAME) break;
	case BFLOAT16: DIVIDE(uint16_t, float, widen, narrow) break;
	}
}

// SPDX-License-Identifier: Apache-2.0
// What nccl.h takes from the CUDA runtime.
#include <stddef.h>
typedef struct CUstream_st *cudaStream_t;
#define CUDART_VERSION 11000

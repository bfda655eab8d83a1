// SPDX-License-Identifier: Apache-2.0
//
// A stand-in for NVML: what NCCL asks for.
#include "device.h"
#include <stdint.h>
#include <string.h>

enum { success = 0, notSupported = 3, notFound = 6 };
int nvmlInit(void) { return success; }
int nvmlInit_v2(void) { return success; }
int nvmlShutdown(void) { return success; }
int nvmlDeviceGetCount(unsigned *n) { *n = devices(); return success; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = devices(); return success; }
int nvmlDeviceGetHandleByIndex(unsigned i, intptr_t *d) { *d = i + 1; return success; }
int nvmlDeviceGetIndex(intptr_t d, unsigned *i) { *i = d - 1; return success; }
int nvmlDeviceGetHandleByPciBusId(const char *id, intptr_t *d) {
  return (*d = at(id) + 1) ? success : notFound;
}
const char *nvmlErrorString(int e) {
  return e == success ? "Success" : e == notSupported ? "Not Supported" : "Error of the stand-in";
}
int nvmlDeviceGetNvLinkState(void) { return notSupported; }
int nvmlDeviceGetNvLinkRemotePciInfo(void) { return notSupported; }
int nvmlDeviceGetNvLinkCapability(void) { return notSupported; }
int nvmlDeviceGetCudaComputeCapability(intptr_t d, int *major, int *minor) {
  (void)d;
  *major = 9;
  *minor = 0;
  return success;
}
int nvmlDeviceGetP2PStatus(intptr_t a, intptr_t b, int i, int *s) {
  (void)a;
  (void)b;
  (void)i;
  *s = 5;
  return success;
}
int nvmlDeviceGetFieldValues(void) { return notSupported; }

// With RIG_CLIQUE, GPUs are in that clique of an NVLink domain of several nodes.
struct fabric {
  unsigned version;
  unsigned char domain[16];
  int status;
  unsigned clique;
  unsigned char state;
  unsigned health;
};
int nvmlDeviceGetGpuFabricInfoV(intptr_t d, struct fabric *f) {
  (void)d;
  if (!getenv("RIG_CLIQUE")) return notSupported;
  memset(f->domain, 0x42, sizeof f->domain);
  f->status = success;
  f->clique = number("RIG_CLIQUE", 0);
  f->state = 3; // completed
  f->health = 0;
  return success;
}

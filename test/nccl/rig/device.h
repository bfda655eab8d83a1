// SPDX-License-Identifier: Apache-2.0
//
// The GPUs that the stand-ins show: RIG_GPUS of them (1), at the PCI addresses of RIG_BUSIDS or made-up ones.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static inline int number(const char *name, int otherwise) {
  const char *v = getenv(name);
  return v && *v ? atoi(v) : otherwise;
}

static inline int devices(void) { return number("RIG_GPUS", 1); }

static inline void bus_id(int n, char *to, int len) {
  const char *v = getenv("RIG_BUSIDS");
  for (int i = 0; v && *v; i++) {
    size_t l = strcspn(v, ",");
    if (i == n) {
      snprintf(to, len, "%.*s", (int)l, v);
      return;
    }
    v += l + (v[l] == ',');
  }
  snprintf(to, len, "0000:%02x:00.0", 0x41 + n);
}

// at returns the number of the device with that PCI address, or -1.
static inline int at(const char *id) {
  char b[32];
  for (int i = 0; i < devices(); i++) {
    bus_id(i, b, sizeof b);
    if (!strcasecmp(b, id)) return i;
  }
  return -1;
}

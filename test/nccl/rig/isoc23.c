// SPDX-License-Identifier: Apache-2.0
//
// Names of glibc 2.38, for a system with an older one.
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#define OWN __attribute__((visibility("hidden")))
OWN long __isoc23_strtol(const char *s, char **e, int b) { return strtol(s, e, b); }
OWN long long __isoc23_strtoll(const char *s, char **e, int b) { return strtoll(s, e, b); }
OWN unsigned long __isoc23_strtoul(const char *s, char **e, int b) { return strtoul(s, e, b); }
OWN unsigned long long __isoc23_strtoull(const char *s, char **e, int b) { return strtoull(s, e, b); }
OWN int __isoc23_sscanf(const char *s, const char *f, ...) {
  va_list a;
  va_start(a, f);
  int n = vsscanf(s, f, a);
  va_end(a);
  return n;
}
OWN int __isoc23_fscanf(FILE *s, const char *f, ...) {
  va_list a;
  va_start(a, f);
  int n = vfscanf(s, f, a);
  va_end(a);
  return n;
}

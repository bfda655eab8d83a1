// SPDX-License-Identifier: Apache-2.0
//
// A stand-in for the CUDA runtime: what libnccl_static.a calls, without a GPU. Device memory is memory of the process;
// streams and events are numbers; kernels are not run. Prototypes are written down as far as NCCL uses them.
#define _GNU_SOURCE
#include "device.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { success = 0, invalidValue = 1, notSupported = 801, symbolNotFound = 500 };

static void trace(const char *format, ...) {
  if (!getenv("RIG_TRACE")) return;
  va_list a;
  va_start(a, format);
  vfprintf(stderr, format, a);
  va_end(a);
}

// Registration of kernels, which the objects do when the library is loaded.
void **__cudaRegisterFatBinary(void *f) { static void *h[1]; (void)f; return h; }
void __cudaRegisterFatBinaryEnd(void **h) { (void)h; }
void __cudaUnregisterFatBinary(void **h) { (void)h; }
void __cudaRegisterFunction(void **h, const char *f, char *d, const char *n) { (void)h; (void)f; (void)d; (void)n; }
void __cudaRegisterVar(void **h) { (void)h; }
char __cudaInitModule(void **h) { (void)h; return 0; }
int __cudaPopCallConfiguration(void) { return success; }
unsigned __cudaPushCallConfiguration(void) { return 0; }

// Devices.
static __thread int device;

// open_nodes opens what the driver would, where the mount namespace has it: so a process is seen to hold a GPU.
static void open_nodes(int n) {
  static atomic_flag once = ATOMIC_FLAG_INIT;
  if (atomic_flag_test_and_set(&once)) return;
  char name[32];
  snprintf(name, sizeof name, "/dev/nvidia%d", number("RIG_MINOR", n));
  const char *nodes[] = {"/dev/nvidiactl", "/dev/nvidia-uvm", name};
  for (int i = 0; i < 3; i++) (void)!open(nodes[i], O_RDWR | O_CLOEXEC);
}
int cudaGetDeviceCount(int *n) { *n = devices(); return success; }
int cudaGetDevice(int *n) { *n = device; return success; }
int cudaSetDevice(int n) {
  if (n < 0 || n >= devices()) return 101;
  device = n;
  open_nodes(n);
  return success;
}
int cudaDriverGetVersion(int *v) { *v = 12040; return success; }
int cudaRuntimeGetVersion(int *v) { *v = 12040; return success; }
int cudaDeviceGetPCIBusId(char *to, int len, int n) { bus_id(n, to, len); return success; }
int cudaDeviceGetByPCIBusId(int *n, const char *id) { return (*n = at(id)) < 0 ? 101 : success; }
int cudaDeviceGetAttribute(int *v, int attribute, int n) {
  (void)n;
  switch (attribute) {
  case 75: *v = 9; break;         // major
  case 76: *v = 0; break;         // minor
  case 97: *v = 232448; break;    // shared memory per block, opt-in
  case 16: *v = 132; break;       // multiprocessors
  case 116: *v = number("RIG_GDR", 0); break; // GPUDirect RDMA
  default: *v = 0;
  }
  trace("cudaDeviceGetAttribute %d = %d\n", attribute, *v);
  return success;
}
int cudaGetDeviceProperties_v2(char *p, int n) { // 1032 bytes in CUDA 12
  memset(p, 0, 1032);
  snprintf(p, 256, "Stand-in GPU %d", n);
  *(size_t *)(p + 288) = 80ull << 30; // totalGlobalMem
  *(int *)(p + 308) = 32;
  *(int *)(p + 360) = 9;
  return success;
}
int cudaDeviceSynchronize(void) { return success; }
int cudaDeviceSetLimit(int l, size_t v) { (void)l; (void)v; return success; }
int cudaDeviceCanAccessPeer(int *can, int a, int b) { (void)a; (void)b; *can = 0; return success; }
int cudaDeviceEnablePeerAccess(int d, unsigned f) { (void)d; (void)f; return notSupported; }
const char *cudaGetErrorString(int e) {
  return e == success ? "no error" : e == notSupported ? "operation not supported" : "error of the stand-in";
}
int cudaGetLastError(void) { return success; }

// Memory. Each allocation has its size in the page before it.
static void *map(size_t size) {
  size_t all = (size + 8191) & ~4095ull;
  char *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return NULL;
  *(size_t *)p = all;
  return p + 4096;
}
static void forget(char *from, size_t n);
static void unmap(void *p) {
  if (!p) return;
  char *from = (char *)p - 4096;
  size_t n = *(size_t *)from;
  forget(from, n);
  munmap(from, n);
}
int cudaMalloc(void **p, size_t n) { return (*p = map(n)) ? success : 2; }
int cudaFree(void *p) { unmap(p); return success; }
int cudaFreeAsync(void *p, void *s) { (void)s; unmap(p); return success; }
int cudaHostAlloc(void **p, size_t n, unsigned f) { (void)f; return cudaMalloc(p, n); }
int cudaFreeHost(void *p) { unmap(p); return success; }
int cudaHostRegister(void *p, size_t n, unsigned f) { (void)p; (void)n; (void)f; return success; }
int cudaHostUnregister(void *p) { (void)p; return success; }
int cudaHostGetDevicePointer(void **d, void *h, unsigned f) { (void)f; *d = h; return success; }
int cudaMallocFromPoolAsync(void **p, size_t n, void *pool, void *s) { (void)pool; (void)s; return cudaMalloc(p, n); }
int cudaMemPoolCreate(void **pool, const void *props) { (void)props; *pool = (void *)1; return success; }
int cudaMemPoolDestroy(void *pool) { (void)pool; return success; }
int cudaMemPoolSetAttribute(void *pool, int a, void *v) { (void)pool; (void)a; (void)v; return success; }
int cudaMemcpy(void *d, const void *s, size_t n, int kind) { (void)kind; memcpy(d, s, n); return success; }
int cudaMemset(void *d, int v, size_t n) { memset(d, v, n); return success; }
int cudaMemsetAsync(void *d, int v, size_t n, void *st) { (void)st; memset(d, v, n); return success; }
int cudaIpcGetMemHandle(void *h, void *p) { (void)h; (void)p; return notSupported; }
int cudaIpcCloseMemHandle(void *p) { (void)p; return notSupported; }
struct ipc { char b[64]; };
int cudaIpcOpenMemHandle(void **p, struct ipc h, unsigned f) { (void)p; (void)h; (void)f; return notSupported; }
int cudaPointerGetAttributes(void *a, const void *p) {
  struct { int type, device; void *dev, *host; } *r = a;
  r->type = 2; // device
  r->device = device;
  r->dev = r->host = (void *)p;
  return success;
}

// The work of kernels, as far as the network needs it. NCCL copies the description of each of its connections to the
// device: there the kernel fills the steps that the proxy sends, and empties those that it received. This thread does so
// for whatever the proxy was told to move; the data are zeros. Only for the protocol Simple.
struct conn { // ncclConnInfo up to connFifo
  char *buffs[3];
  void *mhandles[3];
  volatile uint64_t *tail, *head;
  int flags, shared, stepSize;
  void **ptrExchange;
  uint64_t *redOpArgExchange;
  volatile struct fifo { int mode, offset; ssize_t size; void *ptr; } *fifo;
};
enum { conn_size = 152, steps = 8, most = 1024 };
static struct conn conns[most];
static char sends[most];
static int nconns;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void forget(char *from, size_t n) { // memory that is freed
  pthread_mutex_lock(&lock);
  for (int i = 0; i < nconns; i++)
    for (int k = 0; k < 3; k++) {
      char *at = k == 0 ? (char *)conns[i].tail : k == 1 ? (char *)conns[i].head : (char *)conns[i].fifo;
      if (at >= from && at < from + n) {
        conns[i] = conns[--nconns], sends[i] = sends[nconns], i--;
        break;
      }
    }
  pthread_mutex_unlock(&lock);
}
static void *work(void *unused) {
  (void)unused;
  const char *stop = getenv("RIG_STOP"); // while this file exists, the GPU hangs
  for (unsigned turn = 0;; turn++) {
    if (stop && turn % 64 == 0 && !access(stop, F_OK)) { usleep(100000); turn = -1; continue; }
    int moved = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < nconns; i++) {
      struct conn *c = &conns[i];
      uint64_t h = *c->head, t = *c->tail;
      if (!sends[i]) {
        if (h != t) { *c->head = t; moved = 1; }
        continue;
      }
      for (int s = 0; s < steps; s++)
        if (c->fifo[s].size == -1) c->fifo[s].size = c->stepSize;
      if (t != h + steps) { *c->tail = h + steps; moved = 1; }
    }
    pthread_mutex_unlock(&lock);
    usleep(moved ? 50 : 500);
  }
  return NULL;
}
static void seen(const void *from, size_t n) {
  if (n != conn_size || !number("RIG_WORK", 1)) return;
  const struct conn *c = from;
  static int running;
  pthread_mutex_lock(&lock);
  int i = nconns, known = !c->tail || !c->head || !c->fifo || i == most;
  for (int k = 0; k < i && !known; k++) known = conns[k].fifo == c->fifo;
  if (!known) {
    conns[i] = *c;
    sends[i] = c->fifo[0].offset == -1; // as NCCL leaves it for the sending side
    trace("connection %d: %s, step %d\n", i, sends[i] ? "send" : "receive", c->stepSize);
    nconns++;
    pthread_t t;
    if (!running++) pthread_create(&t, NULL, work, NULL);
  }
  pthread_mutex_unlock(&lock);
}
int cudaMemcpyAsync(void *d, const void *s, size_t n, int kind, void *st) {
  (void)kind;
  (void)st;
  memcpy(d, s, n);
  seen(s, n);
  return success;
}

// Streams and events.
static atomic_long handles = 0x1000;
int cudaStreamCreateWithFlags(void **s, unsigned f) { (void)f; *s = (void *)atomic_fetch_add(&handles, 16); return success; }
int cudaStreamCreate(void **s) { return cudaStreamCreateWithFlags(s, 0); }
int cudaStreamDestroy(void *s) { (void)s; return success; }
int cudaStreamSynchronize(void *s) { (void)s; return success; }
int cudaStreamWaitEvent(void *s, void *e, unsigned f) { (void)s; (void)e; (void)f; return success; }
int cudaStreamIsCapturing(void *s, int *status) { (void)s; *status = 0; return success; }
int cudaStreamGetId(void *s, unsigned long long *id) { *id = (unsigned long long)s; return success; }
int cudaStreamGetCaptureInfo_v3(void *s, int *status, unsigned long long *id, void **g, const void **deps,
                                const void **edges, size_t *n) {
  (void)s;
  *status = 0;
  if (id) *id = 0;
  if (g) *g = NULL;
  if (deps) *deps = NULL;
  if (edges) *edges = NULL;
  if (n) *n = 0;
  return success;
}
int cudaStreamUpdateCaptureDependencies_v2(void) { return notSupported; }
int cudaThreadExchangeStreamCaptureMode(int *m) { (void)m; return success; }
int cudaEventCreateWithFlags(void **e, unsigned f) { return cudaStreamCreateWithFlags(e, f); }
int cudaEventCreate(void **e) { return cudaStreamCreateWithFlags(e, 0); }
int cudaEventDestroy(void *e) { (void)e; return success; }
int cudaEventQuery(void *e) { (void)e; return success; }
int cudaEventRecord(void *e, void *s) { (void)e; (void)s; return success; }
int cudaEventSynchronize(void *e) { (void)e; return success; }
int cudaGraphAddDependencies(void) { return notSupported; }
int cudaGraphAddDependencies_v2(void) { return notSupported; }
int cudaGraphAddEventRecordNode(void) { return notSupported; }
int cudaGraphAddEventWaitNode(void) { return notSupported; }
int cudaGraphAddHostNode(void) { return notSupported; }
int cudaGraphAddKernelNode(void) { return notSupported; }
int cudaUserObjectCreate(void) { return notSupported; }
int cudaGraphRetainUserObject(void) { return notSupported; }
int cudaStreamUpdateCaptureDependencies(void) { return notSupported; }
int cudaStreamGetCaptureInfo_v2(void *s, int *status) { (void)s; *status = 0; return success; }

// Kernels.
int cudaFuncGetAttributes(void *a, const void *f) { (void)f; memset(a, 0, 96); return success; }
int cudaFuncSetAttribute(const void *f, int a, int v) { (void)f; (void)a; (void)v; return success; }
int cudaGetFuncBySymbol(void **f, const void *symbol) { *f = (void *)symbol; return success; }
int cudaLaunchKernel(const void *f) { trace("cudaLaunchKernel %p\n", f); return success; }
int cudaLaunchHostFunc(void *s, void (*f)(void *), void *arg) {
  (void)s;
  f(arg);
  return success;
}

// Functions of the driver that NCCL asks for by name. Those that it can do without are not there.
static int cuGetErrorString(int e, const char **s) { *s = cudaGetErrorString(e); return success; }
static int cuGetErrorName(int e, const char **s) { *s = e ? "CUDA_ERROR_STAND_IN" : "CUDA_SUCCESS"; return success; }
static int cuDeviceGet(int *d, int n) { *d = n; return success; }
static int cuDeviceGetAttribute(int *v, int a, int d) {
  (void)d;
  trace("cuDeviceGetAttribute %d\n", a);
  *v = 0;
  return success;
}
static int cuCtxGetCurrent(void **c) { *c = (void *)0x10; return success; }
static int cuCtxGetDevice(int *d) { *d = device; return success; }
static int cuLaunchKernel(void *f) { trace("cuLaunchKernel %p\n", f); return success; }
static int cuLaunchKernelEx(void *c, void *f) { (void)c; trace("cuLaunchKernelEx %p\n", f); return success; }
static int cuPointerGetAttribute(void *v, int a, uint64_t p) { (void)a; (void)p; *(int *)v = device; return success; }
int cudaGetDriverEntryPoint(const char *name, void **f, unsigned long long flags, int *status) {
  static const struct { const char *name; void *f; } table[] = {
#define ENTRY(n) {#n, n}
    ENTRY(cuGetErrorString), ENTRY(cuGetErrorName), ENTRY(cuDeviceGet), ENTRY(cuDeviceGetAttribute),
    ENTRY(cuCtxGetCurrent),
    ENTRY(cuCtxGetDevice), ENTRY(cuLaunchKernel), ENTRY(cuLaunchKernelEx), ENTRY(cuPointerGetAttribute),
  };
  (void)flags;
  *f = NULL;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i].name, name)) *f = table[i].f;
  if (status) *status = *f ? 0 : 1;
  return *f ? success : symbolNotFound;
}

// SPDX-License-Identifier: Apache-2.0
//
// A rank of a job, see README.md: rank RANK of WORLD, whose ID rank 0 leaves in a file.
#define _GNU_SOURCE
#include "device.h"
#include <nccl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

int cudaSetDevice(int);
int cudaMalloc(void **, size_t);
static volatile sig_atomic_t stop;
static void end(int s) { (void)s; stop = 1; }

static void check(ncclResult_t r, const char *what) {
  if (r == ncclSuccess) return;
  fprintf(stderr, "%s: %s: %s\n", what, ncclGetErrorString(r), ncclGetLastError(NULL));
  if (getenv("RIG_HOLD"))
    while (!stop) pause();
  exit(1);
}
#define CHECK(call) check(call, #call)

// environment prints what NCCL finds there after it has read its files.
static int environment(void) {
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id));
  for (char **e = environ; *e; e++)
    if (!strncmp(*e, "NCCL_", 5) || strstr(*e, "NCCL_")) printf("ENV <%s>\n", *e);
  return 0;
}

// confine gives up what root has, and memory that may be locked.
static int confine(void) {
  struct rlimit locked = {number("RIG_MEMLOCK", 0), number("RIG_MEMLOCK", 0)};
  if (locked.rlim_max && setrlimit(RLIMIT_MEMLOCK, &locked)) return -1;
  return number("RIG_UID", 0) ? setuid(number("RIG_UID", 0)) : 0;
}

static ncclUniqueId identity(int rank, const char *name) {
  ncclUniqueId id;
  char new[4096];
  FILE *f;
  if (rank == 0) {
    CHECK(ncclGetUniqueId(&id));
    snprintf(new, sizeof new, "%s.new", name);
    if (!(f = fopen(new, "w")) || fwrite(&id, sizeof id, 1, f) != 1 || fclose(f) || rename(new, name)) exit(2);
    return id;
  }
  while (!(f = fopen(name, "r"))) usleep(10000);
  if (fread(&id, sizeof id, 1, f) != 1) exit(2);
  fclose(f);
  return id;
}

// wait_to_launch returns when this rank launches its nth collective. While the file RIG_STOP exists, no rank does; rank 1
// stops one collective later.
static void wait_to_launch(int rank, long n) {
  static int extra;
  const char *file = getenv("RIG_STOP");
  while (file && !access(file, F_OK) && !stop && (rank != 1 || extra)) usleep(100000);
  extra = file && !access(file, F_OK);
  while (n == number("RIG_HANG", -1) && !stop) pause();
}

// wait_for_all returns when every rank has launched its last collective, and RIG_LINGER ms later, or after 50 times that:
// one that leaves early breaks the connections of the others, because the stand-in's streams do not wait.
static void wait_for_all(const char *file, int rank, int world) {
  char name[4096];
  snprintf(name, sizeof name, "%s.end%d", file, rank);
  FILE *f = fopen(name, "w");
  if (f) fclose(f);
  int linger = number("RIG_LINGER", 100);
  for (int i = 0, turns = 5 * linger; i < world && turns > 0 && !stop; i++) {
    snprintf(name, sizeof name, "%s.end%d", file, i);
    while (access(name, F_OK) && turns-- > 0 && !stop) usleep(10000);
  }
  if (world > 1) usleep(1000 * linger);
}

// more makes RIG_SPLIT communicators of all ranks, split from the first, and RIG_MORE that have nothing to do with it. It
// returns the last one.
static ncclComm_t more(ncclComm_t comm, int rank, int world, const char *file) {
  ncclComm_t last = comm;
  for (int i = number("RIG_SPLIT", 0); i > 0; i--) CHECK(ncclCommSplit(comm, 0, rank, &last, NULL));
  for (int i = number("RIG_MORE", 0); i > 0; i--) {
    char name[4096];
    snprintf(name, sizeof name, "%s.more%d", file, i);
    CHECK(ncclCommInitRank(&last, world, identity(rank, name), rank));
  }
  return last;
}

// others calls what an AllReduce does not reach.
static void others(ncclComm_t comm, void *b, int rank, int world) {
  void *handle;
  CHECK(ncclAllGather(b, b, 1024, ncclFloat, comm, NULL));
  CHECK(ncclBroadcast(b, b, 1024, ncclFloat, 0, comm, NULL));
  CHECK(ncclGroupStart());
  CHECK(ncclSend(b, 1024, ncclFloat, (rank + 1) % world, comm, NULL));
  CHECK(ncclRecv(b, 1024, ncclFloat, (rank + world - 1) % world, comm, NULL));
  CHECK(ncclGroupEnd());
  if (ncclCommRegister(comm, b, 1 << 20, &handle) == ncclSuccess) ncclCommDeregister(comm, handle);
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "id")) return environment();
  if (argc < 4) return fprintf(stderr, "rank RANK WORLD FILE [collectives each second]\nrank id\n"), 2;
  int rank = atoi(argv[1]), world = atoi(argv[2]), rate = argc > 4 ? atoi(argv[4]) : 0;
  signal(SIGTERM, end);
  if (nice(number("RIG_NICE", 0)) < 0) return 2;
  signal(SIGPIPE, SIG_IGN); // as Python does
  setlinebuf(stdout);
  ncclUniqueId id = identity(rank, argv[3]);
  if (confine()) return 2;
  cudaSetDevice(number("RIG_DEVICE", 0));
  ncclComm_t comm;
  CHECK(ncclCommInitRank(&comm, world, id, rank));
  printf("rank %d of %d: initialised\n", rank, world);
  comm = more(comm, rank, world, argv[3]);
  void *b;
  cudaMalloc(&b, 1 << 20);
  if (number("RIG_OTHERS", 0)) others(comm, b, rank, world);
  for (long n = 0; !stop && n != number("RIG_COUNT", -1); n++) {
    if (!rate) {
      pause();
      continue;
    }
    wait_to_launch(rank, n);
    if (n == number("RIG_CRASH", -1)) raise(SIGSEGV);
    if (n == number("RIG_ABORT", -1)) {
      CHECK(ncclCommAbort(comm));
      printf("rank %d: aborted\n", rank);
      while (getenv("RIG_HOLD") && !stop) pause();
      return 0;
    }
    CHECK(ncclAllReduce(b, b, 1 << 18, ncclFloat, ncclSum, comm, NULL));
    if (n % 10 == 0) printf("rank %d: %ld collectives\n", rank, n + 1);
    usleep(1000000 / rate);
  }
  wait_for_all(argv[3], rank, world);
  CHECK(ncclCommDestroy(comm));
  printf("rank %d: ended\n", rank);
  return 0;
}

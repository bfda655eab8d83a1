// SPDX-License-Identifier: Apache-2.0
//
// A stand-in for NVIDIA's libnvidia-ml.so.1. It has the symbols that the exporter asks for, with the ABI of the real one,
// and answers for a machine that a file describes. nvmltest.Build compiles it, without the symbols that are to be missing.
//
// The file has the path of the library with ".machine" behind it; a symbolic link to the library has a machine of its own.
// It is read again whenever it changes, so that things can happen to a running process. A line is a word and its
// arguments; the number after a word below is what holds without the line, and without the file.
//
//   gpus 8  links 18  nvlink 4        how many GPUs and NVLinks for each; 5 has other counters of errors
//   version 580.65.06  cuda 13000     of the driver
//   processes 1  graphics 0  mps 0    how many of each kind on each GPU; PIDs count from 1000, 2000 and 3000, plus 100 for each GPU
//   pid 0                             the only process of each kind on each GPU, if it is not 0
//   instances 0                       MIG devices of each GPU, if mig is 1; processes are in one after the other
//   util 0  generation 5  width 16  reasons 1  replays 0  bar1_used 1048576
//   mode 0  mig 0  persistence 1      -1: not supported
//   fabric 3  status 0  health 426  summary 1      nvmlGpuFabricInfo_v3_t; 426 is 0x1aa: nothing is wrong
//   write 0  read 0  ancestor 50      nvmlGpuP2PStatus_t of these capabilities, nvmlGpuTopologyLevel_t
//   numa -1                           of the GPU's memory; -1: not supported
//   link_errors 0                     every counter of every link
//   count FIELD N                     a counter of its own for one NVML_FI_DEV_NVLINK_*, instead of link_errors
//   down GPU LINK STATE               another state of one link
//   node FILE                         nvmlInit opens it: 9 if it is not there, 4 if it may not be opened
//   driver 0                          what nvmlInit and every call answers: 9 no driver, 18 mismatch
//
// Faults:
//
//   error FUNCTION CODE [GPU]         that function answers CODE, for one GPU or for all
//   hang FUNCTION                     it never returns
//   crash FUNCTION                    it writes to address 0
//   fork FUNCTION                     it starts a process in a session of its own, and one below that, once; their numbers are
//                                     in the file beside with the suffix .forked
//   lost GPU                          every call answers NVML_ERROR_GPU_IS_LOST
//   lie processes                     says there are 100000 processes in a list that has room for less
//   lie insufficient                  calls every list of processes too small, by 2^31
//   lie growing                       calls every list of processes too small, by one
//   lie strings                       no string ends
//   lie gpus                          there are a million
//   lie links                         there are a million
//   lie type                          values are of type 77
//   lie values                        enumerations and numbers are none that exist
//
// If there is a file with ".calls" behind the path of the library when that is loaded, it counts calls: a line for each
// function, the name and the number.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT = 7, DRIVER_NOT_LOADED = 9, LOST = 15, VERSION = 25 };
enum { MAX_GPUS = 64, MAX_FAULTS = 64, LINE = 80, LINES = 256 };

struct gpu { int index; };
struct fault { char word[16], function[64]; long a, b; };

static struct gpu gpus[MAX_GPUS];
static struct gpu parts[MAX_GPUS][8]; // MIG devices
static struct {
	long gpus, links, nvlink, cuda, processes, graphics, mps, util, generation, width, reasons, replays, bar1_used, mode, mig,
		instances, persistence, fabric, status, health, summary, write, read, ancestor, numa, link_errors, driver, pid;
	char version[64];
	struct fault faults[MAX_FAULTS];
	int n;
} m;
static struct timespec seen;
static off_t seen_size = -1;
static ino_t seen_inode;
static int initialised;
static char *calls;

static const struct { const char *word; long *value, preset; } words[] = {
	{"gpus", &m.gpus, 8}, {"links", &m.links, 18}, {"nvlink", &m.nvlink, 4}, {"cuda", &m.cuda, 13000}, {"processes", &m.processes, 1}, {"pid", &m.pid, 0},
	{"graphics", &m.graphics, 0}, {"mps", &m.mps, 0}, {"util", &m.util, 0}, {"generation", &m.generation, 5}, {"width", &m.width, 16},
	{"reasons", &m.reasons, 1}, {"replays", &m.replays, 0}, {"bar1_used", &m.bar1_used, 1 << 20}, {"mode", &m.mode, 0}, {"mig", &m.mig, 0},
	{"persistence", &m.persistence, 1}, {"instances", &m.instances, 0}, {"fabric", &m.fabric, 3}, {"status", &m.status, 0}, {"health", &m.health, 426},
	{"summary", &m.summary, 1}, {"write", &m.write, 0}, {"read", &m.read, 0}, {"ancestor", &m.ancestor, 50}, {"numa", &m.numa, -1},
	{"link_errors", &m.link_errors, 0}, {"driver", &m.driver, 0},
};

static void parse(FILE *f)
{
	char line[256], word[16], rest[128];
	while (f && fgets(line, sizeof line, f)) {
		if (sscanf(line, "%15s %127[^\n]", word, rest) != 2)
			continue;
		int known = 0;
		for (size_t i = 0; i < sizeof words / sizeof *words; i++)
			if (!strcmp(word, words[i].word))
				*words[i].value = strtol(rest, NULL, 0), known = 1;
		if (!strcmp(word, "version"))
			snprintf(m.version, sizeof m.version, "%.63s", rest), known = 1;
		if (known || m.n == MAX_FAULTS)
			continue;
		struct fault *x = &m.faults[m.n++];
		*x = (struct fault){.a = -1, .b = -1};
		memcpy(x->word, word, sizeof word);
		sscanf(rest, "%63s %ld %ld", x->function, &x->a, &x->b);
	}
}

// beside returns the path of a file beside the library.
static const char *beside(const char *suffix)
{
	static char path[4096];
	Dl_info info;
	if (!dladdr(gpus, &info))
		abort();
	snprintf(path, sizeof path, "%s%s", info.dli_fname, suffix);
	return path;
}

static void describe(void)
{
	static char path[4096];
	struct stat st = {0};
	if (!*path)
		strcpy(path, beside(".machine"));
	stat(path, &st); // a size of 0 without one
	// Two descriptions within one tick of the clock have the same time, never the same inode: Describe renames.
	if (st.st_ino == seen_inode && st.st_size == seen_size && st.st_mtim.tv_sec == seen.tv_sec && st.st_mtim.tv_nsec == seen.tv_nsec)
		return;
	seen = st.st_mtim, seen_size = st.st_size, seen_inode = st.st_ino;
	m.n = 0;
	strcpy(m.version, "580.65.06");
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		*words[i].value = words[i].preset;
	FILE *f = fopen(path, "r");
	parse(f);
	if (f)
		fclose(f);
	for (int i = 0; i < MAX_GPUS; i++)
		gpus[i].index = i;
}

static void count(const char *function)
{
	if (!calls) {
		int fd = open(beside(".calls"), O_RDWR);
		calls = fd < 0 || ftruncate(fd, LINE * LINES) ? MAP_FAILED : mmap(NULL, LINE * LINES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (fd >= 0)
			close(fd);
	}
	if (calls == MAP_FAILED)
		return;
	for (int i = 0; i < LINES; i++) {
		char *l = calls + i * LINE, name[64] = "";
		unsigned long n = 0;
		sscanf(l, "%63s %lu", name, &n);
		if (*name && strcmp(name, function))
			continue;
		char text[LINE + 1];
		snprintf(text, sizeof text, "%-60s %18lu\n", function, n + 1);
		memcpy(l, text, LINE);
		return;
	}
}

static int lies(const char *what)
{
	for (int i = 0; i < m.n; i++)
		if (!strcmp(m.faults[i].word, "lie") && !strcmp(m.faults[i].function, what))
			return 1;
	return 0;
}

// leave starts what outlives this process.
static void leave(void)
{
	static int done;
	if (done++ || fork())
		return;
	setsid();
	if (fork() == 0) // another session again
		setsid();
	FILE *f = fopen(beside(".forked"), "a");
	if (f) {
		fprintf(f, "%d\n", getpid());
		fclose(f);
	}
	signal(SIGTERM, SIG_IGN);
	for (;;)
		pause();
}

static int is_part(const struct gpu *g) { return g >= parts[0] && g < parts[MAX_GPUS]; }

// enter is the begin of every function: what it answers without doing anything, or OK.
static int enter(const char *function, const struct gpu *g)
{
	describe();
	count(function);
	int init = !strncmp(function, "nvmlInit", 8);
	for (int i = 0; i < m.n; i++) {
		const struct fault *x = &m.faults[i];
		if (!strcmp(x->word, "lost") && g && !is_part(g) && atoi(x->function) == g->index)
			return LOST;
		if (strcmp(x->function, function))
			continue;
		if (!strcmp(x->word, "hang"))
			for (;;)
				pause();
		if (!strcmp(x->word, "fork"))
			leave();
		if (!strcmp(x->word, "crash"))
			*(volatile int *)0 = 1;
		if (!strcmp(x->word, "error") && (x->b < 0 || (g && x->b == g->index)))
			return (int)x->a;
	}
	if (m.driver)
		return (int)m.driver;
	if (!initialised && !init)
		return UNINITIALIZED;
	if (g && (g < gpus || g >= gpus + MAX_GPUS) && !is_part(g))
		return INVALID;
	return OK;
}

#define ENTER(g) do { int ret_ = enter(__func__, g); if (ret_) return ret_; } while (0)

static int text(char *to, unsigned size, const char *s)
{
	if (lies("strings")) {
		memset(to, 'A', size);
		return OK;
	}
	if (strlen(s) >= size)
		return INSUFFICIENT;
	strcpy(to, s);
	return OK;
}

static int number(unsigned *to, long v)
{
	if (v < 0)
		return NOT_SUPPORTED;
	*to = lies("values") ? 77777u : (unsigned)v;
	return OK;
}


// reach opens the device nodes that the machine needs, as the driver's library does with /dev/nvidiactl.
static int reach(void)
{
	for (int i = 0; i < m.n; i++) {
		if (strcmp(m.faults[i].word, "node"))
			continue;
		int fd = open(m.faults[i].function, O_RDWR | O_CLOEXEC);
		if (fd >= 0)
			close(fd);
		else if (errno != ENXIO) // a node without a driver behind it was opened as far as permissions go
			return errno == ENOENT ? DRIVER_NOT_LOADED : NO_PERMISSION;
	}
	return OK;
}

int nvmlInit_v2(void) { ENTER(NULL); int ret = reach(); initialised += ret == OK; return ret; }
int nvmlShutdown(void) { ENTER(NULL); initialised--; return OK; }
const char *nvmlErrorString(int e) { (void)e; return "stand-in"; }

int nvmlSystemGetDriverVersion(char *v, unsigned n) { ENTER(NULL); return text(v, n, m.version); }
int nvmlSystemGetCudaDriverVersion(int *v) { ENTER(NULL); *v = lies("values") ? -1 : (int)m.cuda; return OK; }
int nvmlDeviceGetCount_v2(unsigned *n) { ENTER(NULL); *n = lies("gpus") ? 1000000 : (unsigned)m.gpus; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned i, struct gpu **g)
{
	ENTER(i < MAX_GPUS ? &gpus[i] : NULL);
	if (i >= m.gpus)
		return INVALID;
	*g = &gpus[i];
	return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(struct gpu *g, unsigned *n) { ENTER(g); *n = lies("gpus") ? 1000000 : 7; return OK; }

int nvmlDeviceGetMigDeviceHandleByIndex(struct gpu *g, unsigned i, struct gpu **part)
{
	ENTER(g);
	if (i >= m.instances || i > 6)
		return NOT_FOUND;
	*part = &parts[g->index][i];
	(*part)->index = 16 * g->index + i;
	return OK;
}

int nvmlDeviceGetGpuInstanceId(struct gpu *g, unsigned *v) { ENTER(g); if (!is_part(g)) return NOT_SUPPORTED; *v = 3 + g->index % 16; return OK; }
int nvmlDeviceGetComputeInstanceId(struct gpu *g, unsigned *v) { ENTER(g); if (!is_part(g)) return NOT_SUPPORTED; *v = 0; return OK; }

int nvmlDeviceGetUUID(struct gpu *g, char *v, unsigned n)
{
	char s[64];
	ENTER(g);
	snprintf(s, sizeof s, "%s-%08x-1111-2222-3333-444444444444", is_part(g) ? "MIG" : "GPU", g->index);
	return text(v, n, s);
}

int nvmlDeviceGetName(struct gpu *g, char *v, unsigned n) { ENTER(g); return text(v, n, "NVIDIA H100 80GB HBM3"); }

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };

static void pci(struct pci *p, unsigned bus)
{
	memset(p, lies("strings") ? 'A' : 0, sizeof *p);
	p->domain = 0, p->bus = bus, p->device = 0, p->id = 0x233010de;
	if (!lies("strings"))
		snprintf(p->bus_id, sizeof p->bus_id, "%08X:%02X:00.0", 0, bus);
}

int nvmlDeviceGetPciInfo_v3(struct gpu *g, struct pci *p) { ENTER(g); pci(p, 0x1b + g->index); return OK; }
int nvmlDeviceGetNumaNodeId(struct gpu *g, unsigned *v) { ENTER(g); return number(v, m.numa); }
int nvmlDeviceGetCudaComputeCapability(struct gpu *g, int *a, int *b) { ENTER(g); *a = 9, *b = 0; return OK; }
int nvmlDeviceGetMaxPcieLinkGeneration(struct gpu *g, unsigned *v) { ENTER(g); return number(v, 5); }
int nvmlDeviceGetMaxPcieLinkWidth(struct gpu *g, unsigned *v) { ENTER(g); return number(v, 16); }
int nvmlDeviceGetCurrPcieLinkGeneration(struct gpu *g, unsigned *v) { ENTER(g); return number(v, m.generation); }
int nvmlDeviceGetCurrPcieLinkWidth(struct gpu *g, unsigned *v) { ENTER(g); return number(v, m.width); }
int nvmlDeviceGetPcieReplayCounter(struct gpu *g, unsigned *v) { ENTER(g); *v = (unsigned)m.replays; return OK; }
int nvmlDeviceGetComputeMode(struct gpu *g, unsigned *v) { ENTER(g); return number(v, m.mode); }
int nvmlDeviceGetPersistenceMode(struct gpu *g, unsigned *v) { ENTER(g); return number(v, m.persistence); }
int nvmlDeviceGetCurrentClocksEventReasons(struct gpu *g, uint64_t *v) { ENTER(g); *v = (uint64_t)m.reasons; return OK; }
int nvmlDeviceGetCurrentClocksThrottleReasons(struct gpu *g, uint64_t *v) { ENTER(g); *v = (uint64_t)m.reasons; return OK; }

int nvmlDeviceGetMigMode(struct gpu *g, unsigned *now, unsigned *next)
{
	ENTER(g);
	int ret = number(now, m.mig);
	*next = *now;
	return ret;
}

struct utilization { unsigned gpu, memory; };

int nvmlDeviceGetUtilizationRates(struct gpu *g, struct utilization *u)
{
	ENTER(g);
	if (m.mig == 1)
		return NOT_SUPPORTED; // like the real one
	u->memory = 0;
	return number(&u->gpu, m.util);
}

struct memory { uint64_t total, free, used; };
struct memory_v2 { unsigned version; uint64_t total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo(struct gpu *g, struct memory *v)
{
	ENTER(g);
	*v = (struct memory){80ull << 30, 79ull << 30, lies("values") ? ~0ull : 1ull << 30};
	return OK;
}

int nvmlDeviceGetMemoryInfo_v2(struct gpu *g, struct memory_v2 *v)
{
	ENTER(g);
	if (v->version != (sizeof *v | 2 << 24))
		return VERSION;
	v->total = 80ull << 30, v->reserved = 1ull << 30, v->free = 79ull << 30, v->used = lies("values") ? ~0ull : 1ull << 29;
	return OK;
}

int nvmlDeviceGetBAR1MemoryInfo(struct gpu *g, struct memory *v)
{
	ENTER(g);
	*v = (struct memory){128ull << 30, 0, lies("values") ? ~0ull : (uint64_t)m.bar1_used};
	return OK;
}

struct process { unsigned pid; uint64_t memory; unsigned gpu_instance, compute_instance; };

static int list(struct gpu *g, unsigned *n, struct process *p, long have, unsigned pid)
{
	unsigned room = *n;
	if (lies("insufficient") || lies("growing")) {
		*n = lies("growing") ? room + 1 : 1u << 31;
		return INSUFFICIENT;
	}
	*n = (unsigned)have;
	if (room < *n)
		return INSUFFICIENT;
	for (long i = 0; i < have; i++) {
		p[i] = (struct process){m.pid ? m.pid : pid + 100 * g->index + i, i % 2 ? ~0ull : 1 << 20, ~0u, ~0u};
		if (m.mig == 1 && m.instances)
			p[i].gpu_instance = 3 + i % m.instances, p[i].compute_instance = 0;
	}
	if (lies("processes"))
		*n = 100000;
	return OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(struct gpu *g, unsigned *n, struct process *p) { ENTER(g); return list(g, n, p, m.processes, 1000); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(struct gpu *g, unsigned *n, struct process *p) { ENTER(g); return list(g, n, p, m.graphics, 2000); }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct gpu *g, unsigned *n, struct process *p) { ENTER(g); return list(g, n, p, m.mps, 3000); }

struct fabric { unsigned version; uint8_t cluster[16]; unsigned status, clique; uint8_t state; unsigned health; uint8_t summary; };

int nvmlDeviceGetGpuFabricInfoV(struct gpu *g, struct fabric *f)
{
	ENTER(g);
	if (f->version >> 24 != 2 && f->version >> 24 != 3)
		return VERSION;
	memset(f->cluster, 0xab, sizeof f->cluster);
	f->status = (unsigned)m.status, f->clique = 7, f->state = lies("values") ? 77 : (uint8_t)m.fabric, f->health = (unsigned)m.health;
	if (f->version >> 24 == 3)
		f->summary = (uint8_t)m.summary;
	return OK;
}

struct fabric_v1 { uint8_t cluster[16]; unsigned status, clique; uint8_t state; };

int nvmlDeviceGetGpuFabricInfo(struct gpu *g, struct fabric_v1 *f)
{
	ENTER(g);
	memset(f->cluster, 0xab, sizeof f->cluster);
	f->status = (unsigned)m.status, f->clique = 7, f->state = lies("values") ? 77 : (uint8_t)m.fabric;
	return OK;
}

int nvmlDeviceGetP2PStatus(struct gpu *a, struct gpu *b, unsigned capability, unsigned *status)
{
	ENTER(a);
	ENTER(b);
	return number(status, capability == 1 ? m.write : capability == 0 ? m.read : 5);
}

int nvmlDeviceGetTopologyCommonAncestor(struct gpu *a, struct gpu *b, unsigned *level)
{
	ENTER(a);
	ENTER(b);
	return number(level, m.ancestor);
}

static unsigned state(const struct gpu *g, unsigned link)
{
	for (int i = 0; i < m.n; i++)
		if (!strcmp(m.faults[i].word, "down") && atoi(m.faults[i].function) == g->index && m.faults[i].a == (long)link)
			return m.faults[i].b < 0 ? 0 : (unsigned)m.faults[i].b;
	return lies("values") ? 77 : 1;
}

int nvmlDeviceGetNvLinkState(struct gpu *g, unsigned link, unsigned *v)
{
	ENTER(g);
	if (link >= m.links)
		return m.links ? INVALID : NOT_SUPPORTED;
	*v = state(g, link);
	return OK;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct gpu *g, unsigned link, struct pci *p)
{
	ENTER(g);
	if (link >= m.links)
		return INVALID;
	if (!state(g, link))
		return NOT_SUPPORTED;
	pci(p, 0xc0 + link % 4);
	return OK;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(struct gpu *g, unsigned link, unsigned *v)
{
	ENTER(g);
	if (link >= m.links)
		return INVALID;
	if (!state(g, link))
		return NOT_SUPPORTED;
	return number(v, 2);
}

static uint64_t counter(unsigned id)
{
	for (int i = 0; i < m.n; i++)
		if (!strcmp(m.faults[i].word, "count") && (unsigned)atoi(m.faults[i].function) == id)
			return (uint64_t)m.faults[i].a;
	return (uint64_t)m.link_errors;
}

struct field { unsigned id, scope; int64_t at, latency; unsigned type, ret; union { uint64_t u64; unsigned u32; } value; };

static void field(const struct gpu *g, struct field *f)
{
	int four = f->id >= 161 && f->id <= 163, five = f->id >= 206 && f->id <= 219;
	f->ret = OK, f->type = 1, f->value.u64 = 0;
	if (f->id == 91)
		f->value.u32 = lies("links") ? 1000000 : (unsigned)m.links;
	else if (f->scope >= m.links)
		f->ret = m.links ? INVALID : NOT_SUPPORTED;
	else if (f->id == 165)
		f->value.u32 = state(g, f->scope);
	else if (f->id == 164)
		f->value.u32 = m.nvlink == 5 ? 53125 : 26562;
	else if ((four && m.nvlink == 4) || (five && m.nvlink == 5))
		f->type = 3, f->value.u64 = counter(f->id);
	else
		f->ret = NOT_SUPPORTED;
	if (lies("type"))
		f->type = 77;
}

int nvmlDeviceGetFieldValues(struct gpu *g, int n, struct field *f)
{
	ENTER(g);
	for (int i = 0; i < n; i++)
		field(g, &f[i]);
	return OK;
}

_Static_assert(sizeof(struct pci) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(struct memory_v2) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(struct process) == 24, "nvmlProcessInfo_v2_t");
_Static_assert(sizeof(struct fabric) == 40, "nvmlGpuFabricInfo_v3_t");
_Static_assert(sizeof(struct field) == 40, "nvmlFieldValue_t");

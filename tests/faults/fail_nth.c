/* Preloaded into a program: its FAULT_AT-th change to a file fails with the error number FAULT_ERROR, and all later writes
 * too, as on a full disk; with FAULT_ERROR=kill the process is killed there, before (even) or after (odd) the call took
 * effect. Where FAULT_COUNT names a file, the number of changes is written there at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long calls;

static long wanted(void) {
  const char* at = getenv("FAULT_AT");
  return at ? atol(at) : -1;
}
static int kills(void) {
  const char* error = getenv("FAULT_ERROR");
  return error && strcmp(error, "kill") == 0;
}

/* Before a call: nonzero, with errno set, where it must fail. */
static int fault(int is_write) {
  const long n = ++calls, at = wanted();
  if (at < 0 || n < at) return 0;
  if (kills()) {
    if (n == at && n % 2 == 0) raise(SIGKILL);
    return 0;
  }
  if (n > at && !is_write) return 0;
  const char* error = getenv("FAULT_ERROR");
  errno = error ? atoi(error) : ENOSPC;
  return 1;
}
static void after(void) {
  const int saved = errno;
  if (kills() && calls >= wanted() && wanted() > 0 && wanted() % 2 == 1) raise(SIGKILL);
  errno = saved;
}

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))
#define CHANGE(is_write, type, name, ...)            \
  if (fault(is_write)) return -1;                    \
  const long result = NEXT(type, name)(__VA_ARGS__); \
  after();                                           \
  return result;

ssize_t write(int fd, const void* data, size_t size) {
  struct stat status;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return syscall(SYS_write, fd, data, size);
  CHANGE(1, ssize_t(*)(int, const void*, size_t), "write", fd, data, size)
}
int fsync(int fd) { CHANGE(0, int (*)(int), "fsync", fd) }
int mkdir(const char* path, mode_t mode) { CHANGE(1, int (*)(const char*, mode_t), "mkdir", path, mode) }
int rename(const char* from, const char* to) { CHANGE(0, int (*)(const char*, const char*), "rename", from, to) }
int renameat2(int a, const char* from, int b, const char* to, unsigned flags) {
  CHANGE(0, int (*)(int, const char*, int, const char*, unsigned), "renameat2", a, from, b, to, flags)
}
int mkostemps(char* pattern, int suffix, int flags) {
  CHANGE(1, int (*)(char*, int, int), "mkostemps", pattern, suffix, flags)
}
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if (!(flags & O_CREAT)) return NEXT(int (*)(const char*, int, ...), "open")(path, flags, mode);
  CHANGE(1, int (*)(const char*, int, ...), "open", path, flags, mode)
}

__attribute__((destructor)) static void tell(void) {
  const char* path = getenv("FAULT_COUNT");
  FILE* file = path ? fopen(path, "w") : NULL;
  if (!file) return;
  fprintf(file, "%ld\n", (long)calls);
  fclose(file);
}

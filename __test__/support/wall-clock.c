// The wall clock of a process that loads this library before all others: that of the machine, and as many milliseconds
// later as the file says that PERDURE_TEST_CLOCK names. The processes of one file have one clock, as on one machine.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *later_ms;

__attribute__((constructor)) static void open_file(void) {
  const char *path = getenv("PERDURE_TEST_CLOCK");
  int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) abort();
  void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) abort();
  later_ms = mapped;
  close(file);
}

int clock_gettime(clockid_t id, struct timespec *time) {
  int result = (int)syscall(SYS_clock_gettime, id, time);
  if (result != 0 || later_ms == NULL || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return result;
  int64_t ns = time->tv_nsec + *later_ms % 1000 * 1000000;
  time->tv_sec += *later_ms / 1000 + (ns < 0 ? -1 : ns / 1000000000);
  time->tv_nsec = (ns + 1000000000) % 1000000000;
  return 0;
}

int gettimeofday(struct timeval *restrict shown, void *restrict zone) {
  (void)zone;
  struct timespec time;
  int result = clock_gettime(CLOCK_REALTIME, &time);
  shown->tv_sec = time.tv_sec;
  shown->tv_usec = time.tv_nsec / 1000;
  return result;
}

time_t time(time_t *shown) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (shown != NULL) *shown = now.tv_sec;
  return now.tv_sec;
}

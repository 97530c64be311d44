/* Preloaded into a program: the system refuses every thread. */
#include <errno.h>
#include <pthread.h>

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*work)(void*), void* argument) {
  (void)thread, (void)attributes, (void)work, (void)argument;
  return EAGAIN;
}

/**
 * \file forks.c
 * \brief A fork while another thread makes the first call of the driver. The driver maps memory meanwhile, by the
 *        program's own `mmap`, which lets the fork begin.
 */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static sem_t is_amid, is_forked;
static int waits;

/* Waits a while for the fork, which may have to wait for the call. */
void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t from) {
    if (__atomic_exchange_n(&waits, 0, __ATOMIC_SEQ_CST)) {
        struct timespec end;
        clock_gettime(CLOCK_REALTIME, &end);
        end.tv_sec += 1;
        sem_post(&is_amid);
        sem_timedwait(&is_forked, &end);
    }
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, file, from);
}

static void *forks(void *unused) {
    int status;
    pid_t child;
    sem_wait(&is_amid);
    child = fork();
    if (!child) {
        /* A call that hangs is ended. */
        alarm(10);
        _exit(cuInit(0) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    }
    sem_post(&is_forked);
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return unused;
}

int main(void) {
    pthread_t thread;
    sem_init(&is_amid, 0, 0);
    sem_init(&is_forked, 0, 0);
    CHECK(!pthread_create(&thread, NULL, forks, NULL));
    waits = 1;
    OK(cuInit(0));
    /* It was asked. */
    CHECK(!waits);
    CHECK(!pthread_join(thread, NULL));
    begin();
    return 0;
}

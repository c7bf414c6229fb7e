/**
 * \file remote_dies.c
 * \brief The plugin of `examples/plugin-c/remote.c`, whose helper is killed before a chosen call on the socket.
 *
 * `remote_calls` counts the calls of the host's side: two for a message and its answer, and one more for
 * each part of the bytes with them. Before number `remote_dies_before` the helper is killed, and is
 * gone when the call is made; 0 is never.
 */
#define _GNU_SOURCE

#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t fork_and_note(void);
static ssize_t send_counted(int to, const void *bytes, size_t count, int flags);
static ssize_t recv_counted(int from, void *bytes, size_t count, int flags);

#define _Fork fork_and_note
#define send send_counted
#define recv recv_counted
#include "../../examples/plugin-c/remote.c"
#undef _Fork
#undef send
#undef recv

XD_EXPORT extern unsigned remote_calls, remote_dies_before;
unsigned remote_calls, remote_dies_before;
static pid_t helper;
static int is_helper;

static pid_t fork_and_note(void) {
    pid_t made = _Fork();
    helper = made;
    is_helper = made == 0;
    return made;
}

static void count(void) {
    siginfo_t ended;
    if (!is_helper && ++remote_calls == remote_dies_before) {
        kill(helper, SIGKILL);
        /* Until it is gone: only the plugin collects it. */
        waitid(P_PID, (id_t)helper, &ended, WEXITED | WNOWAIT);
    }
}

static ssize_t send_counted(int to, const void *bytes, size_t length, int flags) {
    count();
    return send(to, bytes, length, flags);
}

static ssize_t recv_counted(int from, void *bytes, size_t length, int flags) {
    count();
    return recv(from, bytes, length, flags);
}

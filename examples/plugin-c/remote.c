/**
 * \file remote.c
 * \brief A plugin in C whose memory lives in another process: no address of it is one of this process.
 *
 *     cc -std=c99 -O2 -fPIC -shared -fvisibility=hidden -I sdk/include \
 *         examples/plugin-c/remote.c -o libremote.so -pthread
 *
 * `open` starts a helper process that holds the bytes. A hook that needs them is one message to the
 * helper and one answer, over a socket; what needs none of them is answered from a table here. When
 * the helper ends, at whatever moment, the socket says so at once: the hook that is waiting and every
 * later one that needs the bytes answers `XD_DEVICE_LOST`, and what is given back is simply forgotten.
 *
 * The helper is a fork of the host, so that one file is enough. It runs none of the host's code, but keeps
 * a copy of what the host had in memory: where that matters, start a program of your own in its place.
 */
#define _GNU_SOURCE /* for `_Fork` and `closefrom`, of glibc 2.34 */

#include <crossdock/plugin_support.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXT_DEV = 12, MOST_ALLOCATIONS = 4096, LARGEST_ALIGNMENT = 4096, LIMIT_SECONDS = 20 };
static const uint64_t TOTAL_BYTES = UINT64_C(1) << 30;
/** Set in each handle: no address of a process has this bit, so one that is mistaken for an address traps. */
static const uint64_t HANDLE_BIT = UINT64_C(1) << 63;

XD_PLUGIN_DESCRIBE("name=remote", "vendor=crossdock", "version=1.0.0", "devices=ext_dev");

/** An allocation; a `size` of 0 is an empty place, and a `word` of 0 one that nobody was given yet. */
typedef struct allocation {
    uint64_t word, size;
    /** Its address in the helper, which means nothing here. */
    uint64_t there;
} allocation;

/** One open plugin. */
typedef struct remote {
    const xd_host_services *host;
    pid_t helper;
    /** Shut down once the helper is lost, and closed by `close` alone: so it is never another file's. */
    int socket;
    /** One message at a time; held until the answer is there. */
    pthread_mutex_t wire;
    int is_told; /* Whether the loss stands in the log; guarded by `wire`. */
    /** Guards what follows; never held while the helper is asked. */
    pthread_mutex_t lock;
    xd_status refused; /* `XD_OK`, or why there is no new work. */
    uint64_t used_bytes;
    allocation allocations[MOST_ALLOCATIONS];
} remote;

/** Numbers allocations, in all open plugins of the process: never reused. */
static uint64_t next_id = 1;

/* --- What goes over the socket --- */

enum { ALLOCATE, FREE, WRITE, READ, COPY };

/** What the helper is asked for. Behind WRITE come the bytes. */
typedef struct message {
    uint64_t what, there, from, bytes;
} message;

/** What it answers. Behind READ come the bytes. */
typedef struct answer {
    uint64_t status, there;
} answer;

/** Sends all of it, without a signal where nobody reads any more; whether that worked. */
static int send_all(int to, const void *bytes, uint64_t count) {
    const char *at = (const char *)bytes;
    while (count > 0) {
        ssize_t sent = send(to, at, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent <= 0) {
            return 0;
        }
        at += sent;
        count -= (uint64_t)sent;
    }
    return 1;
}

/** Receives all of it; whether that worked. */
static int receive_all(int from, void *bytes, uint64_t count) {
    char *at = (char *)bytes;
    while (count > 0) {
        ssize_t received = recv(from, at, count, 0);
        if (received < 0 && errno == EINTR) {
            continue;
        }
        if (received <= 0) {
            return 0;
        }
        at += received;
        count -= (uint64_t)received;
    }
    return 1;
}

/* --- The helper --- */

/** Answers until the host closes its end. In the child of a process with threads only what is safe in
 * a signal handler may be called: no `malloc`, no lock, nothing of the host.
 */
static void serve(int host) {
    message asked;
    while (receive_all(host, &asked, sizeof asked)) {
        answer given = {XD_OK, 0};
        void *there = (void *)(uintptr_t)asked.there;
        if (asked.what == ALLOCATE) {
            void *made = mmap(NULL, asked.bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            given.status = made == MAP_FAILED ? XD_OOM_DEVICE : XD_OK;
            given.there = (uint64_t)(uintptr_t)made;
        } else if (asked.what == FREE) {
            munmap(there, asked.bytes);
        } else if (asked.what == COPY) {
            memcpy(there, (const void *)(uintptr_t)asked.from, asked.bytes);
        } else if (asked.what == WRITE && !receive_all(host, there, asked.bytes)) {
            break;
        }
        if (!send_all(host, &given, sizeof given) ||
            (asked.what == READ && !send_all(host, there, asked.bytes))) {
            break;
        }
    }
    _exit(0);
}

/** Starts a helper at this socket; its process, or -1. */
static pid_t start(int its_socket) {
    sigset_t all, before;
    sigfillset(&all);
    /* The child keeps all signals blocked: what the host does about them is none of its business. */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    /* As `fork`, without the handlers that the host and its libraries registered for one. */
    pid_t helper = _Fork();
    if (helper == 0) {
        dup2(its_socket, STDIN_FILENO);
        /* The host's other end is among them: while the child had it, it would never see it closed. */
        closefrom(STDIN_FILENO + 1);
        serve(STDIN_FILENO);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return helper;
}

/* --- The host's side --- */

static remote *of(xd_plugin_handle plugin) { return (remote *)(uintptr_t)plugin; }

/** Sends a message with the bytes behind it, if any, and takes the answer with those behind that, if any.
 * A helper that does not answer is lost: its socket is shut down, and every later message fails.
 */
static xd_status ask(remote *it, const char *operation, const message *asked, const void *sent,
                     void *received, uint64_t *there, xd_plugin_error **error) {
    answer given;
    pthread_mutex_lock(&it->wire);
    int answered = send_all(it->socket, asked, sizeof *asked) &&
                   (!sent || send_all(it->socket, sent, asked->bytes)) &&
                   receive_all(it->socket, &given, sizeof given) &&
                   (!received || receive_all(it->socket, received, asked->bytes));
    if (!answered) {
        shutdown(it->socket, SHUT_RDWR);
        if (!it->is_told++) {
            xd_plugin_log(it->host, 1, "remote", "the helper process ended, and its memory with it");
        }
    }
    pthread_mutex_unlock(&it->wire);
    if (!answered) {
        return xd_plugin_fail(XD_DEVICE_LOST, operation, "the process that has the memory ended",
                              error);
    }
    if (given.status != XD_OK) {
        return xd_plugin_fail((xd_status)given.status, operation, "the helper has no memory left",
                              error);
    }
    if (there) {
        *there = given.there;
    }
    return XD_OK;
}

/** Whether the helper ended, without asking it. */
static int is_lost(const remote *it) {
    struct pollfd look = {it->socket, 0, 0};
    return poll(&look, 1, 0) > 0 && (look.revents & POLLHUP);
}

static xd_status remote_probe(xd_probe_info *out, xd_plugin_error **error) {
    (void)error;
    memset(out, 0, sizeof *out);
    out->state = XD_PROBE_READY;
    out->device_count = 1;
    return XD_OK;
}

static xd_status vendor(const char *call, xd_plugin_error **error) {
    int why = errno;
    return xd_plugin_fail_native(XD_VENDOR, call, why, strerrorname_np(why), error,
                                 "no helper process could be started: %s", strerrordesc_np(why));
}

static xd_status remote_open(const xd_host_services *host, xd_plugin_handle *out,
                             xd_plugin_error **error) {
    int ends[2];
    const struct timeval limit = {LIMIT_SECONDS, 0};
    remote *it = (remote *)calloc(1, sizeof *it);
    if (!it) {
        return xd_plugin_fail(XD_OOM_HOST, "open", "no memory for the table of allocations", error);
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        free(it);
        return vendor("socketpair", error);
    }
    it->host = host;
    it->socket = ends[0];
    it->helper = start(ends[1]);
    if (it->helper < 0) {
        xd_status status = vendor("fork", error);
        close(ends[0]);
        close(ends[1]);
        free(it);
        return status;
    }
    close(ends[1]);
    /* A helper that was stopped and not killed counts as lost as well. */
    setsockopt(it->socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(it->socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    pthread_mutex_init(&it->wire, NULL);
    pthread_mutex_init(&it->lock, NULL);
    *out = (uint64_t)(uintptr_t)it;
    return XD_OK;
}

static xd_status remote_device_count(xd_plugin_handle plugin, uint32_t *out,
                                     xd_plugin_error **error) {
    (void)plugin, (void)error;
    *out = 1;
    return XD_OK;
}

static xd_status remote_device_info(xd_plugin_handle plugin, uint32_t device, xd_device_info *out,
                                    xd_plugin_error **error) {
    (void)plugin;
    if (device != 0) {
        return xd_plugin_fail(XD_INVALID, "device_info", "there is one device, with index 0",
                              error);
    }
    memset(out, 0, sizeof *out);
    out->dl_type = EXT_DEV;
    xd_plugin_copy_text(out->name, sizeof out->name, "Memory of another process");
    out->total_memory = TOTAL_BYTES;
    out->address_form = XD_ADDRESS_HANDLE;
    return XD_OK;
}

static xd_status remote_memory_info(xd_plugin_handle plugin, uint32_t device, xd_memory_info *out,
                                    xd_plugin_error **error) {
    remote *it = of(plugin);
    if (device != 0) {
        return xd_plugin_fail(XD_INVALID, "memory_info", "there is one device, with index 0",
                              error);
    }
    if (is_lost(it)) {
        return xd_plugin_fail(XD_DEVICE_LOST, "memory_info",
                              "the process that has the memory ended", error);
    }
    pthread_mutex_lock(&it->lock);
    out->free = TOTAL_BYTES - it->used_bytes;
    pthread_mutex_unlock(&it->lock);
    out->total = TOTAL_BYTES;
    return XD_OK;
}

/** The allocation that an address is in, or NULL. The caller holds `lock`. */
static allocation *find(remote *it, const xd_address *address) {
    /* The place is part of the handle, which is compared as a whole and never followed. */
    allocation *at = &it->allocations[(address->word >> 8) % MOST_ALLOCATIONS];
    int is_it = address->form == XD_ADDRESS_HANDLE && address->word != 0 &&
                at->word == address->word && address->offset < at->size;
    return is_it ? at : NULL;
}

/** Gives a place back. The caller holds `lock`. */
static void clear(remote *it, allocation *at) {
    it->used_bytes -= at->size;
    memset(at, 0, sizeof *at);
}

static xd_status remote_allocate(xd_plugin_handle plugin, const xd_allocate_args *args,
                                 xd_address *out, xd_plugin_error **error) {
    remote *it = of(plugin);
    message asked = {ALLOCATE, 0, 0, args->size};
    uint64_t place = 0;
    if (args->device != 0) {
        return xd_plugin_fail(XD_INVALID, "allocate", "there is one device, with index 0", error);
    }
    if (args->kind != XD_MEMORY_DEVICE || args->alignment > LARGEST_ALIGNMENT) {
        return xd_plugin_fail(XD_UNSUPPORTED, "allocate",
                              "only device memory is offered, aligned to a page at most", error);
    }
    pthread_mutex_lock(&it->lock);
    xd_status status = it->refused;
    while (place < MOST_ALLOCATIONS && it->allocations[place].size) {
        place++;
    }
    if (status == XD_OK && (place == MOST_ALLOCATIONS || args->size > TOTAL_BYTES - it->used_bytes)) {
        status = XD_OOM_DEVICE;
    }
    allocation *at = &it->allocations[place];
    if (status == XD_OK) {
        at->size = args->size;
        it->used_bytes += args->size;
    }
    pthread_mutex_unlock(&it->lock);
    if (status != XD_OK) {
        return xd_plugin_fail(status, "allocate", "no memory is left, or no new work is taken",
                              error);
    }
    uint64_t there = 0;
    status = ask(it, "allocate", &asked, NULL, NULL, &there, error);
    pthread_mutex_lock(&it->lock);
    if (status == XD_OK) {
        uint64_t id = __atomic_fetch_add(&next_id, 1, __ATOMIC_RELAXED);
        at->there = there;
        at->word = HANDLE_BIT | id << 20 | place << 8;
        memset(out, 0, sizeof *out);
        out->word = at->word;
        out->form = XD_ADDRESS_HANDLE;
    } else {
        clear(it, at);
    }
    pthread_mutex_unlock(&it->lock);
    return status;
}

/** Memory of a helper that ended went with it, so that nothing is left to fail. */
static xd_status remote_free(xd_plugin_handle plugin, const xd_address *address,
                             xd_memory_kind kind, xd_plugin_error **error) {
    remote *it = of(plugin);
    message asked = {FREE, 0, 0, 0};
    pthread_mutex_lock(&it->lock);
    allocation *at = kind == XD_MEMORY_DEVICE && address->offset == 0 ? find(it, address) : NULL;
    if (at) {
        asked.there = at->there;
        asked.bytes = at->size;
        clear(it, at);
    }
    pthread_mutex_unlock(&it->lock);
    if (!at) {
        return xd_plugin_fail(XD_NOT_OWNER, "free", "not an allocation of this plugin, from its start",
                              error);
    }
    ask(it, "free", &asked, NULL, NULL, NULL, NULL);
    return XD_OK;
}

/** Where a side of a copy is: an address of the host's, or one in the helper. */
static xd_status reach(remote *it, const xd_side *side, uint64_t bytes, uint64_t *out) {
    if (side->kind == XD_MEMORY_HOST) {
        *out = xd_plugin_pointer(&side->address);
        return *out ? XD_OK : XD_INVALID;
    }
    if (side->device != 0) {
        return XD_INVALID;
    }
    xd_status status = XD_NOT_OWNER;
    pthread_mutex_lock(&it->lock);
    const allocation *at = side->kind == XD_MEMORY_DEVICE ? find(it, &side->address) : NULL;
    if (it->refused != XD_OK) {
        status = it->refused;
    } else if (at) {
        *out = at->there + side->address.offset;
        status = xd_plugin_inside(side->address.offset, bytes, at->size) ? XD_OK : XD_INVALID;
    }
    pthread_mutex_unlock(&it->lock);
    return status;
}

static xd_status remote_copy(xd_plugin_handle plugin, const xd_copy_args *args,
                             xd_stream_handle stream, xd_plugin_error **error) {
    remote *it = of(plugin);
    int from_host = args->src.kind == XD_MEMORY_HOST, to_host = args->dst.kind == XD_MEMORY_HOST;
    uint64_t dst = 0, src = 0;
    if (from_host && to_host) {
        return xd_plugin_fail(XD_UNSUPPORTED, "copy", "both sides are the host's", error);
    }
    xd_status status = stream == XD_STREAM_NONE ? XD_OK : XD_INVALID;
    status = status == XD_OK ? reach(it, &args->dst, args->bytes, &dst) : status;
    status = status == XD_OK ? reach(it, &args->src, args->bytes, &src) : status;
    if (status != XD_OK) {
        return xd_plugin_fail(status, "copy",
                              "no such memory, or not so much of it; or no new work is taken", error);
    }
    if (from_host) {
        message asked = {WRITE, dst, 0, args->bytes};
        return ask(it, "copy", &asked, (const void *)(uintptr_t)src, NULL, NULL, error);
    }
    if (to_host) {
        message asked = {READ, src, 0, args->bytes};
        return ask(it, "copy", &asked, NULL, (void *)(uintptr_t)dst, NULL, error);
    }
    if (xd_plugin_overlap(dst, src, args->bytes)) {
        return xd_plugin_fail(XD_INVALID, "copy", "the sides overlap", error);
    }
    message asked = {COPY, dst, src, args->bytes};
    return ask(it, "copy", &asked, NULL, NULL, NULL, error);
}

/** Needs nothing of the helper, so it is answered when that is lost too. */
static xd_status remote_pointer_query(xd_plugin_handle plugin, const xd_address *address,
                                      xd_pointer_info *out, xd_plugin_error **error) {
    (void)error;
    remote *it = of(plugin);
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&it->lock);
    const allocation *at = find(it, address);
    if (at) {
        out->kind = XD_MEMORY_DEVICE;
        out->base.word = at->word;
        out->base.form = XD_ADDRESS_HANDLE;
        out->size = at->size;
        out->allocation_id = at->word;
    }
    pthread_mutex_unlock(&it->lock);
    return XD_OK;
}

static xd_status remote_retire(xd_plugin_handle plugin, uint64_t deadline_ns,
                               xd_plugin_error **error) {
    (void)deadline_ns, (void)error;
    remote *it = of(plugin);
    pthread_mutex_lock(&it->lock);
    it->refused = XD_RETIRED;
    pthread_mutex_unlock(&it->lock);
    return XD_OK;
}

/** The helper is the parent's: the child lets go of its copy of the socket, or the helper would not end
 * before both do. A lock may be held by a thread that the child does not have, so none is taken. */
static void remote_at_fork_child(xd_plugin_handle plugin) { close(of(plugin)->socket); }

/* The process closes the socket as it ends, and the helper ends by that. */
static void remote_at_exit(xd_plugin_handle plugin) { (void)plugin; }

static xd_status remote_close(xd_plugin_handle plugin, xd_plugin_error **error) {
    (void)error;
    remote *it = of(plugin);
    close(it->socket);
    /* It has nothing to finish. Its number can name a foreign process by now, since a host may collect
     * all children; a descriptor of the process cannot. Without one it ends by the closed socket. */
    int process = (int)syscall(SYS_pidfd_open, it->helper, 0);
    if (process >= 0 && waitpid(it->helper, NULL, WNOHANG) == 0) {
        syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0);
        while (waitpid(it->helper, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    if (process >= 0) {
        close(process);
    }
    pthread_mutex_destroy(&it->wire);
    pthread_mutex_destroy(&it->lock);
    free(it);
    return XD_OK;
}

const xd_plugin_table *crossdock_plugin(void) {
    static const xd_plugin_table table = {
        .struct_size = sizeof(xd_plugin_table),
        .abi_major = XD_ABI_MAJOR,
        .abi_minor = XD_ABI_MINOR,
        .query_cost = XD_QUERY_TABLE,
        .description = (const uint8_t *)crossdock_description,
        .error_free = xd_plugin_error_free,
        .probe = remote_probe,
        .open = remote_open,
        .device_count = remote_device_count,
        .device_info = remote_device_info,
        .memory_info = remote_memory_info,
        .allocate = remote_allocate,
        .free = remote_free,
        .copy = remote_copy,
        .pointer_query = remote_pointer_query,
        .retire = remote_retire,
        .at_fork_child = remote_at_fork_child,
        .at_exit = remote_at_exit,
        .close = remote_close,
    };
    return &table;
}

/**
 * \file crossdock.h
 * \brief Crossdock for C: devices, tensors, streams and the routes between them.
 *
 * C99 and later, C++17 and later. Link `libcrossdock.so.1`, or call through the table of
 * ::xd_get_api: both are the same functions.
 *
 * What holds for every function, unless it says otherwise:
 *
 * - Threads: any, also at once. Handles may be shared between threads.
 * - Failure: a function that can fail returns an `xd_error *`, NULL when it worked. The caller owns
 *   it and gives it to ::xd_error_free. Out parameters are written only when it worked.
 * - NULL: a NULL argument is an error (`XD_INVALID`), not a crash. Accessors answer 0 or the empty
 *   text for a NULL handle, and every `_free` does nothing.
 * - Handles are counted. A handle in an out parameter is the caller's, who gives it back by the
 *   `_free` of its type; `_retain` gives the same handle once more, to be given back as well. The
 *   order does not matter: a tensor keeps its device, and a device its plugin. A handle that was
 *   given back, or that never was one, cannot be told from a live one: using it is undefined.
 * - Texts are UTF-8 and end with a NUL. One that a handle lends is valid until the handle is given
 *   back.
 * - Options are structs that begin with `struct_size`: set it to `sizeof`, and what is not wanted
 *   to zero (`xd_move_options options = {.struct_size = sizeof options};`). Zero is the default,
 *   and so is a NULL pointer. Unknown flags and numbers are errors.
 * - Limits are nanoseconds from the call on; `XD_NO_LIMIT` is none. As an argument 0 looks once and does not
 *   wait; in options 0 is the default, as everywhere. One that passes is the error `XD_TIMEOUT`.
 *
 * Order, in short (`docs/order.md` has an example):
 *
 * - Calls of this library order themselves, across plugins too: each comes after the work of earlier
 *   calls that its tensors depend on. Events are for work of yours.
 * - A call that takes a stream takes one of any device, also of a device that holds neither tensor.
 * - Work of yours on a stream stands between ::xd_tensor_wait_to_read or ::xd_tensor_wait_to_write before
 *   it, and ::xd_tensor_used_on or ::xd_tensor_written_on after it.
 * - No blocking call but those with a `limit_ns` has a limit: to read, write, fill, copy or move behind
 *   work that may not end, synchronize the stream or the tensor with a limit first.
 * - After work on a stream that failed, each use that reads the tensor it was to write fails, until all of
 *   that is written again. A stream tells of the failure once, an event each time, and what waits for it
 *   fails with it.
 * - Memory that work still uses lives on, and counts, until the work is over. No `_free` waits for
 *   work, ::xd_runtime_free neither; ::xd_runtime_wait_for_releases does, and needs the runtime.
 *
 * After a fork, handles of the parent answer `XD_FORKED` in the child, which opens a runtime of its
 * own. Tensors in host memory are tensors of others on its `cpu:0` there, unless work on them was not
 * known to be over at the fork. A plugin whose driver the parent started is not opened in the child:
 * that needs a process that is spawned. Once the process exits, what is given back is left to the
 * system and counted (::xd_counted_leaks); so is in a child what was the parent's.
 */
#ifndef CROSSDOCK_CROSSDOCK_H
#define CROSSDOCK_CROSSDOCK_H

#include <crossdock/plugin_types.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The version of the table: another major one cannot be used. */
#define XD_API_MAJOR 1u
/** It is raised when functions are added at the table's end. */
#define XD_API_MINOR 0u
/** As a limit: none, so that a wait takes as long as it takes. */
#define XD_NO_LIMIT UINT64_MAX
/** A cost that is not known. */
#define XD_COST_UNKNOWN UINT64_MAX
/** Room for every name of a dtype or device, with its NUL. */
#define XD_NAME_BYTES 64
/** Room for a place in a script, with its NUL. */
#define XD_PLACE_BYTES 256

/** DLPack's structs. `crossdock/dlpack.h` has them for those who lack `dlpack/dlpack.h`. */
struct DLManagedTensorVersioned;
struct DLManagedTensor;

/** Why a function failed. */
typedef struct xd_error xd_error;
/** A running Crossdock. Two are the same when their addresses are. */
typedef struct xd_runtime xd_runtime;
/** A registered plugin. */
typedef struct xd_plugin xd_plugin;
/** A device. */
typedef struct xd_device xd_device;
/** A typed view of memory on one device. */
typedef struct xd_tensor xd_tensor;
/** An ordered queue of work on one device. */
typedef struct xd_stream xd_stream;
/** A point in a stream's work, or one that the host completes. */
typedef struct xd_event xd_event;
/** Host memory that is locked for a device. */
typedef struct xd_registration xd_registration;
/** How a tensor reached, or would reach, a device. */
typedef struct xd_route xd_route;
/** The Python of this process. */
typedef struct xd_script xd_script;
/** A namespace in which scripts run. */
typedef struct xd_session xd_session;
/** Where a function that a script calls puts its answer. */
typedef struct xd_answer xd_answer;

/** What kind of failure an error is (::xd_error_kind). */
typedef uint32_t xd_failure_kind;
/** No error: the answer for NULL. */
#define XD_ERROR_NONE 0u
/** An argument is wrong: fix the call. */
#define XD_ERROR_MISUSE 1u
/** A plugin file cannot be used: fix the file or its place. */
#define XD_ERROR_LOAD 2u
/** A hook of a plugin failed; native code and name say more. */
#define XD_ERROR_HOOK 3u
/** No plugin offers this device. */
#define XD_ERROR_UNKNOWN_DEVICE 4u
/** A tensor is not what it claims, or DLPack cannot represent it. */
#define XD_ERROR_EXCHANGE 5u
/** A producer's claim and the pointer query contradict each other. */
#define XD_ERROR_CLAIM 6u
/** No route works; ::xd_error_why names each with its reason. */
#define XD_ERROR_REFUSED 7u
/** It would take a copy, and copies were forbidden. */
#define XD_ERROR_COPY_REQUIRED 8u
/** A panic was caught in this library: a bug in Crossdock. */
#define XD_ERROR_PANIC 9u
/** Another failure, newer than this list. */
#define XD_ERROR_OTHER 10u
/** No usable Python: the reason names each place that was looked at. */
#define XD_ERROR_NO_PYTHON 11u
/** A Python that is not what it should be, or a second one in the process. */
#define XD_ERROR_PYTHON_MISMATCH 12u
/** A script raised an exception: ::xd_error_exception, ::xd_error_traceback. */
#define XD_ERROR_SCRIPT 13u
/** A script asked to end: ::xd_error_exit_code, which may be 0. */
#define XD_ERROR_SCRIPT_EXIT 14u
/** A script was interrupted. */
#define XD_ERROR_SCRIPT_INTERRUPTED 15u
/** A script took too long and was stopped. */
#define XD_ERROR_SCRIPT_TIMEOUT 16u
/** A script took too long and still runs: native code, or it catches what stops it. */
#define XD_ERROR_SCRIPT_STUCK 17u
/** Another script runs, and the call does not wait, or is made by that script or on a thread that a
 * script started.
 */
#define XD_ERROR_SCRIPT_BUSY 18u
/** Python, or the process, ends. */
#define XD_ERROR_SCRIPT_CLOSED 19u

/** What kind of value an xd_value is. */
typedef uint32_t xd_value_kind;
/** `None`. */
#define XD_VALUE_NONE 0u
/** `bool`. */
#define XD_VALUE_BOOL 1u
/** `int`, of at most 64 bits. */
#define XD_VALUE_INT 2u
/** `float`. */
#define XD_VALUE_FLOAT 3u
/** `str`. */
#define XD_VALUE_TEXT 4u
/** `bytes`. */
#define XD_VALUE_BYTES 5u
/** A tensor: `crossdock.Tensor` in the script, over the same memory. */
#define XD_VALUE_TENSOR 6u
/** `list`; of a script also `tuple`. */
#define XD_VALUE_LIST 7u
/** `dict`, in its order. */
#define XD_VALUE_DICT 8u

/** What an interrupt came to. */
typedef uint32_t xd_stop_outcome;
/** The script was stopped, or handled the exception; what waited was not begun. */
#define XD_STOP_DELIVERED 0u
/** Nothing ran, or it had ended before the interrupt came. Nobody else is hit by it. */
#define XD_STOP_IDLE 1u
/** It runs on for now: in native code, or it catches the exception. */
#define XD_STOP_PENDING 2u

/** What a session does. */
typedef uint32_t xd_session_state_kind;
/** Nothing. */
#define XD_SESSION_IDLE 0u
/** It waits for its turn. */
#define XD_SESSION_WAITING 1u
/** It runs a script. */
#define XD_SESSION_RUNNING 2u
/** Its script was asked to stop and has not yet. */
#define XD_SESSION_STOPPING 3u
/** Its script did not stop, and nobody waits for it any more. */
#define XD_SESSION_STUCK 4u

/** How a tensor reaches a device, or is to reach it. */
typedef uint32_t xd_route_mode;
/** As a wish: the best that works. Never an answer. */
#define XD_ROUTE_BEST 0u
/** The same memory; nothing is copied. */
#define XD_ROUTE_ALIAS 1u
/** One copy, made by one plugin. */
#define XD_ROUTE_DIRECT 2u
/** Through host memory, in chunks. */
#define XD_ROUTE_STAGED 3u
/** As an answer: none works. */
#define XD_ROUTE_REFUSED 4u

/** Whether a move may or must copy, as the array API's `copy` says it. */
typedef uint32_t xd_copy_mode;
/** `None`: only where it is needed. */
#define XD_COPY_IF_NEEDED 0u
/** `False`: the error `XD_ERROR_COPY_REQUIRED` where it is needed. */
#define XD_COPY_NEVER 1u
/** `True`: always, also on the same device. */
#define XD_COPY_ALWAYS 2u

/** Who keeps the order when a tensor is handed out. */
typedef uint32_t xd_order;
/** It is ready when the function returns: the CPU waits for work that writes it. Before you write memory
 *  that a copy on a stream may still read, call ::xd_stream_synchronize on that stream. */
#define XD_ORDER_READY 0u
/** The given stream waits: what comes on it later may read the tensor, and write it unless it is
 *  read-only. */
#define XD_ORDER_STREAM 1u
/** The consumer: nothing waits, as DLPack's stream -1 asks. */
#define XD_ORDER_UNORDERED 2u

/** How a stream waits for an event. */
typedef uint32_t xd_wait_kind;
/** Inside one plugin; or not at all: the event had happened already. */
#define XD_WAIT_NATIVE 0u
/** By an event that the host completes; no thread waits. */
#define XD_WAIT_HOST_EVENT 1u
/** By an event that a thread of the host completes when it has waited. */
#define XD_WAIT_HOST_THREAD 2u
/** The caller waited: the event has happened. */
#define XD_WAIT_BLOCKED 3u

/** Flags of xd_runtime_options. */
typedef uint32_t xd_runtime_flags;
/** Search no folder but those of the options: neither `CROSSDOCK_PLUGIN_PATH` nor the standard folders. Other
 * variables of the environment count all the same.
 */
#define XD_RUNTIME_NO_SEARCH 1u

/** Flags of xd_memory. */
typedef uint32_t xd_memory_flags;
/** Nobody may write through the tensor. */
#define XD_MEMORY_FLAG_READ_ONLY 1u
/** The plugin that owns the address says on which device it lies, as for the CUDA array interface, which names
 *  none: `device` counts only where there is no element. An address that no plugin knows is refused as
 *  `XD_ERROR_UNKNOWN_DEVICE`. It starts the drivers that ::xd_pointer_query starts.
 */
#define XD_MEMORY_FLAG_FIND_DEVICE 2u

/** Flags of xd_export_options. */
typedef uint32_t xd_export_flags;
/** The tensor is a copy made for the consumer (DLPack's `IS_COPIED`). */
#define XD_EXPORT_IS_COPIED 1u

/** Flags of xd_session_options. */
typedef uint32_t xd_session_flags;
/** While another script runs, calls fail as `XD_ERROR_SCRIPT_BUSY` and do not wait for their turn. */
#define XD_SESSION_FLAG_NEVER_WAITS 1u

/** The type of one element: code, bits of one lane, lanes. The layout of `DLDataType`. */
typedef struct xd_dtype {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} xd_dtype;

/** A device's type and id. The layout of `DLDevice`. */
typedef struct xd_dl_device {
    int32_t device_type;
    int32_t device_id;
} xd_dl_device;

/** Dtype, shape and strides; the arrays have `ndim` numbers each and are lent for the call. */
typedef struct xd_layout {
    xd_dtype dtype;
    /** At most 64. */
    uint32_t ndim;
    /** The extents, none below 0; may be NULL where `ndim` is 0. */
    const int64_t *shape;
    /** The strides in elements; NULL: compact row-major order. */
    const int64_t *strides;
    /** Not 0: elements smaller than a byte take whole bytes. */
    uint32_t padded;
    uint32_t reserved;
} xd_layout;

/** Which indexes of one axis a slice takes. */
typedef struct xd_axis_slice {
    /** The first index. */
    int64_t start;
    /** From one index to the next; may be negative, not zero. */
    int64_t step;
    /** How many indexes. */
    int64_t len;
} xd_axis_slice;

/** What a tensor is. The arrays are lent by the tensor's handle; NULL where `ndim` is 0. */
typedef struct xd_tensor_info {
    /** Where DLPack says that it is: `cuda_host:0` and the like for pinned and managed memory. */
    xd_dl_device device;
    xd_dtype dtype;
    uint32_t ndim;
    /** The extents. */
    const int64_t *shape;
    /** The strides, in elements. */
    const int64_t *strides;
    /** Elements. */
    uint64_t numel;
    /** Bytes of the elements when they lie compact. */
    uint64_t nbytes;
    /** Address or handle, by `form`; 0 where there is no element. */
    uint64_t data;
    /** Bytes from `data` to the first element; 0 for addresses, which have it added already. */
    uint64_t byte_offset;
    xd_address_form form;
    xd_memory_kind memory_kind;
    /** Not 0: writing is refused. */
    uint32_t read_only;
    /** Not 0: the elements lie in compact row-major order. */
    uint32_t contiguous;
    /** Not 0: elements smaller than a byte take whole bytes. */
    uint32_t padded;
    uint32_t reserved;
} xd_tensor_info;

/** What was registered at one moment, in the order of registration. The list lends its handles: what is
 * retired later stays usable through it until the list is given back, and `_retain` keeps one longer.
 */
typedef struct xd_device_list {
    uint64_t count;
    const xd_device *const *items;
} xd_device_list;

/** As xd_device_list, of plugins. */
typedef struct xd_plugin_list {
    uint64_t count;
    const xd_plugin *const *items;
} xd_plugin_list;

/** As xd_device_list, of errors. */
typedef struct xd_error_list {
    uint64_t count;
    const xd_error *const *items;
} xd_error_list;

/** How a runtime is opened. What is NULL or 0 is as the variable of the environment says, which a privileged
 * process does not read.
 */
typedef struct xd_runtime_options {
    uint64_t struct_size;
    /** `XD_RUNTIME_NO_SEARCH` or 0. */
    xd_runtime_flags flags;
    uint32_t reserved;
    /** Plugin files to load first; one that cannot be loaded is an error. */
    const char *const *plugins;
    uint64_t plugin_count;
    /** Folders to look into before the environment's. */
    const char *const *folders;
    uint64_t folder_count;
    /** Layers around each plugin that this runtime opens first, nearest to the caller first: `validate`,
     * before those of `CROSSDOCK_LAYERS`. A name that is no layer's is an error.
     */
    const char *layers;
    /** Rules that fail chosen calls of hooks, as in `CROSSDOCK_FAULT`; they ask for the layer `fault`. */
    const char *fault;
    /** The devices with the first ids of their types: uuids, PCI bus ids or `PLUGIN:INDEX`, with `,` between
     * them. Goes before `CROSSDOCK_DEVICE_ORDER`. An order starts the drivers of all plugins.
     */
    const char *device_order;
    /** Where measured costs of copies are kept, as `CROSSDOCK_COSTS`: a file, `memory`, or `off`. */
    const char *costs;
    /** Bytes of host memory that one staged copy may use, as `CROSSDOCK_STAGING_BYTES`. */
    uint64_t staging_bytes;
} xd_runtime_options;

/** Memory with an owner. */
typedef struct xd_memory {
    uint64_t struct_size;
    /** Where the memory is claimed to be; the plugins are asked whether that is so. */
    xd_dl_device device;
    /** Its address, or its handle on devices that have handles (`cl_mem`). */
    void *data;
    /** Bytes from `data` to the first element. */
    uint64_t byte_offset;
    xd_layout layout;
    /** `XD_MEMORY_FLAG_READ_ONLY` and `XD_MEMORY_FLAG_FIND_DEVICE`, or 0. */
    xd_memory_flags flags;
    uint32_t reserved;
    /** Passed to `release`. */
    void *owner;
    /** Gives the memory back: called once, on any thread, with no lock held. It must not throw. May be
     * NULL: then the memory outlives the tensor, its views and exports, and all work on them.
     */
    void (*release)(void *owner);
    /** The stream whose work writes the memory; NULL: it is ready. Lent for the call. As with
     * ::xd_tensor_ready_on, `release` does not wait for this work: the owner keeps the memory until then.
     */
    const xd_stream *stream;
} xd_memory;

/** How a tensor is taken. */
typedef struct xd_import_options {
    uint64_t struct_size;
    /** The stream, of any device, whose work writes the memory: the content is ready behind what is on it
     * now, as ::xd_tensor_ready_on says, in the same call. NULL: it is ready.
     */
    const xd_stream *stream;
    /** Where it is wanted: it is moved there as ::xd_tensor_to moves it, in the order of `stream` where
     * there is one. NULL: where it is.
     */
    const xd_device *device;
    /** `XD_COPY_IF_NEEDED`, `XD_COPY_NEVER` or `XD_COPY_ALWAYS`: a tensor of its own, also on the same
     * device.
     */
    xd_copy_mode copy;
    /** The kind of memory that is wanted there, as in ::xd_move_options; 0: any. */
    xd_memory_kind kind;
} xd_import_options;

/** How a new tensor is allocated. */
typedef struct xd_empty_options {
    uint64_t struct_size;
    /** `XD_MEMORY_DEVICE` or 0; `XD_MEMORY_PINNED` or `XD_MEMORY_MANAGED` where the device has
     * `XD_CAP_PINNED` or `XD_CAP_MANAGED`.
     */
    xd_memory_kind kind;
    uint32_t reserved;
    /** A stream of the device, in whose order device memory is allocated where the plugin can do that: the
     * call does not wait for the device, and every use through this library comes behind that place of the
     * stream. Work of yours on another stream needs ::xd_tensor_wait_to_write. NULL: it may be used at once.
     */
    const xd_stream *stream;
} xd_empty_options;

/** How a tensor is handed out. */
typedef struct xd_export_options {
    uint64_t struct_size;
    /** `XD_EXPORT_IS_COPIED` or 0. */
    xd_export_flags flags;
    /** `XD_ORDER_READY`, `XD_ORDER_STREAM` or `XD_ORDER_UNORDERED`. */
    xd_order order;
    /** The stream of `XD_ORDER_STREAM`, of any device; else NULL. The export does not know of work that
     * is put there later: call the deleter when that work is over, or say ::xd_tensor_used_on or
     * ::xd_tensor_written_on first.
     */
    const xd_stream *stream;
} xd_export_options;

/** How a tensor is moved. */
typedef struct xd_move_options {
    uint64_t struct_size;
    /** `XD_ROUTE_BEST`, or the only route that is allowed. */
    xd_route_mode route;
    /** `XD_COPY_IF_NEEDED`, `XD_COPY_NEVER` or `XD_COPY_ALWAYS`. */
    xd_copy_mode copy;
    /** 0: what is on the device is there, of whatever kind, and new memory is the device's own. Else
     * `XD_MEMORY_DEVICE`, `XD_MEMORY_PINNED` or `XD_MEMORY_MANAGED`: what is of another kind is copied, on
     * the same device too.
     */
    xd_memory_kind kind;
    uint32_t reserved;
    /** The stream, of any device, that orders the move. NULL: the move is done when the function returns.
     * With a stream, a copy returns without waiting, on a direct route and through host memory, except:
     * - a copy through host memory of more than 1 GiB, which waits for its oldest parts;
     * - a copy through host memory if a device lacks streams, host events or host functions;
     * - a copy of a tensor that is not compact, on a wrapped queue of another OpenCL context;
     * - an alias that is adopted or mapped.
     *
     * These wait for work on the stream, without a time limit. If the stream waits for an event that only
     * this thread can complete, the call deadlocks. ::xd_tensor_explain reports whether a call waits.
     */
    const xd_stream *stream;
} xd_move_options;

/** A value that a script is given, or gives. Only the fields of its kind count.
 *
 * Passed in, `data`, `tensor` and `items` are lent for the call. In an answer they are the caller's, who
 * gives them back by ::xd_value_clear. Lists and dictionaries are within each other at most 64 times.
 */
typedef struct xd_value {
    /** `XD_VALUE_*`. */
    xd_value_kind kind;
    uint32_t reserved;
    /** Of an `XD_VALUE_INT`; of an `XD_VALUE_BOOL`, 1 or 0. */
    int64_t integer;
    /** Of an `XD_VALUE_FLOAT`. */
    double number;
    /** Of an `XD_VALUE_TEXT` (UTF-8) or `XD_VALUE_BYTES`. In an answer a NUL follows. */
    const char *data;
    /** How many bytes are in `data`; of an `XD_VALUE_LIST` how many items there are, and of an
     * `XD_VALUE_DICT` how many pairs.
     */
    uint64_t size;
    /** Of an `XD_VALUE_TENSOR`. */
    xd_tensor *tensor;
    /** Of an `XD_VALUE_LIST` its items; of an `XD_VALUE_DICT` each key with its value behind it. */
    const struct xd_value *items;
} xd_value;

/** Which Python is wanted. */
typedef struct xd_script_options {
    uint64_t struct_size;
    /** An executable or an environment's folder: this one or none. NULL: `CROSSDOCK_PYTHON`, a
     * Python that is in the process, the active environment, `PATH`.
     */
    const char *python;
} xd_script_options;

/** The Python of this process. The texts are lent by the handle. */
typedef struct xd_script_info {
    /** `sys.version`. */
    const char *version;
    /** `sys.executable` of the environment. */
    const char *executable;
    /** The shared library. */
    const char *library;
    /** `sys.prefix`. */
    const char *prefix;
    /** `sys.base_prefix`. */
    const char *base_prefix;
    /** `sys.abiflags`. */
    const char *abi_flags;
    /** Which rule of the search chose it. */
    const char *why;
    uint32_t major;
    uint32_t minor;
    /** Not 0: others started it, and it may end before the process does. */
    uint32_t of_others;
    uint32_t reserved;
} xd_script_info;

/** Takes what a script writes; the bytes are lent for the call, and UTF-8 unless the script writes
 * others to `sys.stdout.buffer`. Called on threads of Python, without its lock, also on several at
 * once, until the session is freed. It must not throw, and a script that it wants to run is refused
 * (`XD_ERROR_SCRIPT_BUSY`).
 */
typedef void (*xd_stream_function)(void *word, const char *bytes, uint64_t size);

/** How a session is made. */
typedef struct xd_session_options {
    uint64_t struct_size;
    /** Its module is `__xd_NAME__`, and no two have the same. NULL: a number. The first session of a
     * Python that runs for this host alone is `__main__`, whatever its name.
     */
    const char *name;
    /** `sys.argv`. Without words its first is the script that is run. */
    const char *const *arguments;
    uint64_t argument_count;
    /** Takes `sys.stdout`; NULL: it goes where the process's own goes. */
    xd_stream_function on_stdout;
    /** Takes `sys.stderr`; NULL: it goes where the process's own goes. */
    xd_stream_function on_stderr;
    /** Passed to both. */
    void *word;
    /** How long each script may take from its turn on, in nanoseconds. 0: for ever. */
    uint64_t timeout_ns;
    /** From the first interrupt of what took too long to the second, in nanoseconds; so long, too, a
     * call, this one included, waits for its turn behind a script that was interrupted and does not
     * end, whether it does not notice or catches the interrupt; then it fails with
     * `XD_ERROR_SCRIPT_STUCK` and the place. 0: half a second.
     */
    uint64_t grace_ns;
    /** `XD_SESSION_FLAG_NEVER_WAITS` or 0. */
    xd_session_flags flags;
    uint32_t reserved;
} xd_session_options;

/** How one script is run. */
typedef struct xd_run_options {
    uint64_t struct_size;
    /** 0: as the session says; `XD_NO_LIMIT`: for ever. */
    uint64_t timeout_ns;
    /** 0: as the session says. */
    uint64_t grace_ns;
} xd_run_options;

/** What a function is called with. */
typedef struct xd_arguments {
    uint64_t struct_size;
    /** The arguments by place. */
    const xd_value *values;
    uint64_t count;
    /** The names of the arguments by name. */
    const char *const *names;
    /** Their values. */
    const xd_value *named_values;
    uint64_t named_count;
} xd_arguments;

/** A function of the host that scripts call. The arguments are lent for the call, and so is the place for
 * the answer, which is `None` unless ::xd_answer_set is called. Called on threads of Python, without its
 * lock, also on several at once. It must not throw, and a script that it wants to run is refused
 * (`XD_ERROR_SCRIPT_BUSY`).
 * \return NULL; or an error, which the library frees: in the script it is a `RuntimeError` with its text, or
 *         a `MemoryError` for `XD_OOM_DEVICE` and `XD_OOM_HOST`.
 */
typedef xd_error *(*xd_script_function)(void *word, const xd_arguments *arguments,
                                        const xd_answer *answer);

/** Gives back what a word stands for. Called once, on any thread; it must not throw. */
typedef void (*xd_word_release)(void *word);

/** What a session does now. */
typedef struct xd_session_state {
    /** `XD_SESSION_*`. */
    xd_session_state_kind kind;
    uint32_t reserved;
    /** For how long its script runs. */
    uint64_t running_ns;
    /** Where a stuck one is, as far as it is known: `at File "a.py", line 3 in f`. */
    char place[XD_PLACE_BYTES];
} xd_session_state;

/** Takes a log line: a level from 1 (error) to 5 (trace), target and message lent for the call.
 * Called on any thread, also on several at once; it must not throw. It may call the functions here but
 * for those that use a stream, wait or move bytes: a plugin may log in the middle of one, and a second
 * one would wait for the first.
 */
typedef void (*xd_log_function)(void *word, uint32_t level, const char *target,
                                const char *message);

/** Calls `deleter(tensor)` once before it returns, or never, which leaks the tensor. */
typedef void (*xd_release_gate)(void (*deleter)(void *tensor), void *tensor);

/** \name The library */
/**@{*/

/** \brief The version of the table: major in the upper 16 bits, minor in the lower. This function never
 * changes, whatever the version, so that any program may call it first.
 */
uint32_t xd_abi_version(void);

/** \brief The library's version, as in `1.0.0`. Valid for ever. */
const char *xd_version(void);

/** \brief 1 once the process has begun to exit: from then on nothing is freed any more. 0 before that,
 * and in a process that has opened no runtime.
 */
int32_t xd_exiting(void);

/** \brief How many things were leaked and not given back: because the process was exiting, because it
 * is a fork, because nobody could say whether work still used them, or because a plugin did not let go
 * of them.
 */
uint64_t xd_counted_leaks(void);

/**
 * \brief Calls the deleters of tensors that others made through a function, in the whole process and
 * from now on: for those whose deleters need what does not live as long as the process, as Python's do.
 * \param[in] gate  Called on any thread, also on several at once, until the process ends.
 * \return `XD_CONFLICT` where another function was set before; `XD_INVALID` for NULL.
 */
xd_error *xd_release_through(xd_release_gate gate);

/**
 * \brief Sends the log to a function.
 * \param[in] function  NULL: nowhere. A call that is under way on another thread may still end in
 *                      the function that was set before: keep it and its word valid.
 * \param[in] word      Passed to the function.
 * \param[in] level     The most verbose level that is wanted: 0 off, 1 error, to 5 trace.
 * \return `XD_CONFLICT` in a Rust program that has a logger of its own.
 */
xd_error *xd_log_set(xd_log_function function, void *word, uint32_t level);

/**
 * \brief Starts a trace of hooks, copies and routes into a file, which is created, or emptied where
 * it exists. Chrome and Perfetto show it.
 * \return `XD_INVALID` when there is a trace already, when another process writes this file, when it cannot be
 *         written or is no regular file, and in the child of a fork.
 */
xd_error *xd_trace_start(const char *path);

/** \brief Ends the trace and closes its file.
 * \return `XD_INVALID` when there is none, or when its file could not be written to the end.
 */
xd_error *xd_trace_stop(void);
/**@}*/

/** \name Errors: accessors that never fail. All texts are lent by the error. */
/**@{*/

/**
 * \brief Makes an error, for what the library calls: ::xd_script_function.
 * \param[in] status   `XD_OK` counts as `XD_INVALID`. The kind is `XD_ERROR_OTHER`.
 * \param[in] message  What failed.
 * \param[in] why      May be NULL: the message says it all.
 * \param[in] hint     What to do about it; may be NULL.
 */
xd_error *xd_error_create(xd_status status, const char *message, const char *why, const char *hint);

/** \brief What kind of failure it is: `XD_ERROR_*`. */
xd_failure_kind xd_error_kind(const xd_error *error);

/** \brief The status; `XD_OK` for NULL. */
xd_status xd_error_status(const xd_error *error);

/** \brief The operation that failed: the vendor's call where there is one. */
const char *xd_error_operation(const xd_error *error);

/** \brief The plugin in which it failed, or empty. */
const char *xd_error_plugin(const xd_error *error);

/** \brief The device it was about, as `cuda:0`, or empty. */
const char *xd_error_device(const xd_error *error);

/** \brief The vendor's number, or 0. */
int64_t xd_error_native_code(const xd_error *error);

/** \brief The vendor's name of that number, or empty. */
const char *xd_error_native_name(const xd_error *error);

/** \brief What failed: a fragment, as in "find device `cuda:0`". */
const char *xd_error_message(const xd_error *error);

/** \brief Why: one sentence. */
const char *xd_error_why(const xd_error *error);

/** \brief What to do about it. */
const char *xd_error_hint(const xd_error *error);

/** \brief What, why and what to do, on three lines. */
const char *xd_error_text(const xd_error *error);

/** \brief The class of a script's exception with its module, as in `numpy.linalg.LinAlgError`; else
 * empty.
 */
const char *xd_error_exception(const xd_error *error);

/** \brief The traceback of a script's exception, as Python prints it, causes included; else empty. Of a
 * million characters and more the beginning and the end.
 */
const char *xd_error_traceback(const xd_error *error);

/** \brief The code of `XD_ERROR_SCRIPT_EXIT`, as `python` would exit with it; else 0. */
int32_t xd_error_exit_code(const xd_error *error);

/** \brief Frees an error. */
void xd_error_free(xd_error *error);
/**@}*/

/** \name Names */
/**@{*/

/** \brief The name of a status, as in `OOM_DEVICE`; empty for an unknown one. Valid for ever. */
const char *xd_status_name(xd_status status);

/**
 * \brief A dtype's name, as in `float32` or `int8x4`.
 * \param[out] name  Room for `XD_NAME_BYTES` bytes.
 */
xd_error *xd_dtype_text(xd_dtype dtype, char *name);

/** \brief The dtype with this name. */
xd_error *xd_dtype_from_text(const char *name, xd_dtype *dtype);

/**
 * \brief A device's name, as in `opencl:0`; an unknown type is written as its number.
 * \param[out] name  Room for `XD_NAME_BYTES` bytes.
 */
xd_error *xd_dl_device_text(xd_dl_device device, char *name);

/** \brief The device with this name; a type alone means id 0. Whether it is here, a runtime knows.
 */
xd_error *xd_dl_device_from_text(const char *name, xd_dl_device *device);
/**@}*/

/** \name Runtimes */
/**@{*/

/**
 * \brief Opens a runtime of its own. Plugins are shared by all runtimes of the process.
 * \param[in] options  NULL: the standard search.
 * \param[out] runtime  The caller's. It closes when its last handle is given back; devices and
 *                      tensors do not need it.
 * \return `XD_ERROR_LOAD` or `XD_ERROR_HOOK` for a file of `options->plugins`; `XD_INVALID` for options, or for
 *         rules in `CROSSDOCK_FAULT`, that cannot be read.
 */
xd_error *xd_runtime_open(const xd_runtime_options *options, xd_runtime **runtime);

/**
 * \brief The process's runtime: the one that a host, its scripts and their extensions share.
 *
 * It is opened with the standard search by the first call. Its handles hold it, and nothing else
 * does: it closes when the last one is given back, and a later call opens another. In the child of
 * a fork it is another one than the parent's.
 * \param[out] runtime  The caller's; always the same address while it lives.
 */
xd_error *xd_runtime_default(xd_runtime **runtime);

/**
 * \brief Makes a runtime the process's, so that ::xd_runtime_default answers with it. A host calls
 * it before anybody asked for the default; it keeps its own handle for as long as that is to hold.
 * \return `XD_CONFLICT` where another runtime is the process's.
 */
xd_error *xd_runtime_make_default(const xd_runtime *runtime);

/** \brief The same runtime once more; NULL for NULL. */
xd_runtime *xd_runtime_retain(const xd_runtime *runtime);

/** \brief Gives a runtime back. It waits for no work: memory that work still uses is given back later,
 * while the process lives. To have it back first, call ::xd_runtime_wait_for_releases before this.
 */
void xd_runtime_free(xd_runtime *runtime);

/** \brief The plugins that are registered now, also those whose devices are absent.
 * \param[out] plugins  The caller's (::xd_plugin_list_free).
 */
xd_error *xd_runtime_plugins(const xd_runtime *runtime, xd_plugin_list **plugins);

/** \brief Gives a list back, and the handles that it lends. */
void xd_plugin_list_free(xd_plugin_list *plugins);

/** \brief Why files that the search found could not be loaded, one error a file.
 * \param[out] errors  The caller's (::xd_error_list_free).
 */
xd_error *xd_runtime_refused(const xd_runtime *runtime, xd_error_list **errors);

/** \brief Gives a list back, and the errors that it lends. */
void xd_error_list_free(xd_error_list *errors);

/** \brief Loads a plugin file beside those that are here, and starts its driver and those of plugins that may
 * have devices of its types. The same file is loaded once. A plugin whose driver is absent is loaded all the
 * same, and ::xd_plugin_state says so.
 * \param[out] plugin  The caller's.
 * \return `XD_ERROR_LOAD` for a file that cannot be used; `XD_ERROR_HOOK` with the plugin's answer where it
 *         cannot be opened: the next call tries again.
 */
xd_error *xd_runtime_load_plugin(const xd_runtime *runtime, const char *path,
                                 xd_plugin **plugin);

/** \brief Removes a plugin from this runtime: its devices are gone and take no new work. Other
 * runtimes of the process keep it, and while one does, its tensors can still be read. The last one
 * that removes it drains its work, for at most five seconds, once a probe or an open that is under way is
 * over; from then on what needs a hook of it, as
 * reading and copying do, answers `XD_RETIRED`. Its tensors can be given back at any time. It is
 * removed also where this answers an error of the plugin. ::xd_runtime_load_plugin brings it back.
 * \return `XD_INVALID` where this runtime does not list the plugin.
 */
xd_error *xd_runtime_retire_plugin(const xd_runtime *runtime, const xd_plugin *plugin);

/** \brief Blocks until all memory that was freed before this call, while work on it was still
 * running, is given back, or is leaked because nobody can say whether the work is over. Then the
 * deleters of imported tensors have run. It also waits for work that a stream of another plugin was made to
 * wait for before this call, and for the work of a stream of others for which a thread is in
 * ::xd_device_synchronize. So once it has returned, nothing here still asks the driver about that work, and
 * the stream's owner may destroy the vendor's context. Waits for the plugins that this runtime lists, and for
 * those that it retired.
 * \param[in] limit_ns  The longest wait in nanoseconds, or ::XD_NO_LIMIT.
 * \return `XD_TIMEOUT`; `XD_EXITING` once the process exits, which leaves the rest to the system;
 *         `XD_INVALID` when called by a deleter, which is such a release itself.
 */
xd_error *xd_runtime_wait_for_releases(const xd_runtime *runtime, uint64_t limit_ns);

/** \brief 1 while a question for devices may start drivers; 0 once each plugin was looked at, and for NULL.
 *
 * A plugin that the search found and that names a driver is not probed and opened before it is needed (see
 * ::xd_plugin_state). Each function that may do so says that it starts drivers. It takes as long as they do, and
 * runs their code: who holds a lock that a driver may want, such as an interpreter's, lets go of it before. No
 * driver is asked for this answer.
 */
int32_t xd_runtime_may_start_drivers(const xd_runtime *runtime);

/** \brief The devices that are here. It starts the drivers of all plugins that nobody needed so far.
 * \param[out] devices  The caller's (::xd_device_list_free).
 */
xd_error *xd_runtime_devices(const xd_runtime *runtime, xd_device_list **devices);

/** \brief Gives a list back, and the handles that it lends. */
void xd_device_list_free(xd_device_list *devices);

/** \brief The device with a DLPack pair. It starts the drivers of plugins that may serve its type, and of
 * those that share a type with them.
 * \return `XD_NO_DEVICE` with the devices that are here; `XD_FORKED` where such a plugin is not opened
 *         because a parent of this process has started its driver.
 */
xd_error *xd_runtime_device(const xd_runtime *runtime, xd_dl_device pair, xd_device **device);

/** \brief The device with a name, as in `opencl:0`; a type alone means id 0. It starts drivers as
 * ::xd_runtime_device does, and none where there is no such type.
 * \return `XD_NO_DEVICE` with the devices that are here, also where there is no such type; `XD_FORKED` as
 *         ::xd_runtime_device.
 */
xd_error *xd_runtime_device_named(const xd_runtime *runtime, const char *name,
                                  xd_device **device);

/**
 * \brief The device and the kind of memory that a target's name means: `cuda_host:1` is pinned memory of
 * `cuda:1`.
 *
 * A target's name is a device's, or DLPack's type of a kind of memory (`cuda_host`, `cuda_managed`,
 * `rocm_host`) with the number of the device, though DLPack's own pair of such memory has 0 there. It starts
 * drivers as ::xd_runtime_device_named does.
 * \param[out] kind  For ::xd_move_options and ::xd_empty_options; 0 for a device's name.
 */
xd_error *xd_runtime_target_named(const xd_runtime *runtime, const char *name, xd_device **device,
                                  xd_memory_kind *kind);

/** \brief The first device with this uuid, which stays with the hardware whatever number the device
 * has in this process. It starts the drivers of all plugins that nobody needed so far: two may show one
 * device.
 * \param[in] uuid  16 bytes, as ::xd_device_describe gives them: `info.uuid`. Zeros are nobody's.
 * \return `XD_NO_DEVICE` with the devices that are here and have one.
 */
xd_error *xd_runtime_device_by_uuid(const xd_runtime *runtime, const uint8_t *uuid,
                                    xd_device **device);

/** \brief The first device at this place of the PCI bus. It starts drivers as ::xd_runtime_device_by_uuid does.
 * \param[in] pci_bus_id  As ::xd_device_describe gives it: `0000:03:00.0`, in letters of either case.
 * \return `XD_NO_DEVICE` with the devices that are here and have one.
 */
xd_error *xd_runtime_device_by_pci(const xd_runtime *runtime, const char *pci_bus_id,
                                   xd_device **device);
/**@}*/

/** \name Plugins. All texts are lent by the handle. */
/**@{*/

/** \brief Its name, as in `libcrossdock_plugin_NAME.so`. */
const char *xd_plugin_name(const xd_plugin *plugin);

/** \brief Who made it. */
const char *xd_plugin_vendor(const xd_plugin *plugin);

/** \brief Its own version. */
const char *xd_plugin_version(const xd_plugin *plugin);

/** \brief Its file; empty for the plugin that is linked in. */
const char *xd_plugin_path(const xd_plugin *plugin);

/**
 * \brief What its probe found; `XD_PROBE_BROKEN` for NULL.
 *
 * A plugin that the search found and that names a driver is not probed before its devices are needed: by
 * a call that names their type, lists devices, looks for a uuid or a PCI id or asks for an owner, by an
 * order of devices, or by a tensor that claims to be there. Until then: `XD_PROBE_NOT_LOOKED_AT`. One that
 * is loaded by its path is probed at once.
 */
xd_probe_state xd_plugin_state(const xd_plugin *plugin);

/** \brief What was looked for (absent) or why it does not work (broken); else empty. */
const char *xd_plugin_detail(const xd_plugin *plugin);

/** \brief The same plugin once more; NULL for NULL. */
xd_plugin *xd_plugin_retain(const xd_plugin *plugin);

/** \brief Gives a plugin back; it stays registered. */
void xd_plugin_free(xd_plugin *plugin);
/**@}*/

/** \name Devices */
/**@{*/

/** \brief What a device is, with the pair under which it is registered here. */
xd_error *xd_device_describe(const xd_device *device, xd_device_info *info);

/** \brief Its memory now: a hint, stale when it is read. */
xd_error *xd_device_memory(const xd_device *device, xd_memory_info *memory);

/** \brief What its plugin has of its memory, for the whole process; `UINT64_MAX` for a number that it does not know. */
xd_error *xd_device_memory_usage(const xd_device *device, xd_memory_usage *usage);

/** \brief Begins the peaks of `xd_device_memory_usage` anew, for all who ask. */
xd_error *xd_device_reset_peaks(const xd_device *device);

/** \brief Gives back memory of the device that was freed and is kept for later allocations, until at most
 * `keep_bytes` bytes of it are left.
 *
 * Idle host memory of staged copies goes too, whatever `keep_bytes` is, but for what other devices alone have
 * locked. It waits for no work that Crossdock knows of; the vendor's free may wait for what other libraries
 * have on the device. Memory that was dropped while work uses it is freed, and perhaps kept, after that: call
 * ::xd_runtime_wait_for_releases first to give that back as well. Nothing is done, and that is no error, where
 * a plugin keeps nothing.
 */
xd_error *xd_device_trim(const xd_device *device, uint64_t keep_bytes);

/** \brief The plugin that offers it. */
xd_error *xd_device_plugin(const xd_device *device, xd_plugin **plugin);

/** \brief 1 where both handles are of one device; 0 where one is NULL. */
int32_t xd_device_equal(const xd_device *one, const xd_device *other);

/** \brief The same number for every handle of one device, in this process; 0 for NULL. */
uint64_t xd_device_hash(const xd_device *device);

/** \brief Blocks the calling thread until the work on all its streams is done: the default one, those that are alive, and
 * those that belong to other runtimes. A device without streams has nothing pending.
 * \return `XD_TIMEOUT`, or the first failure of a stream's work, once.
 */
xd_error *xd_device_synchronize(const xd_device *device, uint64_t limit_ns);

/** \brief The same device once more; NULL for NULL. */
xd_device *xd_device_retain(const xd_device *device);

/** \brief Gives a device back. */
void xd_device_free(xd_device *device);
/**@}*/

/** \name Tensors in and out */
/**@{*/

/** \brief Allocates a compact tensor with this dtype and shape; its content is undefined.
 * \param[in] options  NULL: memory of the device, which may be used at once.
 * \return `XD_UNSUPPORTED` for a kind of memory that the device does not offer; `XD_INVALID` for any other
 *         kind, and for a stream of another device or with another kind than the device's own.
 */
xd_error *xd_tensor_empty(const xd_device *device, const xd_layout *layout,
                          const xd_empty_options *options, xd_tensor **tensor);

/**
 * \brief Takes memory with an owner, without a copy.
 *
 * The plugins are asked who owns the address, and the tensor must lie inside the allocation. Host
 * memory that no plugin knows is believed: nobody can check that it is there. Plugins that have to ask
 * their driver are asked about memory that is claimed to be the host's before the tensor is first read,
 * written, moved, exported, registered or synchronized, once for each memory. Where the claim is false
 * that call fails as `XD_ERROR_CLAIM`. The same holds for tensors that ::xd_tensor_import took.
 *
 * Memory that is called a device's, or a kind of memory of one, starts the drivers that ::xd_runtime_device
 * starts for it; memory that is called the CPU's starts none.
 * \param[in] memory  Its owner is taken with this call whatever the result: `release` is called
 *                    once, when the last view is gone or before an error is returned; once the process
 *                    exits it is not called, which is a counted leak. Only where
 *                    `memory` is NULL or its size is wrong nothing is taken.
 * \return As ::xd_tensor_import.
 */
xd_error *xd_tensor_from_memory(const xd_runtime *runtime, const xd_memory *memory,
                                xd_tensor **tensor);

/**
 * \brief Takes a native memory object of others (a `cl_mem`), without a copy.
 *
 * It starts drivers as ::xd_runtime_device does for `memory->device`.
 *
 * The plugin of `memory->device` adopts the object, and the tensor must lie inside it. Of an object that
 * a tensor here is of already, the new one is a view of that tensor's memory, and keeps it. An object that
 * was made here lives as long as its tensors do; references that others count do not keep it.
 * \param[in] memory  `data` is a live object of the device's vendor, until its owner is released. The
 *                    owner is taken as by ::xd_tensor_from_memory.
 * \return `XD_INVALID` for an object that was made here and is being given back.
 */
xd_error *xd_tensor_adopt_native(const xd_runtime *runtime, const xd_memory *memory,
                                 xd_tensor **tensor);

/**
 * \brief Takes a tensor of DLPack 1.x, without a copy; what this library exported comes back as the
 * same tensor. It starts drivers as ::xd_tensor_from_memory does.
 * \param[in] managed  Taken with this call whatever the result: its deleter is called once, when
 *                     the last view is gone or before an error is returned, on any thread, with no
 *                     lock held; once the process exits it is not called, which is a counted leak.
 *                     A NULL deleter is allowed. Of another major version nothing but
 *                     version and deleter is touched.
 * \param[in] options  NULL: it is ready, and stays where it is.
 * \return `XD_ERROR_EXCHANGE`, `XD_ERROR_UNKNOWN_DEVICE`, or `XD_ERROR_CLAIM` where the memory is
 *         somebody else's; what ::xd_tensor_to returns, where it is moved.
 *
 * Work of the caller's own is made known by ::xd_tensor_written_on.
 */
xd_error *xd_tensor_import(const xd_runtime *runtime, struct DLManagedTensorVersioned *managed,
                           const xd_import_options *options, xd_tensor **tensor);

/** \brief Takes a tensor of DLPack 0.x. It counts as read-only, because it cannot say that it is
 * not. It starts drivers as ::xd_tensor_import does.
 * \param[in] managed  Taken as by ::xd_tensor_import.
 */
xd_error *xd_tensor_import_legacy(const xd_runtime *runtime, struct DLManagedTensor *managed,
                                  const xd_import_options *options, xd_tensor **tensor);

/**
 * \brief Hands the tensor out as DLPack 1.3; it shares the memory.
 * \param[in] options  NULL: it is ready when this returns.
 * \param[out] managed  The consumer calls its deleter once, on any thread. It does not need the
 *                      tensor's handle.
 *
 * With `XD_ORDER_STREAM` the deleter is called when the consumer's work on the stream is over, or after
 * ::xd_tensor_used_on or ::xd_tensor_written_on for that work: the export itself does not know of it.
 *
 * The eight bytes before the struct are a number that changes when it is released, and that may be read
 * for ever: a caller that only passes the struct on can tell whether it is gone.
 *
 * For another device, or for a copy, call ::xd_tensor_to first and hand out its result.
 * \return `XD_ERROR_EXCHANGE` where DLPack cannot represent the tensor; the failure of the work that wrote it.
 */
xd_error *xd_tensor_export(const xd_tensor *tensor, const xd_export_options *options,
                           struct DLManagedTensorVersioned **managed);

/**
 * \brief ::xd_tensor_export without options, for a thread that must not wait.
 * \param[out] managed  NULL where work that writes the tensor may still run.
 */
xd_error *xd_tensor_try_export(const xd_tensor *tensor, struct DLManagedTensorVersioned **managed);

/** \brief Hands the tensor out as DLPack 0.x.
 * \return `XD_ERROR_EXCHANGE` for a read-only or padded tensor, which it cannot say.
 */
xd_error *xd_tensor_export_legacy(const xd_tensor *tensor, const xd_export_options *options,
                                  struct DLManagedTensor **managed);

/** \brief What the tensor is. The arrays in `info` are lent by the handle. */
xd_error *xd_tensor_describe(const xd_tensor *tensor, xd_tensor_info *info);

/** \brief The device that holds it. */
xd_error *xd_tensor_device(const xd_tensor *tensor, xd_device **device);

/** \brief The same tensor once more; NULL for NULL. */
xd_tensor *xd_tensor_retain(const xd_tensor *tensor);

/** \brief Gives a tensor back; its memory lives as long as a view or an export of it does. */
void xd_tensor_free(xd_tensor *tensor);
/**@}*/

/** \name Views: tensors that share memory */
/**@{*/

/** \brief A view of a part.
 * \param[in] count   Must be the tensor's `ndim`.
 * \param[in] slices  One an axis.
 */
xd_error *xd_tensor_slice(const xd_tensor *tensor, uint32_t count, const xd_axis_slice *slices,
                          xd_tensor **view);

/** \brief A view with its axes in another order.
 * \param[in] count  Must be the tensor's `ndim`.
 * \param[in] axes   Axis `i` of the view is axis `axes[i]` of the tensor.
 */
xd_error *xd_tensor_permute(const xd_tensor *tensor, uint32_t count, const uint32_t *axes,
                            xd_tensor **view);

/** \brief A view with another shape; an error where that needs a copy. */
xd_error *xd_tensor_reshape(const xd_tensor *tensor, uint32_t ndim, const int64_t *shape,
                            xd_tensor **view);

/** \brief A view of the tensor's bytes as other elements, which shares the order of its work.
 * \param[in] byte_offset  Bytes from the tensor's first element to the view's first element.
 * \param[in] layout       The view's elements. They lie between the first and the last byte of the tensor's elements.
 * \param[in] flags        ::XD_MEMORY_FLAG_READ_ONLY or 0. A view of a read-only tensor is always read-only.
 */
xd_error *xd_tensor_reinterpret(const xd_tensor *tensor, int64_t byte_offset,
                                const xd_layout *layout, xd_memory_flags flags, xd_tensor **view);
/**@}*/

/** \name Elements */
/**@{*/

/** \brief Reads the elements as compact bytes. Done when it returns.
 * \param[out] bytes  Room for `size` bytes, which nobody else uses meanwhile. May be partly written
 *                    after a failure.
 * \param[in] size    Must be the tensor's `nbytes`.
 */
xd_error *xd_tensor_read(const xd_tensor *tensor, void *bytes, uint64_t size);

/** \brief Replaces the elements by compact bytes. Done when it returns; may be partly done after a
 * failure. `XD_INVALID` where elements overlap, as those of a broadcast do; copies and fills answer
 * the same.
 * \param[in] size  Must be the tensor's `nbytes`.
 */
xd_error *xd_tensor_write(const xd_tensor *tensor, const void *bytes, uint64_t size);

/** \brief Replaces the elements by those of a tensor of the same shape and dtype on any device.
 * \param[in] stream  NULL: the copy is done when this returns. Otherwise it runs in the stream's order;
 *                    \ref xd_move_options lists the copies that wait. Of these, a copy of more than 1 GiB
 *                    through host memory waits for its oldest parts only. Any other first waits for the
 *                    work on the stream, without a time limit, and is done when this returns.
 */
xd_error *xd_tensor_copy_from(const xd_tensor *tensor, const xd_tensor *source,
                              const xd_stream *stream);

/** \brief Repeats one element over the tensor.
 * \param[in] pattern  The bytes of one element, read before this returns. An element that does not end at
 *                     a byte is the low bits of them; the other bits are ignored.
 * \param[in] stream   NULL: it is done when this returns. Else as for \ref xd_tensor_copy_from: a
 *                     fill that the plugin cannot make (a device without `XD_CAP_FILL`) waits for the
 *                     work on the stream first.
 */
xd_error *xd_tensor_fill(const xd_tensor *tensor, const void *pattern, uint64_t size,
                         const xd_stream *stream);

/**
 * \brief The same values on a device.
 * \param[in] options  NULL: the best route, a copy only if required, done when this returns. With a
 *                     stream, most copies do not wait; \ref xd_move_options lists the exceptions.
 *                     `XD_COPY_ALWAYS` never takes an alias.
 * \param[out] moved   A tensor that shares memory with the first where the route is an alias.
 * \param[out] route   The route that was taken; NULL: it is not wanted.
 * \return `XD_ERROR_REFUSED` with the reason why each route does not work; `XD_ERROR_COPY_REQUIRED`; `XD_UNSUPPORTED`
 *         where the device has no memory of the `kind` that the options ask for; `XD_ERROR_CLAIM` as
 *         \ref xd_tensor_register.
 */
xd_error *xd_tensor_to(const xd_tensor *tensor, const xd_device *device,
                       const xd_move_options *options, xd_tensor **moved, xd_route **route);

/**
 * \brief Locks the host memory that the tensor is a view of, all of it, for a device.
 *
 * Copies between the memory and the device are fast then, and one on a stream returns before it is made.
 * The memory stays where it is and whose it is. It may be read-only, where the device's driver locks such.
 * \param[out] registration  Keeps the memory, and locks it until ::xd_registration_free.
 * \return `XD_UNSUPPORTED` where the host does not reach the memory by its address, or the device locks
 *         none (`XD_CAP_REGISTER`); `XD_CONFLICT` where the device's plugin knows a part of it already: it
 *         is registered, or the plugin's own; `XD_PERMISSION` where the system or the driver does not lock
 *         it; `XD_ERROR_CLAIM` for memory that its producer called the host's and that is a device's.
 */
xd_error *xd_tensor_register(const xd_tensor *tensor, const xd_device *device,
                             xd_registration **registration);

/** \brief Ends a registration: the memory is unlocked once no work uses it, for which this call does not wait.
 *
 * Where the device is lost, or another one that used the memory, it stays locked: it is kept, and a counted leak. */
void xd_registration_free(xd_registration *registration);
/**@}*/

/** \name Tensors and the order of work */
/**@{*/

/** \brief Blocks the calling thread until the last work that wrote the tensor is done.
 * \return `XD_TIMEOUT`, or the failure of that work, each time until all of the tensor is written again.
 */
xd_error *xd_tensor_synchronize(const xd_tensor *tensor, uint64_t limit_ns);

/** \brief The event of the last work that wrote it.
 * \param[out] event  NULL where nothing is pending.
 * \return An error where work may be pending and no event can tell.
 */
xd_error *xd_tensor_ready(const xd_tensor *tensor, xd_event **event);

/** \brief Makes a stream wait for what wrote the tensor, before work of yours on the stream reads
 * it. Call ::xd_tensor_used_on after you put that work there.
 */
xd_error *xd_tensor_wait_to_read(const xd_tensor *tensor, const xd_stream *stream);

/** \brief Makes a stream wait for all work on the tensor, before work of yours on the stream writes
 * it. Call ::xd_tensor_written_on after you put that work there.
 */
xd_error *xd_tensor_wait_to_write(const xd_tensor *tensor, const xd_stream *stream);

/** \brief Says that work of yours on a stream reads the tensor: later writes of the tensor wait for that
 * work, and the memory outlives it.
 */
xd_error *xd_tensor_used_on(const xd_tensor *tensor, const xd_stream *stream);

/** \brief Says that work of yours on a stream writes the tensor: later uses of the tensor wait for that
 * work, and the memory outlives it. `XD_INVALID` for a tensor that is read-only.
 */
xd_error *xd_tensor_written_on(const xd_tensor *tensor, const xd_stream *stream);

/** \brief Says that the content is ready once everything that is on a stream now is done, which is
 * work of the producer that the tensor was imported from. Every later use of the tensor waits for
 * that work. Freeing the tensor does not: the producer keeps its memory until then. Memory of this
 * library's own, which came back from a producer, has no other keeper, and outlives the work.
 */
xd_error *xd_tensor_ready_on(const xd_tensor *tensor, const xd_stream *stream);
/**@}*/

/** \name Streams */
/**@{*/

/** \brief Creates a stream on a device.
 * \return `XD_UNSUPPORTED` where the plugin has no streams; `XD_RETIRED` where it was retired.
 */
xd_error *xd_stream_create(const xd_device *device, xd_stream **stream);

/** \brief The device's default stream.
 * \return `XD_UNSUPPORTED` where it has none.
 */
xd_error *xd_stream_default(const xd_device *device, xd_stream **stream);

/**
 * \brief Makes a stream of the integer that the vendor's API uses. Where any runtime of the process
 *        has made or wrapped a stream with this integer that is still alive, it gives that stream.
 * \param[in] native  A live stream of the device's vendor: it outlives all handles and events that
 *                    come of it, and nobody puts work on it during a call with them. A stream of
 *                    others is never destroyed here.
 * \return `XD_INVALID` where the plugin takes no streams of others, or where the vendor can say that the
 *         stream belongs to another device; `XD_RETIRED` where the plugin was retired.
 * \note Before the owner of the stream destroys the vendor's context of the stream, free the tensors that
 *       had work there and call ::xd_runtime_wait_for_releases. Afterwards nobody can tell whether that
 *       work is over, so the memory of those tensors is leaked and counted.
 */
xd_error *xd_stream_wrap(const xd_device *device, uint64_t native, xd_stream **stream);

/**
 * \brief The stream of the device with this native integer that is still alive, made or wrapped by
 *        any runtime of the process. An integer that others name can be trusted only where this
 *        finds its stream.
 * \param[out] stream  The caller's; NULL where there is none.
 */
xd_error *xd_stream_find(const xd_device *device, uint64_t native, xd_stream **stream);

/** \brief The device whose work it orders, in the runtime in which this handle was asked for. */
xd_error *xd_stream_device(const xd_stream *stream, xd_device **device);

/** \brief The integer that the vendor's API uses for it.
 * \return `XD_UNSUPPORTED` where there is none.
 */
xd_error *xd_stream_native_handle(const xd_stream *stream, uint64_t *native);

/** \brief Records an event at the stream's present end. */
xd_error *xd_stream_record(const xd_stream *stream, xd_event **event);

/** \brief Makes everything that comes later on the stream wait for an event of any plugin.
 * \param[out] how  `XD_WAIT_*`; only `XD_WAIT_BLOCKED` made the caller wait. May be NULL: it is not
 *                  wanted.
 * \return The failure of the work before the event, where that is known already.
 */
xd_error *xd_stream_wait(const xd_stream *stream, const xd_event *event, xd_wait_kind *how);

/** \brief Blocks the calling thread until its work is done.
 * \return `XD_TIMEOUT`, or the first failure of the work, once.
 */
xd_error *xd_stream_synchronize(const xd_stream *stream, uint64_t limit_ns);

/** \brief Whether its work is done: 1 or 0.
 * \return The first failure of the work, until ::xd_stream_synchronize has told of it.
 */
xd_error *xd_stream_is_idle(const xd_stream *stream, int32_t *idle);

/** \brief 1 where both handles are of one stream; 0 where one is NULL. Two wraps of one native
 * stream are one stream, and equal devices of two runtimes have equal streams.
 */
int32_t xd_stream_equal(const xd_stream *one, const xd_stream *other);

/** \brief The same stream once more; NULL for NULL. */
xd_stream *xd_stream_retain(const xd_stream *stream);

/** \brief Gives a stream back; what is on it completes all the same. */
void xd_stream_free(xd_stream *stream);
/**@}*/

/** \name Events */
/**@{*/

/** \brief An event that is pending until ::xd_event_complete; streams can wait for it.
 * \return `XD_UNSUPPORTED` where the plugin has no such events.
 */
xd_error *xd_event_create_host(const xd_device *device, xd_event **event);

/** \brief Completes an event of ::xd_event_create_host, once.
 * \param[in] status  `XD_OK`, or a failure that its waiters see: `XD_VENDOR`, `XD_DEVICE_LOST` and
 *                    `XD_OOM_DEVICE` as they are, every other status as `XD_VENDOR`.
 * \return `XD_INVALID` for another kind of event or a second completion. After any other error the
 *         event is still pending, and this may be tried again.
 */
xd_error *xd_event_complete(const xd_event *event, xd_status status);

/** \brief The device whose event it is. */
xd_error *xd_event_device(const xd_event *event, xd_device **device);

/** \brief Whether it happened: 1 or 0.
 * \return The failure of the work before it, each time.
 */
xd_error *xd_event_is_done(const xd_event *event, int32_t *done);

/** \brief Blocks the calling thread until it happened.
 * \return `XD_TIMEOUT`, or the failure of the work before it, each time.
 */
xd_error *xd_event_synchronize(const xd_event *event, uint64_t limit_ns);

/** \brief Nanoseconds from `earlier` to `event`, as the device measured them.
 * \return `XD_NOT_READY` before both happened; `XD_INVALID` for events of two plugins, where `event`
 *         happened first, and where the plugin has no time for an event that the host completes;
 *         `XD_UNSUPPORTED` where the device, or a
 *         wrapped queue, measures no times.
 */
xd_error *xd_event_elapsed(const xd_event *event, const xd_event *earlier, uint64_t *nanoseconds);

/** \brief The same event once more; NULL for NULL. */
xd_event *xd_event_retain(const xd_event *event);

/** \brief Gives an event back. One of ::xd_event_create_host that is still pending when its last handle
 * is given back is completed with the failure `XD_VENDOR`, which its waiters see; their streams go on.
 */
void xd_event_free(xd_event *event);
/**@}*/

/** \name Pointer query */
/**@{*/

/**
 * \brief Asks every plugin who owns an address. It starts the drivers of all plugins that nobody needed so far.
 * \param[out] info    Its kind is `XD_MEMORY_UNOWNED` where nobody knows the address: an answer,
 *                     not an error.
 * \param[out] device  The owning device, the caller's; NULL where nobody owns it. The parameter
 *                     itself may be NULL: it is not wanted.
 */
xd_error *xd_pointer_query(const xd_runtime *runtime, uint64_t address, xd_pointer_info *info,
                           xd_device **device);
/**@}*/

/** \name Routes. All texts are lent by the route. */
/**@{*/

/** \brief What moving a tensor of this layout between two devices would do, and why.
 * \param[in] options  As for ::xd_tensor_to. With a stream the steps say what waits for the work on it, and
 *                     nothing is measured: a move on a stream goes by the costs that are known.
 * \param[out] route   A refusal is an answer: `XD_ROUTE_REFUSED`.
 */
xd_error *xd_route_explain(const xd_device *from, const xd_device *to, const xd_layout *layout,
                           const xd_move_options *options, xd_route **route);

/** \brief The same for a tensor: the host sees pinned and managed memory, whatever its device is. */
xd_error *xd_tensor_explain(const xd_tensor *tensor, const xd_device *to,
                            const xd_move_options *options, xd_route **route);

/** \brief The kind of the route; `XD_ROUTE_REFUSED` for NULL. */
xd_route_mode xd_route_kind(const xd_route *route);

/** \brief Bytes that are copied; 0 for an alias. */
uint64_t xd_route_bytes_copied(const xd_route *route);

/** \brief Nanoseconds that it is expected to take, as the explanation says it with where that is from and
 * for which layouts and kinds of memory it was measured; `XD_COST_UNKNOWN` where it is not known.
 */
uint64_t xd_route_cost_ns(const xd_route *route);

/** \brief The whole explanation, on several lines. */
const char *xd_route_text(const xd_route *route);

/** \brief What is done, step by step; NULL behind the last one. */
const char *xd_route_step(const xd_route *route, uint64_t index);

/** \brief The routes that do not work, each with its reason; NULL behind the last one. */
const char *xd_route_refused(const xd_route *route, uint64_t index);

/** \brief The routes that could be taken instead, with their costs; NULL behind the last one. */
const char *xd_route_instead(const xd_route *route, uint64_t index);

/** \brief Frees a route. */
void xd_route_free(xd_route *route);
/**@}*/

/**
 * \name Scripts.
 *
 * There is one Python a process, and one thread that runs scripts in it: calls on several threads
 * wait for their turn. A caller that holds Python's lock (a host that is itself a Python module) lets
 * it go while it waits. What a script fails with is an error object of the kinds `XD_ERROR_SCRIPT*`;
 * its status is the nearest one.
 */
/**@{*/

/**
 * \brief Finds Python and starts it, once a process.
 *
 * It is started on a thread of its own, leaves the process's usual signals as they are, and ends with
 * the process. Where others run one in the process already, that one is used, by a thread of its own;
 * a wait in Python (`time.sleep`) cannot be interrupted there before it ends.
 * A host that keeps the default of `SIGPIPE` is ended by a script that writes to a closed pipe or socket:
 * after `signal(SIGPIPE, SIG_IGN)` the script gets `BrokenPipeError`.
 * It sets `LC_CTYPE` of the process to the user's locale. After a failure, the next call tries again.
 * Threads: any; the first call takes some ten milliseconds and may take Python's lock. Not in a
 * constructor of a library that is being loaded: Python's thread would wait for the loader for ever.
 * \param[in] runtime  What the script's package `crossdock` works with: it becomes the process's.
 *                     NULL: the process's.
 * \param[in] options  NULL: the standard search.
 * \return `XD_ERROR_NO_PYTHON`, `XD_ERROR_PYTHON_MISMATCH`; `XD_CONFLICT` where the process has
 *         another runtime. The process goes on without Python.
 */
xd_error *xd_script_open(const xd_runtime *runtime, const xd_script_options *options,
                         xd_script **script);

/** \brief Which Python would be chosen, and why none of the others: a text. Starts nothing.
 * \param[out] text  The caller's (::xd_value_clear).
 */
xd_error *xd_script_explain(const xd_script_options *options, xd_value *text);

/** \brief Which Python it is. Never waits. */
xd_error *xd_script_describe(const xd_script *script, xd_script_info *info);

/** \brief Gives a script host back. Its sessions go on, and Python stays until the process ends: many
 * modules cannot be started twice.
 */
void xd_script_free(xd_script *script);

/**
 * \brief Makes a namespace to run scripts in: a real module. Waits for the scripts that run, as
 *        ::xd_session_run_text does.
 * \param[in] options  NULL: a name by number, streams of the process, no limits.
 */
xd_error *xd_session_create(const xd_script *script, const xd_session_options *options,
                            xd_session **session);

/**
 * \brief Runs a program in the namespace. Waits until it has ended.
 *
 * A script that takes longer than it may is interrupted, after the grace once more, and then given
 * up: `XD_ERROR_SCRIPT_STUCK` with the line that it is in. Nothing can stop native code in its own
 * process, nor a script that catches its interrupts; until it ends every session refuses work in the
 * same way. A call that waits for its turn behind a script that was interrupted fails so after its own
 * grace. What ends any process, `os._exit` or a crash, ends the program.
 * \param[in] name     The file that tracebacks show; NULL: `<script>`.
 * \param[in] options  NULL: the session's limits.
 */
xd_error *xd_session_run_text(const xd_session *session, const char *program, const char *name,
                              const xd_run_options *options);

/** \brief Runs a file as ::xd_session_run_text does, with its folder as the first place for modules.
 */
xd_error *xd_session_run_file(const xd_session *session, const char *path,
                              const xd_run_options *options);

/** \brief Runs a module as `python -m` does, in the namespace of the session. */
xd_error *xd_session_run_module(const xd_session *session, const char *name,
                                const xd_run_options *options);

/** \brief Sets a variable. Waits for its turn.
 * \param[in] value  Lent for the call; of a tensor the script has its own share.
 */
xd_error *xd_session_set(const xd_session *session, const char *name, const xd_value *value);

/** \brief Reads `variable`, `variable.attribute` or `module:name`. Waits for its turn.
 * \param[out] value  The caller's (::xd_value_clear). What has none of the kinds is an error.
 */
xd_error *xd_session_get(const xd_session *session, const char *name, xd_value *value);

/** \brief Sets a variable to a tensor: `crossdock.Tensor` over the same memory. The script's Python
 * needs the package `crossdock`.
 */
xd_error *xd_session_set_tensor(const xd_session *session, const char *name,
                                const xd_tensor *tensor);

/** \brief Reads anything that `crossdock.asarray` takes. What a host gave comes back as the same
 * memory.
 * \param[in] device   Where it is wanted; NULL: where it is.
 * \param[out] tensor  The caller's. What it views lives as long, also after the session. Giving the last
 *                     handle of memory back that an object of Python keeps waits for Python's lock:
 *                     milliseconds while a script runs, and as long as native code holds it.
 */
xd_error *xd_session_get_tensor(const xd_session *session, const char *name,
                                const xd_device *device, xd_tensor **tensor);

/** \brief Calls what ::xd_session_get would read, as ::xd_session_run_text runs a program.
 * \param[in] arguments  NULL: none. Lent for the call.
 * \param[out] value     The caller's (::xd_value_clear). NULL: not wanted, and what is answered may be of any
 *                       type.
 */
xd_error *xd_session_call(const xd_session *session, const char *name,
                          const xd_arguments *arguments, const xd_run_options *options,
                          xd_value *value);

/**
 * \brief Runs the file or module that ran last again, as it is now on disk.
 *
 * Modules that lie in its folder, or below, are loaded anew, but for what is installed there
 * (`site-packages`), Python's own library and modules in C. What the program defined before is gone;
 * variables that the host set and functions that it defined stay. Where it fails everything is as it was
 * before.
 * \param[in] options  NULL: the session's limits.
 * \return As ::xd_session_run_file; `XD_ERROR_SCRIPT` also where nothing ran that could run again.
 */
xd_error *xd_session_reload(const xd_session *session, const xd_run_options *options);

/**
 * \brief Sets a variable to a function of the host's, which scripts call. Waits for its turn.
 *
 * It can be called until the session is freed or the name is defined anew, which both wait for calls that
 * are under way on other threads. What a script keeps of it fails from then on.
 * \param[in] word     Passed to the function.
 * \param[in] release  Called once with the word, whatever the result; may be NULL. It has returned when
 *                     ::xd_session_free, or the call that defines the name anew, returns, unless the function
 *                     itself makes that call: then it is called when the function returns.
 */
xd_error *xd_session_define(const xd_session *session, const char *name,
                            xd_script_function function, void *word, xd_word_release release);

/** \brief Sets what a function answers with that a script called; it is copied, and of a tensor the
 * script has its own share. The last one counts. Only during the call of the function.
 */
xd_error *xd_answer_set(const xd_answer *answer, const xd_value *value);

/**
 * \brief Stops what the session runs by a `KeyboardInterrupt`, and forgets what waits for its turn.
 *
 * Waits a tenth of a second at most for the script to notice, and never for Python's lock. One that
 * comes too late is taken back: the next script does not see it.
 * Threads: any, also the script's own; not from a handler of signals.
 * \param[out] outcome  `XD_STOP_*`; may be NULL: it is not wanted.
 */
xd_error *xd_session_interrupt(const xd_session *session, xd_stop_outcome *outcome);

/** \brief What the session does now. Never waits. */
xd_error *xd_session_describe(const xd_session *session, xd_session_state *state);

/** \brief Forgets a session. Waits for calls of its stream functions, and of those that it defined, on other
 * threads, and for nothing else; once the process exits, not for these either. The namespace goes when the script
 * thread comes to it, under the session's limits. What others still hold of it stays. A function that the session
 * calls may free it: the call goes on to its end.
 */
void xd_session_free(xd_session *session);

/** \brief Frees what a value of an answer holds, and makes it `None`. Not for values that the caller
 * filled.
 */
void xd_value_clear(xd_value *value);
/**@}*/

/**
 * \brief The function table: each field is the function `xd_` + its name, and never NULL.
 *
 * Fields are added at the end only; a released one keeps its place and type. Who gets a table from
 * elsewhere compares `abi_major` with `XD_API_MAJOR` and `struct_size` with the end of the last
 * field it uses, before it calls anything.
 */
typedef struct xd_api {
    /** Bytes of this struct as its maker knows it. */
    uint64_t struct_size;
    /** `XD_API_MAJOR` of its maker. */
    uint32_t abi_major;
    /** `XD_API_MINOR` of its maker. */
    uint32_t abi_minor;
    uint32_t (*abi_version)(void);
    const char *(*version)(void);
    int32_t (*exiting)(void);
    uint64_t (*counted_leaks)(void);
    xd_error *(*release_through)(xd_release_gate gate);
    xd_error *(*log_set)(xd_log_function function, void *word, uint32_t level);
    xd_error *(*trace_start)(const char *path);
    xd_error *(*trace_stop)(void);
    xd_error *(*error_create)(xd_status status, const char *message, const char *why,
                              const char *hint);
    xd_failure_kind (*error_kind)(const xd_error *error);
    xd_status (*error_status)(const xd_error *error);
    const char *(*error_operation)(const xd_error *error);
    const char *(*error_plugin)(const xd_error *error);
    const char *(*error_device)(const xd_error *error);
    int64_t (*error_native_code)(const xd_error *error);
    const char *(*error_native_name)(const xd_error *error);
    const char *(*error_message)(const xd_error *error);
    const char *(*error_why)(const xd_error *error);
    const char *(*error_hint)(const xd_error *error);
    const char *(*error_text)(const xd_error *error);
    const char *(*error_exception)(const xd_error *error);
    const char *(*error_traceback)(const xd_error *error);
    int32_t (*error_exit_code)(const xd_error *error);
    void (*error_free)(xd_error *error);
    const char *(*status_name)(xd_status status);
    xd_error *(*dtype_text)(xd_dtype dtype, char *name);
    xd_error *(*dtype_from_text)(const char *name, xd_dtype *dtype);
    xd_error *(*dl_device_text)(xd_dl_device device, char *name);
    xd_error *(*dl_device_from_text)(const char *name, xd_dl_device *device);
    xd_error *(*runtime_open)(const xd_runtime_options *options, xd_runtime **runtime);
    xd_error *(*runtime_default)(xd_runtime **runtime);
    xd_error *(*runtime_make_default)(const xd_runtime *runtime);
    xd_runtime *(*runtime_retain)(const xd_runtime *runtime);
    void (*runtime_free)(xd_runtime *runtime);
    xd_error *(*runtime_plugins)(const xd_runtime *runtime, xd_plugin_list **plugins);
    void (*plugin_list_free)(xd_plugin_list *plugins);
    xd_error *(*runtime_refused)(const xd_runtime *runtime, xd_error_list **errors);
    void (*error_list_free)(xd_error_list *errors);
    xd_error *(*runtime_load_plugin)(const xd_runtime *runtime, const char *path,
                                     xd_plugin **plugin);
    xd_error *(*runtime_retire_plugin)(const xd_runtime *runtime, const xd_plugin *plugin);
    xd_error *(*runtime_wait_for_releases)(const xd_runtime *runtime, uint64_t limit_ns);
    int32_t (*runtime_may_start_drivers)(const xd_runtime *runtime);
    xd_error *(*runtime_devices)(const xd_runtime *runtime, xd_device_list **devices);
    void (*device_list_free)(xd_device_list *devices);
    xd_error *(*runtime_device)(const xd_runtime *runtime, xd_dl_device pair, xd_device **device);
    xd_error *(*runtime_device_named)(const xd_runtime *runtime, const char *name,
                                      xd_device **device);
    xd_error *(*runtime_target_named)(const xd_runtime *runtime, const char *name,
                                      xd_device **device, xd_memory_kind *kind);
    xd_error *(*runtime_device_by_uuid)(const xd_runtime *runtime, const uint8_t *uuid,
                                        xd_device **device);
    xd_error *(*runtime_device_by_pci)(const xd_runtime *runtime, const char *pci_bus_id,
                                       xd_device **device);
    const char *(*plugin_name)(const xd_plugin *plugin);
    const char *(*plugin_vendor)(const xd_plugin *plugin);
    const char *(*plugin_version)(const xd_plugin *plugin);
    const char *(*plugin_path)(const xd_plugin *plugin);
    xd_probe_state (*plugin_state)(const xd_plugin *plugin);
    const char *(*plugin_detail)(const xd_plugin *plugin);
    xd_plugin *(*plugin_retain)(const xd_plugin *plugin);
    void (*plugin_free)(xd_plugin *plugin);
    xd_error *(*device_describe)(const xd_device *device, xd_device_info *info);
    xd_error *(*device_memory)(const xd_device *device, xd_memory_info *memory);
    xd_error *(*device_memory_usage)(const xd_device *device, xd_memory_usage *usage);
    xd_error *(*device_reset_peaks)(const xd_device *device);
    xd_error *(*device_trim)(const xd_device *device, uint64_t keep_bytes);
    xd_error *(*device_plugin)(const xd_device *device, xd_plugin **plugin);
    int32_t (*device_equal)(const xd_device *one, const xd_device *other);
    uint64_t (*device_hash)(const xd_device *device);
    xd_error *(*device_synchronize)(const xd_device *device, uint64_t limit_ns);
    xd_device *(*device_retain)(const xd_device *device);
    void (*device_free)(xd_device *device);
    xd_error *(*tensor_empty)(const xd_device *device, const xd_layout *layout,
                              const xd_empty_options *options, xd_tensor **tensor);
    xd_error *(*tensor_from_memory)(const xd_runtime *runtime, const xd_memory *memory,
                                    xd_tensor **tensor);
    xd_error *(*tensor_adopt_native)(const xd_runtime *runtime, const xd_memory *memory,
                                     xd_tensor **tensor);
    xd_error *(*tensor_import)(const xd_runtime *runtime, struct DLManagedTensorVersioned *managed,
                               const xd_import_options *options, xd_tensor **tensor);
    xd_error *(*tensor_import_legacy)(const xd_runtime *runtime, struct DLManagedTensor *managed,
                                      const xd_import_options *options, xd_tensor **tensor);
    xd_error *(*tensor_export)(const xd_tensor *tensor, const xd_export_options *options,
                               struct DLManagedTensorVersioned **managed);
    xd_error *(*tensor_try_export)(const xd_tensor *tensor,
                                   struct DLManagedTensorVersioned **managed);
    xd_error *(*tensor_export_legacy)(const xd_tensor *tensor, const xd_export_options *options,
                                      struct DLManagedTensor **managed);
    xd_error *(*tensor_describe)(const xd_tensor *tensor, xd_tensor_info *info);
    xd_error *(*tensor_device)(const xd_tensor *tensor, xd_device **device);
    xd_tensor *(*tensor_retain)(const xd_tensor *tensor);
    void (*tensor_free)(xd_tensor *tensor);
    xd_error *(*tensor_slice)(const xd_tensor *tensor, uint32_t count, const xd_axis_slice *slices,
                              xd_tensor **view);
    xd_error *(*tensor_permute)(const xd_tensor *tensor, uint32_t count, const uint32_t *axes,
                                xd_tensor **view);
    xd_error *(*tensor_reshape)(const xd_tensor *tensor, uint32_t ndim, const int64_t *shape,
                                xd_tensor **view);
    xd_error *(*tensor_reinterpret)(const xd_tensor *tensor, int64_t byte_offset,
                                    const xd_layout *layout, xd_memory_flags flags,
                                    xd_tensor **view);
    xd_error *(*tensor_read)(const xd_tensor *tensor, void *bytes, uint64_t size);
    xd_error *(*tensor_write)(const xd_tensor *tensor, const void *bytes, uint64_t size);
    xd_error *(*tensor_copy_from)(const xd_tensor *tensor, const xd_tensor *source,
                                  const xd_stream *stream);
    xd_error *(*tensor_fill)(const xd_tensor *tensor, const void *pattern, uint64_t size,
                             const xd_stream *stream);
    xd_error *(*tensor_to)(const xd_tensor *tensor, const xd_device *device,
                           const xd_move_options *options, xd_tensor **moved, xd_route **route);
    xd_error *(*tensor_register)(const xd_tensor *tensor, const xd_device *device,
                                 xd_registration **registration);
    void (*registration_free)(xd_registration *registration);
    xd_error *(*tensor_synchronize)(const xd_tensor *tensor, uint64_t limit_ns);
    xd_error *(*tensor_ready)(const xd_tensor *tensor, xd_event **event);
    xd_error *(*tensor_wait_to_read)(const xd_tensor *tensor, const xd_stream *stream);
    xd_error *(*tensor_wait_to_write)(const xd_tensor *tensor, const xd_stream *stream);
    xd_error *(*tensor_used_on)(const xd_tensor *tensor, const xd_stream *stream);
    xd_error *(*tensor_written_on)(const xd_tensor *tensor, const xd_stream *stream);
    xd_error *(*tensor_ready_on)(const xd_tensor *tensor, const xd_stream *stream);
    xd_error *(*stream_create)(const xd_device *device, xd_stream **stream);
    xd_error *(*stream_default)(const xd_device *device, xd_stream **stream);
    xd_error *(*stream_wrap)(const xd_device *device, uint64_t native, xd_stream **stream);
    xd_error *(*stream_find)(const xd_device *device, uint64_t native, xd_stream **stream);
    xd_error *(*stream_device)(const xd_stream *stream, xd_device **device);
    xd_error *(*stream_native_handle)(const xd_stream *stream, uint64_t *native);
    xd_error *(*stream_record)(const xd_stream *stream, xd_event **event);
    xd_error *(*stream_wait)(const xd_stream *stream, const xd_event *event, xd_wait_kind *how);
    xd_error *(*stream_synchronize)(const xd_stream *stream, uint64_t limit_ns);
    xd_error *(*stream_is_idle)(const xd_stream *stream, int32_t *idle);
    int32_t (*stream_equal)(const xd_stream *one, const xd_stream *other);
    xd_stream *(*stream_retain)(const xd_stream *stream);
    void (*stream_free)(xd_stream *stream);
    xd_error *(*event_create_host)(const xd_device *device, xd_event **event);
    xd_error *(*event_complete)(const xd_event *event, xd_status status);
    xd_error *(*event_device)(const xd_event *event, xd_device **device);
    xd_error *(*event_is_done)(const xd_event *event, int32_t *done);
    xd_error *(*event_synchronize)(const xd_event *event, uint64_t limit_ns);
    xd_error *(*event_elapsed)(const xd_event *event, const xd_event *earlier,
                               uint64_t *nanoseconds);
    xd_event *(*event_retain)(const xd_event *event);
    void (*event_free)(xd_event *event);
    xd_error *(*pointer_query)(const xd_runtime *runtime, uint64_t address, xd_pointer_info *info,
                               xd_device **device);
    xd_error *(*route_explain)(const xd_device *from, const xd_device *to, const xd_layout *layout,
                               const xd_move_options *options, xd_route **route);
    xd_error *(*tensor_explain)(const xd_tensor *tensor, const xd_device *to,
                                const xd_move_options *options, xd_route **route);
    xd_route_mode (*route_kind)(const xd_route *route);
    uint64_t (*route_bytes_copied)(const xd_route *route);
    uint64_t (*route_cost_ns)(const xd_route *route);
    const char *(*route_text)(const xd_route *route);
    const char *(*route_step)(const xd_route *route, uint64_t index);
    const char *(*route_refused)(const xd_route *route, uint64_t index);
    const char *(*route_instead)(const xd_route *route, uint64_t index);
    void (*route_free)(xd_route *route);
    xd_error *(*script_open)(const xd_runtime *runtime, const xd_script_options *options,
                             xd_script **script);
    xd_error *(*script_explain)(const xd_script_options *options, xd_value *text);
    xd_error *(*script_describe)(const xd_script *script, xd_script_info *info);
    void (*script_free)(xd_script *script);
    xd_error *(*session_create)(const xd_script *script, const xd_session_options *options,
                                xd_session **session);
    xd_error *(*session_run_text)(const xd_session *session, const char *program, const char *name,
                                  const xd_run_options *options);
    xd_error *(*session_run_file)(const xd_session *session, const char *path,
                                  const xd_run_options *options);
    xd_error *(*session_run_module)(const xd_session *session, const char *name,
                                    const xd_run_options *options);
    xd_error *(*session_set)(const xd_session *session, const char *name, const xd_value *value);
    xd_error *(*session_get)(const xd_session *session, const char *name, xd_value *value);
    xd_error *(*session_set_tensor)(const xd_session *session, const char *name,
                                    const xd_tensor *tensor);
    xd_error *(*session_get_tensor)(const xd_session *session, const char *name,
                                    const xd_device *device, xd_tensor **tensor);
    xd_error *(*session_call)(const xd_session *session, const char *name,
                              const xd_arguments *arguments, const xd_run_options *options,
                              xd_value *value);
    xd_error *(*session_reload)(const xd_session *session, const xd_run_options *options);
    xd_error *(*session_define)(const xd_session *session, const char *name,
                                xd_script_function function, void *word, xd_word_release release);
    xd_error *(*answer_set)(const xd_answer *answer, const xd_value *value);
    xd_error *(*session_interrupt)(const xd_session *session, xd_stop_outcome *outcome);
    xd_error *(*session_describe)(const xd_session *session, xd_session_state *state);
    void (*session_free)(xd_session *session);
    void (*value_clear)(xd_value *value);
} xd_api;

/** \brief The table of this copy of the library: never NULL, valid until the process ends. */
const xd_api *xd_get_api(void);

#ifdef __cplusplus
}
#endif

#endif /* CROSSDOCK_CROSSDOCK_H */

/**
 * \file plugin.h
 * \brief The contract between Crossdock and a device plugin, for plugins in C and C++.
 *
 * A plugin is a shared library that exports `crossdock_plugin`, which returns one `xd_plugin_table`,
 * and writes `XD_PLUGIN_DESCRIBE` once. The same layouts as the Rust crate `crossdock-sdk`.
 *
 * The comment of each hook says which threads may call it, whether it blocks, who owns what,
 * how it fails and since when it exists. Arguments that mean the same in all of them:
 *
 * \param[in]  plugin  What `open` gave. Borrowed; live from `open` to `close`.
 * \param[in]  device  The index of a device, below the count that `device_count` gave; a hook answers
 *                     `XD_INVALID` to any other, in its arguments too.
 * \param[out] out     Where the answer goes: never NULL, written on success only.
 * \param[out] error   NULL, or where a failing hook may put an error object, which the caller gives
 *                     back to `error_free`. Written on failure only.
 * \return `XD_OK`, or why not. After a failure nothing has changed unless the hook says otherwise.
 *
 * A size of 0 never reaches a plugin, and a word of 0 is no memory. No C++ exception may leave a hook.
 *
 * A handle is a number that is not 0; a hook looks it up and does not follow it as a pointer on trust. For
 * a stream or event that was destroyed, or that the plugin never gave, every hook answers `XD_STALE`, or
 * `XD_INVALID` where it cannot tell: callers make this mistake, and the conformance suite makes it too.
 *
 * Beside the statuses that a hook names, any may answer `XD_OOM_HOST`, `XD_DEVICE_LOST`, `XD_VENDOR` and,
 * from a fence around it, `XD_PANIC`.
 *
 * Built by `cc -std=c99 -fPIC -shared -fvisibility=hidden -I include mine.c -o libcrossdock_plugin_mine.so`:
 * the search for plugins takes files with this name, `crossdock conform FILE` checks one.
 */
#ifndef CROSSDOCK_PLUGIN_H
#define CROSSDOCK_PLUGIN_H

#include "plugin_groups.h"
#include "plugin_peer.h"
#include "plugin_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Major version of the contract: another one is refused. */
#define XD_ABI_MAJOR 1u
/** Minor version of the contract: grows with the table, and any is accepted. */
#define XD_ABI_MINOR 0u

/** Makes a function visible in a library that is built with `-fvisibility=hidden`. */
#define XD_EXPORT __attribute__((visibility("default")))

/** The hooks of one plugin, read by `struct_size`.
 *
 * A hook that can fail takes `error` last. `XD_NOT_READY` needs no error object.
 *
 * Time limits (`timeout_ns`, `deadline_ns`) are nanoseconds from the call on: 0 looks and does not
 * wait, `UINT64_MAX` is no limit.
 */
typedef struct xd_plugin_table {
    /** Bytes of this struct as the plugin knows it. */
    uint32_t struct_size;
    /** `XD_ABI_MAJOR` that the plugin was built against. */
    uint32_t abi_major;
    /** `XD_ABI_MINOR` that the plugin was built against. */
    uint32_t abi_minor;
    /** What an answer of `pointer_query` costs. A number that the host does not know counts as
     * `XD_QUERY_DRIVER`. */
    xd_query_cost query_cost;
    /** Zero. */
    uint32_t reserved[2];
    /** The bytes of the section `.crossdock`. */
    const uint8_t *description;
    /** Frees an error object that a hook of this plugin made.
     *
     * Threads: any.
     * Blocks:  no.
     * Owns:    takes the object.
     * Errors:  none.
     * Since:   table 1.0.
     */
    void (*error_free)(xd_plugin_error *error);
    /** Looks for the driver and its devices and changes nothing.
     *
     * Threads: one at a time; no hook but `probe` before `open`.
     * Blocks:  may.
     * Owns:    nothing.
     * Errors:  only what is neither ready nor absent nor broken, as `XD_PANIC`.
     * Since:   table 1.0.
     */
    xd_status (*probe)(xd_probe_info *out, xd_plugin_error **error);
    /** Acquires the driver. May be called again after it failed, and while an earlier handle lives:
     * that gives a handle with a state of its own, or `XD_CONFLICT`, and disturbs the earlier one in
     * neither case.
     *
     * A plugin may own threads and processes. It starts them here or later, not in `probe` and not
     * when its file is loaded, and `close` ends them; a thread that was told to end may return a little
     * later, since the library stays mapped. A process gets no signal handler, fork handler
     * or file of the host's, is waited for by its number alone, and ends by itself when the host does;
     * while a plugin has one, the host's program may get `SIGCHLD`. When the process ends too early,
     * its devices are lost.
     *
     * A plugin is not told where its file lies, and `dladdr` does not tell: while an earlier build is
     * loaded from the same path, the file is loaded as a private copy, which is deleted once its table
     * was read. What it finds beside it by `$ORIGIN` is then nothing, or the earlier build's. Files of
     * a plugin lie where it was built to look, where a variable of its vendor says, or where the
     * dynamic linker finds them by their name; or they are a part of its own file.
     *
     * Threads: one at a time.
     * Blocks:  may.
     * Owns:    borrows `host`, which lives as long as the process; the caller owns the handle
     *          until `close`.
     * Errors:  `XD_NO_DRIVER`, `XD_DRIVER_TOO_OLD`, `XD_DRIVER_STUB`, `XD_NO_DEVICE`,
     *          `XD_VENDOR`; `XD_CONFLICT` where it cannot be open twice.
     * Since:   table 1.0.
     */
    xd_status (*open)(const xd_host_services *host, xd_plugin_handle *out,
                      xd_plugin_error **error);
    /** Counts devices, after the vendor's masks. Fixed from `open` on.
     *
     * Threads: any.
     * Blocks:  no.
     * Owns:    nothing.
     * Errors:  `XD_VENDOR`.
     * Since:   table 1.0.
     */
    xd_status (*device_count)(xd_plugin_handle plugin, uint32_t *out, xd_plugin_error **error);
    /** Describes a device, the same each time.
     *
     * Threads: any.
     * Blocks:  no.
     * Owns:    nothing.
     * Errors:  `XD_INVALID` for an index that is not there.
     * Since:   table 1.0.
     */
    xd_status (*device_info)(xd_plugin_handle plugin, uint32_t device, xd_device_info *out,
                             xd_plugin_error **error);
    /** Says how much device memory there is now.
     *
     * Threads: any.
     * Blocks:  no.
     * Owns:    nothing.
     * Errors:  `XD_DEVICE_LOST`.
     * Since:   table 1.0.
     */
    xd_status (*memory_info)(xd_plugin_handle plugin, uint32_t device, xd_memory_info *out,
                             xd_plugin_error **error);
    /** Allocates memory. The size is never 0.
     *
     * Threads: any.
     * Blocks:  may.
     * Owns:    the caller owns the memory until `free`.
     * Errors:  `XD_OOM_DEVICE`, `XD_OOM_HOST`; `XD_UNSUPPORTED` for a kind the device does not
     *          offer, and for an alignment that it cannot keep.
     * Since:   table 1.0.
     */
    xd_status (*allocate)(xd_plugin_handle plugin, const xd_allocate_args *args,
                          xd_address *out, xd_plugin_error **error);
    /** Frees what `allocate` gave, at its base.
     *
     * Threads: any.
     * Blocks:  may: for work on this memory, never for other work.
     * Owns:    takes the memory; no work on it is in flight.
     * Errors:  `XD_NOT_OWNER` for another address or kind; the host logs them.
     * Since:   table 1.0.
     */
    xd_status (*free)(xd_plugin_handle plugin, const xd_address *address, xd_memory_kind kind,
                      xd_plugin_error **error);
    /** Copies bytes between host and device or between devices of this plugin, in stream order, or at
     * once without a stream.
     *
     * On a stream it does not wait, for pageable host memory neither: where the vendor's own copy
     * would, the plugin takes the bytes through memory of its own when the stream gets there. The
     * stream may be of another device of the plugin than the memory: `XD_UNSUPPORTED` where that cannot be.
     * Where it fails by another error, a part of it may be on the stream: the host keeps both memories until what is
     * on the stream by then is done. The same holds for strided copies and fills.
     *
     * An allocation of the plugin that is of another kind or device than its side says is copied as what it
     * is, or refused by `XD_NOT_OWNER`, `XD_INVALID` or `XD_UNSUPPORTED`, with nothing copied. A side that
     * says `XD_MEMORY_HOST` may be taken on trust. It may lie in memory that the plugin adopted, registered or
     * mapped: whether the sides overlap is a question of bytes, not of names.
     *
     * Threads: any; one call at a time for one stream.
     * Blocks:  without a stream; with one only where the vendor refuses a call in the middle of the work.
     * Owns:    borrows `args` for the call and both memories until the work is done.
     * Errors:  `XD_UNSUPPORTED` for a pair it cannot reach: nothing was changed; `XD_INVALID` for
     *          overlap. `XD_INVALID` too where a side reaches past the end of its allocation, with
     *          the offset of a handle, and `XD_NOT_OWNER` where it begins in none: nothing was copied.
     * Since:   table 1.0.
     */
    xd_status (*copy)(xd_plugin_handle plugin, const xd_copy_args *args,
                      xd_stream_handle stream, xd_plugin_error **error);
    /** Says who owns an address. Unowned is an answer, not an error; no word is dereferenced on
     * trust. When the host asks depends on `query_cost`. Of a word that others call this device's it asks
     * for the handle and for the pointer, and refuses a word that is both.
     *
     * Threads: any.
     * Blocks:  no.
     * Owns:    nothing.
     * Errors:  none but `XD_PANIC`.
     * Since:   table 1.0.
     */
    xd_status (*pointer_query)(xd_plugin_handle plugin, const xd_address *address,
                               xd_pointer_info *out, xd_plugin_error **error);
    /** Refuses new work, drains or gives up after `deadline_ns`, releases vendor objects.
     * Memory stays freeable. The deadline counts from the call on, in nanoseconds, and
     * `UINT64_MAX` is none; work that ran on past the deadline can still be waited for, and
     * the plugin is retired all the same. The host calls it at most once for each handle, after
     * `XD_TIMEOUT` too.
     *
     * Hooks that begin something answer `XD_RETIRED` from then on: `allocate`, `allocate_async`,
     * `copy`, `copy_strided`, `fill`, `register_host`, `adopt`, `map`, `stream_create`,
     * `stream_wrap`, `event_create`, `event_create_host`, `stream_host_call` and `peer_enable`;
     * `stream_default`, `event_record` and `stream_wait_event` may. Those that end, ask or wait go on:
     * `free`, `free_async`, `unregister_host`, `release_adopted`, `unmap`, `pointer_query`, the facts of
     * a device, `memory_trim`, `memory_usage`, `memory_reset_peaks`, `peer_can_access`, `peer_disable`,
     * `event_complete`, and queries, waits and ends of streams and events. The conformance suite asks
     * those that begin something, but `adopt` and `stream_wrap`.
     *
     * Threads: one at a time.
     * Blocks:  yes, up to the deadline.
     * Owns:    nothing.
     * Errors:  `XD_TIMEOUT`.
     * Since:   table 1.0.
     */
    xd_status (*retire)(xd_plugin_handle plugin, uint64_t deadline_ns, xd_plugin_error **error);
    /** Runs in the child of a fork, inside of `fork` and for each open handle: marks all state dead
     * without a vendor call. No hook of this handle is called afterwards.
     *
     * A plugin whose description names no driver may be opened anew then, `probe` and `open` again,
     * for a runtime of the child's. That finds what is static in the library as this hook left it: a
     * lock that a thread of the parent's held is held for ever unless it is made anew here. A plugin
     * whose driver was started before the fork is not called in the child any more.
     *
     * Threads: the only one there is.
     * Blocks:  no.
     * Owns:    nothing.
     * Errors:  none.
     * Since:   table 1.0.
     */
    void (*at_fork_child)(xd_plugin_handle plugin);
    /** Runs when the process begins to exit: stops the plugin's own threads; no vendor call
     * afterwards. Called once for each open plugin, retired ones too, before what its library registered
     * with `atexit`. From then on no hook is called, `close` neither.
     *
     * Threads are told to stop and not waited for. Work that is queued may stay undone, functions of the
     * host that have not begun never run, and a hook that waits may answer `XD_EXITING`.
     *
     * Threads: the one that called `exit`; others may still be inside of hooks that began before.
     * Blocks:  no.
     * Owns:    nothing.
     * Errors:  none.
     * Since:   table 1.0.
     */
    void (*at_exit)(xd_plugin_handle plugin);
    /** Gives everything back. The handle is dead afterwards; the library stays mapped. Called once nobody
     * holds the plugin, with `retire` before it or without; not after `XD_PANIC`, in a process that exits,
     * or in the child of a fork. Host events that are pending are completed with a failure, and work that is
     * left is waited for.
     *
     * Threads: any, often one of the host's own: the one that gave back what held the plugin last. None of
     *          the plugin's. One at a time, after every other hook returned.
     * Blocks:  may.
     * Owns:    takes the handle.
     * Errors:  the host logs them.
     * Since:   table 1.0.
     */
    xd_status (*close)(xd_plugin_handle plugin, xd_plugin_error **error);
    /** Streams and events, or NULL. */
    const xd_stream_hooks *streams;
    /** Streams of others, or NULL. */
    const xd_wrap_hooks *wrap;
    /** Events that the host completes, or NULL. */
    const xd_host_event_hooks *host_events;
    /** Host functions on a stream, or NULL. */
    const xd_host_call_hooks *host_calls;
    /** Times between events, or NULL. */
    const xd_timing_hooks *timing;
    /** Strided copies, or NULL. */
    const xd_strided_hooks *strided;
    /** Fills, or NULL. */
    const xd_fill_hooks *fill;
    /** Host memory locked for a device, or NULL. (`register` is a keyword.) */
    const xd_register_hooks *register_;
    /** Memory of others without a copy, or NULL. */
    const xd_adopt_hooks *adopt;
    /** Host views of device memory, or NULL. */
    const xd_map_hooks *map;
    /** Allocation in stream order, or NULL. */
    const xd_async_memory_hooks *async_memory;
    /** Open-ended facts, or NULL. */
    const xd_attribute_hooks *attributes;
    /** Cached memory, or NULL. */
    const xd_pool_hooks *pool;
    /** Direct links between the plugin's devices, or NULL. */
    const xd_peer_hooks *peer;
} xd_plugin_table;

/** The entry of a plugin file: its table, which is constant and lives as long as the process.
 *
 * Threads: any.
 * Blocks:  no.
 * Owns:    the plugin keeps the table.
 * Errors:  NULL refuses the plugin.
 * Since:   table 1.0.
 */
XD_EXPORT const xd_plugin_table *crossdock_plugin(void);

#ifdef __cplusplus
}
#endif

/**
 * Writes the plugin's description into the section `.crossdock` of its file, where a host reads it
 * without running any code of the plugin. Once in a plugin, at file scope:
 *
 *     XD_PLUGIN_DESCRIBE("name=mine", "vendor=me", "version=1.0.0", "devices=ext_dev");
 *
 * It defines `crossdock_description`, for `xd_plugin_table.description`. `devices` lists DLPack device
 * types, comma-separated: cpu, cuda, cuda_host, opencl, vulkan, metal, vpi, rocm, rocm_host, ext_dev,
 * cuda_managed, oneapi, webgpu, hexagon, maia, trn, tpu, tpu_host, ascend. All arguments are string literals.
 */
#define XD_PLUGIN_DESCRIBE(name, vendor, version, devices)                                     \
    static const char crossdock_description[] __attribute__((section(".crossdock"), used)) =   \
        "CROSSDOCK1\0" name "\0" vendor "\0" version "\0abi=1.0\0" devices "\0"

/**
 * The same for a plugin that starts a vendor's driver, whose library it names as it is opened:
 * `"driver=libcuda.so.1"`. A host whose search finds the file calls `probe` and `open` when somebody first
 * needs a device of these types; one that is told to load the file, at once, as it does without a driver.
 *
 * No driver works in the child of a fork once the parent started it, so there the plugin is opened only if
 * its driver was not started before. A plugin without one is opened anew after `at_fork_child`, and what the
 * host reaches of its memory is private to the process (no MAP_SHARED): a child uses its copy of it.
 */
#define XD_PLUGIN_DESCRIBE_DRIVER(name, vendor, version, devices, driver)                      \
    XD_PLUGIN_DESCRIBE(name, vendor, version, devices "\0" driver)

#endif /* CROSSDOCK_PLUGIN_H */

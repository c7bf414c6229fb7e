/**
 * \file plugin_groups.h
 * \brief The optional groups of hooks.
 *
 * A group is all present or all absent; a released group is frozen.
 * The arguments `plugin`, `out` and `error` mean what the head of `plugin.h` says. Include
 * `crossdock/plugin.h`.
 */
#ifndef CROSSDOCK_PLUGIN_GROUPS_H
#define CROSSDOCK_PLUGIN_GROUPS_H

#include "plugin_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Streams and the events on them.
 *
 * - Work that failed is over, and the work behind it on its stream still runs.
 * - A query or a wait answers `XD_VENDOR`, `XD_DEVICE_LOST` or `XD_OOM_DEVICE` for work that
 *   failed, never another status.
 * - An event answers it each time: every later call of `event_query` and `event_synchronize` gives
 *   the same status.
 * - A stream answers it once: `stream_query` gives it until `stream_synchronize` has given it, and
 *   everything that was on the stream at that call is over then. It is not sticky: what is put on the
 *   stream afterwards has no part in it.
 * - `XD_TIMEOUT`, `XD_NOT_READY`, `XD_CAPTURING`, `XD_INVALID`, `XD_STALE`, `XD_UNSUPPORTED`,
 *   `XD_CONFLICT`, `XD_PERMISSION`, `XD_ABI`, `XD_PANIC`, `XD_FORKED`, `XD_EXITING`, `XD_RETIRED` and
 *   `XD_OOM_HOST` do not say whether the work is over; the host then treats it as running.
 * - A wait of a stream for an event that failed is work that failed with the same status, so a
 *   failure travels from stream to stream. An event that is recorded behind failed work on its stream,
 *   and before `stream_synchronize` told of the failure, has that failure too.
 */
typedef struct xd_stream_hooks {
    /** Creates a stream on a device.
     *
     * Threads: any.
     * Blocks:  no.
     * Owns:    the caller owns the stream until `stream_destroy`.
     * Errors:  `XD_VENDOR`.
     * Since:   table 1.0.
     */
    xd_status (*stream_create)(xd_plugin_handle plugin, uint32_t device, xd_stream_handle *out,
                               xd_plugin_error **error);
    /** Names the device's default stream, or that of the calling thread.
     *
     * Threads: any.
     * Blocks:  no.
     * Owns:    the plugin keeps it; it is never destroyed by the caller.
     * Errors:  `XD_UNSUPPORTED` when the device has no such default.
     * Since:   table 1.0.
     */
    xd_status (*stream_default)(xd_plugin_handle plugin, uint32_t device,
                                xd_default_stream which, xd_stream_handle *out,
                                xd_plugin_error **error);
    /** Gives the integer that the vendor's API uses for the stream. Live streams of a device with
     * equal integers are one stream, so a number that names another stream on each thread must not
     * be given. The host queries a stream that it created only when a caller needs the integer:
     * before that, no other code uses the stream.
     *
     * Threads: any.
     * Blocks:  no.
     * Owns:    borrowed: valid while the stream lives.
     * Errors:  `XD_UNSUPPORTED` when there is none, which is not made up; `XD_STALE` after destroy.
     * Since:   table 1.0.
     */
    xd_status (*stream_native)(xd_plugin_handle plugin, xd_stream_handle stream, uint64_t *out,
                               xd_plugin_error **error);
    /** Destroys a stream; work already on it completes.
     *
     * Threads: any; one call at a time for one stream.
     * Blocks:  no.
     * Owns:    takes the stream.
     * Errors:  `XD_STALE`; the host logs them.
     * Since:   table 1.0.
     */
    xd_status (*stream_destroy)(xd_plugin_handle plugin, xd_stream_handle stream,
                                xd_plugin_error **error);
    /** Makes the calling thread wait until the stream's work is done. `timeout_ns` of
     * `UINT64_MAX` is no limit; with 0 it does not wait, and still answers for work that is over.
     *
     * Threads: any.
     * Blocks:  yes.
     * Owns:    borrows the stream.
     * Errors:  `XD_TIMEOUT`, which tells of no failure yet; the first failure of the stream's
     *          work, once, when all of it is over.
     * Since:   table 1.0.
     */
    xd_status (*stream_synchronize)(xd_plugin_handle plugin, xd_stream_handle stream,
                                    uint64_t timeout_ns, xd_plugin_error **error);
    /** Says whether the stream's work is done: `XD_OK` or `XD_NOT_READY`.
     *
     * Threads: any.
     * Blocks:  no.
     * Owns:    borrows the stream.
     * Errors:  the first failure of the stream's work, once all of it is over.
     * Since:   table 1.0.
     */
    xd_status (*stream_query)(xd_plugin_handle plugin, xd_stream_handle stream,
                              xd_plugin_error **error);
    /** Makes the stream wait for an event of the same plugin, as it is at this call: for its last
     * record, or for the host. A later record does not move the wait.
     *
     * Threads: any; one call at a time for one stream.
     * Blocks:  no.
     * Owns:    borrows both; the event may be destroyed at once.
     * Errors:  `XD_UNSUPPORTED` when the two cannot be chained.
     * Since:   table 1.0.
     */
    xd_status (*stream_wait_event)(xd_plugin_handle plugin, xd_stream_handle stream,
                                   xd_event_handle event, xd_plugin_error **error);
    /** Creates an event; one that was never recorded is done.
     *
     * Threads: any.
     * Blocks:  no.
     * Owns:    the caller owns the event until `event_destroy`.
     * Errors:  `XD_VENDOR`.
     * Since:   table 1.0.
     */
    xd_status (*event_create)(xd_plugin_handle plugin, uint32_t device, xd_event_handle *out,
                              xd_plugin_error **error);
    /** Records the event at the stream's present end; replaces an earlier record for every later
     * call. Waits that were called before keep the earlier one.
     *
     * Threads: any; one call at a time for one stream.
     * Blocks:  no.
     * Owns:    borrows both.
     * Errors:  `XD_INVALID` for an event that the host completes. After any failure the event
     *          keeps its earlier record.
     * Since:   table 1.0.
     */
    xd_status (*event_record)(xd_plugin_handle plugin, xd_event_handle event,
                              xd_stream_handle stream, xd_plugin_error **error);
    /** Says whether the event happened: `XD_OK` or `XD_NOT_READY`.
     *
     * Threads: any.
     * Blocks:  no.
     * Owns:    borrows the event.
     * Errors:  the failure of the work before it, the same each time.
     * Since:   table 1.0.
     */
    xd_status (*event_query)(xd_plugin_handle plugin, xd_event_handle event,
                             xd_plugin_error **error);
    /** Makes the calling thread wait for the event. `timeout_ns` of `UINT64_MAX` is no limit;
     * with 0 it does not wait, and still answers for an event that happened.
     *
     * Threads: any.
     * Blocks:  yes.
     * Owns:    borrows the event.
     * Errors:  `XD_TIMEOUT`; the failure of the work before it, the same each time.
     * Since:   table 1.0.
     */
    xd_status (*event_synchronize)(xd_plugin_handle plugin, xd_event_handle event,
                                   uint64_t timeout_ns, xd_plugin_error **error);
    /** Destroys an event, also one that is pending. A host event that is pending is completed with
     * the failure `XD_VENDOR`, which its waiters see; their streams go on. Its message should say that
     * the event was destroyed: nothing else tells them.
     *
     * Threads: any.
     * Blocks:  no.
     * Owns:    takes the event. After a failure the event is still alive, and may be destroyed
     *          again.
     * Errors:  `XD_STALE`; the host logs them.
     * Since:   table 1.0.
     */
    xd_status (*event_destroy)(xd_plugin_handle plugin, xd_event_handle event,
                               xd_plugin_error **error);
} xd_stream_hooks;

/** Streams of others. */
typedef struct xd_wrap_hooks {
    /** Makes a stream of the integer that the vendor's API uses.
     *
     * A number that names a default stream there (0 and 1 of CUDA and of HIP) gives one more handle of
     * that stream, for which `stream_native` gives one integer whatever it was wrapped by. One that
     * names another stream on each thread (2 of both) is resolved by the calling thread: the handle is
     * of that thread's stream, whichever thread uses it; where the vendor reaches that from its own
     * thread alone, it is `XD_UNSUPPORTED`. Callers vouch for no number below 4096, where no object
     * lies. A number that can be no stream, as 0 of OpenCL, is `XD_INVALID`, and is not followed as an
     * address.
     *
     * Threads: any.
     * Blocks:  no.
     * Owns:    the stream stays the caller's; the plugin never destroys it and may retain it. The
     *          handle ends with `stream_destroy`, once for each call.
     * Errors:  `XD_INVALID` for a number that can be no stream, and when it belongs to another device
     *          and the vendor can say so; `XD_UNSUPPORTED`.
     * Since:   table 1.0.
     */
    xd_status (*stream_wrap)(xd_plugin_handle plugin, uint32_t device, uint64_t native,
                             xd_stream_handle *out, xd_plugin_error **error);
} xd_wrap_hooks;

/** Events that the host completes, so that two vendors chain without a blocked thread. */
typedef struct xd_host_event_hooks {
    /** Creates an event that is pending until `event_complete`.
     *
     * Threads: any.
     * Blocks:  no.
     * Owns:    the caller owns the event until `event_destroy`. That call, and `close`, complete
     *          an event that is still pending with a failure.
     * Errors:  `XD_VENDOR`.
     * Since:   table 1.0.
     */
    xd_status (*event_create_host)(xd_plugin_handle plugin, uint32_t device,
                                   xd_event_handle *out, xd_plugin_error **error);
    /** Completes such an event, with `XD_OK` or a failure that its waiters then see: `XD_VENDOR`,
     * `XD_DEVICE_LOST` and `XD_OOM_DEVICE` as they are, every other status as `XD_VENDOR`.
     *
     * Threads: any.
     * Blocks:  no.
     * Owns:    borrows the event.
     * Errors:  `XD_INVALID` for another kind of event or a second completion. After any other
     *          failure the event is still pending, and may be completed again.
     * Since:   table 1.0.
     */
    xd_status (*event_complete)(xd_plugin_handle plugin, xd_event_handle event,
                                xd_status status, xd_plugin_error **error);
} xd_host_event_hooks;

/** Host functions on a stream. */
typedef struct xd_host_call_hooks {
    /** Runs `function(word)` when the stream reaches it. The function is the host's: it is short, waits
     * for nothing, and calls neither hooks nor the vendor. So it may run inside of a callback of the
     * driver's; who calls it holds no lock that a hook takes.
     *
     * A driver that drops functions behind failed work, or with a lost device, leaves them to the
     * plugin, which runs them itself. Where the device says `XD_CAP_POLLED_HOST_CALLS`, that may be as late as in
     * the next `stream_query` of that stream.
     *
     * Threads: any; one call at a time for one stream. `function` runs on any thread, of the vendor's or
     *          of the plugin's own.
     * Blocks:  no.
     * Owns:    `word` is the caller's; `function` runs exactly once, also behind work that failed.
     * Errors:  `XD_UNSUPPORTED`. After any error of this call `function` is never called.
     * Since:   table 1.0.
     */
    xd_status (*stream_host_call)(xd_plugin_handle plugin, xd_stream_handle stream,
                                  xd_host_function function, void *word, xd_plugin_error **error);
} xd_host_call_hooks;

/** Times between events. */
typedef struct xd_timing_hooks {
    /** Nanoseconds from one event to another, both done. Called for any two live events of the plugin when
     * a program asks for the time: pending ones, those of two devices, and those that the host completes
     * too.
     *
     * Threads: any.
     * Blocks:  no.
     * Owns:    borrows both.
     * Errors:  `XD_INVALID` when one was never recorded, `end` happened before `start`, or the plugin
     *          has no time between the two; else `XD_NOT_READY` before both happened.
     * Since:   table 1.0.
     */
    xd_status (*event_elapsed)(xd_plugin_handle plugin, xd_event_handle start,
                               xd_event_handle end, uint64_t *out, xd_plugin_error **error);
} xd_timing_hooks;

/** Strided copies. */
typedef struct xd_strided_hooks {
    /** Copies an n-dimensional region in stream order, or at once without a stream.
     *
     * Threads: any; one call at a time for one stream.
     * Blocks:  without a stream; with one only where the vendor refuses a call in the middle of the work.
     * Owns:    borrows `args` for the call and both memories until the work is done.
     * Errors:  `XD_UNSUPPORTED` for a pattern it cannot make: nothing was changed. `XD_INVALID` and
     *          `XD_NOT_OWNER` as `copy` answers them, and `XD_INVALID` too where a side reaches before the
     *          beginning. The host asks for none whose sides overlap.
     * Since:   table 1.0.
     */
    xd_status (*copy_strided)(xd_plugin_handle plugin, const xd_strided_args *args,
                              xd_stream_handle stream, xd_plugin_error **error);
} xd_strided_hooks;

/** Fills. */
typedef struct xd_fill_hooks {
    /** Repeats a pattern over a range in stream order, or at once without a stream.
     *
     * Threads: any; one call at a time for one stream.
     * Blocks:  without a stream; with one only where the vendor refuses a call in the middle of the work.
     * Owns:    borrows `args` for the call and the memory until the work is done.
     * Errors:  `XD_UNSUPPORTED`; `XD_INVALID` for a pattern length other than 1, 2, 4, 8, 16.
     *          `XD_INVALID` and `XD_NOT_OWNER` for its range as `copy` answers them.
     * Since:   table 1.0.
     */
    xd_status (*fill)(xd_plugin_handle plugin, const xd_fill_args *args,
                      xd_stream_handle stream, xd_plugin_error **error);
} xd_fill_hooks;

/** Host memory of others, locked for a device. */
typedef struct xd_register_hooks {
    /** Locks `size` bytes of host memory for the device, so that copies between the two are fast and, on a
     * stream, leave the calling thread free. They name the memory as `copy` names other host memory, all of
     * it or a part: `XD_MEMORY_HOST`. A query may answer for it, `XD_MEMORY_HOST` or `XD_MEMORY_PINNED`, with
     * `XD_POINTER_FOREIGN`.
     *
     * Where the vendor locks for all its devices at once, the lock serves the plugin's others too. The host locks
     * its own memory once for a plugin.
     *
     * Its pages may be read-only: the device then only reads the memory, and no work writes it.
     *
     * Threads: any.
     * Blocks:  may.
     * Owns:    the memory stays the caller's and outlives the registration.
     * Errors:  `XD_CONFLICT` when it overlaps an earlier registration for the device, or memory that the
     *          plugin allocated; `XD_PERMISSION` where the system or the vendor does not lock it, as pages
     *          that are read-only; `XD_OOM_HOST`.
     * Since:   table 1.0.
     */
    xd_status (*register_host)(xd_plugin_handle plugin, uint32_t device, void *pointer,
                               uint64_t size, xd_plugin_error **error);
    /** Undoes `register_host`. Adopted memory stays adopted. The host may call this while work that uses the
     * memory is in flight, because another thread can submit work at any time. While such work needs the memory
     * locked, the hook returns `XD_NOT_READY`: the memory stays registered, and the host calls again later. A
     * plugin that cannot query that work blocks until it is over, which delays other releases of the plugin.
     *
     * Nobody can tell whether work of a lost device is over. So this fails for a lost device, and for another
     * one where a lost one locked the memory or may still work with it: it stays registered, and the caller
     * keeps it for good. Other devices can register it all the same.
     *
     * Threads: any.
     * Blocks:  may: for work on this memory, never for other work.
     * Owns:    nothing afterwards.
     * Errors:  `XD_NOT_OWNER` when it was not registered; `XD_NOT_READY` while work needs the lock; `XD_DEVICE_LOST`.
     * Since:   table 1.0.
     */
    xd_status (*unregister_host)(xd_plugin_handle plugin, uint32_t device, void *pointer,
                                 xd_plugin_error **error);
} xd_register_hooks;

/** Memory of others that becomes device memory without a copy. */
typedef struct xd_adopt_hooks {
    /** Gives device memory that aliases `size` bytes at `foreign`: host memory
     * (`XD_MEMORY_HOST`, form pointer) or the vendor's own memory object (`XD_MEMORY_DEVICE`,
     * form handle), for which the caller vouches. `flags` are `XD_ADOPT_*`; the vendor's own
     * object has none.
     *
     * What it gives may be the host's own address. A query then answers for that as device memory with
     * `XD_POINTER_FOREIGN`, unless the plugin knew the memory before, and the host still takes it for host
     * memory. `free` refuses it: its owner frees it, once `release_adopted` has ended each adoption.
     *
     * Threads: any.
     * Blocks:  may.
     * Owns:    the memory stays the owner's and outlives the adoption; the plugin may retain
     *          it.
     * Errors:  `XD_UNSUPPORTED` when the device cannot reach it: nothing was changed.
     * Since:   table 1.0.
     */
    xd_status (*adopt)(xd_plugin_handle plugin, uint32_t device, const xd_address *foreign,
                       xd_memory_kind kind, uint64_t size, xd_adopt_flags flags,
                       xd_address *out, xd_plugin_error **error);
    /** Ends an adoption; host memory then holds what the device wrote.
     *
     * Threads: any.
     * Blocks:  may: for work on this memory, never for other work.
     * Owns:    nothing afterwards.
     * Errors:  `XD_NOT_OWNER` when it was not adopted.
     * Since:   table 1.0.
     */
    xd_status (*release_adopted)(xd_plugin_handle plugin, uint32_t device,
                                 const xd_address *adopted, xd_plugin_error **error);
} xd_adopt_hooks;

/** Host views of device memory. */
typedef struct xd_map_hooks {
    /** Gives the host an address where it sees `size` bytes of device memory until `unmap`.
     *
     * One memory may be mapped several times at once, also at one address; each ends by its own
     * `unmap`.
     *
     * The host does not keep a program from asking for a copy or a fill of memory that is mapped. Where the
     * vendor forbids one it is answered by `XD_CONFLICT`, with nothing copied; where the device works in the
     * bytes that the host sees, it may be done.
     *
     * Threads: any.
     * Blocks:  yes, until the memory's earlier work is done.
     * Owns:    while it is mapped the device touches the memory for what it is asked then,
     *          and for nothing else.
     * Errors:  `XD_UNSUPPORTED` when it would need a copy.
     * Since:   table 1.0.
     */
    xd_status (*map)(xd_plugin_handle plugin, uint32_t device, const xd_address *address,
                     uint64_t size, void **out, xd_plugin_error **error);
    /** Ends a mapping; the device sees what the host wrote.
     *
     * Threads: any.
     * Blocks:  may: for work on this memory, never for other work.
     * Owns:    takes the mapping.
     * Errors:  `XD_NOT_OWNER` when it is not a mapping of this address.
     * Since:   table 1.0.
     */
    xd_status (*unmap)(xd_plugin_handle plugin, uint32_t device, const xd_address *address,
                       void *pointer, xd_plugin_error **error);
} xd_map_hooks;

/** Allocation in stream order. */
typedef struct xd_async_memory_hooks {
    /** Allocates device memory that is usable in stream order.
     *
     * Threads: any; one call at a time for one stream.
     * Blocks:  no.
     * Owns:    the caller owns the memory until `free` or `free_async`.
     * Errors:  `XD_OOM_DEVICE`.
     * Since:   table 1.0.
     */
    xd_status (*allocate_async)(xd_plugin_handle plugin, xd_stream_handle stream, uint64_t size,
                                xd_address *out, xd_plugin_error **error);
    /** Frees device memory once the stream reaches this point. Until then a query may still know it, and
     * `memory_usage` counts it.
     *
     * Threads: any; one call at a time for one stream.
     * Blocks:  no.
     * Owns:    takes the memory, after a failure as well: the host then frees it no more, and logs the
     *          failure. After `XD_UNSUPPORTED` alone it is still the host's, which frees it by `free`
     *          once the work is over.
     * Errors:  `XD_NOT_OWNER`; `XD_UNSUPPORTED` where this stream cannot free it.
     * Since:   table 1.0.
     */
    xd_status (*free_async)(xd_plugin_handle plugin, xd_stream_handle stream,
                            const xd_address *address, xd_plugin_error **error);
} xd_async_memory_hooks;

/** Open-ended facts about a device. */
typedef struct xd_attribute_hooks {
    /** Answers one numeric attribute. Keys and units are the plugin's own, and its documents
     * list them; the contract gives no key a meaning.
     *
     * Threads: any.
     * Blocks:  no.
     * Owns:    nothing.
     * Errors:  `XD_UNSUPPORTED` for an unknown key.
     * Since:   table 1.0.
     */
    xd_status (*device_attribute)(xd_plugin_handle plugin, uint32_t device, uint32_t key,
                                  uint64_t *out, xd_plugin_error **error);
} xd_attribute_hooks;

/** Cached memory: given back, and counted.
 *
 * Cached is memory that was freed and that the plugin, or its vendor's pool, keeps for later
 * allocations. A plugin that keeps none may count all the same, and then has nothing to give back.
 */
typedef struct xd_pool_hooks {
    /** Gives cached memory back, until at most `keep_bytes` bytes of it are left.
     *
     * It gives back what is free now and waits for no stream of the plugin: memory that a stream has not
     * freed yet stays, but for frees under way, which may be given a moment (100 ms at most). So does a free
     * part of a block, which is what the plugin took from its vendor at once and gives back whole. Memory that
     * is allocated keeps its address and its bytes. Without cached memory beyond `keep_bytes` it does nothing.
     *
     * Threads: any.
     * Blocks:  may: for that moment, and for the vendor's call, which may wait for what other libraries have
     *          on the device.
     * Owns:    nothing.
     * Errors:  `XD_VENDOR`, `XD_DEVICE_LOST`.
     * Since:   table 1.0.
     */
    xd_status (*memory_trim)(xd_plugin_handle plugin, uint32_t device, uint64_t keep_bytes,
                             xd_plugin_error **error);
    /** Counts what the plugin has of a device's memory, for all who use the plugin.
     *
     * Device memory counts with at least the size that was asked for, from the call that allocates it
     * on until `free` returned, or its stream has freed it; memory of another kind may count too, and
     * memory of others does not. Of the numbers that are known `used` is at most `reserved`, and
     * neither is above its peak.
     *
     * Threads: any.
     * Blocks:  no.
     * Owns:    nothing.
     * Errors:  `XD_DEVICE_LOST`.
     * Since:   table 1.0.
     */
    xd_status (*memory_usage)(xd_plugin_handle plugin, uint32_t device, xd_memory_usage *out,
                              xd_plugin_error **error);
    /** Begins both peaks anew, with what is reserved and used now. They began when the plugin was
     * opened.
     *
     * Threads: any.
     * Blocks:  no.
     * Owns:    nothing.
     * Errors:  `XD_DEVICE_LOST`.
     * Since:   table 1.0.
     */
    xd_status (*memory_reset_peaks)(xd_plugin_handle plugin, uint32_t device,
                                    xd_plugin_error **error);
} xd_pool_hooks;

#ifdef __cplusplus
}
#endif

#endif /* CROSSDOCK_PLUGIN_GROUPS_H */

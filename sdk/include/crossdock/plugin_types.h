/**
 * \file plugin_types.h
 * \brief Statuses, handles, addresses, and the argument and answer structs of hooks.
 *
 * Numbers are never reused and released structs never change. Include `crossdock/plugin.h`.
 */
#ifndef CROSSDOCK_PLUGIN_TYPES_H
#define CROSSDOCK_PLUGIN_TYPES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a hook answers. Zero is success; a number is never reused. A reader meets numbers that
 * it does not know.
 */
typedef int32_t xd_status;
/** It worked. */
#define XD_OK 0
/** Work is still pending (an answer of a query, not a failure). */
#define XD_NOT_READY 1
/** An argument is wrong: fix the caller. */
#define XD_INVALID 2
/** Not offered for these arguments. Nothing was changed; try another route. */
#define XD_UNSUPPORTED 3
/** The device has too little memory. */
#define XD_OOM_DEVICE 4
/** The host has too little memory. */
#define XD_OOM_HOST 5
/** The vendor's driver library is not there. */
#define XD_NO_DRIVER 6
/** The vendor's driver is older than the plugin can use. */
#define XD_DRIVER_TOO_OLD 7
/** The driver library is a build-time stub. */
#define XD_DRIVER_STUB 8
/** The driver is there and offers no device. */
#define XD_NO_DEVICE 9
/** The device stopped working. It stays so for the plugin, which answers it from then on for all that
 * needs the device; the host keeps no record of it, and asks again each time. What is given back, and
 * what the plugin knows by itself, needs no device: memory of a lost one is gone with it, and `free`
 * succeeds. Memory of the host is not gone: see `unregister_host`. */
#define XD_DEVICE_LOST 10
/** The address does not belong to this plugin or to the kind that was claimed. */
#define XD_NOT_OWNER 11
/** The handle or address named something that is gone. */
#define XD_STALE 12
/** It overlaps or contradicts something that exists. */
#define XD_CONFLICT 13
/** The stream is being captured: nothing was put on it, and it cannot be synchronized. */
#define XD_CAPTURING 14
/** The system forbids it. */
#define XD_PERMISSION 15
/** The time limit passed first. */
#define XD_TIMEOUT 16
/** Plugin and host disagree about the contract. */
#define XD_ABI 17
/** A panic was caught inside the plugin, which is a mistake of the plugin: the host calls no hook of
 * it from then on, but to complete its own events. */
#define XD_PANIC 18
/** The process is a fork of the one that opened the plugin. */
#define XD_FORKED 19
/** The process is exiting: nothing was called. */
#define XD_EXITING 20
/** The plugin was retired. */
#define XD_RETIRED 21
/** The vendor's call failed; the error object has its code and name. */
#define XD_VENDOR 22

/** What `open` returned; every later hook takes it first. 0 is none. */
typedef uint64_t xd_plugin_handle;

/** A stream of one device. `XD_STREAM_NONE` asks for a synchronous call. */
typedef uint64_t xd_stream_handle;
/** No stream. */
#define XD_STREAM_NONE UINT64_C(0)

/** An event of one device. 0 is none. */
typedef uint64_t xd_event_handle;

/** What an answer of a plugin's pointer query costs. */
typedef uint32_t xd_query_cost;
/** An answer takes a call of the driver, or longer. The host asks about memory that others call the
 * host's once, before it first uses that memory. */
#define XD_QUERY_DRIVER 0u
/** An answer comes from a table of the plugin's own. The host asks whenever it learns of an address. */
#define XD_QUERY_TABLE 1u

/** Whose memory an address names. */
typedef uint32_t xd_memory_kind;
/** Nobody's that the plugin knows: an answer of the pointer query. */
#define XD_MEMORY_UNOWNED 0u
/** Owned by one device. */
#define XD_MEMORY_DEVICE 1u
/** Host memory locked for a device. */
#define XD_MEMORY_PINNED 2u
/** Migrates on demand. */
#define XD_MEMORY_MANAGED 3u
/** Ordinary host memory. */
#define XD_MEMORY_HOST 4u

/** How an `xd_address` is to be read: one device may have memory of both forms, as its hooks say. */
typedef uint32_t xd_address_form;
/** `word + offset` is an address of this process or of the device. One of the device's is never an
 * address of something else in this process: its range is reserved here, by the vendor's driver or by
 * `mmap` with `PROT_NONE`; else the device uses handles. */
#define XD_ADDRESS_POINTER 0u
/** `word` is an opaque handle (`cl_mem`); only `offset` takes arithmetic. */
#define XD_ADDRESS_HANDLE 1u

/** What `probe` found. */
typedef uint32_t xd_probe_state;
/** The host has not asked yet: never an answer of the hook. */
#define XD_PROBE_NOT_LOOKED_AT 0u
/** Driver and at least one device are there. */
#define XD_PROBE_READY 1u
/** The driver or its devices are not there: an answer, not an error. */
#define XD_PROBE_ABSENT 2u
/** Something is there and does not work. */
#define XD_PROBE_BROKEN 3u

/** Which default stream is meant. */
typedef uint32_t xd_default_stream;
/** The device's own default. */
#define XD_DEFAULT_STREAM_LEGACY 0u
/** That of the calling thread, of which each has its own. The host does not ask for it. */
#define XD_DEFAULT_STREAM_PER_THREAD 1u

/** What works on a device. A bit for a group that the plugin lacks refuses the plugin, with all its devices. */
typedef uint64_t xd_capabilities;
/** Device memory can be read and written by the host at its address. */
#define XD_CAP_HOST_ACCESSIBLE (UINT64_C(1) << 0)
/** Copies on a stream return before they are done. */
#define XD_CAP_ASYNC_COPY (UINT64_C(1) << 1)
/** `copy_strided` works. */
#define XD_CAP_STRIDED_COPY (UINT64_C(1) << 2)
/** `fill` works. */
#define XD_CAP_FILL (UINT64_C(1) << 3)
/** Pinned memory can be allocated. */
#define XD_CAP_PINNED (UINT64_C(1) << 4)
/** Managed memory can be allocated. */
#define XD_CAP_MANAGED (UINT64_C(1) << 5)
/** Host memory can be registered. */
#define XD_CAP_REGISTER (UINT64_C(1) << 6)
/** Host memory can be adopted without a copy. */
#define XD_CAP_ADOPT_HOST (UINT64_C(1) << 7)
/** Native memory objects of others can be adopted. */
#define XD_CAP_ADOPT_NATIVE (UINT64_C(1) << 8)
/** Events carry times. */
#define XD_CAP_TIMING (UINT64_C(1) << 9)
/** Events that the host completes. */
#define XD_CAP_HOST_EVENTS (UINT64_C(1) << 10)
/** `copy_strided` packs sub-byte elements: the first of a byte lies in its lowest bits. */
#define XD_CAP_SUB_BYTE_STRIDES (UINT64_C(1) << 11)
/** The driver calls no host function once the device is lost, and the plugin learns of a loss only when it is
 *  called. The host calls `stream_query` from time to time while it waits for a host function. */
#define XD_CAP_POLLED_HOST_CALLS (UINT64_C(1) << 12)

/** Facts about an allocation, as a pointer query answers them. */
typedef uint32_t xd_pointer_flags;
/** The host may dereference `host_pointer`. */
#define XD_POINTER_HOST_ACCESSIBLE (UINT32_C(1) << 0)
/** Migrates on demand. */
#define XD_POINTER_MANAGED (UINT32_C(1) << 1)
/** Known to be read-only. */
#define XD_POINTER_READ_ONLY (UINT32_C(1) << 2)
/** The plugin did not make it: the driver knows it from others in the process, or it was registered or
 * adopted. Host memory that was registered stays the host's to free. */
#define XD_POINTER_FOREIGN (UINT32_C(1) << 3)

/** How host memory is adopted. */
typedef uint32_t xd_adopt_flags;
/** Its owner forbids writes: nobody asks the plugin for one. The vendor's object is made read-only
 * where there is such a thing, so that kernels and other libraries are refused too. */
#define XD_ADOPT_READ_ONLY (UINT32_C(1) << 0)

/** UTF-8 text by pointer and length; not NUL-terminated. NULL with length 0 is the empty text. */
typedef struct xd_text {
    /** First byte, or NULL when `len` is 0. */
    const uint8_t *ptr;
    /** Length in bytes. */
    uint64_t len;
} xd_text;

/** What went wrong in a hook. Made by a plugin, read by the host, freed by the plugin's
 * `error_free`.
 */
typedef struct xd_plugin_error {
    /** Never `XD_OK`. */
    xd_status status;
    /** Zero. */
    uint32_t reserved;
    /** The vendor's number, or 0. */
    int64_t native_code;
    /** The call that failed: the vendor's function, or the hook's own name. */
    xd_text operation;
    /** The vendor's name of `native_code`, or empty. */
    xd_text native_name;
    /** One sentence: why. */
    xd_text message;
} xd_plugin_error;

/** A place in memory: an address, or a handle with a byte offset. */
typedef struct xd_address {
    /** Address or opaque handle, by `form`. */
    uint64_t word;
    /** Bytes past `word`. */
    uint64_t offset;
    /** How to read `word`. */
    xd_address_form form;
    /** Zero. */
    uint32_t reserved;
} xd_address;

/** One side of a copy. */
typedef struct xd_side {
    /** Where the first element is. */
    xd_address address;
    /** Whose memory it is. `XD_MEMORY_HOST` may be memory that the plugin has never seen. */
    xd_memory_kind kind;
    /** The device's index in its plugin; ignored for host memory. */
    uint32_t device;
} xd_side;

/** Arguments of `allocate`. */
typedef struct xd_allocate_args {
    /** Bytes; never 0. */
    uint64_t size;
    /** A power of two; the result is at least 256-byte aligned all the same. */
    uint64_t alignment;
    /** Device, pinned or managed. */
    xd_memory_kind kind;
    /** The device's index in its plugin. */
    uint32_t device;
} xd_allocate_args;

/** Arguments of `copy`. */
typedef struct xd_copy_args {
    /** Written. */
    xd_side dst;
    /** Read. */
    xd_side src;
    /** Length; never 0. */
    uint64_t bytes;
} xd_copy_args;

/** Arguments of `copy_strided`. The arrays hold `rank` numbers each and are borrowed for the
 * call.
 */
typedef struct xd_strided_args {
    /** Written; its address is that of the element with index 0 in every dimension. */
    xd_side dst;
    /** Read; likewise. */
    xd_side src;
    /** Bits of one element, lanes included; no multiple of 8 is `XD_UNSUPPORTED` without sub-byte strides. */
    uint32_t element_bits;
    /** Number of dimensions, 1 to 64. */
    uint32_t rank;
    /** Extents; none is 0. */
    const int64_t *shape;
    /** Strides of `dst` in elements; no two elements overlap. */
    const int64_t *dst_strides;
    /** Strides of `src` in elements. */
    const int64_t *src_strides;
} xd_strided_args;

/** Arguments of `fill`. */
typedef struct xd_fill_args {
    /** Written. */
    xd_side dst;
    /** Length; a multiple of `pattern_bytes`, never 0. */
    uint64_t bytes;
    /** The first `pattern_bytes` bytes count. */
    uint8_t pattern[16];
    /** 1, 2, 4, 8 or 16. */
    uint32_t pattern_bytes;
    /** Zero. */
    uint32_t reserved;
} xd_fill_args;

/** What `probe` found. Texts are NUL-terminated UTF-8. */
typedef struct xd_probe_info {
    /** Ready, absent or broken. */
    xd_probe_state state;
    /** Devices found: as many as `device_count` counts, so after the vendor's masks. */
    uint32_t device_count;
    /** What was looked for and where (absent), or why it does not work (broken). */
    uint8_t detail[1024];
    /** The driver's version, or empty. */
    uint8_t driver_version[64];
} xd_probe_info;

/** What a device is. Texts are NUL-terminated UTF-8. */
typedef struct xd_device_info {
    /** The DLPack device type that the plugin claims. */
    int32_t dl_type;
    /** The DLPack id that the plugin claims; the host may give another. */
    int32_t dl_id;
    /** Identity across processes; all zero when the device has none. */
    uint8_t uuid[16];
    /** Name for people. */
    uint8_t name[128];
    /** `domain:bus:device.function`, or empty. */
    uint8_t pci_bus_id[32];
    /** The driver's version, or empty. */
    uint8_t driver_version[64];
    /** The runtime's or platform's version, or empty. */
    uint8_t runtime_version[128];
    /** Bytes of device memory. */
    uint64_t total_memory;
    /** What works here. */
    xd_capabilities capabilities;
    /** The form of device memory that `allocate` gives; `pointer_query` answers that of others. Pinned and
     * managed memory is of the form pointer on every device, and the host reaches it there. */
    xd_address_form address_form;
    /** The DLPack type of its pinned memory, or 0. */
    int32_t pinned_dl_type;
    /** The DLPack type of its managed memory, or 0. */
    int32_t managed_dl_type;
    /** Zero. */
    uint32_t reserved;
} xd_device_info;

/** Device memory now, in bytes: a hint, stale when it is read. */
typedef struct xd_memory_info {
    /** Free bytes; `UINT64_MAX` when the vendor does not say. */
    uint64_t free;
    /** All bytes. */
    uint64_t total;
} xd_memory_info;

/** What a plugin has of a device's memory, in bytes; `UINT64_MAX` for a number that it does not know. */
typedef struct xd_memory_usage {
    /** What it has of the driver or the system: used memory and cached memory. */
    uint64_t reserved;
    /** The part of it that is allocated. */
    uint64_t used;
    /** The most that `reserved` was. */
    uint64_t peak_reserved;
    /** The most that `used` was. */
    uint64_t peak_used;
} xd_memory_usage;

/** Who owns an address. */
typedef struct xd_pointer_info {
    /** `XD_MEMORY_UNOWNED` makes every other field meaningless. */
    xd_memory_kind kind;
    /** The owning device's index in its plugin. */
    uint32_t device;
    /** First byte of the allocation (not of a view). By the host's address or the device's. */
    xd_address base;
    /** Bytes of the allocation. */
    uint64_t size;
    /** Never reused in the process. What is one memory has one number, under whatever handle: an object
     *  and a part of it. */
    uint64_t allocation_id;
    /** Where the host reaches the asked address, or 0. */
    uint64_t host_pointer;
    /** Where the device reaches the asked address, or 0: a handle is no address, and has none. */
    uint64_t device_pointer;
    /** The vendor's context, or 0. */
    uint64_t context;
    /** Further facts. */
    xd_pointer_flags flags;
    /** Zero. */
    uint32_t reserved;
} xd_pointer_info;

/** What a host offers a plugin; valid until the process ends. */
typedef struct xd_host_services {
    /** Bytes of this struct as the host knows it. */
    uint32_t struct_size;
    /** The most verbose level that is wanted: 0 off, 1 error, to 5 trace. It changes
     *  while the process runs: read it, as an atomic, before a line is made. */
    uint32_t log_level;
    /** Passed back to `log`. */
    void *context;
    /** Writes a log line (level, target, message); any thread; never calls back. */
    void (*log)(void *context, uint32_t level, xd_text target, xd_text message);
} xd_host_services;

/** A host function that a stream calls with its word. */
typedef void (*xd_host_function)(void *word);

#ifdef __cplusplus
}
#endif

#endif /* CROSSDOCK_PLUGIN_TYPES_H */

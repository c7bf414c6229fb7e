/**
 * \file two_forms.c
 * \brief The plugin of `ext_dev.c` as one whose device has both handles and addresses: what it allocates has
 * handles, and memory that others have from its driver, which a test plays, has addresses.
 */
#define crossdock_plugin crossdock_plugin_plain
#include "ext_dev.c"
#undef crossdock_plugin

enum { MOST_OTHERS = 16 };

XD_EXPORT const xd_plugin_table *crossdock_plugin(void);
/** Plays another user of the driver: makes `size` bytes known at `base`, which the host reaches too or
 * not; with a size of 0 they are known no more. */
XD_EXPORT void two_forms_others(uint64_t base, uint64_t size, uint32_t host_too);
/** The handle of the next allocation; each has a small number else. */
XD_EXPORT void two_forms_next_handle(uint64_t handle);

/* All guarded by `lock`. By the places of `allocations`: */
static uint64_t handles[MOST_ALLOCATIONS];
static uint64_t chosen_handle;
static allocation others[MOST_OTHERS];
static uint32_t host_reaches[MOST_OTHERS];

void two_forms_next_handle(uint64_t handle) {
    pthread_mutex_lock(&lock);
    chosen_handle = handle;
    pthread_mutex_unlock(&lock);
}

void two_forms_others(uint64_t base, uint64_t size, uint32_t host_too) {
    pthread_mutex_lock(&lock);
    size_t place = MOST_OTHERS;
    for (size_t i = 0; i < MOST_OTHERS; i++) {
        if (others[i].base == base || (place == MOST_OTHERS && !others[i].base)) {
            place = i;
        }
    }
    if (place < MOST_OTHERS) {
        others[place] = (allocation){size ? base : 0, size, next_id++};
        host_reaches[place] = host_too;
    }
    pthread_mutex_unlock(&lock);
}

/** The allocation that has this handle, or NULL. The caller holds `lock`. */
static allocation *find_handle(uint64_t handle) {
    for (size_t i = 0; handle && i < MOST_ALLOCATIONS; i++) {
        if (allocations[i].base && handles[i] == handle) {
            return &allocations[i];
        }
    }
    return NULL;
}

/** The place among the others with this address inside it, or `MOST_OTHERS`. The caller holds `lock`. */
static size_t find_others(uint64_t address) {
    size_t i = 0;
    while (i < MOST_OTHERS && (!others[i].base || address - others[i].base >= others[i].size)) {
        i++;
    }
    return i;
}

static xd_status two_device_info(xd_plugin_handle plugin, uint32_t device, xd_device_info *out,
                                 xd_plugin_error **error) {
    xd_status status = ext_device_info(plugin, device, out, error);
    if (status == XD_OK) {
        out->capabilities = 0;
        out->address_form = XD_ADDRESS_HANDLE;
    }
    return status;
}

static xd_status two_allocate(xd_plugin_handle plugin, const xd_allocate_args *args, xd_address *out,
                              xd_plugin_error **error) {
    xd_status status = ext_allocate(plugin, args, out, error);
    if (status != XD_OK) {
        return status;
    }
    pthread_mutex_lock(&lock);
    const allocation *at = find(out->word);
    uint64_t handle = chosen_handle ? chosen_handle : UINT64_C(16) * at->id;
    handles[at - allocations] = handle;
    chosen_handle = 0;
    pthread_mutex_unlock(&lock);
    out->word = handle;
    out->form = XD_ADDRESS_HANDLE;
    return XD_OK;
}

static xd_status two_free(xd_plugin_handle plugin, const xd_address *address, xd_memory_kind kind,
                          xd_plugin_error **error) {
    int is_base = address && address->form == XD_ADDRESS_HANDLE && address->offset == 0;
    pthread_mutex_lock(&lock);
    const allocation *at = is_base ? find_handle(address->word) : NULL;
    xd_address plain = {at ? at->base : 0, 0, XD_ADDRESS_POINTER, 0};
    pthread_mutex_unlock(&lock);
    return ext_free(plugin, &plain, kind, error);
}

/** A side as host memory, which the copies of `ext_dev.c` reach: what it names, if that has `bytes`. */
static xd_status as_host(xd_side *side, uint64_t bytes) {
    if (side->kind == XD_MEMORY_HOST) {
        return XD_OK;
    }
    if (side->device != 0) {
        return XD_INVALID;
    }
    int is_handle = side->address.form == XD_ADDRESS_HANDLE;
    uint64_t asked = xd_plugin_pointer(&side->address);
    xd_status status = XD_NOT_OWNER;
    pthread_mutex_lock(&lock);
    size_t other = is_handle ? MOST_OTHERS : find_others(asked);
    const allocation *at = is_handle ? find_handle(side->address.word)
                                     : (other < MOST_OTHERS ? &others[other] : NULL);
    if (at) {
        uint64_t offset = is_handle ? side->address.offset : asked - at->base;
        status = xd_plugin_inside(offset, bytes, at->size) ? refused : XD_INVALID;
        xd_address place = {at->base + offset, 0, XD_ADDRESS_POINTER, 0};
        side->address = place;
        side->kind = XD_MEMORY_HOST;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static xd_status two_copy(xd_plugin_handle plugin, const xd_copy_args *args, xd_stream_handle stream,
                          xd_plugin_error **error) {
    if (!args) {
        return ext_copy(plugin, args, stream, error);
    }
    xd_copy_args plain = *args;
    xd_status status = as_host(&plain.dst, args->bytes);
    status = status == XD_OK ? as_host(&plain.src, args->bytes) : status;
    if (status != XD_OK) {
        return xd_plugin_fail(status, "copy", "a side is not known, or has not so much", error);
    }
    return ext_copy(plugin, &plain, stream, error);
}

static xd_status two_pointer_query(xd_plugin_handle plugin, const xd_address *address,
                                   xd_pointer_info *out, xd_plugin_error **error) {
    (void)plugin;
    if (!address || !out) {
        return xd_plugin_fail(XD_INVALID, "pointer_query", "an argument is NULL", error);
    }
    memset(out, 0, sizeof *out);
    uint64_t asked = xd_plugin_pointer(address);
    pthread_mutex_lock(&lock);
    const allocation *own =
        address->form == XD_ADDRESS_HANDLE ? find_handle(address->word) : NULL;
    size_t other = find_others(asked);
    if (own && address->offset < own->size) {
        out->kind = XD_MEMORY_DEVICE;
        out->base.word = address->word;
        out->base.form = XD_ADDRESS_HANDLE;
        out->size = own->size;
        out->allocation_id = own->id;
    } else if (address->form == XD_ADDRESS_POINTER && other < MOST_OTHERS) {
        out->kind = host_reaches[other] ? XD_MEMORY_PINNED : XD_MEMORY_DEVICE;
        out->base.word = others[other].base;
        out->size = others[other].size;
        out->allocation_id = others[other].id;
        out->device_pointer = asked;
        out->host_pointer = host_reaches[other] ? asked : 0;
        out->flags = XD_POINTER_FOREIGN | (host_reaches[other] ? XD_POINTER_HOST_ACCESSIBLE : 0);
    }
    pthread_mutex_unlock(&lock);
    return XD_OK;
}

const xd_plugin_table *crossdock_plugin(void) {
    static xd_plugin_table table;
    table = *crossdock_plugin_plain();
    table.device_info = two_device_info;
    table.allocate = two_allocate;
    table.free = two_free;
    table.copy = two_copy;
    table.pointer_query = two_pointer_query;
    return &table;
}

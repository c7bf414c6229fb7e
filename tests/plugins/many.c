/**
 * \file many.c
 * \brief The plugin of `ext_dev.c` with four devices, each with a uuid and a place on the PCI bus.
 *
 * Device `i` of the machine has the uuid 00..0i and the place 0000:0i:00.0. The macro MASK is a mask
 * as vendors have them: numbers or uuids' last digits as `u3`, with `,` between them; what is out of
 * range ends the list, what stands there twice counts once.
 */
#define crossdock_plugin crossdock_plugin_one
#include "ext_dev.c"
#undef crossdock_plugin

#include <stdio.h>

XD_EXPORT const xd_plugin_table *crossdock_plugin(void);

enum { DEVICES = 4 };
static uint32_t seen, visible[DEVICES];

static void read_mask(void) {
#ifdef MASK
    const char *mask = MASK;
#else
    const char *mask = NULL;
#endif
    seen = 0;
    for (uint32_t i = 0; !mask && i < DEVICES; i++) {
        visible[seen++] = i;
    }
    for (const char *at = mask; at && *at; at += strcspn(at, ","), at += *at == ',') {
        unsigned long asked = strtoul(*at == 'u' ? at + 1 : at, NULL, 10);
        int twice = 0;
        for (uint32_t i = 0; i < seen; i++) {
            twice |= visible[i] == asked;
        }
        if (asked >= DEVICES) {
            return;
        }
        if (!twice) {
            visible[seen++] = (uint32_t)asked;
        }
    }
}

static xd_status probe_masked(xd_probe_info *out, xd_plugin_error **error) {
    xd_status status = ext_probe(out, error);
    read_mask();
    if (status == XD_OK) {
        out->state = seen ? XD_PROBE_READY : XD_PROBE_ABSENT;
        out->device_count = seen;
        xd_plugin_copy_text(out->detail, sizeof out->detail, seen ? "" : "the mask leaves no device");
    }
    return status;
}

static xd_status open_masked(const xd_host_services *host, xd_plugin_handle *out,
                             xd_plugin_error **error) {
    read_mask();
    return ext_open(host, out, error);
}

static xd_status count(xd_plugin_handle plugin, uint32_t *out, xd_plugin_error **error) {
    (void)plugin, (void)error;
    *out = seen;
    return XD_OK;
}

static xd_status info(xd_plugin_handle plugin, uint32_t device, xd_device_info *out,
                      xd_plugin_error **error) {
    if (device >= seen) {
        return xd_plugin_fail(XD_INVALID, "device_info", "there is no such device", error);
    }
    xd_status status = ext_device_info(plugin, 0, out, error);
    if (status == XD_OK) {
        out->dl_id = (int32_t)device;
        out->uuid[15] = (uint8_t)visible[device];
        out->uuid[0] = 0xab;
        snprintf((char *)out->pci_bus_id, sizeof out->pci_bus_id, "0000:%02x:00.0", visible[device]);
    }
    return status;
}

static xd_status allocate(xd_plugin_handle plugin, const xd_allocate_args *args, xd_address *out,
                          xd_plugin_error **error) {
    xd_allocate_args one = *args;
    one.device = 0;
    return args->device < seen ? ext_allocate(plugin, &one, out, error)
                               : xd_plugin_fail(XD_INVALID, "allocate", "there is no such device",
                                                error);
}

static xd_status copy(xd_plugin_handle plugin, const xd_copy_args *args, xd_stream_handle stream,
                      xd_plugin_error **error) {
    xd_copy_args one = *args;
    one.dst.device = one.src.device = 0;
    return ext_copy(plugin, &one, stream, error);
}

const xd_plugin_table *crossdock_plugin(void) {
    static xd_plugin_table table;
    table = *crossdock_plugin_one();
    table.probe = probe_masked;
    table.open = open_masked;
    table.device_count = count;
    table.device_info = info;
    table.allocate = allocate;
    table.copy = copy;
    return &table;
}

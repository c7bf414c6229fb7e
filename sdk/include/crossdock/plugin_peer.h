/**
 * \file plugin_peer.h
 * \brief Direct links between the devices of a plugin: the last of the optional groups.
 *
 * The arguments `plugin`, `out` and `error` mean what the head of `plugin.h` says. Include
 * `crossdock/plugin.h`.
 */
#ifndef CROSSDOCK_PLUGIN_PEER_H
#define CROSSDOCK_PLUGIN_PEER_H

#include "plugin_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Direct links between devices of the plugin.
 *
 * Over a link a device reaches memory of another one, its peer, by itself. Copies between the two arrive
 * the same with a link and without: without one the vendor takes the bytes as it can, through host memory
 * too.
 *
 * The host trusts no link before it has proved it. It asks for both directions and enables both, copies a
 * pattern each way with streams of either device, and compares what each device then has. Until that is
 * done no copy of a program goes over the link, and where anything differs the host disables it.
 */
typedef struct xd_peer_hooks {
    /** Says whether work of `device` can reach memory of `peer` over a link: 1 or 0. That is what the
     * vendor claims, the same each time. A device has no link with itself.
     *
     * Threads: any.
     * Blocks:  may: for the vendor's call, never for work.
     * Owns:    nothing.
     * Errors:  `XD_INVALID` for a device or a peer that is not there; `XD_DEVICE_LOST`.
     * Since:   table 1.0.
     */
    xd_status (*peer_can_access)(xd_plugin_handle plugin, uint32_t device, uint32_t peer,
                                 uint32_t *out, xd_plugin_error **error);
    /** Lets work of `device` reach memory of `peer` over the link: all device memory that this plugin
     * allocated there before, and allocates afterwards. Copies between the two that are submitted on a
     * stream of `device` from then on may go over it. Work that was submitted before is made as it would
     * have been.
     *
     * A link that is enabled already, by this plugin or by others in the process, is `XD_OK`, and enabled
     * once.
     *
     * Threads: any.
     * Blocks:  may: for the vendor's call, never for work.
     * Owns:    the link is enabled until `peer_disable`, or `close`.
     * Errors:  `XD_UNSUPPORTED` where `peer_can_access` says 0: nothing was changed. `XD_INVALID` for a
     *          device or a peer that is not there; `XD_PERMISSION`, `XD_DEVICE_LOST`, `XD_VENDOR`.
     * Since:   table 1.0.
     */
    xd_status (*peer_enable)(xd_plugin_handle plugin, uint32_t device, uint32_t peer,
                             xd_plugin_error **error);
    /** Ends what `peer_enable` began; the other direction stays as it is. Copies between the two that are
     * submitted on a stream of `device` from then on are made without the link, unless others in the
     * process enabled it too. Work that was submitted before is made all the same.
     *
     * A link that is not enabled is `XD_OK`.
     *
     * Threads: any.
     * Blocks:  may: for the vendor's call, never for work.
     * Owns:    nothing afterwards.
     * Errors:  `XD_CONFLICT` where the vendor would wait for work over the link: it stays enabled.
     *          `XD_INVALID` for a device or a peer that is not there; `XD_DEVICE_LOST`, `XD_VENDOR`.
     * Since:   table 1.0.
     */
    xd_status (*peer_disable)(xd_plugin_handle plugin, uint32_t device, uint32_t peer,
                              xd_plugin_error **error);
} xd_peer_hooks;

#ifdef __cplusplus
}
#endif

#endif /* CROSSDOCK_PLUGIN_PEER_H */

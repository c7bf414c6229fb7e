/**
 * \file held_at_entry.c
 * \brief The plugin of `ext_dev.c`, whose entry a test can hold: where `HELD_AT_ENTRY` names two file
 *        descriptors, as in `5,6`, it writes a byte to the first and waits for one from the second.
 */
#define crossdock_plugin crossdock_plugin_not_held
#include "ext_dev.c"
#undef crossdock_plugin

#include <stdio.h>
#include <unistd.h>

XD_EXPORT const xd_plugin_table *crossdock_plugin(void);

const xd_plugin_table *crossdock_plugin(void) {
    const char *held = getenv("HELD_AT_ENTRY");
    int inside, go_on;
    char byte = 0;
    if (held && sscanf(held, "%d,%d", &inside, &go_on) == 2) {
        ssize_t done = write(inside, &byte, 1);
        done += read(go_on, &byte, 1);
        (void)done;
    }
    return crossdock_plugin_not_held();
}

/**
 * \file logs_late.c
 * \brief The plugin of `ext_dev.c`, which writes to the host's log when it is told that the process ends
 *        and when it does, and says in the child of a fork that it was told.
 */
#define crossdock_plugin crossdock_plugin_quiet
#include "ext_dev.c"
#undef crossdock_plugin

#include <unistd.h>

XD_EXPORT const xd_plugin_table *crossdock_plugin(void);

static const xd_host_services *services;

static void say(const char *line) {
    services->log(services->context, 3, xd_plugin_text("logs_late"), xd_plugin_text(line));
}

static void at_the_end(void) {
    say("the process ends");
}

static void say_and_end(xd_plugin_handle plugin) {
    say("told of the exit");
    crossdock_plugin_quiet()->at_exit(plugin);
}

static xd_status open_and_keep(const xd_host_services *host, xd_plugin_handle *out,
                               xd_plugin_error **error) {
    services = host;
    atexit(at_the_end);
    return ext_open(host, out, error);
}

static void say_and_mark(xd_plugin_handle plugin) {
    static const char told[] = "logs_late: this is the child of a fork\n";
    ssize_t said = write(2, told, sizeof told - 1);
    (void)said;
    ext_at_fork_child(plugin);
}

const xd_plugin_table *crossdock_plugin(void) {
    static xd_plugin_table table;
    table = *crossdock_plugin_quiet();
    table.open = open_and_keep;
    table.at_exit = say_and_end;
    table.at_fork_child = say_and_mark;
    return &table;
}

/**
 * \file throws.cpp
 * \brief A plugin in C++ over that of `ext_dev.c`, whose copies throw; its fence answers XD_PANIC.
 *
 * No exception may leave a hook: each function of the table that runs C++ code is behind `fenced`.
 * The C part is compiled into an object file whose entry is named `crossdock_plugin_in_c`.
 */
#include <crossdock/plugin_support.h>

#include <stdexcept>

extern "C" const xd_plugin_table *crossdock_plugin_in_c(void);

namespace {

template <typename Work> xd_status fenced(xd_plugin_error **error, Work work) noexcept {
    try {
        return work();
    } catch (...) {
        return xd_plugin_fail(XD_PANIC, "copy", "the C++ code threw", error);
    }
}

xd_status copy(xd_plugin_handle, const xd_copy_args *, xd_stream_handle, xd_plugin_error **error) {
    return fenced(error, []() -> xd_status { throw std::runtime_error("no copy today"); });
}

} // namespace

extern "C" XD_EXPORT const xd_plugin_table *crossdock_plugin(void) {
    static const xd_plugin_table table = [] {
        xd_plugin_table made = *crossdock_plugin_in_c();
        made.copy = copy;
        return made;
    }();
    return &table;
}

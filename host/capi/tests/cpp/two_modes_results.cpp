// The half of `two_modes.cpp` that gets results.
#include "check.hpp"

std::size_t devices_by_results();

std::size_t devices_by_results() {
    auto runtime = crossdock::Runtime::open(crossdock::RuntimeOptions().search(false));
    CHECK(runtime && !runtime->load_plugin("/nowhere/plugin.so"));
    const auto devices = runtime->devices();
    return devices ? devices->size() : 0;
}

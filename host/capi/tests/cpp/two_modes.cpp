// A program of two files, one with exceptions and one without, each with the calls of its own.
#include "check.hpp"

std::size_t devices_by_results();

int main(int argc, char **argv) {
    const auto runtime = open_runtime(argc, argv);
    CHECK(devices_by_results() == 1);
    CHECK(!runtime.devices().empty());
    fails(crossdock::ErrorKind::load, XD_INVALID,
          [&] { return runtime.load_plugin("/nowhere/plugin.so"); });
    return 0;
}

// Streams and events: work stands in their order, limits pass, and an event that is dropped fails.
#include "check.hpp"

#include <atomic>

using namespace crossdock;
using namespace std::chrono_literals;

namespace {

void order(const Runtime &runtime, const Device &device) {
    auto stream = Stream::create(device);
    CHECK(stream == stream.share() && stream != Stream::create(device));
    CHECK(stream.device() == device && stream.is_idle());
    auto held = Event::host(device);
    CHECK(stream.wait(held) == WaitKind::native);
    auto tensor = Tensor::empty(device, Dtype::of<std::int32_t>(), {8});
    tensor.fill(std::int32_t{1}, stream);
    auto end = stream.record();
    CHECK(!end.is_done() && !stream.is_idle());
    fails(ErrorKind::hook, XD_TIMEOUT, [&] { return stream.synchronize(1ms); });
    fails(ErrorKind::hook, XD_TIMEOUT, [&] { return tensor.synchronize(0s); });
    CHECK(!tensor.try_to_dlpack());
    held.complete();
    end.synchronize(1min);
    CHECK(end.is_done());
    CHECK(tensor.read<std::int32_t>() == std::vector<std::int32_t>(8, 1));
    fails(ErrorKind::hook, XD_INVALID, [&] { return held.complete(); });

    // Work of the caller's own.
    tensor.wait_to_write(stream);
    tensor.written_on(stream);
    tensor.wait_to_read(stream);
    tensor.used_on(stream);
    stream.synchronize();
    CHECK(runtime.device(device.spec()) == device);
}

void dropped(const Device &device) {
    auto stream = Stream::create(device);
    {
        auto held = Event::host(device);
        stream.wait(held);
    }
    fails(ErrorKind::hook, XD_VENDOR, [&] { return stream.synchronize(1min); });
}

void limits() {
    CHECK(Limit(-1s).nanoseconds() == 0 && Limit(2us).nanoseconds() == 2000);
    CHECK(Limit(std::chrono::hours::max()).nanoseconds() == XD_NO_LIMIT);
    CHECK(Limit::none().nanoseconds() == XD_NO_LIMIT);
    CHECK(Limit(std::chrono::duration<double>(0.5)).nanoseconds() == 500'000'000);
}

void of_the_process(const Runtime &runtime) {
    static std::atomic<int> lines{0};
    log_to([](LogLevel, const char *, const char *) { ++lines; throw 1; }, LogLevel::trace);
    auto other = Runtime::open(RuntimeOptions().search(false).device_order("nonsense:x"));
    CHECK(other != runtime);
    log_to([](LogLevel, const char *, const char *) {}, LogLevel::off);
    CHECK(lines > 0);
    CHECK(!version().empty());
    misused([] { return Trace::start("/nowhere/file"); });
    runtime.make_process_runtime();
    CHECK(Runtime::process() == runtime);
    fails(ErrorKind::misuse, XD_CONFLICT, [&] { return other.make_process_runtime(); });
}

} // namespace

int main(int argc, char **argv) {
    const auto runtime = open_runtime(argc, argv);
    limits();
    for (const auto &device : runtime.devices()) {
        order(runtime, device);
        dropped(device);
    }
    of_the_process(runtime);
    return 0;
}

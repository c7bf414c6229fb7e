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

// A stream that was moved from is no "no stream": the call would go past what its stream waits for.
void moved_from(const Runtime &runtime, const Device &device) {
    auto stream = Stream::create(device);
    const auto kept = std::move(stream);
    auto tensor = Tensor::empty(device, Dtype::of<float>(), {4});
    const auto refused = [](auto call, const char *what) {
        const auto error = misused(call);
        CHECK(error.why().find("moved from") != std::string::npos);
        CHECK(error.message().find(what) != std::string::npos);
    };
    refused([&] { return tensor.fill(3.0f, stream); }, "stream");
    refused([&] { return tensor.copy_from(tensor, stream); }, "stream");
    const auto move = MoveOptions().copy(Copy::always).on(stream);
    refused([&] { return tensor.to(device, move); }, "stream");
    refused([&] { return tensor.to_by_route(device, move); }, "stream");
    refused([&] { return tensor.explain(device, move); }, "stream");
    refused([&] { return Route::explain(device, device, Dtype::of<float>(), {4}, move); }, "stream");
    const auto empty = EmptyOptions().on(stream);
    refused([&] { return Tensor::empty(device, Dtype::of<float>(), {4}, empty); }, "stream");
    refused([&] { return tensor.to_dlpack(ExportOptions().on(stream)); }, "stream");
    refused([&] { return tensor.to_dlpack_legacy(ExportOptions().on(stream)); }, "stream");

    auto nowhere = runtime.device(device.spec());
    const auto somewhere = std::move(nowhere);
    auto owner = std::make_shared<float>(1.0f);
    std::weak_ptr<float> alive = owner;
    auto *data = owner.get();
    auto of_owner = Tensor::view(runtime, data, {1}, std::move(owner));
    auto *managed = of_owner.to_dlpack().release();
    { const auto ended = std::move(of_owner); }
    refused([&] { return Tensor::from_dlpack(runtime, managed, ImportOptions().to(nowhere)); },
            "device");
    CHECK(alive.expired()); // taken whatever the result
    auto *legacy = tensor.to_dlpack_legacy().release();
    refused([&] { return Tensor::from_dlpack(runtime, legacy, ImportOptions().ready_on(stream)); },
            "stream");
    tensor.fill(3.0f, kept);
    tensor.to_dlpack(ExportOptions().on(stream).unordered()); // the last word counts
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
    const auto error =
        fails(ErrorKind::misuse, XD_CONFLICT, [&] { return other.make_process_runtime(); });
    CHECK(error.hint().find("`Runtime::process()`") != std::string::npos);
}

} // namespace

int main(int argc, char **argv) {
    const auto runtime = open_runtime(argc, argv);
    limits();
    for (const auto &device : runtime.devices()) {
        order(runtime, device);
        moved_from(runtime, device);
        dropped(device);
    }
    of_the_process(runtime);
    return 0;
}

// Tensors: from vectors, views and DLPack, their elements, views and moves, on every device.
#include "check.hpp"

#include <crossdock/dlpack.h>

#include <numeric>
#include <thread>
#include <unordered_set>

using namespace crossdock;

namespace {

std::vector<float> counted(std::size_t count) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), 0.0f);
    return values;
}

void of_vectors(const Runtime &runtime) {
    const auto *data = static_cast<const float *>(nullptr);
    auto values = counted(6);
    data = values.data();
    auto tensor = Tensor::from(runtime, std::move(values), {2, 3});
    CHECK(tensor.host_span<float>().data() == data); // no copy
    CHECK((tensor.shape() == Shape{2, 3}) && (tensor.strides() == Shape{3, 1}));
    CHECK(tensor.dtype() == Dtype::of<float>() && tensor.dtype().name() == "float32");
    CHECK(tensor.read<float>() == counted(6));
    tensor.host_span<float>()[5] = 7.0f;
    CHECK(tensor.narrow(1, 2, 1).narrow(0, 1, 1).item<float>() == 7.0f);
    CHECK(Tensor::from(runtime, std::vector<int>()).read<int>().empty());

    CHECK(Tensor::from(runtime, {1.0f, 2.0f}).read<float>() == (std::vector<float>{1, 2}));
    CHECK((Tensor::from(runtime, {1, 2, 3, 4}, {2, 2}).shape() == Shape{2, 2}));
    const auto pair = Tensor::from(runtime, {0, 0});
    std::array<int, 2> array = {1, 2};
    std::vector<int> vector = {3, 4};
    pair.write(array);
    pair.read_into(vector);
    CHECK((vector == std::vector<int>{1, 2}));
    pair.write({5, 6});
    pair.read_into(array);
    CHECK(array[0] == 5 && array[1] == 6);
    pair.write(span<int>(vector.data(), 2));
    pair.write(span<const int>(vector.data(), 2));
    CHECK(pair.read<int>() == vector);

    misused([&] { return Tensor::from(runtime, counted(6), {2, 2}); });
    misused([&] { return Tensor::from(runtime, counted(6), {-2, -3}); });
    misused([&] { return Tensor::from(runtime, counted(6), {INT64_MAX, INT64_MAX, 6}); });
    misused([&] { return tensor.read<double>(); });
    misused([&] { return tensor.fill(1); });
    misused([&] { return tensor.item<float>(); });
    misused([&] { return tensor.narrow(2, 0, 1); });
    misused([&] { return tensor.narrow(0, 1, 2); });
    misused([&] { return tensor.write(counted(5)); });
    const auto swapped = tensor.permute({1, 0});
    misused([&] { return swapped.host_span<float>(); });
    CHECK((swapped.shape() == Shape{3, 2}));
    CHECK((tensor.reshape({3, 2}).shape() == Shape{3, 2}));
    const auto bytes = tensor.reinterpret(Dtype::of<std::uint8_t>(), {8}, 4);
    const auto floats = bytes.reinterpret(Dtype::of<float>(), {2});
    CHECK(bytes.info().data == tensor.info().data + 4);
    CHECK(floats.read<float>() == (std::vector<float>{1, 2}));
    misused([&] { return bytes.reinterpret(Dtype::of<float>(), {2}, 4); });
}

// What a tensor lends would be read after its end: it is not lent by a temporary.
template <class T, class = void> constexpr bool lends_a_span = false;
template <class T>
constexpr bool lends_a_span<T, std::void_t<decltype(std::declval<T>().template host_span<float>())>> =
    true;
template <class T, class = void> constexpr bool lends_its_info = false;
template <class T>
constexpr bool lends_its_info<T, std::void_t<decltype(std::declval<T>().info())>> = true;
static_assert(lends_a_span<const Tensor &> && lends_a_span<Tensor &>);
static_assert(!lends_a_span<Tensor> && !lends_a_span<const Tensor>);
static_assert(lends_its_info<const Tensor &> && !lends_its_info<Tensor>);

// What is wrong is told with the numbers and types that it is about, and what to do in words of C++.
void told(const Runtime &runtime) {
    auto tensor = Tensor::from(runtime, counted(6), {2, 3});
    const auto says = [](auto call, const std::string &why, const std::string &hint) {
        const auto error = misused(call);
        if (error.why().find(why) == std::string::npos || error.hint().find(hint) == std::string::npos) {
            std::fprintf(stderr, "%s\n", error.what());
            std::exit(1);
        }
    };
    says([&] { return Tensor::from(runtime, counted(3), {-1, 3}); }, "[-1, 3]", "by itself");
    says([&] { return tensor.reshape({4, 2}); }, "[4, 2] has 8 elements, and the tensor 6", "");
    says([&] { return tensor.reshape({-1}); }, "an extent of -1, and none is found by itself", "");
    says([&] { return tensor.permute({1, 0}).reshape({6}); }, "needs a copy", "");
    says([&] { return tensor.read<double>(); }, "`float32`, and not `float64`", "`float`");
    says([&] { return tensor.fill(2); }, "`float32`, and `int32` was given", "`fill(float(1))`");
    says([&] { return Tensor::from(runtime, {1, 2}).item<float>(); }, "`int32`", "`std::int32_t`");
    const auto dtype = Dtype::named("bfloat16");
    says([&] { return Tensor::empty(runtime.device("cpu"), dtype, {1}).item<float>(); }, "bfloat16",
         "in a script");
    says([&] { return tensor.item<float>(); }, "[2, 3] has 6 elements", "`read`");
    says([&] { return tensor.write({1.0f, 2.0f}); }, "2 elements were given, and the tensor [2, 3]",
         "as many");
    auto gone = std::move(tensor);
    says([&] { return tensor.shape(); }, "moved from", "`share()` it before");
}

void of_owners(const Runtime &runtime) {
    auto owner = std::make_shared<std::vector<std::int32_t>>(4, 3);
    std::weak_ptr<std::vector<std::int32_t>> alive = owner;
    const std::int32_t *data = owner->data();
    auto tensor = Tensor::view(runtime, data, {4}, std::move(owner));
    CHECK(!alive.expired());
    CHECK(tensor.read<std::int32_t>() == std::vector<std::int32_t>(4, 3));
    misused([&] { return tensor.host_span<std::int32_t>(); }); // what is const is read-only
    CHECK(tensor.host_span<const std::int32_t>().data() == data);
    {
        auto view = tensor.narrow(0, 1, 2);
        auto moved = std::move(tensor);
        CHECK(!tensor && moved);
        misused([&] { return tensor.read<std::int32_t>(); }); // moved from
        moved = view.share();
        CHECK(!alive.expired()); // the view keeps it
    }
    CHECK(alive.expired());

    // An owner is released once, also where the memory is refused.
    auto refused = std::make_shared<int>(0);
    std::weak_ptr<int> of_refused = refused;
    misused([&] { return Tensor::view(runtime, refused.get(), {-1}, std::move(refused)); });
    CHECK(of_refused.expired());

    double own[2] = {1.0, 2.0};
    auto lent = Tensor::view(runtime, own, {2});
    lent.fill(4.0);
    CHECK(own[0] == 4.0 && own[1] == 4.0);
}

void by_dlpack(const Runtime &runtime) {
    auto tensor = Tensor::from(runtime, counted(4));
    {
        auto managed = tensor.to_dlpack(); // released by its own end
        CHECK(managed && managed.get()->dl_tensor.ndim == 1);
        auto legacy = tensor.to_dlpack_legacy();
        CHECK(legacy && legacy.get()->dl_tensor.shape[0] == 4);
        CHECK(tensor.try_to_dlpack());
    }
    auto back = Tensor::from_dlpack(runtime, tensor.to_dlpack(ExportOptions().unordered()).release());
    CHECK(back.host_span<float>().data() == tensor.host_span<float>().data());
    auto older = Tensor::from_dlpack(runtime, tensor.to_dlpack_legacy().release());
    CHECK(older.read<float>() == counted(4));
    auto copy = Tensor::from_dlpack(runtime, tensor.to_dlpack().release(),
                                    ImportOptions().copy(Copy::always));
    CHECK(copy.host_span<float>().data() != tensor.host_span<float>().data());
    CHECK(copy.read<float>() == counted(4));
}

void on_each_device(const Runtime &runtime) {
    std::unordered_set<std::size_t> hashes;
    for (const auto &device : runtime.devices()) {
        hashes.insert(std::hash<Device>()(device));
        CHECK(device == runtime.device(device.spec()) && device == device.share());
        CHECK(!device.name().empty() && !device.plugin().name().empty());
        CHECK(device.plugin().state() == ProbeState::ready);

        auto host = Tensor::from(runtime, counted(1000), {10, 100});
        auto moved = host.to_by_route(device, MoveOptions().copy(Copy::always));
        CHECK(moved.first.device() == device && moved.second.bytes_copied() == 4000);
        CHECK(!moved.second.steps().empty() && !moved.second.text().empty());
        CHECK(moved.first.read<float>() == counted(1000));
        auto back = moved.first.to(runtime.device("cpu"));
        CHECK(back.read<float>() == counted(1000));
        CHECK(host.explain(device).kind() != RouteMode::refused);

        auto stream = Stream::create(device);
        auto filled = Tensor::empty(device, Dtype::of<float>(), {10, 100}, EmptyOptions());
        filled.fill(2.0f, stream);
        filled.copy_from(host.permute({0, 1}), stream);
        filled.synchronize(std::chrono::seconds(60));
        CHECK(filled.read<float>() == counted(1000));
        filled.write(std::vector<float>(1000, 5.0f));
        std::vector<float> into(1000);
        filled.read_into(span<float>(into.data(), into.size()));
        CHECK(into == std::vector<float>(1000, 5.0f));
    }
    CHECK(hashes.size() == runtime.devices().size());
    const auto pair = runtime.device("cpu").id();
    CHECK(runtime.device(pair) == runtime.device("cpu:0"));
    fails(ErrorKind::unknown_device, XD_NO_DEVICE, [&] { return runtime.device("cuda:77"); });
    CHECK(runtime.target("cpu").kind == MemoryKind::any);
}

void routes(const Runtime &runtime) {
    const auto cpu = runtime.device("cpu");
    auto tensor = Tensor::from(runtime, counted(4));
    CHECK(tensor.to_by_route(cpu).second.kind() == RouteMode::alias);
    misused([&] {
        return tensor.to(cpu, MoveOptions().copy(Copy::always).route(RouteMode::alias));
    });
    CHECK(tensor.to_by_route(cpu, MoveOptions().route(RouteMode::direct)).second.bytes_copied() == 16);
    fails(ErrorKind::copy_required, XD_UNSUPPORTED, [&] {
        return tensor.to(cpu, MoveOptions().kind(MemoryKind::managed).copy(Copy::never));
    });
    const auto route = Route::explain(cpu, cpu, Dtype::of<double>(), {4, 4});
    CHECK(route.kind() == RouteMode::alias && route.bytes_copied() == 0);
    CHECK(Dtype::named("bfloat16").raw().bits == 16);
    misused([] { return Dtype::named("float33"); });
}

void pointers(const Runtime &runtime) {
    auto tensor = Tensor::empty(runtime.device("cpu"), Dtype::of<std::uint8_t>(), {16});
    const auto owned = runtime.pointer(tensor.host_span<std::uint8_t>().data() + 3);
    CHECK(owned.device && *owned.device == runtime.device("cpu") && owned.info.size == 16);
    int own = 0;
    CHECK(!runtime.pointer(&own).device);
}

// C functions would take a text to its first NUL: another device, or another file, than was meant.
void texts_with_a_nul(const Runtime &runtime) {
    using namespace std::string_literals;
    const auto refused = [](auto call) { misused(call); };
    refused([&] { return runtime.device("cpu\0:7"s); });
    refused([&] { return runtime.target("cpu\0"s); });
    refused([&] { return runtime.load_plugin("/tmp\0/plugin.so"s); });
    refused([] { return Dtype::named("float32\0"s); });
    refused([] { return Runtime::open(RuntimeOptions().search(false).folder("/tmp\0"s)); });
}

void threads(const Runtime &runtime) {
    auto tensor = Tensor::from(runtime, counted(64));
    std::vector<std::thread> all;
    for (int at = 0; at < 4; ++at) {
        all.emplace_back([&] {
            for (int round = 0; round < 100; ++round) {
                auto copy = tensor.to(runtime.device("cpu"), MoveOptions().copy(Copy::always));
                CHECK(copy.read<float>() == counted(64));
            }
        });
    }
    for (auto &thread : all) {
        thread.join();
    }
}

} // namespace

int main(int argc, char **argv) {
    {
        const auto runtime = open_runtime(argc, argv);
        of_vectors(runtime);
        told(runtime);
        of_owners(runtime);
        by_dlpack(runtime);
        on_each_device(runtime);
        routes(runtime);
        pointers(runtime);
        texts_with_a_nul(runtime);
        threads(runtime);
        CHECK(!runtime.plugins().empty() && runtime.refused().empty());
        runtime.wait_for_releases(std::chrono::minutes(1));
    }
    CHECK(counted_leaks() == 0);
    return 0;
}

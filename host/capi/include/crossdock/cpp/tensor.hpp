/**
 * \file tensor.hpp
 * \brief Tensors: memory with an owner, DLPack, views, elements, and moves between devices.
 */
#ifndef CROSSDOCK_CPP_TENSOR_HPP
#define CROSSDOCK_CPP_TENSOR_HPP

#include <crossdock/cpp/route.hpp>
#include <crossdock/cpp/runtime.hpp>

#include <array>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace crossdock {
inline namespace CROSSDOCK_MODE {

/// A tensor of DLPack that was handed out. What is not given away is released with it.
template <class Managed> class Exported {
public:
    explicit Exported(Managed *managed) noexcept : managed_(managed) {}
    Exported(const Exported &) = delete;
    Exported &operator=(const Exported &) = delete;
    Exported(Exported &&other) noexcept : managed_(other.release()) {}
    Exported &operator=(Exported &&other) noexcept {
        if (this != &other) {
            drop();
            managed_ = other.release();
        }
        return *this;
    }
    ~Exported() { drop(); }

    /// The struct, lent.
    Managed *get() const noexcept { return managed_; }
    /// Gives the struct to a consumer, who calls its deleter once.
    [[nodiscard]] Managed *release() noexcept { return std::exchange(managed_, nullptr); }
    /// Whether there is one.
    explicit operator bool() const noexcept { return managed_ != nullptr; }

private:
    // DLPack's structs are only declared here. A versioned one begins with its version, a context and its
    // deleter; an older one has these two behind a tensor of 48 bytes.
    void drop() noexcept {
        if (managed_ == nullptr) {
            return;
        }
        constexpr bool is_legacy = std::is_same_v<Managed, DLManagedTensor>;
        constexpr std::size_t at =
            is_legacy ? 48 + sizeof(void *) : 2 * sizeof(std::uint32_t) + sizeof(void *);
        void (*deleter)(Managed *) = nullptr;
        std::memcpy(&deleter, reinterpret_cast<const char *>(managed_) + at, sizeof deleter);
        if (deleter != nullptr) {
            deleter(release());
        }
    }

    Managed *managed_;
};

/// How a new tensor is allocated.
class EmptyOptions {
public:
    EmptyOptions() noexcept { raw_.struct_size = sizeof raw_; }

    /// The kind of memory.
    EmptyOptions &kind(MemoryKind kind) noexcept {
        raw_.kind = static_cast<xd_memory_kind>(kind);
        return *this;
    }
    /// A stream of the device in whose order it is allocated; lent for the call.
    EmptyOptions &on(const Stream &stream) noexcept {
        raw_.stream = stream.get();
        moved_from_ = stream ? nullptr : "stream";
        return *this;
    }

    /// As the C functions take them.
    const xd_empty_options *raw() const noexcept { return &raw_; }
    /// What was named and is empty, as in `MoveOptions`.
    const char *moved_from() const noexcept { return moved_from_; }

private:
    xd_empty_options raw_ = {};
    const char *moved_from_ = nullptr;
};

/// How a tensor is taken.
class ImportOptions {
public:
    ImportOptions() noexcept { raw_.struct_size = sizeof raw_; }

    /// The stream whose work writes the memory; lent for the call.
    ImportOptions &ready_on(const Stream &stream) noexcept {
        raw_.stream = stream.get();
        moved_from_ = stream ? moved_from_ : "stream";
        return *this;
    }
    /// Where it is wanted; lent for the call.
    ImportOptions &to(const Device &device) noexcept {
        raw_.device = device.get();
        moved_from_ = device ? moved_from_ : "device";
        return *this;
    }
    /// Whether it may or must be copied.
    ImportOptions &copy(Copy copy) noexcept {
        raw_.copy = static_cast<xd_copy_mode>(copy);
        return *this;
    }
    /// The kind of memory that is wanted.
    ImportOptions &kind(MemoryKind kind) noexcept {
        raw_.kind = static_cast<xd_memory_kind>(kind);
        return *this;
    }

    /// As the C functions take them.
    const xd_import_options *raw() const noexcept { return &raw_; }
    /// What was named and is empty, as in `MoveOptions`.
    const char *moved_from() const noexcept { return moved_from_; }

private:
    xd_import_options raw_ = {};
    const char *moved_from_ = nullptr;
};

/// How a tensor is handed out: ready when the call returns, unless said otherwise.
class ExportOptions {
public:
    ExportOptions() noexcept { raw_.struct_size = sizeof raw_; }

    /// The stream waits instead of the caller. It is lent for the call.
    ExportOptions &on(const Stream &stream) noexcept {
        raw_.order = XD_ORDER_STREAM;
        raw_.stream = stream.get();
        moved_from_ = stream ? nullptr : "stream";
        return *this;
    }
    /// Nothing waits: the consumer keeps the order.
    ExportOptions &unordered() noexcept {
        raw_.order = XD_ORDER_UNORDERED;
        raw_.stream = nullptr;
        moved_from_ = nullptr;
        return *this;
    }
    /// Says that the tensor is a copy made for the consumer.
    ExportOptions &copied() noexcept {
        raw_.flags |= XD_EXPORT_IS_COPIED;
        return *this;
    }

    /// As the C functions take them.
    const xd_export_options *raw() const noexcept { return &raw_; }
    /// What was named and is empty, as in `MoveOptions`.
    const char *moved_from() const noexcept { return moved_from_; }

private:
    xd_export_options raw_ = {};
    const char *moved_from_ = nullptr;
};

/// Host memory that is locked for a device, until this is dropped.
class Registration : public detail::Handle<xd_registration, xd_registration_free> {
public:
    /// Takes a handle of the C functions.
    explicit Registration(xd_registration *raw) noexcept : Handle(raw) {}
};

/// A typed view of memory on one device.
class Tensor : public detail::Handle<xd_tensor, xd_tensor_free> {
public:
    /// Takes a handle of the C functions.
    explicit Tensor(xd_tensor *raw) noexcept : Handle(raw) {}

    /// The same tensor once more.
    Tensor share() const { return Tensor(xd_tensor_retain(get())); }

    // ---- in ----

    /// Allocates a compact tensor; its content is undefined.
    static outcome<Tensor> empty(const Device &device, Dtype dtype, const Shape &shape,
                                 const EmptyOptions &options = {}) {
        const auto layout = detail::layout(dtype, shape);
        xd_tensor *tensor = nullptr;
        const auto call = [&] { return xd_tensor_empty(device.get(), &layout, options.raw(), &tensor); };
        const auto error = detail::with_named(options.moved_from(), call);
        return detail::answer(error, [&] { return Tensor(tensor); });
    }

    /// Takes the elements of a vector, which are the tensor's then, in host memory: without a copy where the
    /// vector is moved in. Without a shape it has one axis.
    template <class T>
    static outcome<Tensor> from(const Runtime &runtime, std::vector<T> values, Shape shape = {}) {
        static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no elements in memory: use "
                                                "std::vector<std::uint8_t> or an array of bool");
        auto owner = std::make_unique<std::vector<T>>(std::move(values));
        auto *data = owner->data();
        const auto count = owner->size();
        if (shape.empty()) {
            shape.push_back(static_cast<std::int64_t>(count));
        }
        if (detail::elements(shape) != count) {
            return detail::fail<Tensor>(Error::misuse(
                "make a tensor of a vector",
                "the vector has " + std::to_string(count) + " elements, and " + detail::text(shape) +
                    " is no shape of so many",
                "give a shape whose extents multiply to that number; none is found by itself"));
        }
        return view(runtime, data, shape, std::move(owner));
    }

    /// Takes elements that stand there: `Tensor::from(runtime, {1.0f, 2.0f})`.
    template <class T>
    static outcome<Tensor> from(const Runtime &runtime, std::initializer_list<T> values,
                                Shape shape = {}) {
        return from(runtime, std::vector<T>(values), std::move(shape));
    }

    /// A view of host memory of the caller's. `owner` is kept as long as the tensor, its views, its exports
    /// and work on them live, and destroyed on any thread; its destructor must not throw. What is `const` is
    /// read-only.
    template <class T, class Owner>
    static outcome<Tensor> view(const Runtime &runtime, T *data, const Shape &shape, Owner owner) {
        const xd_dl_device host = {1, 0};
        return from_memory(runtime, host, data, shape, std::move(owner));
    }

    /// A view of host memory that outlives the tensor, its views, its exports and work on them.
    template <class T>
    static outcome<Tensor> view(const Runtime &runtime, T *data, const Shape &shape) {
        const xd_dl_device host = {1, 0};
        auto memory = claim(host, data, shape);
        return taken(xd_tensor_from_memory, runtime, memory);
    }

    /// A view of memory that is claimed to be on a device; the plugins are asked whether that is so. `owner`
    /// as for `view`.
    template <class T, class Owner>
    static outcome<Tensor> from_memory(const Runtime &runtime, xd_dl_device device, T *data,
                                       const Shape &shape, Owner owner) {
        auto memory = claim(device, data, shape);
        memory.owner = new Owner(std::move(owner));
        memory.release = [](void *word) { delete static_cast<Owner *>(word); };
        return taken(xd_tensor_from_memory, runtime, memory);
    }

    /// The same of memory that the C struct describes: a stream whose work writes it, handles, strides.
    static outcome<Tensor> from_memory(const Runtime &runtime, const xd_memory &memory) {
        return taken(xd_tensor_from_memory, runtime, memory);
    }

    /// Takes a native memory object of others (a `cl_mem`), without a copy.
    static outcome<Tensor> adopt_native(const Runtime &runtime, const xd_memory &memory) {
        return taken(xd_tensor_adopt_native, runtime, memory);
    }

    /// Takes a tensor of DLPack 1.x, whatever the result: its deleter is called once.
    static outcome<Tensor> from_dlpack(const Runtime &runtime, DLManagedTensorVersioned *managed,
                                       const ImportOptions &options = {}) {
        xd_tensor *tensor = nullptr;
        Exported<DLManagedTensorVersioned> taken(managed); // released here where it does not reach the library
        const auto call = [&] {
            return xd_tensor_import(runtime.get(), taken.release(), options.raw(), &tensor);
        };
        const auto error = detail::with_named(options.moved_from(), call);
        return detail::answer(error, [&] { return Tensor(tensor); });
    }

    /// Takes a tensor of DLPack 0.x, which counts as read-only.
    static outcome<Tensor> from_dlpack(const Runtime &runtime, DLManagedTensor *managed,
                                       const ImportOptions &options = {}) {
        xd_tensor *tensor = nullptr;
        Exported<DLManagedTensor> taken(managed); // released here where it does not reach the library
        const auto call = [&] {
            return xd_tensor_import_legacy(runtime.get(), taken.release(), options.raw(), &tensor);
        };
        const auto error = detail::with_named(options.moved_from(), call);
        return detail::answer(error, [&] { return Tensor(tensor); });
    }

    // ---- out ----

    /// Hands it out as DLPack 1.3; it shares the memory, and does not need this handle.
    outcome<Exported<DLManagedTensorVersioned>> to_dlpack(const ExportOptions &options = {}) const {
        DLManagedTensorVersioned *managed = nullptr;
        const auto call = [&] { return xd_tensor_export(get(), options.raw(), &managed); };
        const auto error = detail::with_named(options.moved_from(), call);
        return detail::answer(error, [&] { return Exported<DLManagedTensorVersioned>(managed); });
    }

    /// `to_dlpack` for a thread that must not wait: empty where work that writes it may still run.
    outcome<Exported<DLManagedTensorVersioned>> try_to_dlpack() const {
        DLManagedTensorVersioned *managed = nullptr;
        auto *error = xd_tensor_try_export(get(), &managed);
        return detail::answer(error, [&] { return Exported<DLManagedTensorVersioned>(managed); });
    }

    /// Hands it out as DLPack 0.x, which cannot say that a tensor is read-only.
    outcome<Exported<DLManagedTensor>> to_dlpack_legacy(const ExportOptions &options = {}) const {
        DLManagedTensor *managed = nullptr;
        const auto call = [&] { return xd_tensor_export_legacy(get(), options.raw(), &managed); };
        const auto error = detail::with_named(options.moved_from(), call);
        return detail::answer(error, [&] { return Exported<DLManagedTensor>(managed); });
    }

    // ---- what it is ----

    /// What it is. The arrays are lent by this handle: keep the tensor in a variable.
    outcome<xd_tensor_info> info() const && = delete;
    outcome<xd_tensor_info> info() const & {
        xd_tensor_info info = {};
        auto *error = xd_tensor_describe(get(), &info);
        return detail::answer(error, [&] { return info; });
    }

    /// The extents.
    outcome<Shape> shape() const {
        xd_tensor_info info = {};
        auto *error = xd_tensor_describe(get(), &info);
        return detail::answer(error, [&] { return Shape(info.shape, info.shape + info.ndim); });
    }

    /// The strides, in elements.
    outcome<Shape> strides() const {
        xd_tensor_info info = {};
        auto *error = xd_tensor_describe(get(), &info);
        return detail::answer(error, [&] { return Shape(info.strides, info.strides + info.ndim); });
    }

    /// The type of its elements.
    outcome<Dtype> dtype() const {
        xd_tensor_info info = {};
        auto *error = xd_tensor_describe(get(), &info);
        return detail::answer(error, [&] { return Dtype(info.dtype); });
    }

    /// How many elements it has.
    outcome<std::uint64_t> numel() const {
        xd_tensor_info info = {};
        auto *error = xd_tensor_describe(get(), &info);
        return detail::answer(error, [&] { return info.numel; });
    }

    /// The device that holds it.
    outcome<Device> device() const {
        xd_device *device = nullptr;
        auto *error = xd_tensor_device(get(), &device);
        return detail::answer(error, [&] { return Device(device); });
    }

    // ---- views ----

    /// A view of a part: for each axis the first index, the step, and how many.
    outcome<Tensor> slice(const std::vector<xd_axis_slice> &slices) const {
        xd_tensor *view = nullptr;
        const auto count = static_cast<std::uint32_t>(slices.size());
        auto *error = xd_tensor_slice(get(), count, slices.data(), &view);
        return detail::answer(error, [&] { return Tensor(view); });
    }

    /// A view of `length` indexes of one axis, from `start` on.
    outcome<Tensor> narrow(std::uint32_t axis, std::int64_t start, std::int64_t length) const {
        xd_tensor_info info = {};
        xd_tensor *view = nullptr;
        auto *error = xd_tensor_describe(get(), &info);
        if (error == nullptr && axis >= info.ndim) {
            return detail::fail<Tensor>(
                Error::misuse("view a part of a tensor",
                              "it has " + std::to_string(info.ndim) + " axes, and no axis " +
                                  std::to_string(axis),
                              "count axes from 0"));
        }
        if (error == nullptr) {
            std::vector<xd_axis_slice> slices(info.ndim);
            for (std::uint32_t at = 0; at < info.ndim; ++at) {
                slices[at] = {0, 1, info.shape[at]};
            }
            slices[axis] = {start, 1, length};
            error = xd_tensor_slice(get(), info.ndim, slices.data(), &view);
        }
        return detail::answer(error, [&] { return Tensor(view); });
    }

    /// A view with its axes in another order.
    outcome<Tensor> permute(const std::vector<std::uint32_t> &axes) const {
        xd_tensor *view = nullptr;
        const auto count = static_cast<std::uint32_t>(axes.size());
        auto *error = xd_tensor_permute(get(), count, axes.data(), &view);
        return detail::answer(error, [&] { return Tensor(view); });
    }

    /// A view with another shape; fails where that needs a copy.
    outcome<Tensor> reshape(const Shape &shape) const {
        xd_tensor *view = nullptr;
        const auto count = static_cast<std::uint32_t>(shape.size());
        auto *error = xd_tensor_reshape(get(), count, shape.data(), &view);
        return detail::answer(error, [&] { return Tensor(view); });
    }

    /// A view of the tensor's bytes as other elements, the first of which lies `byte_offset` bytes after its own.
    outcome<Tensor> reinterpret(Dtype dtype, const Shape &shape, std::int64_t byte_offset = 0) const {
        xd_tensor *view = nullptr;
        const auto layout = detail::layout(dtype, shape);
        auto *error = xd_tensor_reinterpret(get(), byte_offset, &layout, 0, &view);
        return detail::answer(error, [&] { return Tensor(view); });
    }

    // ---- elements ----

    /// The elements in compact row-major order, as `T`, which has to be their type.
    template <class T> outcome<std::vector<T>> read() const {
        static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no elements in memory: use "
                                                "`read_into`");
        xd_tensor_info info = {};
        auto *error = xd_tensor_describe(get(), &info);
        std::vector<T> values;
        if (error == nullptr && !is_of<T>(info)) {
            return detail::fail<std::vector<T>>(other_dtype<T>("read a tensor", info));
        }
        if (error == nullptr) {
            values.resize(static_cast<std::size_t>(info.numel));
            error = xd_tensor_read(get(), values.data(), values.size() * sizeof(T));
        }
        return detail::answer(error, [&] { return std::move(values); });
    }

    /// The same into memory of the caller's, of exactly as many elements.
    template <class T> outcome<void> read_into(span<T> values) const {
        xd_tensor_info info = {};
        auto *error = xd_tensor_describe(get(), &info);
        if (error == nullptr && !is_of<T>(info)) {
            return detail::fail<void>(other_dtype<T>("read a tensor", info));
        }
        if (error == nullptr && values.size() != info.numel) {
            return detail::fail<void>(other_count("read a tensor", values.size(), info));
        }
        if (error == nullptr) {
            error = xd_tensor_read(get(), values.data(), values.size() * sizeof(T));
        }
        return detail::done(error);
    }

    /// The same into a vector or an array, which has to have as many elements.
    template <class T> outcome<void> read_into(std::vector<T> &values) const {
        return read_into(span<T>(values.data(), values.size()));
    }
    template <class T, std::size_t Size> outcome<void> read_into(std::array<T, Size> &values) const {
        return read_into(span<T>(values.data(), values.size()));
    }

    /// The one element.
    template <class T> outcome<T> item() const {
        T value = {};
        xd_tensor_info info = {};
        auto *error = xd_tensor_describe(get(), &info);
        if (error == nullptr && !is_of<T>(info)) {
            return detail::fail<T>(other_dtype<T>("read an element", info));
        }
        if (error == nullptr && info.numel != 1) {
            return detail::fail<T>(Error::misuse(
                "read an element",
                "the tensor " + detail::text(shape_of(info)) + " has " + std::to_string(info.numel) +
                    " elements, and not one",
                "read them all by `read`, or `narrow` each axis to one first"));
        }
        if (error == nullptr) {
            error = xd_tensor_read(get(), &value, sizeof value);
        }
        return detail::answer(error, [&] { return value; });
    }

    /// Replaces the elements by those of compact memory, of exactly as many elements of their type.
    template <class T> outcome<void> write(span<const T> values) const {
        xd_tensor_info info = {};
        auto *error = xd_tensor_describe(get(), &info);
        if (error == nullptr && !is_of<T>(info)) {
            return detail::fail<void>(other_dtype<T>("write a tensor", info));
        }
        if (error == nullptr && values.size() != info.numel) {
            return detail::fail<void>(other_count("write a tensor", values.size(), info));
        }
        if (error == nullptr) {
            error = xd_tensor_write(get(), values.data(), values.size() * sizeof(T));
        }
        return detail::done(error);
    }

    /// The same from elements that others may write, a vector, an array or a list.
    template <class T> outcome<void> write(span<T> values) const {
        return write(span<const T>(values.data(), values.size()));
    }
    template <class T> outcome<void> write(const std::vector<T> &values) const {
        return write(span<const T>(values.data(), values.size()));
    }
    template <class T, std::size_t Size> outcome<void> write(const std::array<T, Size> &values) const {
        return write(span<const T>(values.data(), values.size()));
    }
    template <class T> outcome<void> write(std::initializer_list<T> values) const {
        return write(span<const T>(values.begin(), values.size()));
    }

    /// Replaces the elements by those of a tensor of the same shape and dtype on any device.
    outcome<void> copy_from(const Tensor &source) const {
        return detail::done(xd_tensor_copy_from(get(), source.get(), nullptr));
    }

    /// The same in the order of a stream.
    outcome<void> copy_from(const Tensor &source, const Stream &stream) const {
        const auto call = [&] { return xd_tensor_copy_from(get(), source.get(), stream.get()); };
        return detail::done(detail::with_named(stream ? nullptr : "stream", call));
    }

    /// Makes every element this one, which has to be of their type.
    template <class T> outcome<void> fill(T value) const { return filled(value, nullptr, nullptr); }

    /// The same in the order of a stream.
    template <class T> outcome<void> fill(T value, const Stream &stream) const {
        return filled(value, stream.get(), stream ? nullptr : "stream");
    }

    /// The elements themselves, where the host reaches them by their addresses and they lie compact. Waits
    /// for the work that writes them; before writing, synchronise the streams whose copies may still read
    /// them. Lent by this tensor: keep it in a variable. `const T` where it is read-only.
    template <class T> outcome<span<T>> host_span() const && = delete;
    template <class T> outcome<span<T>> host_span() const & {
        constexpr auto what = "look at a tensor's elements";
        xd_tensor_info info = {};
        auto *error = xd_tensor_describe(get(), &info);
        if (error == nullptr && !is_of<T>(info)) {
            return detail::fail<span<T>>(other_dtype<T>(what, info));
        }
        if (error == nullptr) {
            const bool is_reached = info.form == XD_ADDRESS_POINTER &&
                                    (info.device.device_type == 1 ||
                                     info.memory_kind == XD_MEMORY_PINNED ||
                                     info.memory_kind == XD_MEMORY_MANAGED);
            const bool may_write = std::is_const_v<T> || info.read_only == 0;
            if (!is_reached || info.contiguous == 0 || !may_write) {
                const auto *why = !is_reached ? "the host does not reach its memory"
                                  : may_write ? "its elements do not lie one behind the other"
                                              : "it is read-only";
                const auto *hint = !is_reached
                                       ? "move it first: `auto here = tensor.to(runtime.device(\"cpu\"))` "
                                         "copies only where it must"
                                   : may_write ? "read it, or copy it first"
                                               : "ask for `const` elements, or copy it first";
                return detail::fail<span<T>>(Error::misuse(what, why, hint));
            }
            error = xd_tensor_synchronize(get(), XD_NO_LIMIT);
        }
        return detail::answer(error, [&] {
            auto *data = reinterpret_cast<T *>(static_cast<std::uintptr_t>(info.data) +
                                               static_cast<std::uintptr_t>(info.byte_offset));
            return span<T>(data, static_cast<std::size_t>(info.numel));
        });
    }

    // ---- moves ----

    /// The same values on a device: shares the memory where that works, else copies.
    outcome<Tensor> to(const Device &device, const MoveOptions &options = {}) const {
        xd_tensor *moved = nullptr;
        const auto call = [&] { return xd_tensor_to(get(), device.get(), options.raw(), &moved, nullptr); };
        const auto error = detail::with_named(options.moved_from(), call);
        return detail::answer(error, [&] { return Tensor(moved); });
    }

    /// The same with the route that was taken.
    outcome<std::pair<Tensor, Route>> to_by_route(const Device &device,
                                                  const MoveOptions &options = {}) const {
        xd_tensor *moved = nullptr;
        xd_route *route = nullptr;
        const auto call = [&] { return xd_tensor_to(get(), device.get(), options.raw(), &moved, &route); };
        const auto error = detail::with_named(options.moved_from(), call);
        return detail::answer(
            error, [&] { return std::pair<Tensor, Route>(Tensor(moved), Route(route)); });
    }

    /// What moving it would do, and why. A refusal is an answer.
    outcome<Route> explain(const Device &device, const MoveOptions &options = {}) const {
        xd_route *route = nullptr;
        const auto call = [&] { return xd_tensor_explain(get(), device.get(), options.raw(), &route); };
        const auto error = detail::with_named(options.moved_from(), call);
        return detail::answer(error, [&] { return Route(route); });
    }

    /// Locks its host memory for a device, so that copies between the two are fast.
    outcome<Registration> register_for(const Device &device) const {
        xd_registration *registration = nullptr;
        auto *error = xd_tensor_register(get(), device.get(), &registration);
        return detail::answer(error, [&] { return Registration(registration); });
    }

    // ---- order ----

    /// Makes the caller wait until the last work that wrote it is done.
    outcome<void> synchronize(Limit limit = Limit::none()) const {
        return detail::done(xd_tensor_synchronize(get(), limit.nanoseconds()));
    }

    /// The event of the last work that wrote it; none where nothing is pending.
    outcome<std::optional<Event>> ready() const {
        xd_event *event = nullptr;
        auto *error = xd_tensor_ready(get(), &event);
        return detail::answer(error, [&] {
            return event == nullptr ? std::optional<Event>() : std::optional<Event>(event);
        });
    }

    /// Before work of yours on the stream reads it.
    outcome<void> wait_to_read(const Stream &stream) const {
        return detail::done(xd_tensor_wait_to_read(get(), stream.get()));
    }
    /// Before work of yours on the stream writes it.
    outcome<void> wait_to_write(const Stream &stream) const {
        return detail::done(xd_tensor_wait_to_write(get(), stream.get()));
    }
    /// After you put work there that reads it.
    outcome<void> used_on(const Stream &stream) const {
        return detail::done(xd_tensor_used_on(get(), stream.get()));
    }
    /// After you put work there that writes it.
    outcome<void> written_on(const Stream &stream) const {
        return detail::done(xd_tensor_written_on(get(), stream.get()));
    }
    /// Says that its content is ready behind what is on the stream now, which is its producer's work.
    outcome<void> ready_on(const Stream &stream) const {
        return detail::done(xd_tensor_ready_on(get(), stream.get()));
    }

private:
    template <class T>
    static xd_memory claim(xd_dl_device device, T *data, const Shape &shape) noexcept {
        xd_memory memory = {};
        memory.struct_size = sizeof memory;
        memory.device = device;
        // The C struct has no pointer to const; the flag says it.
        memory.data = const_cast<void *>(static_cast<const void *>(data));
        memory.layout = detail::layout(Dtype::of<T>(), shape);
        memory.flags = std::is_const_v<T> ? XD_MEMORY_FLAG_READ_ONLY : 0u;
        return memory;
    }

    using Take = xd_error *(*)(const xd_runtime *, const xd_memory *, xd_tensor **);

    static outcome<Tensor> taken(Take take, const Runtime &runtime, const xd_memory &memory) {
        xd_tensor *tensor = nullptr;
        auto *error = take(runtime.get(), &memory, &tensor);
        return detail::answer(error, [&] { return Tensor(tensor); });
    }

    template <class T> static bool is_of(const xd_tensor_info &info) noexcept {
        return Dtype(info.dtype) == Dtype::of<T>();
    }

    static Shape shape_of(const xd_tensor_info &info) {
        return Shape(info.shape, info.shape + info.ndim);
    }

    template <class T> static Error other_dtype(const char *what, const xd_tensor_info &info) {
        const auto type = detail::type_of(info.dtype);
        const auto hint = type.empty() ? "convert it in a script, since C++ has no such type"
                                       : "ask for `" + type + "`, or convert it in a script";
        return Error::misuse(what,
                             "its elements are `" + detail::text(Dtype(info.dtype)) + "`, and not `" +
                                 detail::text(Dtype::of<T>()) + "`",
                             hint);
    }

    static Error other_count(const char *what, std::size_t given, const xd_tensor_info &info) {
        return Error::misuse(what,
                             std::to_string(given) + " elements were given, and the tensor " +
                                 detail::text(shape_of(info)) + " has " + std::to_string(info.numel),
                             "give as many elements as it has, or take a part of it by `narrow`");
    }

    template <class T>
    outcome<void> filled(T value, const xd_stream *stream, const char *moved_from) const {
        xd_tensor_info info = {};
        auto *error = xd_tensor_describe(get(), &info);
        if (error == nullptr && !is_of<T>(info)) {
            const auto type = detail::type_of(info.dtype);
            const auto hint = type.empty() ? "fill it in a script, or convert it there"
                                           : "give a `" + type + "`, as in `fill(" + type + "(1))`";
            return detail::fail<void>(
                Error::misuse("fill a tensor",
                              "its elements are `" + detail::text(Dtype(info.dtype)) + "`, and `" +
                                  detail::text(Dtype::of<T>()) + "` was given",
                              hint));
        }
        if (error != nullptr) {
            return detail::done(error);
        }
        const auto call = [&] { return xd_tensor_fill(get(), &value, sizeof value, stream); };
        return detail::done(detail::with_named(moved_from, call));
    }
};

} // namespace CROSSDOCK_MODE
} // namespace crossdock

#endif

/**
 * \file runtime.hpp
 * \brief Runtimes: which plugins and devices there are; and what belongs to the whole process.
 */
#ifndef CROSSDOCK_CPP_RUNTIME_HPP
#define CROSSDOCK_CPP_RUNTIME_HPP

#include <crossdock/cpp/device.hpp>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace crossdock {
inline namespace CROSSDOCK_MODE {

/// How a runtime is opened. Each call gives the same options, so that they can be chained:
/// `RuntimeOptions().plugin("libcrossdock_plugin_mine.so").search(false)`.
class RuntimeOptions {
public:
    /// Loads this file first; one that cannot be loaded is an error.
    RuntimeOptions &plugin(std::string path) {
        plugins_.push_back(std::move(path));
        return *this;
    }
    /// Looks into this folder before the environment's.
    RuntimeOptions &folder(std::string path) {
        folders_.push_back(std::move(path));
        return *this;
    }
    /// Whether `CROSSDOCK_PLUGIN_PATH` and the standard folders are searched; they are unless said otherwise.
    RuntimeOptions &search(bool yes) noexcept {
        flags_ = yes ? 0 : XD_RUNTIME_NO_SEARCH;
        return *this;
    }
    /// Layers around each plugin, nearest to the caller first: `validate`.
    RuntimeOptions &layers(std::string names) {
        layers_ = std::move(names);
        return *this;
    }
    /// Rules that fail chosen calls of hooks, as in `CROSSDOCK_FAULT`.
    RuntimeOptions &fault(std::string rules) {
        fault_ = std::move(rules);
        return *this;
    }
    /// The devices with the first ids of their types, as in `CROSSDOCK_DEVICE_ORDER`.
    RuntimeOptions &device_order(std::string order) {
        order_ = std::move(order);
        return *this;
    }
    /// Where measured costs of copies are kept: a file, `memory` or `off`.
    RuntimeOptions &costs(std::string place) {
        costs_ = std::move(place);
        return *this;
    }
    /// Bytes of host memory that one staged copy may use.
    RuntimeOptions &staging_bytes(std::uint64_t bytes) noexcept {
        staging_bytes_ = bytes;
        return *this;
    }

private:
    friend class Runtime;

    static std::vector<const char *> texts(const std::vector<std::string> &list) {
        std::vector<const char *> texts;
        for (const auto &text : list) {
            texts.push_back(text.c_str());
        }
        return texts;
    }

    static const char *text(const std::string &text) noexcept {
        return text.empty() ? nullptr : text.c_str();
    }

    std::vector<std::string> plugins_, folders_;
    std::string layers_, fault_, order_, costs_;
    xd_runtime_flags flags_ = 0;
    std::uint64_t staging_bytes_ = 0;
};

/// The device and the kind of memory that a target's name means: `cuda_host:1`.
struct Target {
    Device device;
    MemoryKind kind;
};

/// Who owns an address.
struct Pointer {
    /// What is known of it; its kind is `XD_MEMORY_UNOWNED` where nobody knows the address.
    xd_pointer_info info;
    /// The owning device, where there is one.
    std::optional<Device> device;
};

/// A running Crossdock. Devices and tensors do not need it once they are there.
class Runtime : public detail::Handle<xd_runtime, xd_runtime_free> {
public:
    /// Takes a handle of the C functions.
    explicit Runtime(xd_runtime *raw) noexcept : Handle(raw) {}

    /// Opens a runtime of its own. Plugins are shared by all runtimes of the process.
    static outcome<Runtime> open(const RuntimeOptions &options = {}) {
        const auto plugins = RuntimeOptions::texts(options.plugins_);
        const auto folders = RuntimeOptions::texts(options.folders_);
        xd_runtime_options raw = {};
        raw.struct_size = sizeof raw;
        raw.flags = options.flags_;
        raw.plugins = plugins.data();
        raw.plugin_count = plugins.size();
        raw.folders = folders.data();
        raw.folder_count = folders.size();
        raw.layers = RuntimeOptions::text(options.layers_);
        raw.fault = RuntimeOptions::text(options.fault_);
        raw.device_order = RuntimeOptions::text(options.order_);
        raw.costs = RuntimeOptions::text(options.costs_);
        raw.staging_bytes = options.staging_bytes_;
        xd_runtime *runtime = nullptr;
        const auto open = [&] { return xd_runtime_open(&raw, &runtime); };
        const auto error =
            detail::with_texts(open, options.plugins_, options.folders_, options.layers_,
                               options.fault_, options.order_, options.costs_);
        return detail::answer(error, [&] { return Runtime(runtime); });
    }

    /// The process's runtime: the one that a host, its scripts and their extensions share.
    static outcome<Runtime> process() {
        xd_runtime *runtime = nullptr;
        auto *error = xd_runtime_default(&runtime);
        return detail::answer(error, [&] { return Runtime(runtime); });
    }

    /// Makes this the process's runtime, while somebody holds it.
    outcome<void> make_process_runtime() const {
        return detail::done(xd_runtime_make_default(get()));
    }

    /// The same runtime once more.
    Runtime share() const { return Runtime(xd_runtime_retain(get())); }

    /// The devices that are here. Starts the drivers of all plugins that nobody needed so far.
    outcome<std::vector<Device>> devices() const {
        xd_device_list *list = nullptr;
        auto *error = xd_runtime_devices(get(), &list);
        return detail::answer(error, [&] {
            std::vector<Device> devices;
            devices.reserve(static_cast<std::size_t>(list->count));
            for (std::uint64_t at = 0; at < list->count; ++at) {
                devices.emplace_back(xd_device_retain(list->items[at]));
            }
            xd_device_list_free(list);
            return devices;
        });
    }

    /// The device with this name, as `opencl:0`; a type alone means id 0.
    outcome<Device> device(const std::string &name) const {
        xd_device *device = nullptr;
        const auto call = [&] { return xd_runtime_device_named(get(), name.c_str(), &device); };
        const auto error = detail::with_texts(call, name);
        return detail::answer(error, [&] { return Device(device); });
    }

    /// The device with this pair.
    outcome<Device> device(xd_dl_device pair) const {
        xd_device *device = nullptr;
        auto *error = xd_runtime_device(get(), pair, &device);
        return detail::answer(error, [&] { return Device(device); });
    }

    /// The first device with this uuid, which stays with the hardware.
    outcome<Device> device_by_uuid(const std::array<std::uint8_t, 16> &uuid) const {
        xd_device *device = nullptr;
        auto *error = xd_runtime_device_by_uuid(get(), uuid.data(), &device);
        return detail::answer(error, [&] { return Device(device); });
    }

    /// The first device at this place of the PCI bus: `0000:03:00.0`.
    outcome<Device> device_by_pci(const std::string &pci_bus_id) const {
        xd_device *device = nullptr;
        const auto call = [&] { return xd_runtime_device_by_pci(get(), pci_bus_id.c_str(), &device); };
        const auto error = detail::with_texts(call, pci_bus_id);
        return detail::answer(error, [&] { return Device(device); });
    }

    /// The device and the kind of memory that a target's name means: `cuda_host:1`.
    outcome<Target> target(const std::string &name) const {
        xd_device *device = nullptr;
        xd_memory_kind kind = 0;
        const auto call = [&] { return xd_runtime_target_named(get(), name.c_str(), &device, &kind); };
        const auto error = detail::with_texts(call, name);
        return detail::answer(
            error, [&] { return Target{Device(device), static_cast<MemoryKind>(kind)}; });
    }

    /// The plugins that are registered now, also those whose devices are absent.
    outcome<std::vector<Plugin>> plugins() const {
        xd_plugin_list *list = nullptr;
        auto *error = xd_runtime_plugins(get(), &list);
        return detail::answer(error, [&] {
            std::vector<Plugin> plugins;
            for (std::uint64_t at = 0; at < list->count; ++at) {
                plugins.emplace_back(xd_plugin_retain(list->items[at]));
            }
            xd_plugin_list_free(list);
            return plugins;
        });
    }

    /// Why files that the search found could not be loaded, a text for each.
    outcome<std::vector<std::string>> refused() const {
        xd_error_list *list = nullptr;
        auto *error = xd_runtime_refused(get(), &list);
        return detail::answer(error, [&] {
            std::vector<std::string> refused;
            for (std::uint64_t at = 0; at < list->count; ++at) {
                refused.emplace_back(xd_error_text(list->items[at]));
            }
            xd_error_list_free(list);
            return refused;
        });
    }

    /// Loads a plugin file beside those that are here. The same file is loaded once.
    outcome<Plugin> load_plugin(const std::string &path) const {
        xd_plugin *plugin = nullptr;
        const auto call = [&] { return xd_runtime_load_plugin(get(), path.c_str(), &plugin); };
        const auto error = detail::with_texts(call, path);
        return detail::answer(error, [&] { return Plugin(plugin); });
    }

    /// Removes a plugin from this runtime: its devices are gone and take no new work.
    outcome<void> retire(const Plugin &plugin) const {
        return detail::done(xd_runtime_retire_plugin(get(), plugin.get()));
    }

    /// Makes the caller wait until memory that was dropped while work used it is given back.
    outcome<void> wait_for_releases(Limit limit = Limit::none()) const {
        return detail::done(xd_runtime_wait_for_releases(get(), limit.nanoseconds()));
    }

    /// Asks every plugin who owns an address.
    outcome<Pointer> pointer(const void *address) const {
        xd_pointer_info info = {};
        xd_device *device = nullptr;
        const auto word = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(address));
        auto *error = xd_pointer_query(get(), word, &info, &device);
        return detail::answer(error, [&] {
            Pointer pointer{info, std::nullopt};
            if (device != nullptr) {
                pointer.device.emplace(device);
            }
            return pointer;
        });
    }

    friend bool operator==(const Runtime &one, const Runtime &other) noexcept {
        return one.get() == other.get();
    }
    friend bool operator!=(const Runtime &one, const Runtime &other) noexcept {
        return !(one == other);
    }
};

/// The library's version, as in `1.0.0`.
inline std::string version() { return xd_version(); }

/// How many things were leaked and not given back, and why not: see `xd_counted_leaks`.
inline std::uint64_t counted_leaks() noexcept { return xd_counted_leaks(); }

/// A trace of hooks, copies and routes into a file, until this is dropped. One a process.
class Trace {
public:
    /// Starts it. The file is created, or emptied where it exists.
    static outcome<Trace> start(const std::string &path) {
        const auto error = detail::with_texts([&] { return xd_trace_start(path.c_str()); }, path);
        return detail::answer(error, [] { return Trace(); });
    }

    Trace(const Trace &) = delete;
    Trace &operator=(const Trace &) = delete;
    Trace(Trace &&other) noexcept : runs_(std::exchange(other.runs_, false)) {}
    Trace &operator=(Trace &&) = delete;

    /// Ends it, and says whether the file could be written to its end.
    outcome<void> stop() {
        runs_ = false;
        return detail::done(xd_trace_stop());
    }

    ~Trace() {
        if (runs_) {
            xd_error_free(xd_trace_stop());
        }
    }

private:
    Trace() noexcept = default;
    bool runs_ = true;
};

/// How much of the log is wanted.
enum class LogLevel : std::uint32_t { off, error, warn, info, debug, trace };

/// Sends the log of the process to a function: level, target, message. It is called on any thread, also on
/// several at once, and may be called after another one was set; so what it is made of stays until the
/// process ends. What it throws is dropped.
inline outcome<void> log_to(std::function<void(LogLevel, const char *, const char *)> function,
                            LogLevel level) {
    using Function = decltype(function);
    const auto call = [](void *word, std::uint32_t number, const char *target,
                         const char *message) {
#if defined(CROSSDOCK_NO_EXCEPTIONS)
        (*static_cast<Function *>(word))(static_cast<LogLevel>(number), target, message);
#else
        try {
            (*static_cast<Function *>(word))(static_cast<LogLevel>(number), target, message);
        } catch (...) { // nobody above could take it
        }
#endif
    };
    auto kept = std::make_unique<Function>(std::move(function));
    auto *error = xd_log_set(call, kept.get(), static_cast<std::uint32_t>(level));
    if (error == nullptr) {
        static_cast<void>(kept.release());
    }
    return detail::done(error);
}

} // namespace CROSSDOCK_MODE
} // namespace crossdock

#endif

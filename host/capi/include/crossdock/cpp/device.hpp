/**
 * \file device.hpp
 * \brief Plugins and devices.
 */
#ifndef CROSSDOCK_CPP_DEVICE_HPP
#define CROSSDOCK_CPP_DEVICE_HPP

#include <crossdock/cpp/handle.hpp>
#include <crossdock/cpp/types.hpp>

#include <functional>
#include <string>

namespace crossdock {
inline namespace CROSSDOCK_MODE {

/// What a plugin's probe found.
enum class ProbeState : xd_probe_state {
    not_looked_at = XD_PROBE_NOT_LOOKED_AT,
    ready = XD_PROBE_READY,
    absent = XD_PROBE_ABSENT,
    broken = XD_PROBE_BROKEN,
};

/// A registered plugin.
class Plugin : public detail::Handle<xd_plugin, xd_plugin_free> {
public:
    /// Takes a handle of the C functions.
    explicit Plugin(xd_plugin *raw) noexcept : Handle(raw) {}

    /// The same plugin once more.
    Plugin share() const { return Plugin(xd_plugin_retain(get())); }

    /// Its name, as in `libcrossdock_plugin_NAME.so`.
    std::string name() const { return xd_plugin_name(get()); }
    /// Who made it.
    std::string vendor() const { return xd_plugin_vendor(get()); }
    /// Its own version.
    std::string version() const { return xd_plugin_version(get()); }
    /// Its file; empty for the plugin that is linked in.
    std::string path() const { return xd_plugin_path(get()); }
    /// What its probe found.
    ProbeState state() const noexcept { return static_cast<ProbeState>(xd_plugin_state(get())); }
    /// What was looked for (absent), or why it does not work (broken); else empty.
    std::string detail() const { return xd_plugin_detail(get()); }
};

/// A device. Two are equal when they are the same device, whatever runtime gave them.
class Device : public detail::Handle<xd_device, xd_device_free> {
public:
    /// Takes a handle of the C functions.
    explicit Device(xd_device *raw) noexcept : Handle(raw) {}

    /// The same device once more.
    Device share() const { return Device(xd_device_retain(get())); }

    /// What it is, with the pair under which it is registered here.
    outcome<xd_device_info> info() const {
        xd_device_info info = {};
        auto *error = xd_device_describe(get(), &info);
        return crossdock::detail::answer(error, [&] { return info; });
    }

    /// The pair by which DLPack addresses it.
    outcome<xd_dl_device> id() const {
        xd_device_info info = {};
        auto *error = xd_device_describe(get(), &info);
        return crossdock::detail::answer(
            error, [&] { return xd_dl_device{info.dl_type, info.dl_id}; });
    }

    /// The pair as a text: `opencl:0`.
    outcome<std::string> spec() const {
        xd_device_info info = {};
        char text[XD_NAME_BYTES] = {};
        auto *error = xd_device_describe(get(), &info);
        if (error == nullptr) {
            error = xd_dl_device_text(xd_dl_device{info.dl_type, info.dl_id}, text);
        }
        return crossdock::detail::answer(error, [&] { return std::string(text); });
    }

    /// Its name for people.
    outcome<std::string> name() const {
        xd_device_info info = {};
        auto *error = xd_device_describe(get(), &info);
        return crossdock::detail::answer(error, [&] { return crossdock::detail::text(info.name); });
    }

    /// Its memory now: a hint, stale when it is read.
    outcome<xd_memory_info> memory() const {
        xd_memory_info memory = {};
        auto *error = xd_device_memory(get(), &memory);
        return crossdock::detail::answer(error, [&] { return memory; });
    }

    /// What its plugin has of its memory, for the whole process.
    outcome<xd_memory_usage> memory_usage() const {
        xd_memory_usage usage = {};
        auto *error = xd_device_memory_usage(get(), &usage);
        return crossdock::detail::answer(error, [&] { return usage; });
    }

    /// Begins the peaks of `memory_usage` anew.
    outcome<void> reset_peaks() const { return crossdock::detail::done(xd_device_reset_peaks(get())); }

    /// Gives back memory that was freed and is kept, until at most so many bytes of it are left.
    outcome<void> trim(std::uint64_t keep_bytes = 0) const {
        return crossdock::detail::done(xd_device_trim(get(), keep_bytes));
    }

    /// The plugin that offers it.
    outcome<Plugin> plugin() const {
        xd_plugin *plugin = nullptr;
        auto *error = xd_device_plugin(get(), &plugin);
        return crossdock::detail::answer(error, [&] { return Plugin(plugin); });
    }

    /// Makes the caller wait until the work on all its streams is done.
    outcome<void> synchronize(Limit limit = Limit::none()) const {
        return crossdock::detail::done(xd_device_synchronize(get(), limit.nanoseconds()));
    }

    friend bool operator==(const Device &one, const Device &other) noexcept {
        return xd_device_equal(one.get(), other.get()) != 0;
    }
    friend bool operator!=(const Device &one, const Device &other) noexcept {
        return !(one == other);
    }
};

} // namespace CROSSDOCK_MODE
} // namespace crossdock

/// Equal devices have equal hashes.
template <> struct std::hash<crossdock::Device> {
    std::size_t operator()(const crossdock::Device &device) const noexcept {
        return static_cast<std::size_t>(xd_device_hash(device.get()));
    }
};

#endif

/**
 * \file stream.hpp
 * \brief Streams and events: the order of work on a device.
 */
#ifndef CROSSDOCK_CPP_STREAM_HPP
#define CROSSDOCK_CPP_STREAM_HPP

#include <crossdock/cpp/device.hpp>

#include <chrono>
#include <optional>

namespace crossdock {
inline namespace CROSSDOCK_MODE {

/// How a stream waits for an event.
enum class WaitKind : xd_wait_kind {
    native = XD_WAIT_NATIVE,
    host_event = XD_WAIT_HOST_EVENT,
    host_thread = XD_WAIT_HOST_THREAD,
    blocked = XD_WAIT_BLOCKED,
};

/// A point in a stream's work, or one that the host completes.
class Event : public detail::Handle<xd_event, xd_event_free> {
public:
    /// Takes a handle of the C functions.
    explicit Event(xd_event *raw) noexcept : Handle(raw) {}

    /// An event that is pending until `complete`; streams can wait for it. One whose last handle goes
    /// before fails for its waiters.
    static outcome<Event> host(const Device &device) {
        xd_event *event = nullptr;
        auto *error = xd_event_create_host(device.get(), &event);
        return detail::answer(error, [&] { return Event(event); });
    }

    /// The same event once more.
    Event share() const { return Event(xd_event_retain(get())); }

    /// Completes an event of `host`, once: with `XD_OK`, or a failure that its waiters see.
    outcome<void> complete(xd_status status = XD_OK) const {
        return detail::done(xd_event_complete(get(), status));
    }

    /// The device whose event it is.
    outcome<Device> device() const {
        xd_device *device = nullptr;
        auto *error = xd_event_device(get(), &device);
        return detail::answer(error, [&] { return Device(device); });
    }

    /// Whether it happened; fails with the failure of the work before it.
    outcome<bool> is_done() const {
        std::int32_t done = 0;
        auto *error = xd_event_is_done(get(), &done);
        return detail::answer(error, [&] { return done != 0; });
    }

    /// Makes the caller wait for it.
    outcome<void> synchronize(Limit limit = Limit::none()) const {
        return detail::done(xd_event_synchronize(get(), limit.nanoseconds()));
    }

    /// The time from `earlier` to this event, as the device measured it.
    outcome<std::chrono::nanoseconds> elapsed_since(const Event &earlier) const {
        std::uint64_t nanoseconds = 0;
        auto *error = xd_event_elapsed(get(), earlier.get(), &nanoseconds);
        return detail::answer(error, [&] {
            return std::chrono::nanoseconds(
                static_cast<std::chrono::nanoseconds::rep>(nanoseconds));
        });
    }
};

/// An ordered queue of work on one device.
class Stream : public detail::Handle<xd_stream, xd_stream_free> {
public:
    /// Takes a handle of the C functions.
    explicit Stream(xd_stream *raw) noexcept : Handle(raw) {}

    /// Creates a stream on a device.
    static outcome<Stream> create(const Device &device) {
        xd_stream *stream = nullptr;
        auto *error = xd_stream_create(device.get(), &stream);
        return detail::answer(error, [&] { return Stream(stream); });
    }

    /// The device's default stream.
    static outcome<Stream> default_of(const Device &device) {
        xd_stream *stream = nullptr;
        auto *error = xd_stream_default(device.get(), &stream);
        return detail::answer(error, [&] { return Stream(stream); });
    }

    /// A stream of others, by the integer that the vendor's API uses. It outlives all handles and events
    /// that come of it, and nobody puts work on it during a call with them. Before its owner destroys the
    /// vendor's context of it, let go of the tensors that had work there and call `wait_for_releases`: see
    /// ::xd_stream_wrap.
    static outcome<Stream> wrap(const Device &device, std::uint64_t native) {
        xd_stream *stream = nullptr;
        auto *error = xd_stream_wrap(device.get(), native, &stream);
        return detail::answer(error, [&] { return Stream(stream); });
    }

    /// The stream with this integer that is still alive, made or wrapped by anybody in the process.
    static outcome<std::optional<Stream>> find(const Device &device, std::uint64_t native) {
        xd_stream *stream = nullptr;
        auto *error = xd_stream_find(device.get(), native, &stream);
        return detail::answer(error, [&] {
            return stream == nullptr ? std::optional<Stream>() : std::optional<Stream>(stream);
        });
    }

    /// The same stream once more.
    Stream share() const { return Stream(xd_stream_retain(get())); }

    /// The device whose work it orders.
    outcome<Device> device() const {
        xd_device *device = nullptr;
        auto *error = xd_stream_device(get(), &device);
        return detail::answer(error, [&] { return Device(device); });
    }

    /// The integer that the vendor's API uses for it.
    outcome<std::uint64_t> native_handle() const {
        std::uint64_t native = 0;
        auto *error = xd_stream_native_handle(get(), &native);
        return detail::answer(error, [&] { return native; });
    }

    /// Records an event at its present end.
    outcome<Event> record() const {
        xd_event *event = nullptr;
        auto *error = xd_stream_record(get(), &event);
        return detail::answer(error, [&] { return Event(event); });
    }

    /// Makes everything that comes later on it wait for an event of any plugin, and says how.
    outcome<WaitKind> wait(const Event &event) const {
        xd_wait_kind how = XD_WAIT_NATIVE;
        auto *error = xd_stream_wait(get(), event.get(), &how);
        return detail::answer(error, [&] { return static_cast<WaitKind>(how); });
    }

    /// Makes the caller wait until its work is done.
    outcome<void> synchronize(Limit limit = Limit::none()) const {
        return detail::done(xd_stream_synchronize(get(), limit.nanoseconds()));
    }

    /// Whether its work is done.
    outcome<bool> is_idle() const {
        std::int32_t idle = 0;
        auto *error = xd_stream_is_idle(get(), &idle);
        return detail::answer(error, [&] { return idle != 0; });
    }

    friend bool operator==(const Stream &one, const Stream &other) noexcept {
        return xd_stream_equal(one.get(), other.get()) != 0;
    }
    friend bool operator!=(const Stream &one, const Stream &other) noexcept {
        return !(one == other);
    }
};

} // namespace CROSSDOCK_MODE
} // namespace crossdock

#endif

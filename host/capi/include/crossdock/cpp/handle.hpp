/**
 * \file handle.hpp
 * \brief How objects of C++ hold the counted handles of C.
 */
#ifndef CROSSDOCK_CPP_HANDLE_HPP
#define CROSSDOCK_CPP_HANDLE_HPP

#include <crossdock/cpp/mode.hpp>
#include <crossdock/crossdock.h>

#include <utility>

namespace crossdock {
inline namespace CROSSDOCK_MODE {
namespace detail {

/// A handle with an owner. One that was moved from is empty: calls on it fail as `XD_INVALID`.
template <class Raw, void (*Free)(Raw *)> class Handle {
public:
    Handle(const Handle &) = delete;
    Handle &operator=(const Handle &) = delete;
    Handle(Handle &&other) noexcept : raw_(other.release()) {}
    Handle &operator=(Handle &&other) noexcept {
        if (this != &other) {
            Free(std::exchange(raw_, other.release()));
        }
        return *this;
    }

    /// The handle for the C functions, lent.
    Raw *get() const noexcept { return raw_; }
    /// Gives the handle away: the caller gives it back by its `_free`.
    [[nodiscard]] Raw *release() noexcept { return std::exchange(raw_, nullptr); }
    /// Whether there is a handle.
    explicit operator bool() const noexcept { return raw_ != nullptr; }

protected:
    explicit Handle(Raw *raw) noexcept : raw_(raw) {}
    ~Handle() { Free(raw_); }

private:
    Raw *raw_;
};

} // namespace detail
} // namespace CROSSDOCK_MODE
} // namespace crossdock

#endif

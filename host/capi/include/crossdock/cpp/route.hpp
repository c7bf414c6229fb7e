/**
 * \file route.hpp
 * \brief How a tensor reaches a device, with the explanation.
 */
#ifndef CROSSDOCK_CPP_ROUTE_HPP
#define CROSSDOCK_CPP_ROUTE_HPP

#include <crossdock/cpp/stream.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace crossdock {
inline namespace CROSSDOCK_MODE {

/// How a tensor is moved. Each call gives the same options, so that they can be chained:
/// `MoveOptions().copy(Copy::always).on(stream)`.
class MoveOptions {
public:
    MoveOptions() noexcept { raw_.struct_size = sizeof raw_; }

    /// The only route that is allowed.
    MoveOptions &route(RouteMode route) noexcept {
        raw_.route = static_cast<xd_route_mode>(route);
        return *this;
    }
    /// Whether it may or must copy.
    MoveOptions &copy(Copy copy) noexcept {
        raw_.copy = static_cast<xd_copy_mode>(copy);
        return *this;
    }
    /// The kind of memory that is wanted there.
    MoveOptions &kind(MemoryKind kind) noexcept {
        raw_.kind = static_cast<xd_memory_kind>(kind);
        return *this;
    }
    /// The stream in whose order it is moved, of any device; lent until the call that takes these options.
    MoveOptions &on(const Stream &stream) noexcept {
        raw_.stream = stream.get();
        moved_from_ = stream ? nullptr : "stream";
        return *this;
    }

    /// As the C functions take them.
    const xd_move_options *raw() const noexcept { return &raw_; }
    /// What was named and is empty, as it was moved from: calls with these options fail. NULL where nothing is.
    const char *moved_from() const noexcept { return moved_from_; }

private:
    xd_move_options raw_ = {};
    const char *moved_from_ = nullptr;
};

/// A route that was taken, or would be.
class Route : public detail::Handle<xd_route, xd_route_free> {
public:
    /// Takes a handle of the C functions.
    explicit Route(xd_route *raw) noexcept : Handle(raw) {}

    /// What moving a tensor of this layout between two devices would do, and why. A refusal is an answer.
    static outcome<Route> explain(const Device &from, const Device &to, Dtype dtype,
                                  const Shape &shape, const MoveOptions &options = {}) {
        const auto layout = detail::layout(dtype, shape);
        xd_route *route = nullptr;
        const auto call = [&] {
            return xd_route_explain(from.get(), to.get(), &layout, options.raw(), &route);
        };
        const auto error = detail::with_named(options.moved_from(), call);
        return detail::answer(error, [&] { return Route(route); });
    }

    /// Its kind.
    RouteMode kind() const noexcept { return static_cast<RouteMode>(xd_route_kind(get())); }
    /// Bytes that are copied; 0 for an alias.
    std::uint64_t bytes_copied() const noexcept { return xd_route_bytes_copied(get()); }

    /// The time that it is expected to take, where that is known.
    std::optional<std::chrono::nanoseconds> cost() const noexcept {
        const auto cost = xd_route_cost_ns(get());
        if (cost == XD_COST_UNKNOWN) {
            return std::nullopt;
        }
        return std::chrono::nanoseconds(static_cast<std::chrono::nanoseconds::rep>(cost));
    }

    /// The whole explanation, on several lines.
    std::string text() const { return xd_route_text(get()); }
    /// What is done, step by step.
    std::vector<std::string> steps() const { return list(xd_route_step); }
    /// The routes that do not work, each with its reason.
    std::vector<std::string> refused() const { return list(xd_route_refused); }
    /// The routes that could be taken instead, with their costs.
    std::vector<std::string> instead() const { return list(xd_route_instead); }

private:
    std::vector<std::string> list(const char *(*entry)(const xd_route *, std::uint64_t)) const {
        std::vector<std::string> list;
        while (const char *text = entry(get(), list.size())) {
            list.emplace_back(text);
        }
        return list;
    }
};

} // namespace CROSSDOCK_MODE
} // namespace crossdock

#endif

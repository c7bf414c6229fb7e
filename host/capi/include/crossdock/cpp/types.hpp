/**
 * \file types.hpp
 * \brief Element types, shapes, limits, and a span for C++17.
 */
#ifndef CROSSDOCK_CPP_TYPES_HPP
#define CROSSDOCK_CPP_TYPES_HPP

#include <crossdock/cpp/error.hpp>

#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace crossdock {
inline namespace CROSSDOCK_MODE {

/// Extents, or strides in elements.
using Shape = std::vector<std::int64_t>;

namespace detail {

/// Whether a type is a floating-point type: a standard one, or one that only the compiler knows, such as `_Float16`
/// and `__bf16`, for which `std::is_floating_point` is false in some standards.
template <class T>
constexpr bool is_float = std::is_floating_point_v<T> ||
                          (std::is_convertible_v<T, float> && !std::is_integral_v<T> &&
                           !std::is_enum_v<T> && !std::is_class_v<T> && !std::is_union_v<T>);

/// Whether a 16-bit float is a bfloat16. Both formats have the same size, so a value decides: 1 + 2^-8 rounds to 1
/// in bfloat16, which has 8 significant bits, and is exact in IEEE half precision, which has 11.
template <class T> constexpr bool is_bfloat16() noexcept {
    return sizeof(T) == 2 && static_cast<float>(static_cast<T>(1.00390625F)) < 1.001F;
}

} // namespace detail

/// The type of one element: code, bits of one lane, lanes, as in DLPack.
class Dtype {
public:
    constexpr Dtype(xd_dtype raw) noexcept : raw_(raw) {}

    /// The dtype of a C++ type: `bool`, a number, or a `std::complex` of one. Numbers include the types of C++23's
    /// `<stdfloat>`, and `_Float16` and `__bf16` where the compiler has them.
    template <class T> static constexpr Dtype of() noexcept {
        using Element = std::remove_cv_t<T>;
        constexpr auto bits = static_cast<std::uint8_t>(sizeof(Element) * 8);
        if constexpr (std::is_same_v<Element, bool>) {
            return xd_dtype{6, 8, 1};
        } else if constexpr (std::is_same_v<Element, std::byte>) {
            return xd_dtype{1, 8, 1};
        } else if constexpr (detail::is_float<Element>) {
            static_assert(sizeof(Element) <= 8, "DLPack has no long double");
            return xd_dtype{detail::is_bfloat16<Element>() ? std::uint8_t{4} : std::uint8_t{2}, bits, 1};
        } else if constexpr (std::is_integral_v<Element>) {
            return xd_dtype{std::is_signed_v<Element> ? std::uint8_t{0} : std::uint8_t{1}, bits, 1};
        } else {
            static_assert(std::is_same_v<Element, std::complex<float>> ||
                              std::is_same_v<Element, std::complex<double>>,
                          "elements are bool, numbers and std::complex of them");
            return xd_dtype{5, bits, 1};
        }
    }

    /// The dtype with this name: `float32`, `bfloat16`, `int8x4`.
    static outcome<Dtype> named(const std::string &name) {
        xd_dtype raw = {};
        const auto call = [&] { return xd_dtype_from_text(name.c_str(), &raw); };
        const auto error = detail::with_texts(call, name);
        return detail::answer(error, [&] { return Dtype(raw); });
    }

    /// Its name.
    outcome<std::string> name() const {
        char text[XD_NAME_BYTES] = {};
        auto *error = xd_dtype_text(raw_, text);
        return detail::answer(error, [&] { return std::string(text); });
    }

    /// As the C functions take it.
    constexpr xd_dtype raw() const noexcept { return raw_; }

    friend constexpr bool operator==(Dtype one, Dtype other) noexcept {
        return one.raw_.code == other.raw_.code && one.raw_.bits == other.raw_.bits &&
               one.raw_.lanes == other.raw_.lanes;
    }
    friend constexpr bool operator!=(Dtype one, Dtype other) noexcept { return !(one == other); }

private:
    xd_dtype raw_;
};

/// Whether a move may or must copy, as the array API's `copy` says it.
enum class Copy : xd_copy_mode {
    if_needed = XD_COPY_IF_NEEDED,
    never = XD_COPY_NEVER,
    always = XD_COPY_ALWAYS,
};

/// How a tensor reaches a device, or is to reach it.
enum class RouteMode : xd_route_mode {
    best = XD_ROUTE_BEST,
    alias = XD_ROUTE_ALIAS,
    direct = XD_ROUTE_DIRECT,
    staged = XD_ROUTE_STAGED,
    refused = XD_ROUTE_REFUSED,
};

/// A kind of memory of a device; `any` where it does not matter.
enum class MemoryKind : xd_memory_kind {
    any = 0,
    device = XD_MEMORY_DEVICE,
    pinned = XD_MEMORY_PINNED,
    managed = XD_MEMORY_MANAGED,
    host = XD_MEMORY_HOST,
};

/// How long a call may wait.
class Limit {
public:
    /// As long as it takes.
    static constexpr Limit none() noexcept { return Limit(XD_NO_LIMIT); }

    /// So long; what is negative does not wait.
    template <class Rep, class Period>
    constexpr Limit(std::chrono::duration<Rep, Period> limit) noexcept : nanoseconds_(0) {
        const std::chrono::duration<double, std::nano> wanted = limit;
        if (wanted.count() >= 9.0e18) {
            nanoseconds_ = XD_NO_LIMIT;
        } else if (wanted.count() > 0) {
            nanoseconds_ = static_cast<std::uint64_t>(
                std::chrono::duration_cast<std::chrono::nanoseconds>(limit).count());
        }
    }

    constexpr std::uint64_t nanoseconds() const noexcept { return nanoseconds_; }

private:
    constexpr explicit Limit(std::uint64_t nanoseconds) noexcept : nanoseconds_(nanoseconds) {}
    std::uint64_t nanoseconds_;
};

/// Elements that lie one behind the other, lent: `std::span` for C++17.
template <class T> class span {
public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;

    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t index) const noexcept { return data_[index]; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

namespace detail {

inline xd_layout layout(Dtype dtype, const Shape &shape, const Shape &strides = {}) noexcept {
    xd_layout layout = {};
    layout.dtype = dtype.raw();
    layout.ndim = static_cast<std::uint32_t>(shape.size());
    layout.shape = shape.data();
    layout.strides = strides.empty() ? nullptr : strides.data();
    return layout;
}

/// How many elements a shape has, where that is a number at all.
inline std::optional<std::uint64_t> elements(const Shape &shape) noexcept {
    std::uint64_t count = 1;
    for (const auto extent : shape) {
        const auto length = static_cast<std::uint64_t>(extent);
        if (extent < 0 ||
            (extent > 0 && count > (std::numeric_limits<std::uint64_t>::max)() / length)) {
            return std::nullopt;
        }
        count *= length;
    }
    return count;
}

/// A limit for fields of C in which 0 is not said: there the shortest limit stands for none of the time.
constexpr std::uint64_t said(Limit limit) noexcept {
    return limit.nanoseconds() == 0 ? 1 : limit.nanoseconds();
}

/// A shape as a text: `[2, 3]`.
inline std::string text(const Shape &shape) {
    std::string text = "[";
    for (const auto extent : shape) {
        text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
    }
    return text + "]";
}

/// The name of a dtype.
inline std::string text(Dtype dtype) {
    char name[XD_NAME_BYTES] = {};
    xd_error_free(xd_dtype_text(dtype.raw(), name));
    return name;
}

/// The C++ type of elements of a dtype; empty where there is none.
inline std::string type_of(Dtype dtype) {
    if (dtype == Dtype::of<bool>()) {
        return "bool";
    }
    if (dtype == Dtype::of<float>() || dtype == Dtype::of<double>()) {
        return dtype == Dtype::of<float>() ? "float" : "double";
    }
    if (dtype == Dtype::of<std::complex<float>>() || dtype == Dtype::of<std::complex<double>>()) {
        return dtype == Dtype::of<std::complex<float>>() ? "std::complex<float>" : "std::complex<double>";
    }
    const auto raw = dtype.raw();
    const bool is_whole = raw.code <= 1 && raw.lanes == 1 && raw.bits >= 8;
    return is_whole ? "std::" + text(dtype) + "_t" : std::string();
}

/// The text of a fixed field of bytes.
template <std::size_t Size> std::string text(const std::uint8_t (&bytes)[Size]) {
    std::string text;
    for (const auto byte : bytes) {
        if (byte == 0) {
            break;
        }
        text.push_back(static_cast<char>(byte));
    }
    return text;
}

} // namespace detail
} // namespace CROSSDOCK_MODE
} // namespace crossdock

#endif

/**
 * \file value.hpp
 * \brief Values that scripts are given, and give.
 */
#ifndef CROSSDOCK_CPP_VALUE_HPP
#define CROSSDOCK_CPP_VALUE_HPP

#include <crossdock/cpp/tensor.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace crossdock {

/// What `bytes` of Python is here.
using Bytes = std::vector<std::uint8_t>;

/// A value of a script: nothing, a truth, a number, a text (UTF-8), bytes or a tensor.
class Value {
public:
    using Content =
        std::variant<std::monostate, bool, std::int64_t, double, std::string, Bytes, Tensor>;

    /// `None`.
    Value() = default;
    explicit Value(Content content) : content_(std::move(content)) {}

    /// What it is.
    const Content &content() const noexcept { return content_; }
    /// Whether it is `None`.
    bool is_none() const noexcept { return content_.index() == 0; }

    /// It as a C++ type: `bool`, an integer that it fits into, a floating-point number, `std::string`,
    /// `Bytes` or `Tensor`. Fails where it is something else.
    template <class T> outcome<T> as() && {
        if constexpr (std::is_same_v<T, Value>) {
            return std::move(*this);
        } else if constexpr (std::is_same_v<T, bool>) {
            if (const auto *truth = std::get_if<bool>(&content_)) {
                return bool(*truth);
            }
        } else if constexpr (std::is_integral_v<T>) {
            if (const auto *number = std::get_if<std::int64_t>(&content_)) {
                if (fits<T>(*number)) {
                    return static_cast<T>(*number);
                }
                return detail::fail<T>(other("it does not fit into the integer type asked for"));
            }
        } else if constexpr (std::is_floating_point_v<T>) {
            if (const auto *number = std::get_if<double>(&content_)) {
                return static_cast<T>(*number);
            }
            if (const auto *number = std::get_if<std::int64_t>(&content_)) {
                return static_cast<T>(*number);
            }
        } else {
            static_assert(std::is_same_v<T, std::string> || std::is_same_v<T, Bytes> ||
                              std::is_same_v<T, Tensor>,
                          "a script gives bool, numbers, std::string, Bytes, Tensor and Value");
            if (auto *content = std::get_if<T>(&content_)) {
                return std::move(*content);
            }
        }
        static const char *const names[] = {"None",  "a bool",  "an int",  "a float",
                                            "a str", "a bytes", "a tensor"};
        return detail::fail<T>(other(std::string("it is ") + names[content_.index()]));
    }

private:
    template <class T> static bool fits(std::int64_t number) noexcept {
        if constexpr (std::is_unsigned_v<T>) {
            return number >= 0 && static_cast<std::uint64_t>(number) <=
                                      std::uint64_t{std::numeric_limits<T>::max()};
        } else {
            return number >= std::int64_t{std::numeric_limits<T>::min()} &&
                   number <= std::int64_t{std::numeric_limits<T>::max()};
        }
    }

    static Error other(const std::string &why) {
        return Error::misuse("read a value of a script", why,
                             "ask for the type that the script gives, or for a `Value`");
    }

    Content content_;
};

/// An argument by name: `session.call("f", arg("scale", 2.0))`. It lends the value to the call.
template <class T> struct Named {
    const char *name;
    const T &value;
};

/// See `Named`.
template <class T> Named<T> arg(const char *name, const T &value) noexcept {
    return Named<T>{name, value};
}

namespace detail {

template <class> inline constexpr bool is_named = false;
template <class T> inline constexpr bool is_named<Named<T>> = true;

/// A value for the C functions, which is lent.
template <class T> xd_value lent(const T &value) noexcept {
    xd_value raw = {};
    if constexpr (std::is_same_v<T, Value>) {
        return std::visit(
            [](const auto &content) noexcept {
                return lent<std::decay_t<decltype(content)>>(content);
            },
            value.content());
    } else if constexpr (std::is_same_v<T, std::monostate> || std::is_same_v<T, std::nullptr_t>) {
        raw.kind = XD_VALUE_NONE;
    } else if constexpr (std::is_same_v<T, bool>) {
        raw.kind = XD_VALUE_BOOL;
        raw.integer = value ? 1 : 0;
    } else if constexpr (std::is_integral_v<T>) {
        static_assert(sizeof(T) < sizeof(std::int64_t) || std::is_signed_v<T>,
                      "a script's integers have 64 bits and a sign: cast to std::int64_t");
        raw.kind = XD_VALUE_INT;
        raw.integer = value;
    } else if constexpr (std::is_floating_point_v<T>) {
        raw.kind = XD_VALUE_FLOAT;
        raw.number = static_cast<double>(value);
    } else if constexpr (std::is_same_v<T, Bytes>) {
        raw.kind = XD_VALUE_BYTES;
        raw.data = reinterpret_cast<const char *>(value.data());
        raw.size = value.size();
    } else if constexpr (std::is_same_v<T, Tensor>) {
        raw.kind = XD_VALUE_TENSOR;
        raw.tensor = value.get();
    } else {
        static_assert(std::is_convertible_v<const T &, std::string_view>,
                      "a script takes nullptr, bool, numbers, texts, Bytes, Tensor and Value");
        const std::string_view text = value;
        raw.kind = XD_VALUE_TEXT;
        raw.data = text.data();
        raw.size = text.size();
    }
    return raw;
}

/// Gives back what a C function answered.
struct Answered {
    xd_value &raw;
    ~Answered() { xd_value_clear(&raw); }
};

/// Takes what a C function answered.
inline Value taken(xd_value &raw) {
    const Answered answered{raw};
    const auto size = static_cast<std::size_t>(raw.size);
    switch (raw.kind) {
    case XD_VALUE_BOOL:
        return Value(Value::Content(raw.integer != 0));
    case XD_VALUE_INT:
        return Value(Value::Content(raw.integer));
    case XD_VALUE_FLOAT:
        return Value(Value::Content(raw.number));
    case XD_VALUE_TEXT:
        return Value(Value::Content(std::string(raw.data, size)));
    case XD_VALUE_BYTES: {
        const auto *bytes = reinterpret_cast<const std::uint8_t *>(raw.data);
        return Value(Value::Content(Bytes(bytes, bytes + size)));
    }
    case XD_VALUE_TENSOR:
        return Value(Value::Content(Tensor(xd_tensor_retain(raw.tensor))));
    default:
        return Value();
    }
}

} // namespace detail
} // namespace crossdock

#endif

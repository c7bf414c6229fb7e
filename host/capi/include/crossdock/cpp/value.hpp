/**
 * \file value.hpp
 * \brief Values that scripts are given, and give.
 */
#ifndef CROSSDOCK_CPP_VALUE_HPP
#define CROSSDOCK_CPP_VALUE_HPP

#include <crossdock/cpp/tensor.hpp>

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace crossdock {
inline namespace CROSSDOCK_MODE {

namespace detail {

template <class> inline constexpr bool is_vector = false;
template <class T, class Allocator>
inline constexpr bool is_vector<std::vector<T, Allocator>> = true;

template <class> inline constexpr bool is_map = false;
template <class Key, class T, class Less, class Allocator>
inline constexpr bool is_map<std::map<Key, T, Less, Allocator>> = true;

/// Why a value is none of a type, as it follows its name: "is a str, and an int is wanted".
struct Mismatch {
    std::string why;
};

template <class Function> struct Bound;

} // namespace detail

class Session;

/// What `bytes` of Python is here.
using Bytes = std::vector<std::uint8_t>;

class Value;

/// What a list or a tuple of Python is here.
using List = std::vector<Value>;
/// What a dictionary of Python is here, in its order.
using Dict = std::vector<std::pair<Value, Value>>;

/// A value of a script: nothing, a truth, a number, a text (UTF-8), bytes, a tensor, or a list or a dictionary
/// of values.
class Value {
public:
    using Content = std::variant<std::monostate, bool, std::int64_t, double, std::string, Bytes,
                                 Tensor, List, Dict>;

    /// `None`.
    Value() = default;
    explicit Value(Content content) : content_(std::move(content)) {}

    /// A value of whatever a script takes: `nullptr`, `bool`, a number, a text, `Bytes`, a `Tensor` (the same
    /// tensor once more), a `std::vector` of these, or a `std::map` of two.
    template <class T> static Value of(const T &value);

    /// What it is.
    const Content &content() const & noexcept { return content_; }
    Content content() && noexcept { return std::move(content_); }
    /// Whether it is `None`.
    bool is_none() const noexcept { return content_.index() == 0; }

    /// It as a C++ type: `bool`, an integer that it fits into, a floating-point number, `std::string`,
    /// `Bytes`, `Tensor`, `List` or `Dict`; a `std::vector` of a type, or a `std::map` of two. Fails where it
    /// is something else.
    template <class T> outcome<T> as() const & { return of(*this).template as<T>(); }
    /// The same of a value that is not needed any more, without a copy.
    template <class T> outcome<T> as() && {
        auto read = std::move(*this).template converted<T>();
        if (const auto *mismatch = std::get_if<1>(&read)) {
            return detail::fail<T>(Error::misuse("read a value of a script", "it " + mismatch->why, hint()));
        }
        return std::move(*std::get_if<0>(&read));
    }

private:
    template <class T> static bool fits(std::int64_t number) noexcept {
        if constexpr (std::is_unsigned_v<T>) {
            return number >= 0 && static_cast<std::uint64_t>(number) <=
                                      std::uint64_t{(std::numeric_limits<T>::max)()};
        } else {
            return number >= std::int64_t{(std::numeric_limits<T>::min)()} &&
                   number <= std::int64_t{(std::numeric_limits<T>::max)()};
        }
    }

    friend class Session;
    template <class Function> friend struct detail::Bound;

    /// It as a type, or why not.
    template <class T> using Read = std::variant<T, detail::Mismatch>;

    static const char *hint() noexcept {
        return "ask for the type that the script gives, or for a `Value`";
    }

    template <class T> Read<T> converted() && {
        if constexpr (std::is_same_v<T, Value>) {
            return given<T>(std::move(*this));
        } else if constexpr (std::is_same_v<T, bool>) {
            if (const auto *truth = std::get_if<bool>(&content_)) {
                return given<T>(bool(*truth));
            }
        } else if constexpr (std::is_integral_v<T>) {
            if (const auto *number = std::get_if<std::int64_t>(&content_)) {
                return fits<T>(*number) ? given<T>(static_cast<T>(*number)) : too_large<T>(*number);
            }
        } else if constexpr (std::is_floating_point_v<T>) {
            if (const auto *number = std::get_if<double>(&content_)) {
                return given<T>(static_cast<T>(*number));
            }
            if (const auto *number = std::get_if<std::int64_t>(&content_)) {
                return given<T>(static_cast<T>(*number));
            }
        } else if constexpr (detail::is_map<T>) {
            if (auto *pairs = std::get_if<Dict>(&content_)) {
                return mapped<T>(std::move(*pairs));
            }
        } else if constexpr (detail::is_vector<T> && !std::is_same_v<T, Bytes> &&
                             !std::is_same_v<T, List> && !std::is_same_v<T, Dict>) {
            if (auto *items = std::get_if<List>(&content_)) {
                return listed<T>(std::move(*items));
            }
        } else {
            static_assert(std::is_same_v<T, std::string> || std::is_same_v<T, Bytes> ||
                              std::is_same_v<T, Tensor> || std::is_same_v<T, List> ||
                              std::is_same_v<T, Dict>,
                          "a script gives bool, numbers, std::string, Bytes, Tensor, List, Dict, "
                          "std::vector, std::map and Value");
            if (auto *content = std::get_if<T>(&content_)) {
                return given<T>(std::move(*content));
            }
        }
        static const char *const names[] = {"None",  "a bool",   "an int", "a float", "a str",
                                            "bytes", "a tensor", "a list", "a dict"};
        return none<T>(std::string("is ") + names[content_.index()] + ", and " + wanted<T>() +
                       " is wanted");
    }

    template <class T> static Read<T> given(T value) {
        return Read<T>(std::in_place_index<0>, std::move(value));
    }

    template <class T> static Read<T> none(std::string why) {
        return Read<T>(std::in_place_index<1>, detail::Mismatch{std::move(why)});
    }

    /// What a type is in Python.
    template <class T> static const char *wanted() noexcept {
        if constexpr (std::is_same_v<T, bool>) {
            return "a bool";
        } else if constexpr (std::is_integral_v<T>) {
            return "an int";
        } else if constexpr (std::is_floating_point_v<T>) {
            return "a float";
        } else if constexpr (std::is_same_v<T, std::string>) {
            return "a str";
        } else if constexpr (std::is_same_v<T, Bytes>) {
            return "bytes";
        } else if constexpr (std::is_same_v<T, Tensor>) {
            return "a tensor";
        } else if constexpr (std::is_same_v<T, Dict> || detail::is_map<T>) {
            return "a dict";
        } else {
            return "a list";
        }
    }

    template <class T> static Read<T> too_large(std::int64_t number) {
        return none<T>("is " + std::to_string(number) + ", which does not fit into " +
                       (std::is_unsigned_v<T> ? "an unsigned" : "an") + " int of " +
                       std::to_string(8 * sizeof(T)) + " bits");
    }

    template <class T> static Read<T> listed(List items) {
        T all;
        all.reserve(items.size());
        for (auto &item : items) {
            auto one = std::move(item).template converted<typename T::value_type>();
            if (const auto *mismatch = std::get_if<1>(&one)) {
                return none<T>("has an item [" + std::to_string(all.size()) + "] that " + mismatch->why);
            }
            all.push_back(std::move(*std::get_if<0>(&one)));
        }
        return given<T>(std::move(all));
    }

    template <class T> static Read<T> mapped(Dict pairs) {
        T all;
        for (auto &pair : pairs) {
            auto key = std::move(pair.first).template converted<typename T::key_type>();
            if (const auto *mismatch = std::get_if<1>(&key)) {
                return none<T>("has a key that " + mismatch->why);
            }
            auto value = std::move(pair.second).template converted<typename T::mapped_type>();
            if (const auto *mismatch = std::get_if<1>(&value)) {
                return none<T>("has a value that " + mismatch->why);
            }
            all.emplace(std::move(*std::get_if<0>(&key)), std::move(*std::get_if<0>(&value)));
        }
        return given<T>(std::move(all));
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

/// A value for the C functions, which is lent, with the items of lists and dictionaries in it.
class Lent {
public:
    template <class T> explicit Lent(const T &value) { put(raw_, value); }

    /// As the C functions take it, while this lives.
    const xd_value *raw() const noexcept { return &raw_; }

private:
    template <class T> void put(xd_value &raw, const T &value) {
        if constexpr (std::is_same_v<T, Value>) {
            std::visit([&](const auto &content) { put(raw, content); }, value.content());
        } else if constexpr (std::is_same_v<T, std::monostate> ||
                             std::is_same_v<T, std::nullptr_t>) {
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
        } else if constexpr (std::is_same_v<T, Dict> || is_map<T>) {
            auto &parts = items(raw, XD_VALUE_DICT, value.size(), 2);
            std::size_t at = 0;
            for (const auto &pair : value) {
                put(parts[at], pair.first);
                put(parts[at + 1], pair.second);
                at += 2;
            }
        } else if constexpr (is_vector<T>) {
            auto &all = items(raw, XD_VALUE_LIST, value.size(), 1);
            for (std::size_t at = 0; at < value.size(); ++at) {
                put<typename T::value_type>(all[at], value[at]);
            }
        } else {
            static_assert(std::is_convertible_v<const T &, std::string_view>,
                          "a script takes nullptr, bool, numbers, texts, Bytes, Tensor, Value, "
                          "std::vector and std::map");
            const std::string_view text = value;
            raw.kind = XD_VALUE_TEXT;
            raw.data = text.data();
            raw.size = text.size();
        }
    }

    std::vector<xd_value> &items(xd_value &raw, xd_value_kind kind, std::size_t size,
                                 std::size_t each) {
        all_.push_back(std::make_unique<std::vector<xd_value>>(size * each));
        auto &items = *all_.back();
        raw.kind = kind;
        raw.items = items.data();
        raw.size = size;
        return items;
    }

    xd_value raw_ = {};
    std::vector<std::unique_ptr<std::vector<xd_value>>> all_;
};

/// Reads what is lent or answered by the library; of a tensor it takes a share.
inline Value read(const xd_value &raw) {
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
    case XD_VALUE_LIST: {
        List items;
        items.reserve(size);
        for (std::size_t at = 0; at < size; ++at) {
            items.push_back(read(raw.items[at]));
        }
        return Value(Value::Content(std::move(items)));
    }
    case XD_VALUE_DICT: {
        Dict pairs;
        pairs.reserve(size);
        for (std::size_t at = 0; at < size; ++at) {
            pairs.emplace_back(read(raw.items[2 * at]), read(raw.items[2 * at + 1]));
        }
        return Value(Value::Content(std::move(pairs)));
    }
    default:
        return Value();
    }
}

/// What a C function answers with, given back at the end.
struct Answer {
    xd_value raw = {};

    Answer() = default;
    Answer(const Answer &) = delete;
    Answer &operator=(const Answer &) = delete;
    ~Answer() { xd_value_clear(&raw); }
};

} // namespace detail

template <class T> Value Value::of(const T &value) { return detail::read(*detail::Lent(value).raw()); }

} // namespace CROSSDOCK_MODE
} // namespace crossdock

#endif

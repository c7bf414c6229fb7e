/**
 * \file function.hpp
 * \brief How functions of a program become functions that scripts call.
 */
#ifndef CROSSDOCK_CPP_FUNCTION_HPP
#define CROSSDOCK_CPP_FUNCTION_HPP

#include <crossdock/cpp/value.hpp>

#include <cstddef>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace crossdock {
inline namespace CROSSDOCK_MODE {

/// What a script called a function with.
struct Arguments {
    /// By place.
    std::vector<Value> values;
    /// By name.
    std::vector<std::pair<std::string, Value>> named;
};

namespace detail {

/// What a function takes, without references, and gives.
template <class Function> struct Signature : Signature<decltype(&Function::operator())> {};
template <class R, class... Taken> struct Signature<R (*)(Taken...)> {
    using Answer = R;
    using Parameters = std::tuple<std::decay_t<Taken>...>;
};
template <class R, class... Taken>
struct Signature<R (*)(Taken...) noexcept> : Signature<R (*)(Taken...)> {};
template <class Object, class R, class... Taken>
struct Signature<R (Object::*)(Taken...)> : Signature<R (*)(Taken...)> {};
template <class Object, class R, class... Taken>
struct Signature<R (Object::*)(Taken...) const> : Signature<R (*)(Taken...)> {};
template <class Object, class R, class... Taken>
struct Signature<R (Object::*)(Taken...) noexcept> : Signature<R (*)(Taken...)> {};
template <class Object, class R, class... Taken>
struct Signature<R (Object::*)(Taken...) const noexcept> : Signature<R (*)(Taken...)> {};

template <class> inline constexpr bool is_optional = false;
template <class T> inline constexpr bool is_optional<std::optional<T>> = true;

template <class> inline constexpr bool is_result = false;
template <class T> inline constexpr bool is_result<result<T>> = true;

/// An error as the library takes it.
inline xd_error *raw_error(const Error &error) noexcept {
    return xd_error_create(error.status(), error.message().c_str(), error.why().c_str(),
                           error.hint().c_str());
}

/// A function with its name, for as long as a session knows it.
template <class Function> struct Bound {
    std::string name;
    Function function;

    using Answer = typename Signature<Function>::Answer;
    using Parameters = typename Signature<Function>::Parameters;
    static constexpr std::size_t most = std::tuple_size_v<Parameters>;

    static void release(void *word) { delete static_cast<Bound *>(word); }

    /// What the library calls; nothing leaves it but an error.
    static xd_error *call(void *word, const xd_arguments *arguments, const xd_answer *answer) noexcept {
        auto &self = *static_cast<Bound *>(word);
#if defined(CROSSDOCK_NO_EXCEPTIONS)
        return self.run(*arguments, answer);
#else
        try {
            return self.run(*arguments, answer);
        } catch (const Error &error) {
            return raw_error(error);
        } catch (const std::bad_alloc &) {
            return xd_error_create(XD_OOM_HOST, "there is no host memory left", nullptr, nullptr);
        } catch (const std::exception &error) {
            return xd_error_create(XD_INVALID, error.what(), nullptr, nullptr);
        } catch (...) {
            return xd_error_create(XD_INVALID, "it threw what is no std::exception", nullptr, nullptr);
        }
#endif
    }

private:
    xd_error *run(const xd_arguments &arguments, const xd_answer *answer) {
        if constexpr (std::is_same_v<Parameters, std::tuple<Arguments>>) {
            Arguments all;
            for (std::uint64_t at = 0; at < arguments.count; ++at) {
                all.values.push_back(read(arguments.values[at]));
            }
            for (std::uint64_t at = 0; at < arguments.named_count; ++at) {
                all.named.emplace_back(arguments.names[at], read(arguments.named_values[at]));
            }
            return answered(answer, [&]() -> decltype(auto) { return function(std::move(all)); });
        } else {
            if (arguments.named_count > 0) {
                return refused(std::string("it takes no argument by name, and was given `") +
                               arguments.names[0] + "`");
            }
            if (arguments.count > most) {
                return refused("it takes at most " + std::to_string(most) +
                               " arguments, and was given " + std::to_string(arguments.count));
            }
            return converted(arguments, answer, std::make_index_sequence<most>());
        }
    }

    template <std::size_t... At>
    xd_error *converted(const xd_arguments &arguments, const xd_answer *answer,
                        std::index_sequence<At...>) {
        std::tuple<std::optional<std::tuple_element_t<At, Parameters>>...> values;
        xd_error *error = nullptr;
        static_cast<void>(
            (((error = take(arguments, At, std::get<At>(values))) == nullptr) && ...));
        if (error != nullptr) {
            return error;
        }
        return answered(answer, [&]() -> decltype(auto) {
            return function(std::move(*std::get<At>(values))...);
        });
    }

    /// One argument as the type that the function takes.
    template <class T>
    xd_error *take(const xd_arguments &arguments, std::size_t at, std::optional<T> &into) {
        if constexpr (is_optional<T>) {
            into.emplace();
            if (at >= arguments.count || arguments.values[at].kind == XD_VALUE_NONE) {
                return nullptr;
            }
            std::optional<typename T::value_type> value;
            auto *error = take(arguments, at, value);
            if (error == nullptr) {
                *into = std::move(value);
            }
            return error;
        } else {
            if (at >= arguments.count) {
                return refused("argument " + std::to_string(at + 1) + " is missing");
            }
            auto value = read(arguments.values[at]).template converted<T>();
            if (const auto *mismatch = std::get_if<1>(&value)) {
                return refused("argument " + std::to_string(at + 1) + " " + mismatch->why);
            }
            into.emplace(std::move(*std::get_if<0>(&value)));
            return nullptr;
        }
    }

    template <class Call> static xd_error *answered(const xd_answer *answer, Call &&call) {
        if constexpr (std::is_void_v<Answer>) {
            call();
            return nullptr;
        } else if constexpr (is_result<std::decay_t<Answer>>) {
            auto given = call();
            if (!given) {
                return raw_error(given.error());
            }
            if constexpr (std::is_void_v<typename std::decay_t<Answer>::value_type>) {
                return nullptr;
            } else {
                return xd_answer_set(answer, Lent(*given).raw());
            }
        } else {
            return xd_answer_set(answer, Lent(call()).raw());
        }
    }

    xd_error *refused(const std::string &why) const noexcept {
        return xd_error_create(XD_INVALID, ("call `" + name + "` of the program").c_str(),
                               why.c_str(), "call it as its program says");
    }
};

} // namespace detail
} // namespace CROSSDOCK_MODE
} // namespace crossdock

#endif

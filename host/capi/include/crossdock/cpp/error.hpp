/**
 * \file error.hpp
 * \brief Failures: the exception `crossdock::Error`, or `crossdock::result<T>` without exceptions.
 */
#ifndef CROSSDOCK_CPP_ERROR_HPP
#define CROSSDOCK_CPP_ERROR_HPP

#include <crossdock/cpp/mode.hpp>
#include <crossdock/crossdock.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace crossdock {
inline namespace CROSSDOCK_MODE {

/// What kind of failure an error is: `XD_ERROR_*`.
enum class ErrorKind : xd_failure_kind {
    none = XD_ERROR_NONE,
    misuse = XD_ERROR_MISUSE,
    load = XD_ERROR_LOAD,
    hook = XD_ERROR_HOOK,
    unknown_device = XD_ERROR_UNKNOWN_DEVICE,
    exchange = XD_ERROR_EXCHANGE,
    claim = XD_ERROR_CLAIM,
    refused = XD_ERROR_REFUSED,
    copy_required = XD_ERROR_COPY_REQUIRED,
    panic = XD_ERROR_PANIC,
    other = XD_ERROR_OTHER,
    no_python = XD_ERROR_NO_PYTHON,
    python_mismatch = XD_ERROR_PYTHON_MISMATCH,
    script = XD_ERROR_SCRIPT,
    script_exit = XD_ERROR_SCRIPT_EXIT,
    script_interrupted = XD_ERROR_SCRIPT_INTERRUPTED,
    script_timeout = XD_ERROR_SCRIPT_TIMEOUT,
    script_stuck = XD_ERROR_SCRIPT_STUCK,
    script_busy = XD_ERROR_SCRIPT_BUSY,
    script_closed = XD_ERROR_SCRIPT_CLOSED,
};

/// Why a call failed. Copies share one content, so copying never throws.
class CROSSDOCK_EXCEPTION Error : public std::exception {
public:
    /// Takes an error of the C functions, which must not be NULL.
    explicit Error(xd_error *error)
        : parts_(std::make_shared<const Parts>(Parts{
              static_cast<ErrorKind>(xd_error_kind(error)), xd_error_status(error),
              xd_error_native_code(error), xd_error_exit_code(error), xd_error_operation(error),
              xd_error_plugin(error), xd_error_device(error), xd_error_native_name(error),
              xd_error_message(error), xd_error_why(error), xd_error_hint(error),
              xd_error_text(error), xd_error_exception(error), xd_error_traceback(error)})) {
        xd_error_free(error);
    }

    /// Copies, also where it could be moved, so that none is ever empty.
    Error(const Error &) noexcept = default;
    Error &operator=(const Error &) noexcept = default;

    /// An error that this header finds before the library is called.
    static Error misuse(const std::string &message, const std::string &why,
                        const std::string &hint) {
        const auto text = message + "\n  why: " + why + "\n  try: " + hint;
        return Error(Parts{ErrorKind::misuse, XD_INVALID, 0, 0, message, "", "", "", message, why,
                           hint, text, "", ""});
    }

    /// What kind of failure it is.
    ErrorKind kind() const noexcept { return parts_->kind; }
    /// The status: `XD_OOM_DEVICE` and the like.
    xd_status status() const noexcept { return parts_->status; }
    /// The vendor's number, or 0.
    std::int64_t native_code() const noexcept { return parts_->native_code; }
    /// The vendor's name of that number, or empty.
    const std::string &native_name() const noexcept { return parts_->native_name; }
    /// The operation that failed: the vendor's call where there is one.
    const std::string &operation() const noexcept { return parts_->operation; }
    /// The plugin in which it failed, or empty.
    const std::string &plugin() const noexcept { return parts_->plugin; }
    /// The device it was about, as `cuda:0`, or empty.
    const std::string &device() const noexcept { return parts_->device; }
    /// What failed: a fragment, as in "find device `cuda:0`".
    const std::string &message() const noexcept { return parts_->message; }
    /// Why: one sentence.
    const std::string &why() const noexcept { return parts_->why; }
    /// What to do about it.
    const std::string &hint() const noexcept { return parts_->hint; }
    /// The class of a script's exception, as in `numpy.linalg.LinAlgError`; else empty.
    const std::string &exception() const noexcept { return parts_->exception; }
    /// The traceback of a script's exception; else empty.
    const std::string &traceback() const noexcept { return parts_->traceback; }
    /// The code that a script asked to exit with, else 0.
    std::int32_t exit_code() const noexcept { return parts_->exit_code; }
    /// What, why and what to do, on three lines.
    const char *what() const noexcept override { return parts_->text.c_str(); }

private:
    struct Parts {
        ErrorKind kind;
        xd_status status;
        std::int64_t native_code;
        std::int32_t exit_code;
        std::string operation, plugin, device, native_name, message, why, hint, text, exception,
            traceback;
    };

    explicit Error(Parts parts) : parts_(std::make_shared<const Parts>(std::move(parts))) {}

    std::shared_ptr<const Parts> parts_;
};

namespace detail {

/// Ends a program that asks a call which worked why it did not.
[[noreturn]] inline const Error &no_error() {
    std::fputs("crossdock: error() of a result without an error: ask `if (!result)` first\n", stderr);
    std::abort();
}

} // namespace detail

/// A value, or why there is none: what every call gives with `CROSSDOCK_NO_EXCEPTIONS`.
template <class T> class [[nodiscard]] result {
public:
    using value_type = T;

    result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
    result(Error error) : content_(std::in_place_index<1>, std::move(error)) {}

    /// Whether there is a value.
    explicit operator bool() const noexcept { return has_value(); }
    bool has_value() const noexcept { return content_.index() == 0; }

    /// The value; where there is none the program ends with the error's text.
    T &value() & { return checked(), *std::get_if<0>(&content_); }
    const T &value() const & { return checked(), *std::get_if<0>(&content_); }
    T &&value() && { return checked(), std::move(*std::get_if<0>(&content_)); }
    T &operator*() & { return value(); }
    const T &operator*() const & { return value(); }
    T &&operator*() && { return std::move(*this).value(); }
    T *operator->() { return &value(); }
    const T *operator->() const { return &value(); }

    /// Why there is no value; where there is one the program ends.
    const Error &error() const {
        const auto *error = std::get_if<1>(&content_);
        return error != nullptr ? *error : detail::no_error();
    }

private:
    void checked() const {
        if (const auto *error = std::get_if<1>(&content_)) {
            std::fprintf(stderr, "%s\n", error->what());
            std::abort();
        }
    }

    std::variant<T, Error> content_;
};

/// As `result<T>`, of a call that gives nothing.
template <> class [[nodiscard]] result<void> {
public:
    using value_type = void;

    result() = default;
    result(Error error) : error_(std::move(error)) {}

    /// Whether it worked.
    explicit operator bool() const noexcept { return !error_; }
    bool has_value() const noexcept { return !error_; }

    /// Where it did not work the program ends with the error's text.
    void value() const {
        if (error_) {
            std::fprintf(stderr, "%s\n", error_->what());
            std::abort();
        }
    }

    /// Why it did not work; where it did the program ends.
    const Error &error() const { return error_ ? *error_ : detail::no_error(); }

private:
    std::optional<Error> error_;
};

/// What a call gives: the value, or with `CROSSDOCK_NO_EXCEPTIONS` a `result` of it.
#if defined(CROSSDOCK_NO_EXCEPTIONS)
template <class T> using outcome = result<T>;
#else
template <class T> using outcome = T;
#endif

namespace detail {

template <class T> [[nodiscard]] outcome<T> fail(Error error) {
#if defined(CROSSDOCK_NO_EXCEPTIONS)
    return result<T>(std::move(error));
#else
    throw error;
#endif
}

/// Fails with an error of the library, or gives what `make` makes.
template <class Make> auto answer(xd_error *error, Make &&make) -> outcome<decltype(make())> {
    using T = decltype(make());
    if (error != nullptr) {
        return fail<T>(Error(error));
    }
    return make();
}

inline bool has_nul(const std::string &text) noexcept {
    return text.find('\0') != std::string::npos;
}

inline bool has_nul(const std::vector<std::string> &texts) noexcept {
    bool has = false;
    for (const auto &text : texts) {
        has = has || has_nul(text);
    }
    return has;
}

/// Why a call failed: an error of the library, or one that these headers found before it was called; or nothing.
class Failed {
public:
    Failed(xd_error *raw) noexcept : raw_(raw) {}
    Failed(Error own) noexcept : raw_(nullptr), own_(std::move(own)) {}

    explicit operator bool() const noexcept { return raw_ != nullptr || own_; }
    /// The error, of which there must be one. To be asked once.
    Error error() const { return own_ ? *own_ : Error(raw_); }

private:
    xd_error *raw_;
    std::optional<Error> own_;
};

/// The same, of a call that may fail before it reaches the library.
template <class Make> auto answer(const Failed &failed, Make &&make) -> outcome<decltype(make())> {
    using T = decltype(make());
    if (failed) {
        return fail<T>(failed.error());
    }
    return make();
}

/// Calls C functions with texts, which those end at the first NUL: where one has a NUL inside, it refuses them, and
/// nothing is called.
template <class Call, class... Texts> Failed with_texts(const Call &call, const Texts &...texts) {
    if ((has_nul(texts) || ...)) {
        return Error::misuse("take a text", "there is a NUL inside of it, which would end it",
                             "leave the NUL out; what is no text goes in as bytes");
    }
    return call();
}

/// Calls C functions with what they may do without, as a stream, unless that was named and is empty: they would take
/// it for none, and lose its order. `empty` is its name then, else NULL.
template <class Call> Failed with_named(const char *empty, const Call &call) {
    if (empty != nullptr) {
        return Error::misuse(std::string("take a ") + empty, "it is empty: it was moved from",
                             "name the object that it was moved to, or `share()` it before");
    }
    return call();
}

/// Fails with an error of the library, or has worked.
inline outcome<void> done(xd_error *error) {
    if (error != nullptr) {
        return fail<void>(Error(error));
    }
    return outcome<void>();
}

/// The same, of a call that may fail before it reaches the library.
inline outcome<void> done(const Failed &failed) {
    if (failed) {
        return fail<void>(failed.error());
    }
    return outcome<void>();
}

} // namespace detail
} // namespace CROSSDOCK_MODE
} // namespace crossdock

#endif

/**
 * \file script.hpp
 * \brief Python in the process: sessions of scripts, on the program's own tensors.
 */
#ifndef CROSSDOCK_CPP_SCRIPT_HPP
#define CROSSDOCK_CPP_SCRIPT_HPP

#include <crossdock/cpp/function.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace crossdock {
inline namespace CROSSDOCK_MODE {

/// Which Python it is.
struct PythonInfo {
    std::string version, executable, library, prefix, base_prefix, abi_flags;
    /// Which rule of the search chose it.
    std::string why;
    std::uint32_t major, minor;
    /// Whether others started it, so that it may end before the process does.
    bool of_others;
};

/// What an interrupt came to.
enum class StopOutcome : xd_stop_outcome {
    delivered = XD_STOP_DELIVERED,
    idle = XD_STOP_IDLE,
    pending = XD_STOP_PENDING,
};

/// What a session does: see `XD_SESSION_*`.
enum class SessionPhase : xd_session_state_kind {
    idle = XD_SESSION_IDLE,
    waiting = XD_SESSION_WAITING,
    running = XD_SESSION_RUNNING,
    stopping = XD_SESSION_STOPPING,
    stuck = XD_SESSION_STUCK,
};

/// What a session does now.
struct SessionState {
    SessionPhase phase;
    /// For how long its script runs.
    std::chrono::nanoseconds running;
    /// Where a stuck one is, as far as it is known.
    std::string place;
};

/// How long one script may take.
class RunOptions {
public:
    RunOptions() noexcept { raw_.struct_size = sizeof raw_; }

    /// From its turn on; what is not said is as the session says. A time that is over already, as what is left
    /// of a deadline that has passed, stops the script at once; `Limit::none()` is for ever.
    RunOptions &timeout(Limit timeout) noexcept {
        raw_.timeout_ns = detail::said(timeout);
        return *this;
    }
    /// From the first interrupt of what took too long to the second; half a second unless said otherwise.
    RunOptions &grace(Limit grace) noexcept {
        raw_.grace_ns = detail::said(grace);
        return *this;
    }

    /// As the C functions take them.
    const xd_run_options *raw() const noexcept { return &raw_; }

private:
    xd_run_options raw_ = {};
};

/// Takes what a script writes. Called on threads of Python, also on several at once, until the session is
/// dropped. What it throws is dropped.
using Output = std::function<void(std::string_view)>;

/// How a session is made. Each call gives the same options, so that they can be chained:
/// `SessionOptions().name("filters").timeout(2s)`.
class SessionOptions {
public:
    /// Its module is `__xd_NAME__`, and no two have the same. The first session of a Python that runs for this
    /// host alone is `__main__`, whatever its name.
    SessionOptions &name(std::string name) {
        name_ = std::move(name);
        return *this;
    }
    /// `sys.argv`.
    SessionOptions &arguments(std::vector<std::string> words) {
        arguments_ = std::move(words);
        return *this;
    }
    /// Takes `sys.stdout`.
    SessionOptions &on_stdout(Output output) {
        out_ = std::move(output);
        return *this;
    }
    /// Takes `sys.stderr`.
    SessionOptions &on_stderr(Output output) {
        err_ = std::move(output);
        return *this;
    }
    /// How long each script may take from its turn on: for ever unless said otherwise.
    SessionOptions &timeout(Limit timeout) noexcept {
        timeout_ns_ = detail::said(timeout);
        return *this;
    }
    /// From the first interrupt of what took too long to the second; half a second unless said otherwise.
    SessionOptions &grace(Limit grace) noexcept {
        grace_ns_ = detail::said(grace);
        return *this;
    }
    /// While another script runs, calls fail and do not wait for their turn.
    SessionOptions &never_waits() noexcept {
        flags_ |= XD_SESSION_FLAG_NEVER_WAITS;
        return *this;
    }

private:
    friend class Script;
    std::string name_;
    std::vector<std::string> arguments_;
    Output out_, err_;
    std::uint64_t timeout_ns_ = 0, grace_ns_ = 0;
    xd_session_flags flags_ = 0;
};

/// A namespace in which scripts run.
class Session {
public:
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;
    Session(Session &&other) noexcept
        : raw_(std::exchange(other.raw_, nullptr)), outputs_(std::move(other.outputs_)) {}
    Session &operator=(Session &&other) noexcept {
        if (this != &other) {
            xd_session_free(std::exchange(raw_, std::exchange(other.raw_, nullptr)));
            outputs_ = std::move(other.outputs_);
        }
        return *this;
    }
    /// Forgets the session. Waits for calls of its outputs that are under way on other threads.
    ~Session() { xd_session_free(raw_); }

    /// The handle for the C functions, lent.
    xd_session *get() const noexcept { return raw_; }

    /// Runs a program in the namespace, and waits until it has ended. `shown` is the file that tracebacks name.
    outcome<void> run(const std::string &program, const std::string &shown = "<script>",
                      const RunOptions &options = {}) const {
        const auto run = [&] {
            return xd_session_run_text(raw_, program.c_str(), shown.c_str(), options.raw());
        };
        return detail::done(detail::with_texts(run, program, shown));
    }

    /// Runs a file, with its folder as the first place for modules.
    outcome<void> run_file(const std::string &path, const RunOptions &options = {}) const {
        const auto call = [&] { return xd_session_run_file(raw_, path.c_str(), options.raw()); };
        return detail::done(detail::with_texts(call, path));
    }

    /// Runs a module as `python -m` does.
    outcome<void> run_module(const std::string &name, const RunOptions &options = {}) const {
        const auto call = [&] { return xd_session_run_module(raw_, name.c_str(), options.raw()); };
        return detail::done(detail::with_texts(call, name));
    }

    /// Runs the file or module that ran last again, as it is now on disk, with the modules beside it. Where it
    /// fails everything is as it was.
    outcome<void> reload(const RunOptions &options = {}) const {
        return detail::done(xd_session_reload(raw_, options.raw()));
    }

    /// Sets a variable: `nullptr`, a bool, a number, a text, `Bytes`, a `Tensor` (over the same memory), a
    /// `std::vector` or `std::map` of these, or a `Value`.
    template <class T> outcome<void> set(const std::string &name, const T &value) const {
        const detail::Lent lent(value);
        const auto call = [&] { return xd_session_set(raw_, name.c_str(), lent.raw()); };
        return detail::done(detail::with_texts(call, name));
    }

    /// Sets a variable to a function of the program, which scripts call:
    /// `session.define("scale", [](Tensor image, double factor) { .. })`.
    ///
    /// Its arguments, by place, come as the types that it takes; one that is a `std::optional` may be missing.
    /// One that takes an `Arguments` gets them as they are. What it throws is a `RuntimeError` in the script.
    /// It is called on threads of Python, without its lock, also on several at once, and is destroyed when the
    /// session is dropped or the name is defined anew.
    template <class Function> outcome<void> define(const std::string &name, Function function) const {
        using Bound = detail::Bound<Function>;
        const auto define = [&] {
            auto *bound = new Bound{name, std::move(function)};
            return xd_session_define(raw_, name.c_str(), Bound::call, bound, Bound::release);
        };
        return detail::done(detail::with_texts(define, name));
    }

    /// Reads `variable`, `variable.attribute` or `module:name`.
    template <class T = Value> outcome<T> get(const std::string &name) const {
        detail::Answer answer;
        const auto call = [&] { return xd_session_get(raw_, name.c_str(), &answer.raw); };
        return given<T>(detail::with_texts(call, name), answer, "get", name);
    }

    /// Reads anything that `crossdock.asarray` takes, where it is.
    outcome<Tensor> tensor(const std::string &name) const { return tensor_on(name, nullptr, nullptr); }

    /// The same, on a device.
    outcome<Tensor> tensor(const std::string &name, const Device &device) const {
        return tensor_on(name, device.get(), device ? nullptr : "device");
    }

    /// Calls what `get` would read. Arguments are as for `set`; `arg("name", value)` is one by name. With
    /// `void` the answer may be of any type.
    template <class R = Value, class... Arguments>
    outcome<R> call(const std::string &name, const Arguments &...arguments) const {
        return call_within<R>(RunOptions(), name, arguments...);
    }

    /// The same with limits of its own.
    template <class R = Value, class... Arguments>
    outcome<R> call_within(const RunOptions &options, const std::string &name,
                           const Arguments &...arguments) const {
        std::vector<detail::Lent> lent;
        lent.reserve(sizeof...(arguments));
        std::vector<xd_value> values, named;
        std::vector<const char *> names;
        (add(arguments, lent, values, names, named), ...);
        xd_arguments raw = {};
        raw.struct_size = sizeof raw;
        raw.values = values.data();
        raw.count = values.size();
        raw.names = names.data();
        raw.named_values = named.data();
        raw.named_count = named.size();
        detail::Answer answer;
        auto *place = std::is_void_v<R> ? nullptr : &answer.raw;
        const auto call = [&] {
            return xd_session_call(raw_, name.c_str(), &raw, options.raw(), place);
        };
        const auto error = detail::with_texts(call, name);
        return given<R>(error, answer, "call", name);
    }

    /// Stops what the session runs by a `KeyboardInterrupt`, from any thread.
    outcome<StopOutcome> interrupt() const {
        xd_stop_outcome outcome = XD_STOP_IDLE;
        auto *error = xd_session_interrupt(raw_, &outcome);
        return detail::answer(error, [&] { return static_cast<StopOutcome>(outcome); });
    }

    /// What it does now. Never waits.
    outcome<SessionState> state() const {
        xd_session_state state = {};
        auto *error = xd_session_describe(raw_, &state);
        return detail::answer(error, [&] {
            const auto running = static_cast<std::chrono::nanoseconds::rep>(state.running_ns);
            return SessionState{static_cast<SessionPhase>(state.kind),
                                std::chrono::nanoseconds(running), state.place};
        });
    }

private:
    friend class Script;

    /// One that is called keeps itself: its session may be dropped by what it calls.
    struct Outputs {
        std::shared_ptr<const Output> out, err;
    };

    Session(xd_session *raw, std::unique_ptr<Outputs> outputs) noexcept
        : raw_(raw), outputs_(std::move(outputs)) {}

    static void write(std::shared_ptr<const Output> output, const char *bytes,
                      std::uint64_t size) noexcept {
        const std::string_view text(bytes, static_cast<std::size_t>(size));
#if defined(CROSSDOCK_NO_EXCEPTIONS)
        (*output)(text);
#else
        try {
            (*output)(text);
        } catch (...) { // nobody above could take it
        }
#endif
    }

    template <class T>
    static void add(const T &argument, std::vector<detail::Lent> &lent, std::vector<xd_value> &values,
                    std::vector<const char *> &names, std::vector<xd_value> &named) {
        if constexpr (detail::is_named<T>) {
            lent.emplace_back(argument.value);
            names.push_back(argument.name);
            named.push_back(*lent.back().raw());
        } else {
            lent.emplace_back(argument);
            values.push_back(*lent.back().raw());
        }
    }

    template <class R>
    static outcome<R> given(const detail::Failed &failed, const detail::Answer &answer,
                            const char *what, const std::string &name) {
        if (failed) {
            return detail::fail<R>(failed.error());
        }
        if constexpr (std::is_void_v<R>) {
            return outcome<void>();
        } else {
            auto value = detail::read(answer.raw).template converted<R>();
            if (const auto *mismatch = std::get_if<1>(&value)) {
                return detail::fail<R>(Error::misuse(
                    what + (" `" + name + "` of a script"), "what it gives " + mismatch->why, Value::hint()));
            }
            return std::move(*std::get_if<0>(&value));
        }
    }

    outcome<Tensor> tensor_on(const std::string &name, const xd_device *device,
                              const char *moved_from) const {
        xd_tensor *tensor = nullptr;
        const auto get = [&] { return xd_session_get_tensor(raw_, name.c_str(), device, &tensor); };
        const auto call = [&] { return detail::with_named(moved_from, get); };
        const auto error = detail::with_texts(call, name);
        return detail::answer(error, [&] { return Tensor(tensor); });
    }

    xd_session *raw_;
    std::unique_ptr<Outputs> outputs_;
};

/// The Python of this process.
class Script : public detail::Handle<xd_script, xd_script_free> {
public:
    /// Takes a handle of the C functions.
    explicit Script(xd_script *raw) noexcept : Handle(raw) {}

    /// Finds Python and starts it, once a process. The runtime becomes the process's, which scripts share.
    /// `python`: an executable or an environment's folder, this one or none; empty: the standard search.
    static outcome<Script> open(const Runtime &runtime, const std::string &python = {}) {
        xd_script_options options = {};
        options.struct_size = sizeof options;
        options.python = python.empty() ? nullptr : python.c_str();
        xd_script *script = nullptr;
        const auto open = [&] { return xd_script_open(runtime.get(), &options, &script); };
        const auto call = [&] { return detail::with_named(runtime ? nullptr : "runtime", open); };
        const auto error = detail::with_texts(call, python);
        return detail::answer(error, [&] { return Script(script); });
    }

    /// Which Python would be chosen, and why none of the others. Starts nothing.
    static outcome<std::string> explain(const std::string &python = {}) {
        xd_script_options options = {};
        options.struct_size = sizeof options;
        options.python = python.empty() ? nullptr : python.c_str();
        detail::Answer text;
        const auto call = [&] { return xd_script_explain(&options, &text.raw); };
        const auto error = detail::with_texts(call, python);
        return detail::answer(error, [&] {
            return std::string(text.raw.data, static_cast<std::size_t>(text.raw.size));
        });
    }

    /// Which Python it is.
    outcome<PythonInfo> info() const {
        xd_script_info info = {};
        auto *error = xd_script_describe(get(), &info);
        return detail::answer(error, [&] {
            return PythonInfo{info.version,     info.executable, info.library, info.prefix,
                              info.base_prefix, info.abi_flags,  info.why,     info.major,
                              info.minor,       info.of_others != 0};
        });
    }

    /// Makes a namespace to run scripts in.
    outcome<Session> session(const SessionOptions &options = {}) const {
        auto outputs = std::make_unique<Session::Outputs>();
        std::vector<const char *> words;
        for (const auto &word : options.arguments_) {
            words.push_back(word.c_str());
        }
        xd_session_options raw = {};
        raw.struct_size = sizeof raw;
        raw.name = options.name_.empty() ? nullptr : options.name_.c_str();
        raw.arguments = words.data();
        raw.argument_count = words.size();
        raw.word = outputs.get();
        if (options.out_) {
            outputs->out = std::make_shared<const Output>(options.out_);
            raw.on_stdout = [](void *word, const char *bytes, std::uint64_t size) {
                Session::write(static_cast<Session::Outputs *>(word)->out, bytes, size);
            };
        }
        if (options.err_) {
            outputs->err = std::make_shared<const Output>(options.err_);
            raw.on_stderr = [](void *word, const char *bytes, std::uint64_t size) {
                Session::write(static_cast<Session::Outputs *>(word)->err, bytes, size);
            };
        }
        raw.timeout_ns = options.timeout_ns_;
        raw.grace_ns = options.grace_ns_;
        raw.flags = options.flags_;
        xd_session *session = nullptr;
        const auto create = [&] { return xd_session_create(get(), &raw, &session); };
        const auto error = detail::with_texts(create, options.name_, options.arguments_);
        return detail::answer(error, [&] { return Session(session, std::move(outputs)); });
    }
};

} // namespace CROSSDOCK_MODE
} // namespace crossdock

#endif

// What the programs beside it share: a check that ends the program, failures that must come, and a runtime.
#ifndef CHECK_HPP
#define CHECK_HPP

#include <crossdock/crossdock.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                   \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

// Every error says what, why and what to do.
inline void check_told(const crossdock::Error &error) {
    CHECK(!error.message().empty() && !error.why().empty() && !error.hint().empty());
    CHECK(std::strlen(error.what()) > error.why().size());
}

#if !defined(CROSSDOCK_NO_EXCEPTIONS)
// The call must fail in this way; gives the error.
template <class Call>
crossdock::Error fails(crossdock::ErrorKind kind, xd_status status, Call &&call,
                       int line = __builtin_LINE()) {
    try {
        call();
    } catch (const crossdock::Error &error) {
        if (error.kind() != kind || error.status() != status) {
            std::fprintf(stderr, "line %d: another error, kind %u and %s: %s\n", line,
                         static_cast<unsigned>(error.kind()), xd_status_name(error.status()),
                         error.what());
            std::exit(1);
        }
        check_told(error);
        return error;
    }
    std::fprintf(stderr, "line %d: it did not fail\n", line);
    std::exit(1);
}

template <class Call> crossdock::Error misused(Call &&call, int line = __builtin_LINE()) {
    return fails(crossdock::ErrorKind::misuse, XD_INVALID, call, line);
}

// A runtime with the built-in plugin, and with the plugin file of the first argument.
inline crossdock::Runtime open_runtime(int argc, char **argv) {
    auto options = crossdock::RuntimeOptions().search(false);
    if (argc > 1 && *argv[1] != '\0') {
        options.plugin(argv[1]);
    }
    return crossdock::Runtime::open(options);
}
#endif

#endif

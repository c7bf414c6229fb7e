// A host that opens a script, however it was started and whatever reaps its children.
//
//     started PLUGIN CACHES none|handler|thread [START]
//
// With START it starts itself again so: what is ignored, blocked and limited stays.
#include "check.hpp"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <string>
#include <thread>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

void limit(int resource, rlim_t most) {
    const rlimit both{most, most};
    CHECK(setrlimit(static_cast<__rlimit_resource>(resource), &both) == 0);
}

[[noreturn]] void start_again(const std::string &start, char **argv) {
    if (start == "ignored") {
        CHECK(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    } else if (start == "blocked") {
        sigset_t all;
        sigfillset(&all);
        CHECK(sigprocmask(SIG_SETMASK, &all, nullptr) == 0);
    } else if (start == "few descriptors") {
        limit(RLIMIT_NOFILE, 32);
    } else if (start == "small files") {
        limit(RLIMIT_FSIZE, 0);
        // Neither the trace nor the cache of Pythons can be written.
        CHECK(setenv("CROSSDOCK_TRACE", (std::string(argv[2]) + "/trace").c_str(), 1) == 0);
    } else {
        CHECK(start == "usual");
    }
    argv[4] = nullptr;
    execv("/proc/self/exe", argv);
    CHECK(false);
    std::abort();
}

void reap_all(int) {
    const auto before = errno;
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    errno = before;
}

// Waits for every child of the process, as the first process of a container does.
void reap_forever() {
    const timespec moment{0, 100'000};
    for (;;) {
        if (waitpid(-1, nullptr, 0) < 0) {
            nanosleep(&moment, nullptr);
        }
    }
}

void begin_to_reap(const std::string &reaper) {
    if (reaper == "handler") {
        struct sigaction action {};
        action.sa_handler = reap_all;
        action.sa_flags = SA_RESTART;
        CHECK(sigaction(SIGCHLD, &action, nullptr) == 0);
    } else if (reaper == "thread") {
        std::thread(reap_forever).detach();
    }
}

} // namespace

int main(int argc, char **argv) {
    CHECK(argc >= 4);
    if (argc > 4) {
        start_again(argv[4], argv);
    }
    CHECK(setenv("XDG_CACHE_HOME", argv[2], 1) == 0);
    begin_to_reap(argv[3]);
    struct sigaction before {}, after {};
    sigset_t blocked_before, blocked_after;
    sigaction(SIGCHLD, nullptr, &before);
    sigprocmask(SIG_SETMASK, nullptr, &blocked_before);

    const auto runtime = open_runtime(0, argv); // without the plugin
    const auto script = crossdock::Script::open(runtime);
    auto session = script.session();
    session.run("def twice(x): return 2 * x");
    CHECK(session.call<int>("twice", 21) == 42);

    // A library changes neither.
    sigaction(SIGCHLD, nullptr, &after);
    sigprocmask(SIG_SETMASK, nullptr, &blocked_after);
    CHECK(before.sa_handler == after.sa_handler && before.sa_flags == after.sa_flags);
    for (int signal = 1; signal < NSIG; ++signal) {
        CHECK(sigismember(&blocked_before, signal) == sigismember(&blocked_after, signal));
    }
}

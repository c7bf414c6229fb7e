// Without exceptions and run-time types: each call gives a result.
#include "check.hpp"

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

using namespace crossdock;

// The program ends by SIGABRT and says why.
template <class Ask> void ends(const char *why, Ask &&ask) {
    int ends[2] = {};
    CHECK(pipe(ends) == 0);
    const auto child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        ask();
        _exit(0);
    }
    close(ends[1]);
    char said[500] = {};
    CHECK(child > 0 && read(ends[0], said, sizeof said - 1) > 0);
    close(ends[0]);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK(std::strstr(said, why) != nullptr);
}

void misread() {
    ends("error() of a result", [] { return result<int>(1).error().kind(); });
    ends("error() of a result", [] { return result<void>().error().kind(); });
    const auto refused = Dtype::named("float33");
    ends(refused.error().what(), [&] { return refused.value().raw().bits; });
}

int main(int argc, char **argv) {
    misread();
    auto options = RuntimeOptions().search(false);
    if (argc > 1 && *argv[1] != '\0') {
        options.plugin(argv[1]);
    }
    auto runtime = Runtime::open(options);
    CHECK(runtime);
    auto absent = runtime->device("cuda:77");
    CHECK(!absent && absent.error().kind() == ErrorKind::unknown_device);
    check_told(absent.error());
    auto devices = runtime->devices();
    CHECK(devices && !devices->empty());
    for (const auto &device : *devices) {
        auto tensor = Tensor::from(*runtime, std::vector<int>{1, 2, 3});
        CHECK(tensor);
        auto moved = tensor->to(device, MoveOptions().copy(Copy::always));
        CHECK(moved && moved->fill(7));
        auto values = moved->read<int>();
        CHECK(values && *values == std::vector<int>(3, 7));
        auto wrong = moved->read<double>();
        CHECK(!wrong && wrong.error().kind() == ErrorKind::misuse);
        check_told(wrong.error());
        Tensor kept = std::move(moved).value();
        CHECK(kept.synchronize());
    }
    auto script = Script::open(*runtime);
    if (!script) {
        std::printf("skipped: scripts: %s\n", script.error().why().c_str());
        return 0;
    }
    auto session = script->session();
    CHECK(session && session->run("x = 6 * 7"));
    auto answer = session->get<int>("x");
    CHECK(answer && *answer == 42);
    CHECK(!session->get<std::string>("x"));
    auto reads = [&](int number) -> result<int> {
        if (number < 0) {
            return runtime->device("cuda:77").error();
        }
        return number + 1;
    };
    CHECK(session->define("reads", reads) && session->run("assert reads(1) == 2"));
    auto refused = session->run("reads(-1)");
    CHECK(!refused && refused.error().why().find("cuda:77") != std::string::npos);
    CHECK(!session->run("reads('x')"));
    CHECK(session->set("l", std::vector<int>{1, 2}) && session->get<std::vector<int>>("l"));
    CHECK(!session->get<std::vector<std::string>>("l"));
    auto failed = session->run("1 / 0");
    CHECK(!failed && failed.error().exception() == "ZeroDivisionError");
    return 0;
}

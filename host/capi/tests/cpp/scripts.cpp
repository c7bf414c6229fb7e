// Scripts: values and tensors both ways, limits, what they write, and how they fail.
#include "check.hpp"

#include <atomic>
#include <thread>

using namespace crossdock;
using namespace std::chrono_literals;

namespace {

void values(const Script &script) {
    auto session = script.session();
    session.run("def twice(x, *, by=2): return x * by\nnothing = None\ntext = 'caf\\u00e9'");
    CHECK(session.call<int>("twice", 21) == 42);
    CHECK(session.call<double>("twice", 1.5, arg("by", 3)) == 4.5);
    CHECK(session.call<std::string>("twice", "ab", arg("by", std::int64_t{2})) == "abab");
    CHECK(session.call<Bytes>("twice", Bytes{1, 2}) == (Bytes{1, 2, 1, 2}));
    CHECK(session.get<std::string>("text") == "caf\xc3\xa9");
    CHECK(session.get("nothing").is_none());
    session.set("flag", true);
    CHECK(session.get<bool>("flag"));
    session.set("flag", nullptr);
    CHECK(session.get("flag").is_none());
    session.call<void>("twice", 1);
    session.set("again", session.call("twice", std::string("xy")));
    CHECK(session.get<std::string>("again") == "xyxy");

    misused([&] { return session.get<int>("text"); });
    misused([&] { return session.call<std::int8_t>("twice", 100); });
    misused([&] { return session.call<unsigned>("twice", -1); });
    misused([&] { return session.get<Tensor>("text"); });
}

void failures(const Script &script) {
    auto session = script.session(SessionOptions().name("failing"));
    auto error = fails(ErrorKind::script, XD_INVALID,
                       [&] { return session.run("import math\nmath.sqrt(-1)", "roots.py"); });
    CHECK(error.exception() == "ValueError");
    CHECK(error.traceback().find("roots.py") != std::string::npos);
    error = fails(ErrorKind::script_exit, XD_INVALID, [&] { return session.run("exit(3)"); });
    CHECK(error.exit_code() == 3);
    fails(ErrorKind::script, XD_INVALID, [&] { return session.run("import no_such_module"); });
    fails(ErrorKind::script_timeout, XD_TIMEOUT, [&] {
        return session.run("while True: pass", "loop.py", RunOptions().timeout(50ms).grace(1s));
    });
    const auto name = session.get<std::string>("__name__");
    CHECK(name == "__main__" || name == "__xd_failing__");
    auto twin = script.session(SessionOptions().name("twin"));
    CHECK(twin.get<std::string>("__name__") == "__xd_twin__");
    fails(ErrorKind::script, XD_INVALID,
          [&] { return script.session(SessionOptions().name("twin")); });
}

void interrupts(const Script &script) {
    std::atomic<bool> runs{false};
    auto session =
        script.session(SessionOptions().on_stdout([&](std::string_view) { runs = true; }));
    std::thread thread([&] {
        fails(ErrorKind::script_interrupted, XD_TIMEOUT,
              [&] { return session.run("print('in')\nwhile True: pass"); });
    });
    while (!runs) {
        std::this_thread::yield();
    }
    CHECK(session.state().phase == SessionPhase::running);
    CHECK(session.interrupt() != StopOutcome::idle);
    thread.join();
    CHECK(session.state().phase == SessionPhase::idle);
    CHECK(session.interrupt() == StopOutcome::idle);
}

void outputs(const Script &script) {
    std::string out, err;
    auto options = SessionOptions()
                       .arguments({"program", "--fast"})
                       .on_stdout([&](std::string_view text) { out += text; })
                       .on_stderr([&](std::string_view text) {
                           err += text;
                           throw 1; // goes nowhere
                       });
    auto session = script.session(options);
    session.run("import sys\nprint(sys.argv[1])\nprint('wrong', file=sys.stderr)");
    CHECK(out == "--fast\n" && err == "wrong\n");
    auto moved = std::move(session);
    moved.run("print('again')");
    CHECK(out == "--fast\nagain\n");
}

void tensors(const Runtime &runtime, const Script &script) {
    auto session = script.session();
    try {
        session.run("import crossdock");
    } catch (const Error &) {
        std::puts("skipped: tensors in scripts: the Python has no package `crossdock`");
        return;
    }
    for (const auto &device : runtime.devices()) {
        auto tensor = Tensor::from(runtime, std::vector<float>(6, 1.0f), {2, 3}).to(device);
        session.set("t", tensor);
        session.run("t[1:] = 5\nu = t[0]");
        CHECK(tensor.read<float>() == (std::vector<float>{1, 1, 1, 5, 5, 5}));
        auto back = session.get<Tensor>("u");
        back.fill(2.0f); // the same memory
        CHECK(tensor.read<float>() == (std::vector<float>{2, 2, 2, 5, 5, 5}));
        CHECK(session.tensor("t", runtime.device("cpu")).read<float>() == tensor.read<float>());
        session.run("def f(x, n): return x[n]");
        CHECK(session.call<Tensor>("f", tensor, 1).read<float>() == std::vector<float>(3, 5.0f));
    }
}

} // namespace

int main(int argc, char **argv) {
    const auto runtime = open_runtime(argc, argv);
    CHECK(!Script::explain().empty());
    fails(ErrorKind::no_python, XD_UNSUPPORTED,
          [&] { return Script::open(runtime, "/nowhere/bin/python"); });
    const auto script = Script::open(runtime);
    CHECK(script.info().major == 3 && !script.info().executable.empty());
    values(script);
    failures(script);
    interrupts(script);
    outputs(script);
    tensors(runtime, script);
    return 0;
}

// Scripts: values and tensors both ways, limits, what they write, and how they fail.
#include "check.hpp"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <stdexcept>
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
    session.call<void>("builtins:object"); // which is no value
    misused([&] { return session.call<int>("twice", "x"); });
    fails(ErrorKind::script, XD_INVALID, [&] { return session.call("builtins:object"); });
    session.set("again", session.call("twice", std::string("xy")));
    CHECK(session.get<std::string>("again") == "xyxy");

    const auto text = session.get("text");
    CHECK(text.as<std::string>() == text.as<std::string>()); // reading one keeps it
    CHECK(std::get<std::string>(session.get("text").content()) == "caf\xc3\xa9");
    session.run("many = [1, [2.5, 'x'], {'k': b'ab'}]");
    const auto many = session.get("many");
    const auto all = many.as<List>();
    CHECK(all[0].as<int>() == 1 && all[1].as<List>()[0].as<double>() == 2.5);
    CHECK((all[2].as<std::map<std::string, Bytes>>()["k"] == Bytes{'a', 'b'}));
    CHECK(many.as<Value>().as<List>().size() == 3);

    const auto says = [](auto call, const std::string &message, const std::string &why) {
        const auto error = misused(call);
        if (error.message() != message || error.why() != why) {
            std::fprintf(stderr, "%s\n", error.what());
            std::exit(1);
        }
    };
    says([&] { return session.get<int>("text"); }, "get `text` of a script",
         "what it gives is a str, and an int is wanted");
    says([&] { return session.call<std::int8_t>("twice", 100); }, "call `twice` of a script",
         "what it gives is 200, which does not fit into an int of 8 bits");
    says([&] { return session.call<unsigned>("twice", -1); }, "call `twice` of a script",
         "what it gives is -2, which does not fit into an unsigned int of 32 bits");
    says([&] { return session.get<Tensor>("text"); }, "get `text` of a script",
         "what it gives is a str, and a tensor is wanted");
    says([&] { return session.get<std::vector<int>>("many"); }, "get `many` of a script",
         "what it gives has an item [1] that is a list, and an int is wanted");
    says([&] { return text.as<double>(); }, "read a value of a script",
         "it is a str, and a float is wanted");
}

void collections(const Script &script) {
    using Numbers = std::map<std::string, std::vector<int>>;
    auto session = script.session();
    const Numbers numbers = {{"a", {1, 2}}, {"b", {}}};
    session.set("d", numbers);
    session.run("assert d == {'a': [1, 2], 'b': []}\nt = (1, 'x', None)\nn = {3: 4.5}");
    CHECK(session.get<Numbers>("d") == numbers);
    const auto items = session.get<List>("t");
    CHECK(items.size() == 3 && items[2].is_none());
    CHECK(std::get<std::string>(items[1].content()) == "x");
    const auto pairs = session.get<Dict>("n");
    CHECK(pairs.size() == 1 && std::get<double>(pairs[0].second.content()) == 4.5);
    CHECK((session.get<std::map<int, float>>("n") == std::map<int, float>{{3, 4.5f}}));
    session.set("again", session.get("t"));
    session.run("assert again == list(t)");
    session.set("flags", std::vector<bool>{true, false});
    session.run("assert flags == [True, False]");
    CHECK((session.call<std::vector<double>>("builtins:sorted", std::vector<double>{3, 1}) ==
           std::vector<double>{1, 3}));
    List mixed;
    mixed.push_back(Value::of("text"));
    mixed.push_back(Value::of(std::vector<int>{7}));
    session.set("mixed", mixed);
    session.run("assert mixed == ['text', [7]]");
    misused([&] { return session.get<std::vector<int>>("t"); });
    misused([&] { return session.get<Numbers>("n"); });
    misused([&] { return session.get<std::string>("d"); });
}

/// What a program has that scripts call: a temporary that ends once.
struct Counter {
    std::shared_ptr<int> calls;
    int operator()(int step) { return *calls += step; }
};

double half(double number) { return number / 2; }

void functions(const Runtime &runtime, const Script &script) {
    auto session = script.session(SessionOptions().name("functions"));
    auto calls = std::make_shared<int>(0);
    session.define("count", Counter{calls});
    session.define("half", half);
    session.define("nothing", [] {});
    session.define("join", [](const std::string &text, std::optional<int> times) {
        std::string all;
        for (int at = 0; at < times.value_or(2); ++at) {
            all += text;
        }
        return all;
    });
    session.define("sizes", [](std::map<std::string, std::vector<int>> lists) {
        std::map<std::string, std::int64_t> sizes;
        for (const auto &list : lists) {
            sizes[list.first] = static_cast<std::int64_t>(list.second.size());
        }
        return sizes;
    });
    session.define("raw", [](Arguments arguments) {
        return std::to_string(arguments.values.size()) + arguments.named.at(0).first;
    });
    session.run("assert count(2) == 2 and count(3) == 5 and half(3) == 1.5 and nothing() is None");
    session.run("assert join('ab') == 'abab' and join('x', 3) == 'xxx' and join('x', None) == 'xx'");
    session.run("assert sizes({'a': [1, 2], 'b': []}) == {'a': 2, 'b': 0}");
    session.run("assert raw(1, 2, by=3) == '2by'");
    CHECK(*calls == 5);

    const auto told = [&](const std::string &call, const std::string &why) {
        const auto error =
            fails(ErrorKind::script, XD_INVALID, [&] { return session.run(call); });
        CHECK(error.why().find(why) != std::string::npos);
    };
    told("count()", "argument 1 is missing");
    told("count('x')", "argument 1 is a str, and an int is wanted");
    told("count(2**40)", "does not fit");
    told("count(1, 2)", "at most 1 arguments");
    told("count(step=1)", "no argument by name");
    session.define("broken", []() -> int { throw std::runtime_error("it broke"); });
    session.define("odd", []() -> int { throw 7; });
    session.define("full", []() -> int { throw std::bad_alloc(); });
    session.define("absent", [&] { runtime.device("cuda:77"); });
    told("broken()", "RuntimeError: it broke");
    told("odd()", "no std::exception");
    told("full()", "MemoryError: ");
    told("absent()", "cuda:77");
    // One line inside of the script, and what() says where it was called.
    const auto line = fails(ErrorKind::script, XD_INVALID, [&] { session.run("absent()", "a.py"); });
    CHECK(line.why().find('\n') == std::string::npos);
    CHECK(std::strstr(line.what(), "a.py:1") != nullptr);

    // A function may wait for another thread that has a script run where that never waits for its turn.
    auto other = script.session(SessionOptions().never_waits());
    session.define("other", [&] {
        std::thread([&] {
            fails(ErrorKind::script_busy, XD_CONFLICT, [&] { return other.run("1"); });
        }).join();
    });
    session.run("other()");
    other.run("1");

    session.define("count", half);
    CHECK(calls.use_count() == 1);
    session.define("stop", [&session] { session.interrupt(); });
    fails(ErrorKind::script_interrupted, XD_TIMEOUT,
          [&] { return session.run("stop()\nwhile True: pass"); });
    auto kept = std::make_shared<int>(0);
    session.define("count", Counter{kept});
    {
        const auto ended = std::move(session);
    }
    CHECK(kept.use_count() == 1);
}

/// Calls both ways on two threads of C++ and two of Python.
void both_ways(const Runtime &runtime, const Script &script) {
    std::vector<Session> sessions;
    std::atomic<int> calls{0};
    for (int at = 0; at < 2; ++at) {
        sessions.push_back(script.session());
        sessions.back().define("device", [&](std::string name) {
            ++calls;
            return runtime.device(name).spec();
        });
        sessions.back().run("import threading\n"
                            "def work(n):\n"
                            "    names = []\n"
                            "    def one():\n"
                            "        for _ in range(n): names.append(device('cpu'))\n"
                            "    ts = [threading.Thread(target=one) for _ in range(2)]\n"
                            "    [t.start() for t in ts]\n"
                            "    [t.join() for t in ts]\n"
                            "    return len(names)\n");
    }
    std::vector<std::thread> threads;
    for (auto &session : sessions) {
        threads.emplace_back([&] {
            for (int round = 0; round < 20; ++round) {
                CHECK(session.call<int>("work", 10) == 20);
                CHECK(!runtime.devices().empty());
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    CHECK(calls == 2 * 20 * 20);
}

void reloads(const Script &script) {
    auto session = script.session();
    const auto folder = std::filesystem::temp_directory_path() /
                        ("crossdock-" + std::to_string(std::random_device()()));
    std::filesystem::create_directory(folder);
    const auto file = (folder / "main.py").string();
    std::ofstream(file) << "version = 1\n";
    session.run_file(file);
    std::ofstream(file) << "version = 2\n";
    session.reload();
    CHECK(session.get<int>("version") == 2);
    std::ofstream(file) << "version =\n";
    fails(ErrorKind::script, XD_INVALID, [&] { return session.reload(); });
    CHECK(session.get<int>("version") == 2);
    std::filesystem::remove_all(folder);
}

/// What the process has in memory, in bytes.
std::size_t resident() {
    std::size_t all = 0, pages = 0;
    std::ifstream("/proc/self/statm") >> all >> pages;
    return pages * 4096;
}

/// Calls both ways leave nothing behind: `CROSSDOCK_LONG=1` makes 100,000.
void flat(const Runtime &runtime, const Script &script, bool has_package) {
    const int calls = std::getenv("CROSSDOCK_LONG") != nullptr ? 100'000 : 10'000;
    auto session = script.session();
    const auto tensor = Tensor::from(runtime, std::vector<float>(1000, 1.0f));
    session.define("same", [](Value given) { return given; });
    session.run("def both(value, *, name): return same([value, name])");
    std::size_t first = 0;
    for (int call = 0; call < calls; ++call) {
        if (call == calls / 10) {
            first = resident();
        }
        auto back = has_package ? session.call<List>("both", tensor, arg("name", "a tensor"))
                                : session.call<List>("both", 7, arg("name", "a number"));
        CHECK(back.size() == 2);
    }
    CHECK(resident() <= first + (1 << 20));
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
    // Not the part before the NUL.
    using namespace std::string_literals;
    const auto refused = [](auto call) { misused(call); };
    refused([&] { return session.run("ran = 1\0; ran = 2"s); });
    refused([&] { return session.set("x\0y"s, 1); });
    refused([&] { return session.define("x\0y"s, [] {}); });
    refused([&] { return script.session(SessionOptions().arguments({"a\0b"s})); });
    fails(ErrorKind::script, XD_INVALID, [&] { return session.get("ran"); });
    error = fails(ErrorKind::script_timeout, XD_TIMEOUT, [&] {
        return session.run("while True: pass", "loop.py", RunOptions().timeout(50ms).grace(1s));
    });
    CHECK(error.why().find("50ms") != std::string::npos);
    // What is left of a deadline that has passed is no limit of "for ever".
    for (const auto left : {0ms, -5ms}) {
        error = fails(ErrorKind::script_timeout, XD_TIMEOUT, [&] {
            return session.run("while True: pass", "loop.py", RunOptions().timeout(left));
        });
        CHECK(error.why() == "its time was over before it began");
        fails(ErrorKind::script_timeout, XD_TIMEOUT, [&] {
            return script.session(SessionOptions().timeout(left)).run("while True: pass");
        });
        session.run("ran = 1", "ran.py", RunOptions().timeout(Limit::none()));
        CHECK(RunOptions().grace(left).raw()->grace_ns == 1);
    }
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

bool has_package(const Script &script) {
    try {
        script.session().run("import crossdock");
        return true;
    } catch (const Error &) {
        std::puts("skipped: tensors in scripts: the Python has no package `crossdock`");
        return false;
    }
}

void tensors(const Runtime &runtime, const Script &script) {
    auto session = script.session();
    for (const auto &device : runtime.devices()) {
        auto tensor = Tensor::from(runtime, std::vector<float>(6, 1.0f), {2, 3}).to(device);
        session.set("t", tensor);
        session.run("t[1:] = 5\nu = t[0]");
        CHECK(tensor.read<float>() == (std::vector<float>{1, 1, 1, 5, 5, 5}));
        auto back = session.get<Tensor>("u");
        back.fill(2.0f); // the same memory
        CHECK(tensor.read<float>() == (std::vector<float>{2, 2, 2, 5, 5, 5}));
        CHECK(session.tensor("t", runtime.device("cpu")).read<float>() == tensor.read<float>());
        auto nowhere = device.share();
        const auto somewhere = std::move(nowhere);
        misused([&] { return session.tensor("t", nowhere); }); // and not where it is
        session.define("doubled", [](Tensor given) {
            auto values = given.read<float>();
            for (auto &value : values) {
                value *= 2;
            }
            given.write(values);
            return given;
        });
        session.run("u = doubled(t)\nboth = [t, {'u': u}]");
        const std::vector<float> twice = {4, 4, 4, 10, 10, 10};
        CHECK(session.get<Tensor>("u").read<float>() == twice && tensor.read<float>() == twice);
        CHECK(session.get<std::vector<Value>>("both").size() == 2);
        session.run("def f(x, n): return x[n]");
        CHECK(session.call<Tensor>("f", tensor, 1).read<float>() == std::vector<float>(3, 10.0f));
    }
}

} // namespace

int main(int argc, char **argv) {
    const auto runtime = open_runtime(argc, argv);
    CHECK(!Script::explain().empty());
    fails(ErrorKind::no_python, XD_UNSUPPORTED,
          [&] { return Script::open(runtime, "/nowhere/bin/python"); });
    {
        auto none = runtime.share();
        const auto kept = std::move(none);
        misused([&] { return Script::open(none); }); // and not on the process's runtime
    }
    const auto script = Script::open(runtime);
    CHECK(script.info().major == 3 && !script.info().executable.empty());
    values(script);
    collections(script);
    functions(runtime, script);
    both_ways(runtime, script);
    reloads(script);
    failures(script);
    interrupts(script);
    outputs(script);
    const auto with_tensors = has_package(script);
    flat(runtime, script, with_tensors);
    if (with_tensors) {
        tensors(runtime, script);
    }
    return 0;
}

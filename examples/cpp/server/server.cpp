// Many threads, one runtime: requests move over all devices, scripts answer them within a time, and a tally is
// kept while they run.
//
//     server [--requests N] [--threads N] [--timeout MILLISECONDS] [--script FILE]
#include <crossdock/crossdock.hpp>

#include <atomic>
#include <condition_variable>
#include <iostream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace xd = crossdock;
using std::chrono::milliseconds;

namespace {

struct Arguments {
    int requests = 100, threads = 4, timeout = 200;
    std::string script = "requests.py";
};

Arguments parse(int argc, char **argv) {
    Arguments arguments;
    const std::map<std::string, int *> numbers = {{"--requests", &arguments.requests},
                                                  {"--threads", &arguments.threads},
                                                  {"--timeout", &arguments.timeout}};
    for (int at = 1; at + 1 < argc; at += 2) {
        const std::string word = argv[at];
        const auto number = numbers.find(word);
        if (number != numbers.end()) {
            *number->second = std::stoi(argv[at + 1]);
        } else if (word == "--script") {
            arguments.script = argv[at + 1];
        } else {
            throw std::runtime_error("unknown option " + word);
        }
    }
    return arguments;
}

/// How many requests went which way; threads of C++ and of Python count.
class Tally {
public:
    void count(const std::string &what) {
        const std::lock_guard<std::mutex> lock(mutex_);
        ++counts_[what];
    }

    std::string text() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        std::string text;
        for (const auto &count : counts_) {
            text += (text.empty() ? "" : ", ") + count.first + " " + std::to_string(count.second);
        }
        return text;
    }

private:
    mutable std::mutex mutex_;
    std::map<std::string, int> counts_;
};

/// One request: its values travel to a device, and a script answers.
void serve(const xd::Runtime &runtime, const xd::Session &session, const xd::Device &device, int number,
           Tally &tally) {
    const auto values = xd::Tensor::from(runtime, std::vector<float>{1, 2, static_cast<float>(number)});
    try {
        const auto sum = session.call<double>("answer", number, values.to(device));
        if (sum != 3 + number) {
            tally.count("wrong");
        }
    } catch (const xd::Error &error) {
        switch (error.kind()) {
        case xd::ErrorKind::script:
            return tally.count("failed");
        case xd::ErrorKind::script_timeout:
            return tally.count("timed out");
        default:
            throw;
        }
    }
}

/// Prints the tally now and then until it is destroyed.
class Reporter {
public:
    explicit Reporter(const Tally &tally) : thread_([this, &tally] { report(tally); }) {}
    ~Reporter() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            ends_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }

private:
    void report(const Tally &tally) {
        std::unique_lock<std::mutex> lock(mutex_);
        while (!changed_.wait_for(lock, milliseconds(250), [this] { return ends_; })) {
            std::cerr << "so far: " << tally.text() << "\n";
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    bool ends_ = false;
    std::thread thread_;
};

void run(const Arguments &arguments) {
    Tally tally;
    const auto runtime = xd::Runtime::process();
    const auto devices = runtime.devices();
    const auto script = xd::Script::open(runtime);
    std::atomic<int> next{0};
    std::mutex failed;
    std::string failure;
    const auto work = [&] {
        try {
            // Each thread has a session; scripts of all take turns.
            const auto session =
                script.session(xd::SessionOptions().timeout(milliseconds(arguments.timeout)));
            session.define("tally", [&](const std::string &what) { tally.count(what); });
            session.run_file(arguments.script);
            for (int number; (number = next++) < arguments.requests;) {
                const auto &device = devices[static_cast<std::size_t>(number) % devices.size()];
                serve(runtime, session, device, number, tally);
            }
        } catch (const xd::Error &error) {
            const std::lock_guard<std::mutex> lock(failed);
            failure = std::string(error.what()) + "\n" + error.traceback();
        }
    };
    {
        const Reporter reporter(tally);
        std::vector<std::thread> threads;
        for (int at = 0; at < arguments.threads; ++at) {
            threads.emplace_back(work);
        }
        for (auto &thread : threads) {
            thread.join();
        }
    }
    if (!failure.empty()) {
        throw std::runtime_error(failure);
    }
    std::cout << tally.text() << "\n";
}

} // namespace

int main(int argc, char **argv) {
    try {
        run(parse(argc, argv));
        return 0;
    } catch (const std::exception &error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}

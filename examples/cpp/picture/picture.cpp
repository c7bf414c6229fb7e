// A picture that C++ loads, Python works on in the same memory, and a device turns into a kaleidoscope.
//
//     picture [PICTURE.pgm] [--device NAME] [--script FILE] [--out FILE.png]
//
// Without a picture it draws rings; without a device it takes the fastest; without Python it goes on.
#include "png.hpp"

#include <crossdock/crossdock.hpp>

#include <chrono>
#include <fstream>
#include <iostream>
#include <optional>
#include <stdexcept>

namespace xd = crossdock;

namespace {

struct Arguments {
    std::string picture, device, script = "contrast.py", out = "kaleidoscope.png";
};

Arguments parse(int argc, char **argv) {
    Arguments arguments;
    for (int at = 1; at < argc; ++at) {
        const std::string word = argv[at];
        auto *value = word == "--device"   ? &arguments.device
                      : word == "--script" ? &arguments.script
                      : word == "--out"    ? &arguments.out
                                           : nullptr;
        if (value == nullptr) {
            arguments.picture = word;
        } else if (++at < argc) {
            *value = argv[at];
        } else {
            throw std::runtime_error(word + " needs a value");
        }
    }
    return arguments;
}

/// Gray pixels as any tool for pictures writes them: `P5`, columns, rows, 255, then one byte each.
xd::Tensor load(const xd::Runtime &runtime, const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    std::string kind;
    std::int64_t columns = 0, rows = 0, most = 0;
    file >> kind >> columns >> rows >> most;
    file.get(); // one byte of space
    if (kind != "P5" || most != 255 || columns < 1 || rows < 1 || columns > 1 << 15 || rows > 1 << 15) {
        throw std::runtime_error(path + " is no gray picture of 8 bits (PGM, P5)");
    }
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(columns * rows));
    file.read(reinterpret_cast<char *>(pixels.data()), static_cast<std::streamsize>(pixels.size()));
    if (!file) {
        throw std::runtime_error(path + " ends before its last row");
    }
    return xd::Tensor::from(runtime, std::move(pixels), {rows, columns});
}

xd::Tensor rings(const xd::Runtime &runtime) {
    std::vector<std::uint8_t> pixels;
    for (int y = 0; y < 256; ++y) {
        for (int x = 0; x < 256; ++x) {
            pixels.push_back(static_cast<std::uint8_t>(64 + (x * x + y * y) / 64 % 128));
        }
    }
    return xd::Tensor::from(runtime, std::move(pixels), {256, 256});
}

/// The picture and its mirror images, made on the device that has it.
xd::Tensor kaleidoscope(const xd::Tensor &picture) {
    const auto shape = picture.shape();
    const auto rows = shape[0], columns = shape[1];
    auto whole = xd::Tensor::empty(picture.device(), picture.dtype(), {2 * rows, 2 * columns});
    for (const bool below : {false, true}) {
        for (const bool right : {false, true}) {
            const auto part =
                whole.narrow(0, below ? rows : 0, rows).narrow(1, right ? columns : 0, columns);
            part.copy_from(picture.slice({{below ? rows - 1 : 0, below ? -1 : 1, rows},
                                          {right ? columns - 1 : 0, right ? -1 : 1, columns}}));
        }
    }
    return whole;
}

/// There, the work, and back: what a device takes for all of it.
std::chrono::duration<double, std::milli> time_of(const xd::Device &device, const xd::Tensor &picture) {
    const auto start = std::chrono::steady_clock::now();
    kaleidoscope(picture.to(device)).read<std::uint8_t>();
    return std::chrono::steady_clock::now() - start;
}

xd::Device fastest(const xd::Runtime &runtime, const xd::Tensor &picture) {
    std::optional<xd::Device> best;
    auto least = std::chrono::duration<double, std::milli>::max();
    for (const auto &device : runtime.devices()) {
        time_of(device, picture); // the first time starts a driver
        const auto time = time_of(device, picture);
        std::cout << device.spec() << " (" << device.name() << "): " << time.count() << " ms\n";
        if (time < least) {
            least = time;
            best = device.share();
        }
    }
    return std::move(best).value();
}

void work_in_python(const xd::Runtime &runtime, const xd::Tensor &picture, const std::string &file) {
    std::optional<xd::Script> script;
    try {
        script = xd::Script::open(runtime);
    } catch (const xd::Error &error) {
        std::cout << "no script: " << error.why() << "\n";
        return;
    }
    const auto session = script->session();
    session.run_file(file);
    std::cout << "contrast by " << session.call<std::string>("contrast", picture) << "\n";
}

void run(const Arguments &arguments) {
    const auto runtime = xd::Runtime::process(); // the one that a script shares
    const auto picture =
        arguments.picture.empty() ? rings(runtime) : load(runtime, arguments.picture);
    work_in_python(runtime, picture, arguments.script);
    const auto device = arguments.device.empty() ? fastest(runtime, picture)
                                                 : runtime.device(arguments.device);
    const auto there = picture.to_by_route(device);
    std::cout << there.second.text() << "\n";
    const auto whole = kaleidoscope(there.first);
    const auto shape = whole.shape();
    save_png(arguments.out, whole.read<std::uint8_t>(), static_cast<std::size_t>(shape[0]),
             static_cast<std::size_t>(shape[1]));
    std::cout << arguments.out << ": " << shape[0] << " rows, made on " << device.spec() << "\n";
}

} // namespace

int main(int argc, char **argv) {
    try {
        run(parse(argc, argv));
        return 0;
    } catch (const xd::Error &error) {
        std::cerr << error.what() << "\n" << error.traceback();
    } catch (const std::exception &error) {
        std::cerr << error.what() << "\n";
    }
    return 1;
}

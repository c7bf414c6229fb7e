// ONNX Runtime works on tensors of Crossdock, and its results are tensors here: no byte is copied, and it is
// counted.
//
//     onnxruntime_example libonnxruntime.so.1.N [DEVICE]
//
// The library is that of the wheel `onnxruntime`. A device's tensor comes to the host first, as its route says.
#include "model.hpp"
#include "ort.hpp"

#include <crossdock/crossdock.hpp>

#include <iostream>
#include <memory>

namespace xd = crossdock;

namespace {

constexpr int FLOAT = 1; // ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT

/// A session of ONNX Runtime with the example's model.
class Model {
public:
    explicit Model(const std::string &library) : api_(library) {
        ort::SessionOptions *options = nullptr;
        api_.call(api_.get<ort::CreateEnv>(3), 3, "crossdock", &env_);
        api_.call(api_.get<ort::CreateCpuMemoryInfo>(69), 0, 0, &host_);
        api_.call(api_.get<ort::CreateSessionOptions>(10), &options);
        const auto model = rectifier();
        const std::unique_ptr<ort::SessionOptions, ort::Release<ort::SessionOptions>> owned(
            options, api_.get<ort::Release<ort::SessionOptions>>(100));
        api_.call(api_.get<ort::CreateSessionFromArray>(8), env_, model.data(), model.size(), options,
                  &session_);
    }
    Model(const Model &) = delete;
    Model &operator=(const Model &) = delete;
    ~Model() {
        if (session_ != nullptr) {
            api_.get<ort::Release<ort::Session>>(95)(session_);
        }
        api_.get<ort::Release<ort::MemoryInfo>>(94)(host_);
        api_.get<ort::Release<ort::Env>>(92)(env_);
    }

    const char *version() const { return api_.version(); }

    using Value = std::shared_ptr<ort::Value>;

    /// A tensor of host memory as ONNX Runtime's. Its memory is the tensor's, which the result keeps.
    Value given(const xd::Tensor &tensor) const {
        auto elements = tensor.host_span<float>();
        const auto shape = tensor.shape();
        ort::Value *value = nullptr;
        api_.call(api_.get<ort::CreateTensorWithData>(49), host_, elements.data(),
                  elements.size() * sizeof(float), shape.data(), shape.size(), FLOAT, &value);
        const auto kept = std::make_shared<xd::Tensor>(tensor.share());
        const auto release = api_.get<ort::Release<ort::Value>>(96);
        return Value(value, [kept, release](ort::Value *value) { release(value); });
    }

    /// What ONNX Runtime has as a tensor here, which keeps it.
    xd::Tensor taken(const xd::Runtime &runtime, const Value &value) const {
        ort::Shape *shape = nullptr;
        void *data = nullptr;
        std::size_t axes = 0;
        api_.call(api_.get<ort::GetTensorData>(51), value.get(), &data);
        api_.call(api_.get<ort::GetShape>(65), value.get(), &shape);
        const std::unique_ptr<ort::Shape, ort::Release<ort::Shape>> owned(
            shape, api_.get<ort::Release<ort::Shape>>(99));
        api_.call(api_.get<ort::GetDimensionsCount>(61), shape, &axes);
        xd::Shape extents(axes);
        api_.call(api_.get<ort::GetDimensions>(62), shape, extents.data(), extents.size());
        return xd::Tensor::view(runtime, static_cast<float *>(data), extents, value);
    }

    /// Runs the model; into `output`, or where that is empty into memory that ONNX Runtime allocates.
    Value run(const Value &input, const Value &output = nullptr) const {
        const char *const names[] = {"x", "y"};
        const ort::Value *const inputs[] = {input.get()};
        ort::Value *outputs[] = {output.get()};
        api_.call(api_.get<ort::Run>(9), session_, nullptr, &names[0], inputs, std::size_t{1}, &names[1],
                  std::size_t{1}, outputs);
        return output ? output : Value(outputs[0], api_.get<ort::Release<ort::Value>>(96));
    }

private:
    ort::Api api_;
    ort::Env *env_ = nullptr;
    ort::MemoryInfo *host_ = nullptr;
    ort::Session *session_ = nullptr;
};

void check(bool holds, const char *what) {
    if (!holds) {
        throw std::runtime_error(what);
    }
}

void run(const std::string &library, const std::string &device) {
    const auto runtime = xd::Runtime::open();
    const Model model(library);
    const std::vector<float> numbers = {-2, -1, 0, 1, 2, 3};
    const auto there = xd::Tensor::from(runtime, numbers).to(runtime.device(device));

    const auto came = there.to_by_route(runtime.device("cpu"));
    const auto &input = came.first;
    const auto given = model.given(input);

    // Memory of ours, in which the model writes.
    const auto ours = xd::Tensor::empty(runtime.device("cpu"), input.dtype(), input.shape());
    model.run(given, model.given(ours));
    // Memory of theirs, which a tensor here keeps.
    auto result = model.run(given);
    const auto theirs = model.taken(runtime, result);
    const auto *data = theirs.host_span<float>().data();
    result.reset(); // the tensor has it still

    const std::vector<float> expected = {0, 0, 0, 1, 2, 3};
    check(ours.read<float>() == expected && theirs.read<float>() == expected, "wrong numbers");
    // Where memory is another than before, all of it was copied.
    const auto bytes = numbers.size() * sizeof(float);
    const auto taken = model.taken(runtime, given);
    const auto *seen = taken.host_span<float>().data();
    const auto copied = (seen == input.host_span<float>().data() ? 0 : bytes) +
                        (theirs.host_span<float>().data() == data ? 0 : bytes);
    const auto back = theirs.to_by_route(runtime.device(device));
    check(back.first.read<float>() == expected, "wrong numbers on the device");
    std::cout << "ONNX Runtime " << model.version() << " on a tensor of " << device << "\n"
              << "into ONNX Runtime and out of it: " << copied << " bytes copied\n"
              << "from " << device << ": " << came.second.bytes_copied() << " bytes copied, to it: "
              << back.second.bytes_copied() << "\n";
}

} // namespace

int main(int argc, char **argv) {
    try {
        if (argc < 2) {
            throw std::runtime_error("usage: onnxruntime_example libonnxruntime.so.1.N [DEVICE]");
        }
        run(argv[1], argc > 2 ? argv[2] : "cpu");
        return 0;
    } catch (const std::exception &error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}

// The entries of ONNX Runtime's function table that the example uses. Its wheel has no header: they are declared
// by their places, which no version changes (`OrtApi`, version 1).
#ifndef ONNXRUNTIME_ORT_HPP
#define ONNXRUNTIME_ORT_HPP

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <dlfcn.h>

namespace ort {

struct Status;
struct Env;
struct Session;
struct SessionOptions;
struct MemoryInfo;
struct Value;
struct Shape;

/// `OrtApi` as an array of functions.
class Api {
public:
    explicit Api(const std::string &library) {
        void *file = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL); // never closed: its threads run on
        if (file == nullptr) {
            throw std::runtime_error(std::string("cannot load ONNX Runtime: ") + dlerror());
        }
        const auto base = reinterpret_cast<const Base *(*)()>(dlsym(file, "OrtGetApiBase"));
        if (base == nullptr) {
            throw std::runtime_error(library + " has no function `OrtGetApiBase`");
        }
        functions_ = static_cast<void *const *>(base()->get_api(1));
        version_ = base()->get_version();
        if (functions_ == nullptr) {
            throw std::runtime_error(library + " does not have version 1 of the table");
        }
    }

    const char *version() const { return version_; }

    /// Calls a function that can fail.
    template <class... Parameters, class... Arguments>
    void call(Status *(*const &function)(Parameters...), Arguments... arguments) const {
        if (Status *status = function(arguments...)) {
            const std::string why = get<const char *(*)(const Status *)>(2)(status);
            get<void (*)(Status *)>(93)(status);
            throw std::runtime_error("ONNX Runtime: " + why);
        }
    }

    /// The function at a place of the table.
    template <class Function> Function get(std::size_t place) const {
        return reinterpret_cast<Function>(functions_[place]);
    }

private:
    struct Base {
        const void *(*get_api)(std::uint32_t version);
        const char *(*get_version)();
    };
    void *const *functions_;
    const char *version_;
};

// Places 3 to 100 of the table.
using CreateEnv = Status *(*)(int level, const char *name, Env **env);                           // 3
using CreateSessionFromArray = Status *(*)(const Env *env, const void *model, std::size_t bytes, // 8
                                           const SessionOptions *options, Session **session);
using Run = Status *(*)(Session *session, const void *options, const char *const *input_names, // 9
                        const Value *const *inputs, std::size_t input_count,
                        const char *const *output_names, std::size_t output_count, Value **outputs);
using CreateSessionOptions = Status *(*)(SessionOptions **options);                       // 10
using CreateTensorWithData = Status *(*)(const MemoryInfo *memory, void *data,            // 49
                                         std::size_t bytes, const std::int64_t *shape,
                                         std::size_t axes, int type, Value **value);
using GetTensorData = Status *(*)(Value *value, void **data);                             // 51
using GetDimensionsCount = Status *(*)(const Shape *shape, std::size_t *count);           // 61
using GetDimensions = Status *(*)(const Shape *shape, std::int64_t *extents, std::size_t); // 62
using GetShape = Status *(*)(const Value *value, Shape **shape);                          // 65
using CreateCpuMemoryInfo = Status *(*)(int allocator, int type, MemoryInfo **memory);    // 69
template <class T> using Release = void (*)(T *object); // 92 and following

} // namespace ort

#endif

/* What the programs beside it share: a check that ends the program, and errors that must or must
 * not come. */
#ifndef CHECK_H
#define CHECK_H

#include <crossdock/crossdock.h>
#include <crossdock/dlpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                       \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

/* The call must work. */
#define OK(call) check_ok((call), __FILE__, __LINE__)
/* The call must fail in this way. */
#define FAILS(kind, status, call) check_fails((call), (kind), (status), __FILE__, __LINE__)

static inline void check_ok(xd_error *error, const char *file, int line) {
    if (error) {
        fprintf(stderr, "%s:%d: %s\n", file, line, xd_error_text(error));
        exit(1);
    }
}

static inline void check_fails(xd_error *error, uint32_t kind, xd_status status, const char *file,
                               int line) {
    if (!error || xd_error_kind(error) != kind || xd_error_status(error) != status) {
        fprintf(stderr, "%s:%d: expected kind %u and %s, got %u and %s: %s\n", file, line, kind,
                xd_status_name(status), xd_error_kind(error),
                xd_status_name(xd_error_status(error)), xd_error_text(error));
        exit(1);
    }
    /* Every error says what, why and what to do. */
    CHECK(*xd_error_message(error) && *xd_error_why(error) && *xd_error_hint(error));
    CHECK(*xd_error_operation(error) && *xd_error_text(error));
    xd_error_free(error);
}

/* The call must fail as misuse, for this reason. */
#define REFUSED_FOR(why, call) check_refused((call), (why), __FILE__, __LINE__)

static inline void check_refused(xd_error *error, const char *why, const char *file, int line) {
    if (error && !strstr(xd_error_why(error), why)) {
        fprintf(stderr, "%s:%d: expected `%s`: %s\n", file, line, why, xd_error_text(error));
        exit(1);
    }
    check_fails(error, XD_ERROR_MISUSE, XD_INVALID, file, line);
}

/* A runtime with the built-in plugin, and with the plugin file of the first argument. */
static inline xd_runtime *check_runtime(int argc, char **argv) {
    xd_runtime_options options = {sizeof options, XD_RUNTIME_NO_SEARCH, 0,    NULL, 0, NULL,
                                  0,              NULL,                 NULL, NULL, NULL, 0};
    const char *plugins[1];
    xd_runtime *runtime = NULL;
    if (argc > 1) {
        plugins[0] = argv[1];
        options.plugins = plugins;
        options.plugin_count = 1;
    }
    OK(xd_runtime_open(&options, &runtime));
    return runtime;
}

static inline uint64_t check_device_count(const xd_runtime *runtime) {
    xd_device_list *devices = NULL;
    uint64_t count;
    OK(xd_runtime_devices(runtime, &devices));
    count = devices->count;
    xd_device_list_free(devices);
    return count;
}

static inline xd_device *check_device(const xd_runtime *runtime, const char *name) {
    xd_device *device = NULL;
    OK(xd_runtime_device_named(runtime, name, &device));
    return device;
}

/* The first OpenCL device, or NULL with the reason on the output. */
static inline xd_device *check_opencl(const xd_runtime *runtime) {
    xd_device *device = NULL;
    xd_error *error = xd_runtime_device_named(runtime, "opencl:0", &device);
    if (error) {
        printf("skipped: %s\n", xd_error_why(error));
        xd_error_free(error);
    }
    return device;
}

static inline xd_layout check_layout(uint32_t ndim, const int64_t *shape) {
    xd_layout layout = {{kDLFloat, 32, 1}, 0, NULL, NULL, 0, 0};
    layout.ndim = ndim;
    layout.shape = shape;
    return layout;
}

/* A float32 tensor with `count` numbers from 0 on. */
static inline xd_tensor *check_numbers(const xd_device *device, int64_t count) {
    xd_layout layout = check_layout(1, &count);
    xd_tensor *tensor = NULL;
    float *numbers = (float *)malloc((size_t)count * sizeof *numbers);
    int64_t index;
    CHECK(numbers);
    for (index = 0; index < count; index++) numbers[index] = (float)index;
    OK(xd_tensor_empty(device, &layout, NULL, &tensor));
    OK(xd_tensor_write(tensor, numbers, (uint64_t)count * sizeof *numbers));
    free(numbers);
    return tensor;
}

static inline void check_has_numbers(const xd_tensor *tensor, int64_t count) {
    float *numbers = (float *)malloc((size_t)count * sizeof *numbers);
    int64_t index;
    CHECK(numbers);
    OK(xd_tensor_read(tensor, numbers, (uint64_t)count * sizeof *numbers));
    for (index = 0; index < count; index++) CHECK(numbers[index] == (float)index);
    free(numbers);
}

#endif /* CHECK_H */

/* Errors: owned objects with parts, and answers for a NULL. */
#include "check.h"

static void of_a_null(void) {
    CHECK(xd_error_kind(NULL) == XD_ERROR_NONE);
    CHECK(xd_error_status(NULL) == XD_OK);
    CHECK(xd_error_native_code(NULL) == 0);
    CHECK(!*xd_error_operation(NULL) && !*xd_error_plugin(NULL) && !*xd_error_device(NULL));
    CHECK(!*xd_error_native_name(NULL) && !*xd_error_message(NULL) && !*xd_error_why(NULL));
    CHECK(!*xd_error_hint(NULL) && !*xd_error_text(NULL));
    xd_error_free(NULL);
}

static void of_an_unknown_device(const xd_runtime *runtime) {
    xd_device *untouched = (xd_device *)(void *)&runtime;
    xd_device *device = untouched;
    xd_dl_device pair = {kDLCUDA, 7};
    xd_error *error = xd_runtime_device(runtime, pair, &device);
    CHECK(error && device == untouched);
    CHECK(xd_error_kind(error) == XD_ERROR_UNKNOWN_DEVICE);
    CHECK(xd_error_status(error) == XD_NO_DEVICE);
    CHECK(!strcmp(xd_error_device(error), "cuda:7"));
    CHECK(!strcmp(xd_error_operation(error), "xd_runtime_device"));
    CHECK(strstr(xd_error_message(error), "cuda:7"));
    CHECK(strstr(xd_error_why(error), "cpu:0"));
    CHECK(strstr(xd_error_text(error), xd_error_message(error)));
    CHECK(strstr(xd_error_text(error), xd_error_why(error)));
    CHECK(strstr(xd_error_text(error), xd_error_hint(error)));
    xd_error_free(error);
}

static void of_an_unknown_type(xd_runtime *runtime) {
    xd_device *device = NULL;
    xd_error *error = xd_runtime_device_named(runtime, "gpu", &device);
    CHECK(error && !device && xd_error_kind(error) == XD_ERROR_UNKNOWN_DEVICE);
    CHECK(xd_error_status(error) == XD_NO_DEVICE);
    CHECK(strstr(xd_error_why(error), "no device type \"gpu\"; the devices here are cpu:0"));
    CHECK(strstr(xd_error_hint(error), "crossdock devices"));
    xd_error_free(error);
    OK(xd_runtime_device_named(runtime, "CPU", &device));
    xd_device_free(device);
}

static void of_a_plugin_file(const xd_runtime *runtime) {
    xd_plugin *plugin = NULL;
    FAILS(XD_ERROR_LOAD, XD_INVALID, xd_runtime_load_plugin(runtime, "/nowhere/p.so", &plugin));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_runtime_load_plugin(runtime, "\xff\xfe", &plugin));
    CHECK(!plugin);
}

static void of_a_hook(const xd_device *cpu) {
    int64_t count = INT64_C(1) << 60;
    xd_layout layout = check_layout(1, &count);
    xd_tensor *tensor = NULL;
    xd_error *error = xd_tensor_empty(cpu, &layout, NULL, &tensor);
    CHECK(error && !tensor);
    CHECK(xd_error_kind(error) == XD_ERROR_HOOK);
    CHECK(!strcmp(xd_error_plugin(error), "cpu"));
    CHECK(!strcmp(xd_error_operation(error), "allocate"));
    CHECK(!strcmp(xd_error_message(error), "allocate (plugin `cpu`)"));
    CHECK(xd_error_status(error) == XD_OOM_DEVICE || xd_error_status(error) == XD_OOM_HOST);
    xd_error_free(error);
}

static void names(void) {
    char text[XD_NAME_BYTES];
    const xd_dtype f32 = {kDLFloat, 32, 1};
    xd_dtype dtype;
    xd_dl_device device = {0, 0};
    CHECK(!strcmp(xd_status_name(XD_OOM_DEVICE), "OOM_DEVICE") && !*xd_status_name(9999));
    dtype = f32;
    OK(xd_dtype_text(f32, text));
    CHECK(!strcmp(text, "float32"));
    OK(xd_dtype_from_text("float8_e4m3b11fnuzx65535", &dtype));
    CHECK(dtype.code == kDLFloat8_e4m3b11fnuz && dtype.bits == 8 && dtype.lanes == 65535);
    OK(xd_dtype_text(dtype, text));
    CHECK(!strcmp(text, "float8_e4m3b11fnuzx65535"));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_dtype_from_text("float33", &dtype));
    dtype.bits = 3;
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_dtype_text(dtype, text));
    OK(xd_dl_device_from_text("opencl:3", &device));
    CHECK(device.device_type == kDLOpenCL && device.device_id == 3);
    OK(xd_dl_device_text(device, text));
    CHECK(!strcmp(text, "opencl:3"));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_dl_device_from_text("gpu", &device));
    CHECK(device.device_id == 3);
}

static void of_a_caller(void) {
    xd_error *error = xd_error_create(XD_VENDOR, "read a file", "it is gone", "write it");
    CHECK(xd_error_kind(error) == XD_ERROR_OTHER && xd_error_status(error) == XD_VENDOR);
    CHECK(!strcmp(xd_error_text(error), "read a file\n  why: it is gone\n  try: write it"));
    xd_error_free(error);
    error = xd_error_create(XD_OK, "it broke", NULL, NULL);
    CHECK(xd_error_status(error) == XD_INVALID && !*xd_error_why(error) && !*xd_error_hint(error));
    CHECK(!strcmp(xd_error_text(error), "it broke") && !*xd_error_operation(error));
    xd_error_free(error);
    error = xd_error_create(XD_INVALID, NULL, NULL, NULL);
    CHECK(error && !*xd_error_text(error));
    xd_error_free(error);
}

int main(int argc, char **argv) {
    xd_runtime *runtime = check_runtime(argc, argv);
    xd_device *cpu = check_device(runtime, "cpu");
    of_a_null();
    of_a_caller();
    of_an_unknown_device(runtime);
    of_an_unknown_type(runtime);
    of_a_plugin_file(runtime);
    of_a_hook(cpu);
    names();
    xd_device_free(cpu);
    xd_runtime_free(runtime);
    return 0;
}

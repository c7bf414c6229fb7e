/* Routes between devices: taken, explained, forbidden. */
#include "check.h"

static void the_same_device(const xd_device *cpu) {
    static const int64_t count = 8;
    xd_tensor *tensor = check_numbers(cpu, count), *moved = NULL;
    xd_move_options options = {sizeof options, XD_ROUTE_BEST, XD_COPY_NEVER, 0, 0, NULL};
    xd_route *route = NULL;
    xd_tensor_info here, there;
    OK(xd_tensor_describe(tensor, &here));
    OK(xd_tensor_to(tensor, cpu, &options, &moved, &route));
    OK(xd_tensor_describe(moved, &there));
    CHECK(xd_route_kind(route) == XD_ROUTE_ALIAS && xd_route_bytes_copied(route) == 0);
    CHECK(xd_route_cost_ns(route) == XD_COST_UNKNOWN || xd_route_cost_ns(route) < 1000000);
    CHECK(here.data == there.data);
    xd_route_free(route);
    xd_tensor_free(moved);
    options.copy = XD_COPY_ALWAYS;
    OK(xd_tensor_to(tensor, cpu, &options, &moved, &route));
    OK(xd_tensor_describe(moved, &there));
    CHECK(xd_route_kind(route) == XD_ROUTE_DIRECT && here.data != there.data);
    CHECK(xd_route_bytes_copied(route) == sizeof(float) * (uint64_t)count);
    CHECK(xd_route_step(route, 0) && !xd_route_step(route, 1) && !xd_route_step(route, UINT64_MAX));
    CHECK(strstr(xd_route_text(route), "cpu:0 -> cpu:0"));
    check_has_numbers(moved, count);
    xd_route_free(route);
    xd_tensor_free(moved);
    moved = NULL;
    options.route = XD_ROUTE_ALIAS;
    REFUSED_FOR("(always) and route 1", xd_tensor_to(tensor, cpu, &options, &moved, NULL));
    options.route = 99;
    REFUSED_FOR("route 99 is unknown", xd_tensor_to(tensor, cpu, &options, &moved, NULL));
    options.route = XD_ROUTE_REFUSED;
    REFUSED_FOR("is an answer, and no wish", xd_tensor_to(tensor, cpu, &options, &moved, NULL));
    options.copy = XD_COPY_NEVER;
    options.route = XD_ROUTE_STAGED;
    REFUSED_FOR("(never) and route 3", xd_tensor_to(tensor, cpu, &options, &moved, NULL));
    options.copy = 9;
    REFUSED_FOR("copy 9 is unknown", xd_tensor_to(tensor, cpu, &options, &moved, NULL));
    CHECK(!moved);
    xd_tensor_free(tensor);
}

static void between(const xd_device *from, const xd_device *to) {
    static const int64_t count = 1000;
    static const uint32_t kinds[] = {XD_ROUTE_DIRECT, XD_ROUTE_STAGED};
    xd_tensor *tensor = check_numbers(from, count), *moved = NULL;
    xd_move_options options = {sizeof options, XD_ROUTE_BEST, XD_COPY_ALWAYS, 0, 0, NULL};
    xd_layout layout = check_layout(1, &count);
    xd_route *route = NULL;
    size_t index;
    OK(xd_tensor_to(tensor, to, NULL, &moved, NULL));
    check_has_numbers(moved, count);
    xd_tensor_free(moved);
    OK(xd_tensor_to(tensor, to, &options, &moved, &route));
    CHECK(xd_route_kind(route) != XD_ROUTE_ALIAS && xd_route_bytes_copied(route) >= 4000);
    check_has_numbers(moved, count);
    xd_route_free(route);
    xd_tensor_free(moved);
    options.copy = XD_COPY_IF_NEEDED;
    for (index = 0; index < sizeof kinds / sizeof *kinds; index++) {
        options.route = kinds[index];
        OK(xd_route_explain(from, to, &layout, &options, &route));
        CHECK(xd_route_kind(route) == kinds[index] && *xd_route_text(route));
        xd_route_free(route);
        OK(xd_tensor_explain(tensor, to, &options, &route));
        CHECK(xd_route_kind(route) == kinds[index] && *xd_route_text(route));
        xd_route_free(route);
        OK(xd_tensor_to(tensor, to, &options, &moved, NULL));
        check_has_numbers(moved, count);
        xd_tensor_free(moved);
    }
    xd_tensor_free(tensor);
}

/* What explain says of a move without a copy is what happens. */
static void without_a_copy(const xd_device *from, const xd_device *to) {
    static const int64_t count = 64;
    xd_tensor *tensor = check_numbers(from, count), *moved = NULL;
    xd_move_options options = {sizeof options, XD_ROUTE_BEST, XD_COPY_NEVER, 0, 0, NULL};
    xd_layout layout = check_layout(1, &count);
    xd_route *route = NULL;
    OK(xd_route_explain(from, to, &layout, &options, &route));
    if (xd_route_kind(route) == XD_ROUTE_ALIAS) {
        OK(xd_tensor_to(tensor, to, &options, &moved, NULL));
        check_has_numbers(moved, count);
        xd_tensor_free(moved);
    } else {
        CHECK(xd_route_kind(route) == XD_ROUTE_REFUSED && xd_route_refused(route, 0));
        FAILS(XD_ERROR_COPY_REQUIRED, XD_UNSUPPORTED,
              xd_tensor_to(tensor, to, &options, &moved, NULL));
        CHECK(!moved);
    }
    xd_route_free(route);
    xd_tensor_free(tensor);
}

static void in_the_order_of_a_stream(const xd_device *from, const xd_device *to) {
    static const int64_t count = 1000;
    xd_tensor *tensor = check_numbers(from, count), *moved = NULL, *back = NULL;
    xd_move_options options = {sizeof options, XD_ROUTE_BEST, XD_COPY_ALWAYS, 0, 0, NULL};
    xd_stream *stream = NULL;
    xd_route *explained = NULL, *done = NULL;
    OK(xd_stream_create(to, &stream));
    options.stream = stream;
    OK(xd_tensor_explain(tensor, to, &options, &explained));
    OK(xd_tensor_to(tensor, to, &options, &moved, &done));
    CHECK(!strcmp(xd_route_text(explained), xd_route_text(done)));
    xd_route_free(explained);
    xd_route_free(done);
    xd_tensor_free(tensor);
    OK(xd_tensor_to(moved, from, &options, &back, NULL));
    xd_tensor_free(moved);
    check_has_numbers(back, count);
    xd_tensor_free(back);
    xd_stream_free(stream);
}

/* Memory of a kind is a target: what is there is shared, what is elsewhere is copied. */
static void to_memory_of_a_kind(const xd_runtime *runtime, const xd_device *cpu) {
    static const int64_t count = 64;
    xd_tensor *tensor = check_numbers(cpu, count), *moved = NULL, *same = NULL;
    xd_move_options options = {sizeof options, XD_ROUTE_BEST, XD_COPY_NEVER, 0, 0, NULL};
    xd_device *device = NULL;
    xd_memory_kind kind = 9;
    xd_route *route = NULL;
    xd_tensor_info info;
    OK(xd_runtime_target_named(runtime, "cpu", &device, &kind));
    CHECK(xd_device_equal(device, cpu) && kind == 0);
    xd_device_free(device);
    device = NULL;
    FAILS(XD_ERROR_UNKNOWN_DEVICE, XD_NO_DEVICE,
          xd_runtime_target_named(runtime, "rocm_host:7", &device, &kind));
    CHECK(!device);
    options.kind = XD_MEMORY_PINNED;
    OK(xd_tensor_explain(tensor, cpu, &options, &route));
    CHECK(xd_route_kind(route) == XD_ROUTE_REFUSED);
    xd_route_free(route);
    FAILS(XD_ERROR_COPY_REQUIRED, XD_UNSUPPORTED,
          xd_tensor_to(tensor, cpu, &options, &moved, NULL));
    options.copy = XD_COPY_IF_NEEDED;
    OK(xd_tensor_to(tensor, cpu, &options, &moved, NULL));
    OK(xd_tensor_describe(moved, &info));
    CHECK(info.memory_kind == XD_MEMORY_PINNED);
    check_has_numbers(moved, count);
    options.copy = XD_COPY_NEVER;
    OK(xd_tensor_to(moved, cpu, &options, &same, NULL));
    options.kind = XD_MEMORY_DEVICE;
    FAILS(XD_ERROR_COPY_REQUIRED, XD_UNSUPPORTED,
          xd_tensor_to(moved, cpu, &options, &same, NULL));
    options.copy = XD_COPY_IF_NEEDED;
    options.kind = 77;
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_to(tensor, cpu, &options, &same, NULL));
    xd_tensor_free(same);
    xd_tensor_free(moved);
    xd_tensor_free(tensor);
}

int main(int argc, char **argv) {
    xd_runtime *runtime = check_runtime(argc, argv);
    xd_device *cpu = check_device(runtime, "cpu");
    xd_device *opencl = check_opencl(runtime);
    the_same_device(cpu);
    in_the_order_of_a_stream(cpu, cpu);
    to_memory_of_a_kind(runtime, cpu);
    if (opencl) {
        between(cpu, opencl);
        between(opencl, cpu);
        without_a_copy(cpu, opencl);
        without_a_copy(opencl, cpu);
        in_the_order_of_a_stream(cpu, opencl);
        in_the_order_of_a_stream(opencl, cpu);
    }
    xd_device_free(opencl);
    xd_device_free(cpu);
    xd_runtime_free(runtime);
    return 0;
}

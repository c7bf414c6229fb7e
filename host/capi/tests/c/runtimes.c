/* Runtimes, plugins and devices; one runtime for the process. */
#include "check.h"
#include <dlfcn.h>

static void options(void) {
    struct {
        xd_runtime_options options;
        uint64_t later;
    } newer = {{sizeof newer, XD_RUNTIME_NO_SEARCH, 0, NULL, 0, NULL, 0, NULL, NULL, NULL, NULL, 0}, 0};
    xd_runtime_options wrong = {sizeof wrong - 1, 0, 0, NULL, 0, NULL, 0, NULL, NULL, NULL, NULL, 0};
    const char *missing[] = {"/nowhere/plugin.so"};
    xd_runtime *runtime = NULL;
    /* A struct of a later version works as long as it asks for nothing that is unknown here. */
    OK(xd_runtime_open(&newer.options, &runtime));
    xd_runtime_free(runtime);
    runtime = NULL;
    newer.later = 1;
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_runtime_open(&newer.options, &runtime));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_runtime_open(&wrong, &runtime));
    wrong.struct_size = UINT64_MAX;
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_runtime_open(&wrong, &runtime));
    wrong.struct_size = sizeof wrong;
    wrong.flags = 6;
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_runtime_open(&wrong, &runtime));
    wrong.flags = XD_RUNTIME_NO_SEARCH;
    wrong.plugin_count = 1;
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_runtime_open(&wrong, &runtime));
    wrong.plugins = missing;
    FAILS(XD_ERROR_LOAD, XD_INVALID, xd_runtime_open(&wrong, &runtime));
    CHECK(!runtime);
}

/* What else the environment would say. */
static void more_options(void) {
    xd_runtime_options options = {sizeof options, XD_RUNTIME_NO_SEARCH, 0, NULL, 0, NULL, 0,
                                  "validate", "free:1=VENDOR", "cpu:0", "off", 1 << 16};
    xd_runtime *runtime = NULL;
    xd_device *cpu;
    OK(xd_runtime_open(&options, &runtime));
    cpu = check_device(runtime, "cpu");
    xd_tensor_free(check_numbers(cpu, 4));
    /* The rule failed the one call that gives memory back. */
    CHECK(xd_counted_leaks() == 1);
    xd_device_free(cpu);
    xd_runtime_free(runtime);
    runtime = NULL;
    options.layers = "sanitize";
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_runtime_open(&options, &runtime));
    options.layers = NULL;
    options.fault = "free";
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_runtime_open(&options, &runtime));
    CHECK(!runtime);
}

static void one_for_the_process(void) {
    xd_runtime *own = check_runtime(1, NULL), *first = NULL, *second = NULL;
    OK(xd_runtime_default(&first));
    OK(xd_runtime_default(&second));
    CHECK(first == second && first != own);
    OK(xd_runtime_make_default(first));
    FAILS(XD_ERROR_MISUSE, XD_CONFLICT, xd_runtime_make_default(own));
    xd_runtime_free(first);
    xd_runtime_free(second);
    /* The last handle was given back: the place is free. */
    OK(xd_runtime_make_default(own));
    OK(xd_runtime_default(&first));
    CHECK(first == own);
    second = xd_runtime_retain(own);
    CHECK(second == own);
    xd_runtime_free(own);
    xd_runtime_free(second);
    CHECK(check_device_count(first) > 0);
    xd_runtime_free(first);
}

/* An extension that looks for the library in the process finds this one, and its runtime. */
static void the_same_through_the_loader(void) {
    const xd_api *(*get_api)(void) = NULL;
    void *library = dlopen("libcrossdock.so.1", RTLD_NOW | RTLD_NOLOAD);
    xd_runtime *linked = NULL, *found = NULL;
    CHECK(library);
    *(void **)&get_api = dlsym(library, "xd_get_api");
    CHECK(get_api && get_api() == xd_get_api());
    OK(xd_runtime_default(&linked));
    OK(get_api()->runtime_default(&found));
    CHECK(linked == found);
    xd_runtime_free(linked);
    get_api()->runtime_free(found);
    dlclose(library);
}

static void plugins(const xd_runtime *runtime) {
    uint64_t index;
    xd_plugin_list *list = NULL;
    xd_error_list *refused = NULL;
    OK(xd_runtime_plugins(runtime, &list));
    OK(xd_runtime_refused(runtime, &refused));
    CHECK(list->count > 0 && refused->count == 0);
    for (index = 0; index < list->count; index++) {
        const xd_plugin *plugin = list->items[index];
        xd_plugin *same;
        CHECK(*xd_plugin_name(plugin) && *xd_plugin_vendor(plugin) && *xd_plugin_version(plugin));
        CHECK(index > 0 || !*xd_plugin_path(plugin));
        CHECK(xd_plugin_state(plugin) != XD_PROBE_READY || !*xd_plugin_detail(plugin));
        same = xd_plugin_retain(plugin);
        CHECK(same == plugin);
        xd_plugin_free(same);
    }
    xd_error_list_free(refused);
    xd_plugin_list_free(list);
}

static void devices(const xd_runtime *runtime) {
    uint64_t index;
    xd_device_list *list = NULL;
    xd_device *found = NULL;
    xd_plugin *plugin = NULL;
    xd_device_info info;
    xd_memory_info memory;
    OK(xd_runtime_devices(runtime, &list));
    for (index = 0; index < list->count; index++) {
        const xd_device *device = list->items[index];
        xd_dl_device pair;
        OK(xd_device_describe(device, &info));
        CHECK(info.name[0] && info.total_memory > 0);
        pair.device_type = info.dl_type;
        pair.device_id = info.dl_id;
        OK(xd_runtime_device(runtime, pair, &found));
        CHECK(xd_device_equal(device, found) == 1);
        CHECK(xd_device_hash(device) && xd_device_hash(device) == xd_device_hash(found));
        OK(xd_device_memory(device, &memory));
        CHECK(memory.total > 0);
        OK(xd_device_plugin(device, &plugin));
        CHECK(xd_plugin_state(plugin) == XD_PROBE_READY);
        OK(xd_device_synchronize(device, XD_NO_LIMIT));
        xd_plugin_free(plugin);
        xd_device_free(found);
    }
    xd_device_list_free(list);
    found = NULL;
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_runtime_device_named(runtime, "cpu:x", &found));
    FAILS(XD_ERROR_UNKNOWN_DEVICE, XD_NO_DEVICE,
          xd_runtime_device_named(runtime, "metal", &found));
    memset(info.uuid, 0, sizeof info.uuid);
    FAILS(XD_ERROR_UNKNOWN_DEVICE, XD_NO_DEVICE,
          xd_runtime_device_by_uuid(runtime, info.uuid, &found));
    FAILS(XD_ERROR_UNKNOWN_DEVICE, XD_NO_DEVICE, xd_runtime_device_by_pci(runtime, "", &found));
    CHECK(!found);
}

/* Memory that was freed is used no more, and kept no longer than until a trim. */
static void memory_is_counted_and_given_back(const xd_runtime *runtime) {
    static const int64_t shape[1] = {1 << 20};
    xd_layout layout = check_layout(1, shape);
    xd_device *device = NULL;
    xd_tensor *tensor = NULL;
    xd_memory_usage before, with, after;
    OK(xd_runtime_device_named(runtime, "cpu", &device));
    OK(xd_device_trim(device, 0));
    OK(xd_device_memory_usage(device, &before));
    OK(xd_tensor_empty(device, &layout, NULL, &tensor));
    OK(xd_device_memory_usage(device, &with));
    CHECK(with.used >= before.used + (4 << 20) && with.reserved >= with.used);
    CHECK(with.peak_used >= with.used && with.peak_reserved >= with.reserved);
    xd_tensor_free(tensor);
    OK(xd_device_memory_usage(device, &after));
    CHECK(after.used == before.used && after.reserved > after.used);
    OK(xd_device_trim(device, UINT64_MAX));
    OK(xd_device_trim(device, 0));
    OK(xd_device_trim(device, 0));
    OK(xd_device_memory_usage(device, &after));
    CHECK(after.reserved == after.used && after.peak_used >= with.used);
    OK(xd_device_reset_peaks(device));
    OK(xd_device_memory_usage(device, &after));
    CHECK(after.peak_used == after.used && after.peak_reserved == after.reserved);
    xd_device_free(device);
}

/* A list is what was there when it was made, and what it lends can be used for as long as it lives. */
static void a_list_stays_as_it_was(void) {
    xd_runtime *runtime = check_runtime(1, NULL);
    xd_device_list *devices = NULL;
    xd_plugin_list *plugins = NULL;
    xd_device_info info;
    xd_device *kept;
    OK(xd_runtime_devices(runtime, &devices));
    OK(xd_runtime_plugins(runtime, &plugins));
    CHECK(devices->count == 1 && plugins->count == 1);
    OK(xd_runtime_retire_plugin(runtime, plugins->items[0]));
    CHECK(check_device_count(runtime) == 0 && devices->count == 1);
    xd_runtime_free(runtime);
    OK(xd_device_describe(devices->items[0], &info));
    kept = xd_device_retain(devices->items[0]);
    CHECK(kept == devices->items[0]);
    xd_device_list_free(devices);
    CHECK(*xd_plugin_name(plugins->items[0]));
    xd_plugin_list_free(plugins);
    OK(xd_device_describe(kept, &info));
    xd_device_free(kept);
}

static void retired_plugins_leave_their_tensors(void) {
    xd_runtime *runtime = check_runtime(1, NULL), *other = check_runtime(1, NULL);
    xd_device *cpu = check_device(runtime, "cpu");
    xd_tensor *tensor = check_numbers(cpu, 4);
    xd_plugin *plugin = NULL;
    OK(xd_device_plugin(cpu, &plugin));
    OK(xd_runtime_retire_plugin(runtime, plugin));
    CHECK(check_device_count(runtime) == 0);
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_runtime_retire_plugin(runtime, plugin));
    xd_runtime_free(other);
    xd_runtime_free(runtime);
    xd_plugin_free(plugin);
    xd_device_free(cpu);
    xd_tensor_free(tensor);
}

int main(int argc, char **argv) {
    xd_runtime *runtime;
    /* First: a plugin keeps the layers that it was opened with. */
    more_options();
    runtime = check_runtime(argc, argv);
    CHECK(xd_abi_version() >> 16 == XD_API_MAJOR && *xd_version());
    CHECK(xd_get_api()->struct_size == sizeof(xd_api));
    CHECK(xd_get_api()->runtime_default == xd_runtime_default);
    options();
    one_for_the_process();
    the_same_through_the_loader();
    plugins(runtime);
    devices(runtime);
    memory_is_counted_and_given_back(runtime);
    xd_runtime_free(runtime);
    a_list_stays_as_it_was();
    retired_plugins_leave_their_tensors();
    return 0;
}

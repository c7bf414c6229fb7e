/**
 * \file unit.c
 * \brief The plugin's hooks, called as a host calls them: for a debugger and for sanitizers.
 */
#define _POSIX_C_SOURCE 200112L

#include <crossdock/plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/** All tests together end by a signal when they take longer, so that a hook that hangs does not hang a job. */
#ifndef SECONDS
#define SECONDS 60
#endif

/** Ends the test where something does not hold; `assert` is gone from builds with NDEBUG. */
#define CHECK(holds)                                                            \
    do {                                                                        \
        if (!(holds)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #holds); \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

/** Runs a test behind its name, so that the last line says which one crashed or hung. */
#define RUN(test)                \
    do {                         \
        puts("unit: " #test);    \
        fflush(stdout);          \
        test();                  \
    } while (0)

static void no_log(void *context, uint32_t level, xd_text target, xd_text message) {
    (void)context, (void)level, (void)target, (void)message;
}

static const xd_host_services host = {.struct_size = (uint32_t)sizeof host, .log = no_log};
static const xd_plugin_table *hooks;
static xd_plugin_handle plugin;

static xd_address allocated(uint64_t size) {
    xd_allocate_args args = {.size = size, .alignment = 1, .kind = XD_MEMORY_DEVICE};
    xd_address address;
    CHECK(hooks->allocate(plugin, &args, &address, NULL) == XD_OK);
    return address;
}

static xd_side host_side(void *memory) {
    xd_side side = {.address = {.word = (uint64_t)(uintptr_t)memory}, .kind = XD_MEMORY_HOST};
    return side;
}

static xd_side device_side(xd_address address) {
    xd_side side = {.address = address, .kind = XD_MEMORY_DEVICE};
    return side;
}

static xd_status copy(xd_side dst, xd_side src, uint64_t bytes) {
    xd_copy_args args = {.dst = dst, .src = src, .bytes = bytes};
    return hooks->copy(plugin, &args, XD_STREAM_NONE, NULL);
}

/** Of an address or of a handle: both take the offset, and a handle nothing else. */
static xd_memory_kind kind_at(xd_address address, uint64_t offset) {
    address.offset += offset;
    xd_pointer_info info;
    CHECK(hooks->pointer_query(plugin, &address, &info, NULL) == XD_OK);
    return info.kind;
}

static void bytes_survive_the_way_there_and_back(void) {
    xd_address there = allocated(4);
    char from[4] = {1, 2, 3, 4}, back[4] = {0};
    CHECK(copy(device_side(there), host_side(from), 4) == XD_OK);
    CHECK(copy(host_side(back), device_side(there), 4) == XD_OK);
    CHECK(memcmp(from, back, 4) == 0);
    CHECK(hooks->free(plugin, &there, XD_MEMORY_DEVICE, NULL) == XD_OK);
}

static void a_query_knows_an_allocation_until_it_is_freed(void) {
    xd_address address = allocated(100);
    CHECK(kind_at(address, 99) == XD_MEMORY_DEVICE);
    CHECK(kind_at(address, 100) == XD_MEMORY_UNOWNED);
    CHECK(hooks->free(plugin, &address, XD_MEMORY_DEVICE, NULL) == XD_OK);
    CHECK(kind_at(address, 0) == XD_MEMORY_UNOWNED);
}

static void a_fill_repeats_its_pattern(void) {
    xd_address there = allocated(6);
    char back[6] = {0};
    xd_fill_args args = {.dst = device_side(there), .bytes = 6, .pattern = {7, 9}, .pattern_bytes = 2};
    CHECK(hooks->fill->fill(plugin, &args, XD_STREAM_NONE, NULL) == XD_OK);
    CHECK(copy(host_side(back), device_side(there), 6) == XD_OK);
    CHECK(memcmp(back, "\7\11\7\11\7\11", 6) == 0);
    CHECK(hooks->free(plugin, &there, XD_MEMORY_DEVICE, NULL) == XD_OK);
}

static void a_failure_says_why(void) {
    xd_address small = allocated(8), large = allocated(16);
    xd_copy_args args = {.dst = device_side(small), .src = device_side(large), .bytes = 9};
    xd_plugin_error *error = NULL;
    CHECK(hooks->copy(plugin, &args, XD_STREAM_NONE, &error) == XD_INVALID);
    CHECK(error && error->status == XD_INVALID && error->message.len > 0);
    hooks->error_free(error);
    /* What is left alive is given back by `close`. */
}

static void it_opens(void) {
    hooks = crossdock_plugin();
    CHECK(hooks->open(&host, &plugin, NULL) == XD_OK);
}

static void it_closes(void) {
    CHECK(hooks->retire(plugin, 0, NULL) == XD_OK);
    CHECK(hooks->close(plugin, NULL) == XD_OK);
}

int main(void) {
    alarm(SECONDS);
    RUN(it_opens);
    RUN(bytes_survive_the_way_there_and_back);
    RUN(a_query_knows_an_allocation_until_it_is_freed);
    RUN(a_fill_repeats_its_pattern);
    RUN(a_failure_says_why);
    RUN(it_closes);
    puts("unit: 6 passed");
    return 0;
}

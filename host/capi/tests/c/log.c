/* The log: a function of the program's, called on whichever thread writes a line. */
#include "check.h"
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int lines, routes, foreign;
static pthread_t main_thread;
static int word;

static void take(void *given, uint32_t level, const char *target, const char *message) {
    CHECK(given == &word && level >= 1 && level <= 5 && *message);
    /* It may call back. */
    CHECK(*xd_version());
    pthread_mutex_lock(&lock);
    lines++;
    routes += !strcmp(target, "crossdock::route");
    foreign += !pthread_equal(pthread_self(), main_thread);
    pthread_mutex_unlock(&lock);
}

static void *move(void *device) {
    xd_tensor *tensor = check_numbers((xd_device *)device, 4), *moved = NULL;
    OK(xd_tensor_to(tensor, (xd_device *)device, NULL, &moved, NULL));
    xd_tensor_free(moved);
    xd_tensor_free(tensor);
    return NULL;
}

int main(int argc, char **argv) {
    xd_runtime *runtime = check_runtime(argc, argv);
    xd_device *cpu = check_device(runtime, "cpu");
    pthread_t thread;
    int before;
    main_thread = pthread_self();
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_log_set(take, &word, 6));
    OK(xd_log_set(NULL, NULL, 0));
    OK(xd_log_set(take, &word, 5));
    CHECK(pthread_create(&thread, NULL, move, cpu) == 0);
    move(cpu);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(routes >= 2 && foreign >= 1);
    OK(xd_log_set(take, &word, 1));
    before = lines;
    move(cpu);
    CHECK(lines == before);
    OK(xd_log_set(NULL, NULL, 5));
    move(cpu);
    CHECK(lines == before);
    xd_device_free(cpu);
    xd_runtime_free(runtime);
    return 0;
}

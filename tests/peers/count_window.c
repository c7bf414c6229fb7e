/* Lets callgrind write what it counted so far, for programs in Python; without valgrind it does nothing.
 * A request and not a function's name: callgrind finds no name in a library this small. */
#include <valgrind/callgrind.h>

int crossdock_window_ends(int rounds);

int crossdock_window_ends(int rounds) {
    CALLGRIND_DUMP_STATS;
    return rounds;
}

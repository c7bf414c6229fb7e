// An error that one shared library throws is caught by another one, and by the program.
#include "check.hpp"
#include "throws.hpp"

int main() {
    CHECK(other_catches());
    CHECK(type_of_one() == type_of_other());
    CHECK(type_of_one() == &typeid(crossdock::Error));
    try {
        one_throws();
    } catch (const crossdock::Error &error) {
        CHECK(error.hint() == "hint");
        return 0;
    }
    return 1;
}

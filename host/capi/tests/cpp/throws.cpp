// A shared library with hidden visibility, which throws an error or catches that of another library.
#include "throws.hpp"

#include <crossdock/crossdock.hpp>

#if defined(OTHER)
bool other_catches() {
    try {
        one_throws();
    } catch (const crossdock::Error &error) {
        return error.message() == "the message";
    } catch (...) {
    }
    return false;
}

const std::type_info *type_of_other() { return &typeid(crossdock::Error); }
#else
void one_throws() { throw crossdock::Error::misuse("the message", "why", "hint"); }

const std::type_info *type_of_one() { return &typeid(crossdock::Error); }
#endif

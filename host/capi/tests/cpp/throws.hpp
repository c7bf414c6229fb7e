// Two shared libraries, made of one file: one calls the other, which throws.
#ifndef THROWS_HPP
#define THROWS_HPP

#include <typeinfo>

#define SHOWN __attribute__((visibility("default")))

// Throws a `crossdock::Error`.
SHOWN void one_throws();
// Catches what the other library throws; whether it was a `crossdock::Error`.
SHOWN bool other_catches();
// The type information of `crossdock::Error`, as each library has it.
SHOWN const std::type_info *type_of_one();
SHOWN const std::type_info *type_of_other();

#endif

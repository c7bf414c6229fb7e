// Our headers compile after macros that systems and toolkits define. Standard headers come first: they do not.
#include <array>
#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

// Of Windows.
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#define near
#define far
#define small char
#define interface struct
#define ERROR 0
#define IN
#define OUT
#define OPTIONAL
#define CONST const
#define VOID void
#define TRUE 1
#define FALSE 0
#define Yield()
// Of X11.
#define None 0L
#define Bool int
#define Status int
#define Success 0
#define Always 2
// Of Qt.
#define slots
#define signals public
#define emit
#define foreach(variable, container) for (variable : container)
// Of the C library, and of Apple's.
#define major(device) 0
#define minor(device) 0
#define unix 1
#define linux 1
#define check(condition)
#define verify(condition)
#define require(condition, label)

#include <crossdock/crossdock.hpp>
#include <crossdock/plugin.h>
#include <crossdock/plugin_support.h>

// What the calls of `max` and `min` are part of.
bool use(const crossdock::Value &value) { return value.as<std::uint8_t>() == 1 && value.as<std::int8_t>() == 1; }

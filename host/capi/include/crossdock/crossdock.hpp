/**
 * \file crossdock.hpp
 * \brief Crossdock for C++: devices, tensors, streams, routes and scripts as objects.
 *
 * C++17 and later, headers only, over the functions of `crossdock.h`, which says of each what it does, how
 * long it waits and what it needs. Link `libcrossdock.so.1`.
 *
 * - Objects are handles: they can be moved, and `share()` gives the same thing once more. One that was moved
 *   from is empty, and calls on it fail as misuse. All may be used on several threads at once, as long as
 *   nobody moves or drops the object meanwhile.
 * - A call that fails throws crossdock::Error, which says what, why and what to do. With
 *   `CROSSDOCK_NO_EXCEPTIONS` each gives a crossdock::result instead, and the headers need neither exceptions
 *   nor run-time types. Files that pass each other these objects say the same; else they do not link.
 * - Options are chained: `tensor.to(device, MoveOptions().copy(Copy::always).on(stream))`.
 * - Arguments are lent for the call, unless the call says that it keeps them.
 * - `get()` lends the handle to the C functions, for what is not here.
 */
#ifndef CROSSDOCK_CROSSDOCK_HPP
#define CROSSDOCK_CROSSDOCK_HPP

#if __cplusplus < 201703L && (!defined(_MSVC_LANG) || _MSVC_LANG < 201703L)
#error "crossdock.hpp needs C++17 or later: compile with -std=c++17"
#elif defined(__GNUC__) && !defined(__cpp_exceptions) && !defined(CROSSDOCK_NO_EXCEPTIONS)
#error "without exceptions define CROSSDOCK_NO_EXCEPTIONS in every file: calls give a crossdock::result then"
#else

// Warnings that a program may ask for and that nothing here can follow: a cast that one platform needs is useless on
// another, and members that a constructor leaves to their defaults are not in its list.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuseless-cast"
#pragma GCC diagnostic ignored "-Weffc++"
#endif

#include <crossdock/cpp/error.hpp>
#include <crossdock/cpp/handle.hpp>
#include <crossdock/cpp/types.hpp>
#include <crossdock/cpp/device.hpp>
#include <crossdock/cpp/runtime.hpp>
#include <crossdock/cpp/stream.hpp>
#include <crossdock/cpp/route.hpp>
#include <crossdock/cpp/tensor.hpp>
#include <crossdock/cpp/value.hpp>
#include <crossdock/cpp/function.hpp>
#include <crossdock/cpp/script.hpp>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif

#endif

/**
 * \file mode.hpp
 * \brief How the headers are compiled: with exceptions, or with results.
 */
#ifndef CROSSDOCK_CPP_MODE_HPP
#define CROSSDOCK_CPP_MODE_HPP

// A file with exceptions and one without have functions of the same names and other answers. In a namespace for each
// mode the linker keeps them apart; nobody names it.
#if defined(CROSSDOCK_NO_EXCEPTIONS)
#define CROSSDOCK_MODE with_results
#else
#define CROSSDOCK_MODE with_exceptions
#endif

// Exports the type information of an exception class, even with `-fvisibility=hidden`. If each shared library had a
// private copy, libc++ would not catch an exception that another library throws.
#if defined(__GNUC__)
#define CROSSDOCK_EXCEPTION __attribute__((visibility("default")))
#else
#define CROSSDOCK_EXCEPTION
#endif

#endif

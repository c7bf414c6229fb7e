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

#endif

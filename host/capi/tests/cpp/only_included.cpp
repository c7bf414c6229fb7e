// Nothing but the headers: what a compiler says is about them.
#include <crossdock/crossdock.hpp>

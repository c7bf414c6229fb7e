/**
 * \file nanobind_peer.cpp
 * \brief Exchange by an extension made with nanobind: `take(x)` keeps a tensor, `give()` makes one.
 */
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;

namespace {

alignas(64) float memory[64 * 64];

struct Taken {
    nb::ndarray<> array;
};

}  // namespace

NB_MODULE(nanobind_peer, module) {
    nb::class_<Taken>(module, "Taken");
    module.def("take", [](nb::ndarray<> array) { return Taken{std::move(array)}; });
    auto give = [] { return nb::ndarray<nb::array_api, float>(memory, {64, 64}); };
    module.def("give", give, nb::rv_policy::reference);
}

#include "model.hpp"

#include <cstdint>

namespace {

/// Protocol Buffers write a number in groups of seven bits, the lowest first.
std::string number(std::uint64_t value) {
    std::string text;
    for (; value > 127; value >>= 7) {
        text.push_back(static_cast<char>(value | 128));
    }
    text.push_back(static_cast<char>(value));
    return text;
}

std::string field(unsigned place, std::uint64_t value) { return number(place << 3) + number(value); }

std::string field(unsigned place, const std::string &content) {
    return number(place << 3 | 2) + number(content.size()) + content;
}

/// `ValueInfoProto`: a name, and a tensor of float32 with one axis of a length that has a name.
std::string value(const std::string &name) {
    const auto axis = field(1, field(2, "length")); // TensorShapeProto.dim.dim_param
    const auto tensor = field(1, 1) + field(2, axis); // elem_type FLOAT, shape
    return field(1, name) + field(2, field(1, tensor));
}

} // namespace

std::string rectifier() {
    const auto node = field(1, "x") + field(2, "y") + field(4, "Relu");
    const auto graph = field(1, node) + field(2, "g") + field(11, value("x")) + field(12, value("y"));
    const auto opset = field(2, std::uint64_t{13});
    return field(1, std::uint64_t{8}) + field(7, graph) + field(8, opset); // ModelProto
}

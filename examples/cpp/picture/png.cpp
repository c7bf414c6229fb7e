#include "png.hpp"

#include <algorithm>
#include <fstream>
#include <stdexcept>

namespace {

void put(std::string &text, std::uint32_t number) {
    for (int shift = 24; shift >= 0; shift -= 8) {
        text.push_back(static_cast<char>(number >> shift & 255));
    }
}

std::uint32_t crc(const std::string &text) {
    std::uint32_t sum = 0xffffffff;
    for (const char byte : text) {
        sum ^= static_cast<std::uint8_t>(byte);
        for (int bit = 0; bit < 8; ++bit) {
            sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
        }
    }
    return ~sum;
}

void put_chunk(std::string &file, const std::string &kind, const std::string &content) {
    put(file, static_cast<std::uint32_t>(content.size()));
    file += kind + content;
    put(file, crc(kind + content));
}

/// The format of zlib (RFC 1950, 1951), with stored blocks alone.
std::string stored(const std::string &content) {
    constexpr std::size_t most = 65535;
    std::string text = "\x78\x01";
    for (std::size_t at = 0; at < content.size(); at += most) {
        const auto size = std::min(most, content.size() - at);
        const auto flipped = ~size;
        text.push_back(at + size == content.size() ? 1 : 0);
        for (const auto word : {size, flipped}) {
            text.push_back(static_cast<char>(word & 255));
            text.push_back(static_cast<char>(word >> 8 & 255));
        }
        text.append(content, at, size);
    }
    std::uint32_t low = 1, high = 0;
    for (const char byte : content) {
        low = (low + static_cast<std::uint8_t>(byte)) % 65521;
        high = (high + low) % 65521;
    }
    put(text, high << 16 | low);
    return text;
}

} // namespace

void save_png(const std::string &path, const std::vector<std::uint8_t> &pixels, std::size_t rows,
              std::size_t columns) {
    std::string lines, head, file = "\x89PNG\r\n\x1a\n";
    for (std::size_t row = 0; row < rows; ++row) {
        lines.push_back(0); // the row's filter: none
        lines.append(reinterpret_cast<const char *>(pixels.data()) + row * columns, columns);
    }
    put(head, static_cast<std::uint32_t>(columns));
    put(head, static_cast<std::uint32_t>(rows));
    head += std::string("\x08\0\0\0\0", 5); // 8 bits of gray
    put_chunk(file, "IHDR", head);
    put_chunk(file, "IDAT", stored(lines));
    put_chunk(file, "IEND", "");
    std::ofstream out(path, std::ios::binary);
    out << file;
    if (!out.flush()) {
        throw std::runtime_error("cannot write " + path);
    }
}

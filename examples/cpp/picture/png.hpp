// Gray pictures as PNG, without a library.
#ifndef PICTURE_PNG_HPP
#define PICTURE_PNG_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Writes rows of gray pixels. They are stored and not compressed, which PNG allows.
void save_png(const std::string &path, const std::vector<std::uint8_t> &pixels, std::size_t rows,
              std::size_t columns);

#endif

// The dtype of every C++ number, decided at compile time.
#include "check.hpp"

#if __has_include(<stdfloat>)
#include <stdfloat>
#endif

using crossdock::Dtype;

[[maybe_unused]] constexpr Dtype float16 = xd_dtype{2, 16, 1};
[[maybe_unused]] constexpr Dtype bfloat16 = xd_dtype{4, 16, 1};
constexpr Dtype float32 = xd_dtype{2, 32, 1};
constexpr Dtype float64 = xd_dtype{2, 64, 1};

// For compilers without a bfloat16: a class with the size and the precision of a 16-bit float.
template <int lost_bits> class Emulated {
public:
    constexpr explicit Emulated(float value) noexcept
        : steps_(static_cast<std::int16_t>((value - 1.0F) * unit)) {}
    constexpr explicit operator float() const noexcept {
        return 1.0F + static_cast<float>(steps_) / unit;
    }

private:
    // The steps between 1 and 2.
    static constexpr float unit = 1 << (23 - lost_bits);
    std::int16_t steps_;
};
static_assert(crossdock::detail::is_bfloat16<Emulated<16>>());
static_assert(!crossdock::detail::is_bfloat16<Emulated<13>>());

static_assert(Dtype::of<float>() == float32 && Dtype::of<const double>() == float64);
static_assert(Dtype::of<bool>() == xd_dtype{6, 8, 1} && Dtype::of<char>().raw().bits == 8);
static_assert(Dtype::of<std::complex<float>>() == xd_dtype{5, 64, 1});

#if defined(__FLT16_MANT_DIG__)
static_assert(Dtype::of<_Float16>() == float16);
#endif
#if defined(__BFLT16_MANT_DIG__) || (defined(__clang__) && __clang_major__ >= 17)
static_assert(Dtype::of<__bf16>() == bfloat16);
#endif
#if defined(__STDCPP_FLOAT16_T__)
static_assert(Dtype::of<std::float16_t>() == float16);
#endif
#if defined(__STDCPP_BFLOAT16_T__)
static_assert(Dtype::of<std::bfloat16_t>() == bfloat16);
#endif
#if defined(__STDCPP_FLOAT32_T__)
static_assert(Dtype::of<std::float32_t>() == float32);
#endif
#if defined(__STDCPP_FLOAT64_T__)
static_assert(Dtype::of<std::float64_t>() == float64);
#endif

int main() { return 0; }

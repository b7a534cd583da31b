package fovea

import "math"

// Float16 holds the bits of an IEEE 754 binary16: a sign, 5 bits of exponent, 10 of mantissa.
type Float16 uint16

// BFloat16 holds the upper half of a float32: a sign, 8 bits of exponent, 7 of mantissa.
type BFloat16 uint16

// Float16Of rounds to the nearest, ties to even: past the largest number to infinity, below the smallest to zero.
func Float16Of(x float32) Float16 {
	bits := math.Float32bits(x)
	sign, magnitude := Float16(bits>>16&0x8000), bits&0x7fffffff
	switch {
	case magnitude > 0x7f800000: // NaN, which stays quiet
		return sign | 0x7e00 | Float16(magnitude>>13&0x3ff)
	case magnitude >= 0x47800000: // 2^16 and more
		return sign | 0x7c00
	case magnitude < 0x38800000: // less than 2^-14: a multiple of 2^-24, to which adding 1/2 rounds
		return sign | Float16(math.Float32bits(math.Float32frombits(magnitude)+0.5)-0x3f000000)
	}
	return sign | Float16((magnitude-0x38000000+0xfff+magnitude>>13&1)>>13)
}

// Float32 is the same number.
func (h Float16) Float32() float32 {
	sign, magnitude := uint32(h&0x8000)<<16, uint32(h&0x7fff)
	switch {
	case magnitude >= 0x7c00: // infinity and NaN
		return math.Float32frombits(sign | 0x7f800000 | magnitude<<13)
	case magnitude < 0x400:
		return math.Float32frombits(sign | math.Float32bits(float32(magnitude)/(1<<24)))
	}
	return math.Float32frombits(sign | (magnitude<<13 + 0x38000000))
}

// BFloat16Of rounds to the nearest, ties to even.
func BFloat16Of(x float32) BFloat16 {
	bits := math.Float32bits(x)
	if x != x {
		return BFloat16(bits>>16 | 0x40)
	}
	return BFloat16((bits + 0x7fff + bits>>16&1) >> 16)
}

// Float32 is the same number.
func (h BFloat16) Float32() float32 { return math.Float32frombits(uint32(h) << 16) }

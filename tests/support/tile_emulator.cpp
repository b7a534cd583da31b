#include "tile_emulator.hpp"

#if defined(__x86_64__) && defined(__linux__)

// GCC's own AVX-512 intrinsics start from undefined registers, of which it then warns (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <immintrin.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace testing {
namespace {

constexpr int tile_count = 8;
constexpr int most_rows = 16;
constexpr int row_size = 64;

struct Tile {
  alignas(64) uint8_t row[most_rows][row_size];
  int rows, row_bytes;
};

struct Tiles {
  bool configured;
  alignas(64) uint8_t configuration[row_size];
  Tile tile[tile_count];
};

thread_local Tiles tiles;

std::atomic<int64_t> configured{0}, released{0}, loads{0}, stores{0}, products{0}, holders{0};

void release() {
  if (tiles.configured) --holders;
  std::memset(&tiles, 0, sizeof tiles);
}

// A processor would raise an exception. From a signal handler, so without stdio.
[[noreturn]] void refuse(const char *why) {
  const char *parts[] = {"tile emulator: ", why, "\n"};
  for (const char *part : parts) {
    if (write(STDERR_FILENO, part, std::strlen(part)) < 0) break;
  }
  std::abort();
}

// An instruction as decoded: VEX with three bytes, map 0F38.
struct Instruction {
  int prefix;  // 0: none, 1: 66, 2: F3, 3: F2
  int opcode;
  int reg, rm, vvvv;
  bool has_memory;
  uint8_t *address;
  int64_t stride;  // the index register's, scaled
  int length;
};

int64_t register_of(const ucontext_t &context, int number) {
  constexpr int places[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return context.uc_mcontext.gregs[places[number]];
}

// The operand of a ModRM byte, with base, index and displacement.
void decode_memory(const ucontext_t &context, const uint8_t *at, int b, int x, Instruction *instruction) {
  const uint8_t *const modrm = at++;
  const int mod = *modrm >> 6;
  int base = *modrm & 7;
  int64_t address = 0;
  bool has_base = true;
  if (base == 4) {
    const uint8_t sib = *at++;
    const int index = ((sib >> 3) & 7) | x;
    base = sib & 7;
    has_base = base != 5 || mod != 0;
    if (index != 4) instruction->stride = register_of(context, index) * (int64_t{1} << (sib >> 6));
  } else if (base == 5 && mod == 0) {  // relative to what follows the instruction, whose length is known then
    int32_t offset;
    std::memcpy(&offset, at, sizeof offset);
    at += sizeof offset;
    instruction->length += static_cast<int>(at - modrm);
    instruction->address =
        reinterpret_cast<uint8_t *>(context.uc_mcontext.gregs[REG_RIP] + instruction->length + offset);
    return;
  }
  if (has_base) address = register_of(context, base | b);
  if (mod == 1) address += static_cast<int8_t>(*at++);
  if (mod == 2 || !has_base) {
    int32_t offset;
    std::memcpy(&offset, at, sizeof offset);
    at += sizeof offset;
    address += offset;
  }
  instruction->length += static_cast<int>(at - modrm);
  instruction->address = reinterpret_cast<uint8_t *>(address);
}

bool decode(const ucontext_t &context, Instruction *instruction) {
  const auto *code = reinterpret_cast<const uint8_t *>(context.uc_mcontext.gregs[REG_RIP]);
  if (code[0] != 0xc4 || (code[1] & 0x1f) != 2) return false;
  if ((code[2] & 0x84) != 0) return false;  // W0, 128 bits
  const uint8_t modrm = code[4];
  *instruction = {.prefix = code[2] & 3,
                  .opcode = code[3],
                  .reg = (modrm >> 3) & 7,
                  .rm = modrm & 7,
                  .vvvv = ~(code[2] >> 3) & 15,
                  .has_memory = modrm < 0xc0,
                  .address = nullptr,
                  .stride = 0,
                  .length = 4};
  if (instruction->opcode != 0x49 && instruction->opcode != 0x4b && instruction->opcode != 0x5c) return false;
  const int x = (code[1] & 0x40) != 0 ? 0 : 8;
  const int b = (code[1] & 0x20) != 0 ? 0 : 8;
  if (instruction->has_memory) {
    decode_memory(context, code + 4, b, x, instruction);
  } else {
    ++instruction->length;
  }
  return true;
}

Tile &configured_tile(int number) {
  if (!tiles.configured) refuse("a tile is used before ldtilecfg");
  Tile &tile = tiles.tile[number];
  if (tile.rows == 0) refuse("a tile is used that has no rows");
  return tile;
}

void configure(const uint8_t *from) {
  if (from[0] != 1) refuse("ldtilecfg of another palette than 1");
  release();
  for (int t = 0; t < tile_count; ++t) {
    uint16_t row_bytes;
    std::memcpy(&row_bytes, from + 16 + 2 * t, sizeof row_bytes);
    const int rows = from[48 + t];
    if (rows > most_rows || row_bytes > row_size || (rows == 0) != (row_bytes == 0))
      refuse("ldtilecfg of a wrong shape");
    tiles.tile[t].rows = rows;
    tiles.tile[t].row_bytes = row_bytes;
  }
  for (int i = 2; i < 16; ++i) {
    if (from[i] != 0) refuse("ldtilecfg with reserved bytes");
  }
  std::memcpy(tiles.configuration, from, sizeof tiles.configuration);
  tiles.configured = true;
  ++holders;
  ++configured;
}

void load(const Instruction &instruction) {
  Tile &tile = configured_tile(instruction.reg);
  std::memset(tile.row, 0, sizeof tile.row);
  for (int r = 0; r < tile.rows; ++r) {
    std::memcpy(tile.row[r], instruction.address + r * instruction.stride, static_cast<size_t>(tile.row_bytes));
  }
  ++loads;
}

void store(const Instruction &instruction) {
  const Tile &tile = configured_tile(instruction.reg);
  for (int r = 0; r < tile.rows; ++r) {
    std::memcpy(instruction.address + r * instruction.stride, tile.row[r], static_cast<size_t>(tile.row_bytes));
  }
  ++stores;
}

enum class Format { bf16, f16 };

template <Format format>
__attribute__((target("avx512f,avx512bw,avx512vl"))) __m512 widen(__m256i halves) {
  if (format == Format::f16) return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

// For each row two sums, of the first and of the second elements of pairs, each in order from 0, then added to each
// other and to what was there; denormals count as 0 and become 0, but for those of binary16 elements. One rounding a
// step.
template <Format format>
__attribute__((target("avx512f,avx512bw,avx512vl"))) void multiply(Tile &sum, const Tile &a, const Tile &b) {
  for (int m = 0; m < sum.rows; ++m) {
    __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
    for (int k = 0; k < a.row_bytes / 4; ++k) {
      uint16_t pair[2];
      std::memcpy(pair, a.row[m] + 4 * k, sizeof pair);
      const __m512i row = _mm512_load_si512(b.row[k]);
      even = _mm512_fmadd_ps(widen<format>(_mm256_set1_epi16(static_cast<int16_t>(pair[0]))),
                             widen<format>(_mm512_cvtepi32_epi16(row)), even);
      odd = _mm512_fmadd_ps(widen<format>(_mm256_set1_epi16(static_cast<int16_t>(pair[1]))),
                            widen<format>(_mm512_cvtepi32_epi16(_mm512_srli_epi32(row, 16))), odd);
    }
    const __m512 old = _mm512_load_ps(sum.row[m]);
    const __mmask16 lanes = static_cast<__mmask16>((1u << (sum.row_bytes / 4)) - 1);
    _mm512_store_ps(sum.row[m], _mm512_maskz_add_ps(lanes, old, _mm512_add_ps(even, odd)));
  }
}

void multiply(const Instruction &instruction) {
  Tile &sum = configured_tile(instruction.reg);
  const Tile &a = configured_tile(instruction.rm);
  const Tile &b = configured_tile(instruction.vvvv);
  if (&sum == &a || &sum == &b || &a == &b) refuse("a product of tiles that are the same");
  if (sum.rows != a.rows || sum.row_bytes != b.row_bytes || a.row_bytes != 4 * b.rows || sum.row_bytes % 4 != 0) {
    refuse("a product of tiles that do not fit each other");
  }
  const uint32_t mode = _mm_getcsr();
  _mm_setcsr(0x9fc0);  // denormals are 0 on both sides, to nearest, no exceptions
  instruction.prefix == 2 ? multiply<Format::bf16>(sum, a, b) : multiply<Format::f16>(sum, a, b);
  _mm_setcsr(mode);
  ++products;
}

bool execute(const Instruction &instruction) {
  if (instruction.opcode == 0x49 && instruction.prefix == 0 && instruction.has_memory) {
    configure(instruction.address);
  } else if (instruction.opcode == 0x49 && instruction.prefix == 0) {
    release();
    ++released;
  } else if (instruction.opcode == 0x49 && instruction.prefix == 1 && instruction.has_memory) {
    std::memcpy(instruction.address, tiles.configuration, sizeof tiles.configuration);
  } else if (instruction.opcode == 0x49 && instruction.prefix == 3 && !instruction.has_memory) {
    Tile &tile = configured_tile(instruction.reg);
    std::memset(tile.row, 0, sizeof tile.row);
  } else if (instruction.opcode == 0x4b && instruction.prefix == 3 && instruction.has_memory) {
    load(instruction);
  } else if (instruction.opcode == 0x4b && instruction.prefix == 2 && instruction.has_memory) {
    store(instruction);
  } else if (instruction.opcode == 0x5c && instruction.prefix >= 2 && !instruction.has_memory) {
    multiply(instruction);
  } else {
    return false;
  }
  return true;
}

void on_illegal_instruction(int, siginfo_t *, void *where) {
  auto &context = *static_cast<ucontext_t *>(where);
  Instruction instruction;
  if (!decode(context, &instruction) || !execute(instruction)) {
    signal(SIGILL, SIG_DFL);  // comes again, and ends the program
    return;
  }
  context.uc_mcontext.gregs[REG_RIP] += instruction.length;
}

}  // namespace

bool can_emulate_tiles() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
}

void emulate_tiles() {
  struct sigaction action {};
  action.sa_sigaction = on_illegal_instruction;
  // Operands may be bad memory: a second signal in the handler has to show.
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGILL, &action, nullptr);
}

TileCounts tile_counts() { return {configured, released, loads, stores, products, holders}; }

bool has_tiles() {
  alignas(64) uint8_t configuration[row_size];
  __asm__ volatile("sttilecfg %0" : "=m"(configuration));
  return configuration[0] != 0;
}

}  // namespace testing

#else

namespace testing {

bool can_emulate_tiles() { return false; }
void emulate_tiles() {}
TileCounts tile_counts() { return {}; }
bool has_tiles() { return false; }

}  // namespace testing

#endif

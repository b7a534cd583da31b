// The sizes that the letters of the headers stand for, in one call.
#include <algorithm>

#include "choose.hpp"

namespace fuzz {
namespace {

class SizeChooser {
 public:
  SizeChooser(const Maker &maker, Frame &frame) : choices_(maker.choices), plain_(maker.plain), frame_(frame) {}

  SizeChoice choose(const std::vector<const int *> &equal) {
    choose_sizes(equal);
    return choice_;
  }

 private:
  uint64_t one_size() {
    switch (choice_.size_class) {
      case 0: return 1 + choices_.below(4);
      case 1: return choices_.below(9);
      case 2: return 1 + choices_.below(24);
      case 4: return choices_.chance(24) ? 33 + choices_.below(130) : 1 + choices_.below(3);
      case huge_class: {
        constexpr uint64_t sizes[] = {0, 1, 2, 0, 1, uint64_t{1} << 30, uint64_t{1} << 40, uint64_t{1} << 56};
        return choices_.pick(sizes);
      }
      default: return 2 * (1 + choices_.below(3));
    }
  }
  // Which sizes are the same: 0: those that begin with the same letter; 1: none has to be; 2: all.
  void choose_sizes(const std::vector<const int *> &equal) {
    choice_.size_class = static_cast<int>(choices_.below(plain_ ? 5 : 6));
    const uint8_t alike = choices_.byte();
    const size_t how = alike < 128 ? 0 : alike < 192 ? 1 : 2;
    Sizes &sizes = frame_.sizes;
    const uint64_t common = one_size();
    for (size_t n = 0; n < tables.symbol_count; ++n) {
      if (sizes.bound[n]) continue;
      uint64_t size = how == 2 ? common : one_size();
      for (size_t other = 0; how == 0 && other < tables.symbol_count; ++other) {
        if (tables.symbols[other][0] == tables.symbols[n][0] && (other < n || sizes.bound[other])) {
          size = sizes.value[other];
          break;
        }
      }
      sizes.value[n] = size;
    }
    const int heads = symbol_named("H"), shared = symbol_named("Hkv"), batch = symbol_named("B");
    if (heads >= 0 && shared >= 0) {
      const auto h = static_cast<size_t>(heads), k = static_cast<size_t>(shared);
      if (!sizes.bound[k] && !sizes.bound[h]) sizes.value[k] = std::max<uint64_t>(sizes.value[k], 1);
      if (!sizes.bound[h]) sizes.value[h] = sizes.value[k] * (how == 2 ? 1 : 1 + choices_.below(3));  // may wrap around
    }
    const int pairs = symbol_named("P"),
              features = symbol_named("D");  // of rotary: P = rotary_dim / 2, which is D at most
    if (pairs >= 0 && features >= 0) {
      sizes.value[static_cast<size_t>(pairs)] = sizes.value[static_cast<size_t>(features)] / 2;
    }
    for (const int *equal : equal)
      sizes.value[static_cast<size_t>(equal[1])] = sizes.value[static_cast<size_t>(equal[0])];
    for (size_t more = choices_.below(4); more-- > 0;) {
      sizes.more.push_back(static_cast<int64_t>(choice_.size_class == 1 ? choices_.below(4) : 1 + choices_.below(3)));
    }
    choose_form(batch, heads, shared);
  }

  // Attention's tensors may come without heads, or without batch and heads.
  void choose_form(int batch, int heads, int shared) {
    bool ellipsis = false;
    for (const Node &node : frame_.arguments) {
      for (size_t n = 0; n < node.slot->shape_count; ++n) {
        const Shape &shape = node.slot->shapes[n];
        choice_.with_heads = choice_.with_heads || begins(shape, batch, heads);
        for (size_t axis = 0; axis < shape.count; ++axis) {
          ellipsis = ellipsis || shape.axes[axis].size == nullptr;
          choice_.batches = choice_.batches || (shape.axes[axis].size == nullptr && shape.count > 1);
        }
      }
    }
    Sizes &sizes = frame_.sizes;
    if (batch < 0) return;
    if (ellipsis) {
      sizes.value[static_cast<size_t>(batch)] = sizes.more.empty() ? 1 : static_cast<uint64_t>(sizes.more[0]);
      return;
    }
    const uint8_t form = choices_.byte();
    choice_.form = form < 176 ? 0 : form < 208 && choice_.with_heads ? 1 : 2;
    if (choice_.form != 0 && choice_.with_heads)
      sizes.value[static_cast<size_t>(heads)] = sizes.value[static_cast<size_t>(shared)] = 1;
    if (choice_.form == 2) sizes.value[static_cast<size_t>(batch)] = 1;
  }

  static bool begins(const Shape &shape, int first, int second) {
    return shape.count >= 2 && shape.axes[0].symbol == first && shape.axes[1].symbol == second;
  }

  Choices &choices_;
  const bool plain_;
  Frame &frame_;
  SizeChoice choice_;
};

}  // namespace

SizeChoice choose_sizes(const Maker &maker, Frame &frame, const std::vector<const int *> &equal) {
  return SizeChooser(maker, frame).choose(equal);
}

}  // namespace fuzz

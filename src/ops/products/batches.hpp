// The operands of a product of several matrices, [...,M,K] x [...,K,N], whose axes before the last two are missing, or
// of size 1, where one matrix serves all.
#pragma once

#include "fovea/fovea.h"

namespace fovea {

// As products with one such axis: one, where out's two become one for all operands, else as many as out's first axis
// has.
class Batches {
 public:
  // added: null, or what is added to out, whose rows and columns may be missing or 1, too.
  Batches(const fovea_tensor &a, const fovea_tensor &b, const fovea_tensor &out, const fovea_tensor *added);

  int64_t count() const { return count_; }
  // The operands of one product, of rank 3; what repeats has strides of 0.
  fovea_tensor a(int64_t outer) const { return part(a_, outer); }
  fovea_tensor b(int64_t outer) const { return part(b_, outer); }
  fovea_tensor out(int64_t outer) const { return part(out_, outer); }
  fovea_tensor added(int64_t outer) const { return part(added_, outer); }

 private:
  fovea_tensor part(const fovea_tensor &operand, int64_t outer) const;

  fovea_tensor a_, b_, out_, added_;  // of rank 4
  int64_t count_;
  int inner_axis_;  // the axis that a product keeps
  int64_t inner_size_;
};

}  // namespace fovea

// What rotary refuses of the options that today's models need: wrong tensors, and pairs of options that contradict each
// other.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "errors.hpp"
#include "support/contexts.hpp"
#include "support/tensor.hpp"

using namespace testing;

namespace {

// A call on x [2,3,8] with all tensors at hand, each good where it belongs; nothing may be written.
struct Setting {
  Tensor<float> x{Shape{2, 3, 8}}, out{Shape{2, 3, 8}};
  Tensor<float> frequencies{Shape{4}}, by_position{Shape{5, 4}}, by_row{Shape{2, 3, 4}};
  Tensor<int32_t> positions{Shape{2, 3}}, section_positions{Shape{3, 2, 3}}, sections{Shape{4}};
  fovea_tensor frequencies_view = frequencies.view(), by_position_view = by_position.view();
  fovea_tensor by_row_view = by_row.view(), positions_view = positions.view();
  fovea_tensor section_positions_view = section_positions.view(), sections_view = sections.view();

  Setting() {
    for (Tensor<float> *tensor : {&x, &frequencies, &by_position, &by_row}) tensor->fill([] { return 0.5f; });
    for (Tensor<int32_t> *tensor : {&positions, &section_positions, &sections}) tensor->fill([] { return 1; });
  }

  using Spoil = std::function<void(fovea_rotary_options &)>;

  fovea_status run(const Spoil &spoil) const {
    fovea_rotary_options options{};
    options.struct_size = sizeof options;
    spoil(options);
    const fovea_tensor from = x.view(), to = out.view();
    return fovea_rotary(nullptr, &from, &to, &options);
  }

  void refuse(fovea_status expected, std::initializer_list<std::string> words, const Spoil &spoil) const {
    check_refusal(run(spoil), expected, words);
    CHECK(out.untouched());
  }

  // A tensor spoilt in one way, where a good one would be taken.
  void refuse_tensor(const char *name, const fovea_tensor *fovea_rotary_options::*member, const fovea_tensor &good,
                     const Spoil &rest) const {
    const auto with = [&](const fovea_tensor &tensor) -> Spoil {
      return [&rest, member, tensor = &tensor](fovea_rotary_options &options) {
        rest(options);
        options.*member = tensor;
      };
    };
    fovea_tensor bad = good;
    bad.data = nullptr;
    refuse(FOVEA_NULL_POINTER, {std::string(name) + ".data"}, with(bad));
    bad = good;
    bad.dtype = FOVEA_BOOL;
    refuse(FOVEA_BAD_DTYPE, {std::string(name) + " has dtype"}, with(bad));
    for (const int32_t rank : {-1, 0, 5}) {
      bad = good;
      bad.rank = rank;
      refuse(FOVEA_BAD_RANK, {name, std::to_string(rank)}, with(bad));
    }
    bad = good;
    ++bad.shape[bad.rank - 1];
    bad.strides[bad.rank - 1] = 0;
    refuse(bad.rank > 1 && good.dtype == FOVEA_F32 ? FOVEA_BAD_STRIDE : FOVEA_BAD_SHAPE, {name}, with(bad));
    bad = good;
    bad.strides[0] = INT64_MAX;
    refuse(FOVEA_SIZE_OVERFLOW, {name}, with(bad));
    bad = good;
    bad.data = out.data();
    refuse(FOVEA_OVERLAP, {"out", name}, with(bad));
  }
};

}  // namespace

TEST_SUITE("positions") {
  TEST_CASE("errors: rotary's tensors, each spoilt") {
    const Setting s;
    s.refuse_tensor("frequencies", &fovea_rotary_options::frequencies, s.frequencies_view, [](auto &) {});
    s.refuse_tensor("sections", &fovea_rotary_options::sections, s.sections_view,
                    [&](auto &o) { o.positions = &s.section_positions_view; });
    s.refuse_tensor("positions", &fovea_rotary_options::positions, s.section_positions_view,
                    [&](auto &o) { o.sections = &s.sections_view; });
    s.refuse_tensor("cosines", &fovea_rotary_options::cosines, s.by_position_view,
                    [&](auto &o) { o.sines = &s.by_position_view; });
    s.refuse_tensor("sines", &fovea_rotary_options::sines, s.by_position_view,
                    [&](auto &o) { o.cosines = &s.by_position_view; });
    s.refuse_tensor("cosines", &fovea_rotary_options::cosines, s.by_row_view,
                    [&](auto &o) { o.sines = &s.by_row_view; });
  }

  TEST_CASE("errors: rotary's tensors, sizes") {
    const Setting s;
    const Tensor<float> three(Shape{3});
    const fovea_tensor three_view = three.view();
    s.refuse(FOVEA_BAD_SHAPE, {"frequencies.shape[0]", "3", "4", "rotary_dim / 2"},
             [&](auto &o) { o.frequencies = &three_view; });
    s.refuse(FOVEA_BAD_SHAPE, {"frequencies.shape[0]", "4", "3", "rotary_dim / 2"},
             [&](auto &o) { o.frequencies = &s.frequencies_view, o.rotary_dim = 6; });
    s.refuse(FOVEA_BAD_SHAPE, {"sections.shape[0]", "4", "3"}, [&](auto &o) {
      o.sections = &s.sections_view, o.positions = &s.section_positions_view, o.rotary_dim = 6;
    });
    s.refuse(FOVEA_BAD_SHAPE, {"cosines.shape[1]", "4", "3"},
             [&](auto &o) { o.cosines = o.sines = &s.by_position_view, o.rotary_dim = 6; });
    for (const int axis : {0, 1}) {
      fovea_tensor bad = s.by_row_view;
      --bad.shape[axis];
      s.refuse(FOVEA_BAD_SHAPE, {"cosines.shape[" + std::to_string(axis) + "]"},
               [&](auto &o) { o.cosines = o.sines = &bad; });
      s.refuse(FOVEA_BAD_SHAPE, {"sines.shape[" + std::to_string(axis) + "]", "cosines' size"},
               [&](auto &o) { o.cosines = &s.by_row_view, o.sines = &bad; });
      fovea_tensor positions = s.section_positions_view;
      --positions.shape[axis + 1];
      s.refuse(FOVEA_BAD_SHAPE, {"positions.shape[" + std::to_string(axis + 1) + "]"},
               [&](auto &o) { o.sections = &s.sections_view, o.positions = &positions; });
    }
    s.refuse(FOVEA_BAD_RANK, {"sines", "3", "2"},
             [&](auto &o) { o.cosines = &s.by_position_view, o.sines = &s.by_row_view; });
    s.refuse(FOVEA_BAD_RANK, {"positions", "3"}, [&](auto &o) { o.positions = &s.section_positions_view; });
    fovea_tensor one_axis = s.positions_view;
    one_axis.rank = 1;
    s.refuse(FOVEA_BAD_RANK, {"positions has rank 1", "options.sections"},
             [&](auto &o) { o.sections = &s.sections_view, o.positions = &one_axis; });
  }

  TEST_CASE("errors: rotary's options that contradict each other") {
    const Setting s;
    const auto table = [&](auto &o) { o.cosines = o.sines = &s.by_position_view; };
    const auto rows = [&](auto &o) { o.cosines = o.sines = &s.by_row_view; };
    REQUIRE_OK(Setting().run([&](auto &o) { table(o); }));
    REQUIRE_OK(Setting().run([&](auto &o) { rows(o); }));
    s.refuse(FOVEA_NULL_POINTER, {"options.sines is NULL", "options.cosines"},
             [&](auto &o) { o.cosines = &s.by_row_view; });
    s.refuse(FOVEA_NULL_POINTER, {"options.cosines is NULL", "options.sines"},
             [&](auto &o) { o.sines = &s.by_row_view; });
    s.refuse(FOVEA_BAD_OPTION, {"options.frequencies", "options.cosines"},
             [&](auto &o) { table(o), o.frequencies = &s.frequencies_view; });
    s.refuse(FOVEA_BAD_VALUE, {"options.base", "500000", "options.frequencies"},
             [&](auto &o) { o.frequencies = &s.frequencies_view, o.base = 500000; });
    s.refuse(FOVEA_BAD_VALUE, {"options.base", "500", "options.cosines"}, [&](auto &o) { table(o), o.base = 500; });
    s.refuse(FOVEA_BAD_VALUE, {"options.position_scale", "0.5", "options.cosines"},
             [&](auto &o) { table(o), o.position_scale = 0.5f; });
    s.refuse(FOVEA_NULL_POINTER, {"options.positions is NULL", "options.sections"},
             [&](auto &o) { o.sections = &s.sections_view; });
    s.refuse(FOVEA_BAD_OPTION, {"options.positions", "options.cosines of rank 3"},
             [&](auto &o) { rows(o), o.positions = &s.positions_view; });
    s.refuse(FOVEA_BAD_VALUE, {"options.offset", "7", "options.cosines of rank 3"},
             [&](auto &o) { rows(o), o.offset = 7; });
  }

  TEST_CASE("errors: rotary's values") {
    Setting s;
    for (const float bad : {kInfinity, -kInfinity, kNan}) {
      s.refuse(FOVEA_BAD_VALUE, {"options.attention_factor", "finite"}, [&](auto &o) { o.attention_factor = bad; });
      s.frequencies(2) = bad;
      s.refuse(FOVEA_BAD_VALUE, {"frequencies[2]", "finite"}, [&](auto &o) { o.frequencies = &s.frequencies_view; });
    }
    s.refuse(FOVEA_BAD_OPTION, {"options.reserved_tail", "1"}, [](auto &o) { o.reserved_tail = 1; });
    // At position 2^30, 16 radians for each are the most.
    for (const float most : {16.0f, -16.0f}) {
      const auto at_the_end = [&](auto &o) { o.frequencies = &s.frequencies_view, o.offset = (int64_t{1} << 30) - 2; };
      s.frequencies(2) = most;
      REQUIRE_OK(Setting().run(at_the_end));
      s.frequencies(2) = std::nextafter(most, 2 * most);
      s.refuse(FOVEA_BAD_VALUE, {"frequencies[2]", "2^34", "position 1073741824"}, at_the_end);
    }
    const auto with_sections = [&](auto &o) { o.sections = &s.sections_view, o.positions = &s.section_positions_view; };
    for (const int32_t bad : {-1, 3, INT32_MAX, INT32_MIN}) {
      s.sections(2) = bad;
      s.refuse(FOVEA_BAD_VALUE, {"sections[2]", std::to_string(bad), "0 to 2"}, with_sections);
    }
    s.sections(2) = 2;
    for (const int32_t bad : {-1, INT32_MIN, (1 << 30) + 1}) {
      s.section_positions(2, 1, 2) = bad;
      s.refuse(FOVEA_BAD_VALUE, {"positions[2][1,2]", std::to_string(bad)}, with_sections);
    }
    s.section_positions(2, 1, 2) = 5;
    s.refuse(FOVEA_BAD_VALUE, {"positions[2][1,2] is 5", "0 to 4"},
             [&](auto &o) { with_sections(o), o.cosines = o.sines = &s.by_position_view; });
    s.positions(1, 0) = 5;
    s.refuse(FOVEA_BAD_VALUE, {"positions[1,0] is 5", "0 to 4"},
             [&](auto &o) { o.positions = &s.positions_view, o.cosines = o.sines = &s.by_position_view; });
    s.refuse(FOVEA_BAD_SHAPE, {"cosines.shape[0] is 5", "at least 6", "offset"},
             [&](auto &o) { o.offset = 3, o.cosines = o.sines = &s.by_position_view; });
  }
}

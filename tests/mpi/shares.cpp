// Which positions a rank has, copies of shares and back, beside the definition of each order; and what travels.
#include <doctest/doctest.h>

#include "narrow.hpp"
#include "ranks.hpp"

namespace testing {
namespace {

constexpr int32_t kOrders3[] = {FOVEA_MPI_CONTIGUOUS, FOVEA_MPI_ZIGZAG, FOVEA_MPI_STRIPED};

// positions_of_ranks as if there were so many ranks.
std::vector<RankPositions> defined(int32_t order, int64_t length, int ranks) {
  std::vector<int64_t> lengths(static_cast<size_t>(ranks), length / ranks);
  for (int64_t r = 0; r < length % ranks; ++r) ++lengths[static_cast<size_t>(r)];
  return positions_of_ranks(order, lengths);
}

}  // namespace

TEST_SUITE_BEGIN("shares");

TEST_CASE("lengths and positions of each rank, in each order") {
  for (const int32_t order : kOrders3) {
    for (const int ranks : {1, 2, 3, 5, 8}) {
      for (const int64_t length : {0, 1, 2, 7, 16, 31, 40}) {
        const std::vector<RankPositions> expected = defined(order, length, ranks);
        for (int rank = 0; rank < ranks; ++rank) {
          CAPTURE(order);
          CAPTURE(ranks);
          CAPTURE(length);
          const Positions all = expected[static_cast<size_t>(rank)].all();
          int64_t count = -1;
          REQUIRE_EQ(fovea_mpi_share_length(order, length, ranks, rank, &count), FOVEA_OK);
          REQUIRE_EQ(count, static_cast<int64_t>(all.size()));
          Positions positions(all.size(), -1);
          REQUIRE_EQ(fovea_mpi_positions(order, length, ranks, rank, positions.data()), FOVEA_OK);
          CHECK(positions == all);
        }
      }
    }
  }
}

TEST_CASE("a share is taken out of the whole and put back, along any axis") {
  Random random(base_seed());
  for (const int32_t order : kOrders3) {
    for (int32_t axis = 0; axis < 3; ++axis) {
      const Shape shape = {13, 11, 9};
      Tensor<float> whole(shape, permuted_strides(shape, {2, 0, 1}, 2)), again(shape);
      whole.fill_normal(random);
      const int ranks = 4;
      for (int rank = 0; rank < ranks; ++rank) {
        const Positions places =
            defined(order, shape[static_cast<size_t>(axis)], ranks)[static_cast<size_t>(rank)].all();
        Shape part = shape;
        part[static_cast<size_t>(axis)] = static_cast<int64_t>(places.size());
        Tensor<float> share(part, permuted_strides(part, {0, 1, 2}, 1));
        const fovea_tensor whole_view = whole.view(), share_view = share.view(), again_view = again.view();
        REQUIRE_EQ(fovea_mpi_share(order, ranks, rank, axis, &whole_view, &share_view), FOVEA_OK);
        bool right = true;
        for_each_index(part, [&](const Shape &index) {
          Shape at = index;
          at[static_cast<size_t>(axis)] = places[static_cast<size_t>(index[static_cast<size_t>(axis)])];
          right = right && share.at(index) == whole.at(at);
        });
        CHECK(right);
        CHECK(share.gaps_untouched());
        REQUIRE_EQ(fovea_mpi_unshare(order, ranks, rank, axis, &share_view, &again_view), FOVEA_OK);
      }
      CHECK(same_bits(whole, again));
    }
  }
}

TEST_CASE("shares: what is refused, with nothing written") {
  const Tensor<float> whole(Shape{6, 4}), share(Shape{3, 4}), long_one(Shape{4, 4}), deep(Shape{3, 4, 1});
  const fovea_tensor w = whole.view(), s = share.view();
  int64_t count = 77;
  const auto says = [&](fovea_status got, fovea_status expected, const char *words) {
    CAPTURE(words);
    CHECK_EQ(got, expected);
    CHECK_MESSAGE(std::string(fovea_mpi_last_error()).find(words) != std::string::npos, fovea_mpi_last_error());
    CHECK(share.untouched());
    CHECK_EQ(count, 77);
  };
  says(fovea_mpi_share_length(3, 6, 2, 0, &count), FOVEA_BAD_VALUE, "order is 3");
  says(fovea_mpi_share_length(0, -1, 2, 0, &count), FOVEA_BAD_VALUE, "length is -1");
  says(fovea_mpi_share_length(0, (int64_t{1} << 30) + 1, 2, 0, &count), FOVEA_BAD_VALUE, "length is 1073741825");
  says(fovea_mpi_share_length(0, 6, 0, 0, &count), FOVEA_BAD_VALUE, "ranks is 0");
  says(fovea_mpi_share_length(0, 6, 2, 2, &count), FOVEA_BAD_VALUE, "rank is 2");
  says(fovea_mpi_share_length(0, 6, 2, 0, nullptr), FOVEA_NULL_POINTER, "share_length is NULL");
  says(fovea_mpi_positions(0, 6, 2, 0, nullptr), FOVEA_NULL_POINTER, "positions is NULL");
  says(fovea_mpi_share(0, 2, 0, 0, nullptr, &s), FOVEA_NULL_POINTER, "whole is NULL");
  says(fovea_mpi_share(0, 2, 0, 0, &w, nullptr), FOVEA_NULL_POINTER, "share is NULL");
  says(fovea_mpi_share(0, 2, 0, 2, &w, &s), FOVEA_BAD_VALUE, "axis is 2");
  says(fovea_mpi_share(0, 2, 2, 0, &w, &s), FOVEA_BAD_VALUE, "rank is 2");
  fovea_tensor wrong = long_one.view();
  says(fovea_mpi_share(0, 2, 0, 0, &w, &wrong), FOVEA_BAD_SHAPE, "share.shape[0] is 4, expected 3 of whole's 6");
  wrong = deep.view();
  says(fovea_mpi_share(0, 2, 0, 0, &w, &wrong), FOVEA_BAD_RANK, "share has rank 3");
  wrong = s;
  wrong.dtype = FOVEA_I32;
  says(fovea_mpi_share(0, 2, 0, 0, &w, &wrong), FOVEA_BAD_DTYPE, "share has dtype FOVEA_I32");
  wrong.dtype = 99;
  says(fovea_mpi_share(0, 2, 0, 0, &w, &wrong), FOVEA_BAD_DTYPE, "share has dtype 99");
  wrong = s;
  wrong.data = nullptr;
  says(fovea_mpi_share(0, 2, 0, 0, &w, &wrong), FOVEA_NULL_POINTER, "share.data is NULL");
  wrong = s;
  wrong.data = w.data;
  says(fovea_mpi_share(0, 2, 0, 0, &w, &wrong), FOVEA_OVERLAP, "share overlaps");
  wrong = s;
  wrong.strides[0] = 0;
  says(fovea_mpi_share(0, 2, 0, 0, &w, &wrong), FOVEA_BAD_STRIDE, "share's strides");
  wrong = s;
  wrong.shape[1] = -4;
  says(fovea_mpi_share(0, 2, 0, 0, &w, &wrong), FOVEA_BAD_SHAPE, "share.shape[1] is -4");
  wrong = w;
  wrong.strides[0] = INT64_MAX / 2;
  says(fovea_mpi_share(0, 2, 0, 0, &wrong, &s), FOVEA_SIZE_OVERFLOW, "whole's shape and strides");
}

TEST_SUITE_END();

}  // namespace testing

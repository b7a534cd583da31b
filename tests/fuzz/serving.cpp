// Steps of sequences over pages of any type: what is appended to them, and what is attended. The tables do not describe
// these calls, whose numbers depend on each other, so they are made here: pages in any order, place and strides, steps
// with and without what has to be refused.
#include "by_hand.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>

#include "compare.hpp"
#include "placing.hpp"
#include "scaled.hpp"

namespace fuzz {
namespace {

constexpr fovea_dtype float_types[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16};
constexpr int64_t shared_by = 32;  // features that share a scale, where rows have several groups

int64_t paired(fovea_dtype dtype) { return dtype == FOVEA_U8 ? 2 : 1; }

struct Destroy {
  void operator()(fovea_schedule *schedule) const { fovea_schedule_destroy(schedule); }
};
using Schedule = std::unique_ptr<fovea_schedule, Destroy>;

class Serving {
 public:
  Serving(Memory &memory, Choices &choices) : choices_(choices), placer_(memory, choices) {}

  void run() {
    choose_sizes();
    const Sides keys = make_side(dim_, key_type_), values = make_side(value_dim_, value_type_);
    const size_t set = choices_.below(sets().names.size());
    const Schedule first = make(set, choices_.below(turns), keys, values),
                   other = make(set, choices_.below(turns), keys, values);
    choose_step();
    set_step(first.get());
    set_step(other.get());
    append(first.get(), keys, values);
    attend(first.get(), other.get(), set, keys, values);
    if (!placer_.marks_intact()) wrong("memory beside a tensor was changed");
  }

 private:
  struct Sides {
    int64_t dim;
    fovea_dtype dtype;
    Placed pages, scales;
    const fovea_tensor *given_scales() const { return is_scaled(dtype) ? &scales.view : nullptr; }
  };

  [[noreturn]] void wrong(const std::string &what) const {
    std::ostringstream text;
    text << what << "\n  " << sequences_ << " sequences, " << kv_heads_ << " heads of " << group_ << ", keys of "
         << dim_ << " and type " << key_type_ << ", values of " << value_dim_ << " and type " << value_type_ << ", "
         << pages_ << " pages of " << page_size_ << "\n  key_lens";
    for (const int64_t number : key_lens_) text << ' ' << number;
    text << "; query_starts";
    for (const int64_t number : query_starts_) text << ' ' << number;
    std::fflush(stdout);
    std::fprintf(stderr, "\nFAILED: steps: %s\n%s\n", text.str().c_str(), fovea_last_error());
    abort();
  }
  void expect(fovea_status status, const char *what) const {
    if (status != FOVEA_OK) wrong(std::string(what) + " is refused");
  }

  // ---- tensors ------------------------------------------------------------------------------------------------------

  void choose_sizes() {
    constexpr int64_t key_dims[] = {64, 8, 16, 32, 40, 48, 96, 128}, value_dims[] = {32, 64, 96, 128};
    constexpr fovea_dtype keys[] = {FOVEA_I8, FOVEA_F32, FOVEA_F16, FOVEA_BF16},
                          values[] = {FOVEA_U8, FOVEA_U8, FOVEA_I8, FOVEA_F32, FOVEA_F16};
    kv_heads_ = 1 + static_cast<int64_t>(choices_.below(2));
    group_ = 1 + static_cast<int64_t>(choices_.below(4));
    sequences_ = 1 + static_cast<int64_t>(choices_.below(3));
    page_size_ = 1 + static_cast<int64_t>(choices_.below(20));
    pages_ = sequences_ * (1 + static_cast<int64_t>(choices_.below(4))) + static_cast<int64_t>(choices_.below(3));
    dim_ = choices_.pick(key_dims);
    value_dim_ = choices_.pick(value_dims);
    key_type_ = choices_.pick(keys);
    value_type_ = choices_.pick(values);
    several_groups_ = choices_.chance(128);
    page_size_ = std::min(page_size_, in_block(pages_ * kv_heads_));
  }

  // So many rows as lie in a block, `times` of them at a time.
  int64_t in_block(int64_t times) const {
    const int64_t most = std::max(dim_, value_dim_) + 4;  // elements with what lies behind them
    return static_cast<int64_t>(block_capacity / sizeof(float)) / (times * most);
  }

  int64_t scales_of_row(int64_t dim, fovea_dtype dtype) const {
    const bool several = several_groups_ && dim % shared_by == 0;
    return paired(dtype) * (several ? dim / shared_by : 1);
  }

  Sides make_side(int64_t dim, fovea_dtype dtype) {
    constexpr size_t orders[][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {1, 0, 2, 3}, {2, 1, 0, 3}};
    const auto order = [&] {
      const size_t *chosen = orders[choices_.below(std::size(orders))];
      return std::vector<size_t>(chosen, chosen + 4);
    };
    Sides side = {dim, dtype, placer_.place({pages_, kv_heads_, page_size_, dim / paired(dtype)}, dtype, order()), {}};
    if (is_scaled(dtype)) {
      side.scales = placer_.place({pages_, kv_heads_, page_size_, scales_of_row(dim, dtype)}, FOVEA_F16, order());
    }
    return side;
  }

  // ---- schedules ----------------------------------------------------------------------------------------------------

  int64_t most_keys() const { return pages_ * page_size_; }
  static fovea_attention_options invariant() {
    fovea_attention_options options{};
    options.struct_size = sizeof options;
    options.flags = FOVEA_CAUSAL | FOVEA_QUERY_INVARIANT;
    return options;
  }

  Schedule make(size_t set, size_t turn, const Sides &keys, const Sides &values) {
    const int64_t heads = kv_heads_ * group_, most = sequences_ * most_keys();
    const int64_t q_shape[] = {most, heads, dim_}, o_shape[] = {most, heads, value_dim_};
    const fovea_tensor query = fovea_tensor_contiguous(nullptr, FOVEA_F32, 3, q_shape),
                       out = fovea_tensor_contiguous(nullptr, FOVEA_F32, 3, o_shape);
    fovea_attention_options options = invariant();
    options.key_scales = keys.given_scales();
    options.value_scales = values.given_scales();
    fovea_schedule_limits limits{};
    limits.struct_size = sizeof limits;
    limits.sequences = sequences_;
    limits.page_ids = pages_;
    const auto create = [&](fovea_schedule **made) {
      return fovea_schedule_create(sets().contexts[set][turn], nullptr, &query, &keys.pages.view, &values.pages.view,
                                   &out, &options, &limits, made);
    };
    refuse_other_scales(options, create);
    fovea_schedule *made = nullptr;
    expect(create(&made), "a schedule");
    return Schedule(made);
  }

  // Scales that are missing, of other sizes or where there are none to be.
  template <class Create>
  void refuse_other_scales(fovea_attention_options &options, const Create &create) {
    const fovea_attention_options good = options;
    const fovea_tensor *const given = options.value_scales;
    fovea_tensor other{};
    if (given != nullptr) other = *given;
    switch (choices_.below(6)) {
      case 0: options.value_scales = given == nullptr ? options.key_scales : nullptr; break;
      case 1: options.value_scales = given == nullptr ? nullptr : &other, ++other.shape[choices_.below(3)]; break;
      case 2: options.value_scales = given == nullptr ? nullptr : &other, other.dtype = FOVEA_F32; break;
      default: return;
    }
    fovea_schedule *const before = reinterpret_cast<fovea_schedule *>(Memory::forbidden());
    fovea_schedule *made = before;
    const bool changed = options.value_scales != good.value_scales;
    if (changed && (create(&made) == FOVEA_OK || made != before)) wrong("a schedule of other scales is not refused");
    options = good;
  }

  // ---- steps --------------------------------------------------------------------------------------------------------

  void choose_step() {
    std::vector<int64_t> order(static_cast<size_t>(pages_));
    for (size_t n = 0; n < order.size(); ++n) order[n] = static_cast<int64_t>(n);
    for (size_t n = order.size(); n > 1; --n) std::swap(order[n - 1], order[placer_.noise().below(n)]);
    const int64_t of_each = pages_ / sequences_;
    query_starts_ = page_starts_ = {0};
    for (int64_t s = 0; s < sequences_; ++s) {
      const auto room = static_cast<uint64_t>(of_each * page_size_);
      const auto key_len = static_cast<int64_t>(choices_.below(static_cast<size_t>(room) + 1));
      const size_t most =
          choices_.chance(64) ? static_cast<size_t>(key_len) : std::min<size_t>(static_cast<size_t>(key_len), 4);
      key_lens_.push_back(key_len);
      const int64_t room_for = in_block(kv_heads_ * group_) / sequences_;
      query_starts_.push_back(query_starts_.back() +
                              std::min(static_cast<int64_t>(choices_.below(most + 1)), room_for));
      const int64_t count = (key_len + page_size_ - 1) / page_size_;
      page_ids_.insert(page_ids_.end(), order.begin() + s * of_each, order.begin() + s * of_each + count);
      page_starts_.push_back(static_cast<int64_t>(page_ids_.size()));
    }
  }
  int64_t tokens() const { return query_starts_.back(); }

  fovea_status set(fovea_schedule *schedule) const {
    const auto tensor = [](const std::vector<int64_t> &numbers) {
      const auto count = static_cast<int64_t>(numbers.size());
      return fovea_tensor_contiguous(numbers.data(), FOVEA_I64, 1, &count);
    };
    const fovea_tensor queries = tensor(query_starts_), keys = tensor(key_lens_), ids = tensor(page_ids_),
                       starts = tensor(page_starts_);
    fovea_step step{};
    step.struct_size = sizeof step;
    step.query_starts = &queries;
    step.key_lens = &keys;
    step.page_ids = &ids;
    step.page_starts = &starts;
    return fovea_schedule_set(schedule, &step);
  }

  void set_step(fovea_schedule *schedule) {
    expect(set(schedule), "a step");
    const size_t workspace = fovea_schedule_workspace_size(schedule);
    constexpr int64_t odd[] = {-1, INT64_MIN, INT64_MAX, int64_t{1} << 31, int64_t{1} << 40};
    std::vector<int64_t> *const lists[] = {&query_starts_, &key_lens_, &page_ids_, &page_starts_};
    std::vector<int64_t> &list = *lists[choices_.below(4)];
    if (list.empty() || !choices_.chance(96)) return;
    int64_t &number = list[choices_.below(list.size())];
    const int64_t good = number;
    number = &list == &page_ids_ && choices_.chance(64) ? pages_ : choices_.pick(odd);
    if (set(schedule) == FOVEA_OK) wrong("a step with " + std::to_string(number) + " in it is not refused");
    number = good;
    if (fovea_schedule_workspace_size(schedule) != workspace) wrong("a step that was refused is there");
  }

  // ---- what is appended ---------------------------------------------------------------------------------------------

  // Where a row of a head lies.
  static uint8_t *row(const Placed &pages, int64_t page, int64_t head, int64_t at) {
    const fovea_tensor &view = pages.view;
    return static_cast<uint8_t *>(view.data) +
           (page * view.strides[0] + head * view.strides[1] + at * view.strides[2]) *
               static_cast<int64_t>(element_size(view.dtype));
  }
  int64_t page_of(size_t s, int64_t position) const {
    return page_ids_[static_cast<size_t>(page_starts_[s] + position / page_size_)];
  }

  // A sequence's rows behind each other, [Hkv,count,...].
  std::vector<uint8_t> gather(const Placed &pages, size_t s, int64_t first, int64_t count) const {
    const size_t size = static_cast<size_t>(pages.view.shape[3]) * element_size(pages.view.dtype);
    std::vector<uint8_t> rows;
    for (int64_t head = 0; head < kv_heads_; ++head) {
      for (int64_t at = first; at < first + count; ++at) {
        const uint8_t *from = row(pages, page_of(s, at), head, at % page_size_);
        rows.insert(rows.end(), from, from + size);
      }
    }
    return rows;
  }

  void append(const fovea_schedule *schedule, const Sides &keys, const Sides &values) {
    const Placed key = placer_.place({tokens(), kv_heads_, dim_}, choices_.pick(float_types)),
                 value = placer_.place({tokens(), kv_heads_, value_dim_}, choices_.pick(float_types));
    fovea_append_options options{};
    options.struct_size = sizeof options;
    options.key_scales = keys.given_scales();
    options.value_scales = values.given_scales();
    const auto call = [&](const fovea_tensor &rows) {
      return fovea_schedule_append(schedule, &key.view, &rows, &keys.pages.view, &values.pages.view, &options);
    };
    const std::vector<uint8_t> before(values.pages.block.data, values.pages.block.data + values.pages.block.size);
    fovea_tensor odd = value.view;
    odd.shape[1 + choices_.below(2)] += 1;
    if (call(odd) == FOVEA_OK) wrong("values of another shape are not refused");
    if (std::memcmp(before.data(), values.pages.block.data, before.size()) != 0)
      wrong("refused, but pages are changed");
    expect(call(value.view), "what is to be appended");
    for (size_t s = 0; s < key_lens_.size(); ++s) {
      check_appended(s, key, keys);
      check_appended(s, value, values);
    }
  }

  // As fovea_quantize makes them.
  void check_appended(size_t s, const Placed &rows, const Sides &side) {
    const int64_t count = query_starts_[s + 1] - query_starts_[s], first = key_lens_[s] - count;
    if (count == 0 || !is_scaled(side.dtype)) return;
    const Placed numbers = placer_.place({kv_heads_, count, side.dim / paired(side.dtype)}, side.dtype),
                 scales = placer_.place({kv_heads_, count, side.scales.view.shape[3]}, FOVEA_F16);
    fovea_tensor from = rows.view;
    from.data = static_cast<uint8_t *>(from.data) +
                query_starts_[s] * from.strides[0] * static_cast<int64_t>(element_size(from.dtype));
    from.shape[0] = kv_heads_;
    from.shape[1] = count;
    std::swap(from.strides[0], from.strides[1]);
    expect(fovea_quantize(nullptr, &from, &numbers.view, &scales.view), "fovea_quantize");
    ++tally->compared[side.dtype == FOVEA_U8 ? appended_fours : appended_eights];
    if (elements_of(numbers) != gather(side.pages, s, first, count)) wrong("numbers are not what fovea_quantize makes");
    if (elements_of(scales) != gather(side.scales, s, first, count)) wrong("scales are not what fovea_quantize makes");
  }

  // ---- what is attended ---------------------------------------------------------------------------------------------

  std::vector<uint8_t> run_schedule(const fovea_schedule *schedule, const Placed &query, const Sides &keys,
                                    const Sides &values) {
    const int64_t shape[] = {tokens(), kv_heads_ * group_, value_dim_};
    std::vector<uint8_t> out(static_cast<size_t>(shape[0] * shape[1] * shape[2]) * sizeof(float));
    const Block block = placer_.take(out.size());
    fovea_attention_buffers buffers{};
    buffers.struct_size = sizeof buffers;
    buffers.query = query.view.data;
    buffers.key = keys.pages.view.data;
    buffers.value = values.pages.view.data;
    buffers.key_scales = keys.scales.view.data;
    buffers.value_scales = values.scales.view.data;
    buffers.out = block.data;
    expect(fovea_schedule_run(schedule, &buffers, nullptr, 0), "a run");
    if (!out.empty()) std::memcpy(out.data(), block.data, out.size());
    return out;
  }

  void attend(const fovea_schedule *first, const fovea_schedule *other, size_t set, const Sides &keys,
              const Sides &values) {
    const Placed query = placer_.place_contiguous({tokens(), kv_heads_ * group_, dim_});
    const std::vector<uint8_t> out = run_schedule(first, query, keys, values);
    if (out != run_schedule(other, query, keys, values)) wrong("other bits on other threads");
    for (size_t s = 0; s < key_lens_.size(); ++s) attend_alone(s, out, query, set, keys, values);
  }
  // The bits of a call of fovea_sdpa on the sequence's own keys.
  void attend_alone(size_t s, const std::vector<uint8_t> &out, const Placed &query, size_t set, const Sides &keys,
                    const Sides &values) {
    const int64_t heads = kv_heads_ * group_, first = query_starts_[s], count = query_starts_[s + 1] - first;
    if (count == 0) return;
    std::vector<uint8_t> rows[4];
    fovea_tensor views[4];
    const Placed *const from[] = {&keys.pages, &values.pages, &keys.scales, &values.scales};
    for (int n = 0; n < 4; ++n) {
      if (from[n]->block.data == nullptr) continue;
      rows[n] = gather(*from[n], s, 0, key_lens_[s]);
      const int64_t shape[] = {1, kv_heads_, key_lens_[s], from[n]->view.shape[3]};
      views[n] = fovea_tensor_contiguous(rows[n].data(), from[n]->view.dtype, 4, shape);
    }
    const auto its = [&](const void *data, int64_t dim) {
      return fovea_tensor{const_cast<void *>(data), FOVEA_F32, 4, {1, heads, count, dim}, {0, dim, heads * dim, 1}};
    };
    std::vector<float> alone(static_cast<size_t>(count * heads * value_dim_));
    const fovea_tensor q = its(static_cast<float *>(query.view.data) + first * heads * dim_, dim_),
                       o = its(alone.data(), value_dim_);
    fovea_attention_options options = invariant();
    options.key_scales = is_scaled(keys.dtype) ? &views[2] : nullptr;
    options.value_scales = is_scaled(values.dtype) ? &views[3] : nullptr;
    expect(fovea_sdpa(sets().contexts[set][0], &q, &views[0], &views[1], &o, &options), "fovea_sdpa");
    ++tally->compared[sequence_alone];
    const size_t size = alone.size() * sizeof(float);
    if (std::memcmp(out.data() + static_cast<size_t>(first * heads * value_dim_) * sizeof(float), alone.data(), size) !=
        0) {
      wrong("sequence " + std::to_string(s) + " has other bits alone");
    }
  }

  Choices &choices_;
  Placer placer_;
  bool several_groups_ = false;
  int64_t kv_heads_ = 1, group_ = 1, sequences_ = 1, page_size_ = 1, pages_ = 1, dim_ = 1, value_dim_ = 1;
  fovea_dtype key_type_ = FOVEA_F32, value_type_ = FOVEA_F32;
  std::vector<int64_t> query_starts_, key_lens_, page_ids_, page_starts_;
};

}  // namespace

void serve(Memory &memory, Choices &choices) {
  Serving(memory, choices).run();
  memory.release_all();
}

}  // namespace fuzz

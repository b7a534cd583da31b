// Notes when functions of MPI are called, and draws that.
//
// MPI has every function under two names. A program that defines one, as MPI_Waitall here, is called instead of MPI, by
// libraries too that it loads; by the other name, PMPI_Waitall, it calls MPI's own. So no library needs to know that it
// is watched.
#include "timeline.hpp"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

extern "C" {
#include "picture.h"
}

namespace {

enum Kind { kAgreeing, kWaiting, kUnderWay, kAll };  // kAll: the whole time of a rank

struct Interval {
  double number, begin, end;  // all of one type, so that MPI carries them as they are
  Kind kind() const { return static_cast<Kind>(number); }
};

std::vector<Interval> noted;
std::vector<std::vector<Interval>> of_ranks;
bool watching = false;
double messages_since = -1;  // when the first of those under way was posted
std::chrono::steady_clock::time_point start;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); }

void note(Kind kind, double begin) {
  if (watching) noted.push_back({static_cast<double>(kind), begin, now()});
}

void posted() {
  if (watching && messages_since < 0) messages_since = now();
}

void all_came() {
  if (messages_since >= 0) note(kUnderWay, messages_since);
  messages_since = -1;
}

}  // namespace

extern "C" {

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm on, MPI_Request *request) {
  posted();
  return PMPI_Isend(data, count, type, to, tag, on, request);
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm on, MPI_Request *request) {
  posted();
  return PMPI_Irecv(data, count, type, from, tag, on, request);
}

int MPI_Testall(int count, MPI_Request *requests, int *done, MPI_Status *statuses) {
  const int code = PMPI_Testall(count, requests, done, statuses);
  if (*done != 0) all_came();
  return code;
}

int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses) {
  const double begin = now();
  const int code = PMPI_Waitall(count, requests, statuses);
  note(kWaiting, begin);
  all_came();
  return code;
}

int MPI_Allgather(const void *from, int count, MPI_Datatype type, void *to, int to_count, MPI_Datatype to_type,
                  MPI_Comm on) {
  const double begin = now();
  const int code = PMPI_Allgather(from, count, type, to, to_count, to_type, on);
  note(kAgreeing, begin);
  return code;
}

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm on) {
  const double begin = now();
  const int code = PMPI_Allreduce(from, to, count, type, op, on);
  note(kAgreeing, begin);
  return code;
}

}  // extern "C"

namespace {

constexpr double width = 900, row_height = 30, row_gap = 16;
constexpr picture_color ink = {28, 33, 38}, lines = {213, 218, 222}, computing = {0, 114, 178};
constexpr picture_color colors[] = {{150, 158, 166}, {213, 94, 0}, {0, 158, 115}};
constexpr const char *names[] = {"agreeing with the other ranks", "waiting for messages", "messages under way"};

void text(cairo_t *picture, const std::string &words, double x, double y, double align, double size, int bold = 0) {
  const picture_font font = {size, bold, 0, ink};
  picture_text(picture, words.c_str(), x, y, align, &font);
}

// 1, 2 or 5 times a power of ten: about eight of it in the whole.
double tick_of(double whole) {
  const double power = std::pow(10, std::floor(std::log10(whole / 8)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (whole / (factor * power) <= 10) return factor * power;
  }
  return 10 * power;
}

void draw_axis(cairo_t *picture, double seconds, double height) {
  const bool milli = seconds < 2;
  const double tick = tick_of(seconds);
  for (int i = 0; i * tick <= seconds; ++i) {
    const double x = i * tick / seconds * width;
    cairo_move_to(picture, x, -6);
    cairo_line_to(picture, x, height);
    picture_stroke(picture, 1, 0, lines);
    char label[32];
    std::snprintf(label, sizeof label, "%g", i * tick * (milli ? 1000 : 1));
    text(picture, label, x, height + 16, 0.5, 12);
  }
  text(picture, milli ? "milliseconds" : "seconds", width / 2, height + 36, 0.5, 12);
}

// A rank's row: computing all the time but where it agrees or waits; below, as a thin line, messages under way.
void draw_rank(cairo_t *picture, const std::vector<Interval> &rank, double seconds, double y) {
  const auto place = [&](double time) { return time / seconds * width; };
  for (const Interval &one : rank) {
    if (one.kind() == kAll) picture_fill(picture, 0, y, place(one.end), row_height, computing);
  }
  for (const Interval &one : rank) {
    if (one.kind() == kAll) continue;
    const bool thin = one.kind() == kUnderWay;
    picture_fill(picture, place(one.begin), thin ? y + row_height + 2 : y,
                 std::max(0.3, place(one.end) - place(one.begin)), thin ? 5 : row_height, colors[one.kind()]);
  }
}

void draw_legend(cairo_t *picture, double y) {
  double x = 0;
  const auto entry = [&](picture_color color, const char *name, double height) {
    picture_fill(picture, x, y - 4 - height / 2, 18, height, color);
    text(picture, name, x + 24, y, 0, 12);
    const picture_font font = {12, 0, 0, ink};
    x += 24 + picture_text_width(picture, name, &font) + 28;
  };
  entry(computing, "computing", 12);
  for (int kind : {kWaiting, kAgreeing, kUnderWay}) entry(colors[kind], names[kind], kind == kUnderWay ? 5 : 12);
}

}  // namespace

namespace timeline {

void begin() {
  noted.clear();
  messages_since = -1;
  PMPI_Barrier(MPI_COMM_WORLD);  // all count from here
  start = std::chrono::steady_clock::now();
  watching = true;
}

void end() {
  note(kAll, 0);
  watching = false;
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int mine = static_cast<int>(noted.size() * 3);
  std::vector<int> counts(static_cast<size_t>(ranks)), places(static_cast<size_t>(ranks) + 1);
  PMPI_Gather(&mine, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (size_t r = 0; r < counts.size(); ++r) places[r + 1] = places[r] + counts[r];
  std::vector<Interval> all(static_cast<size_t>(places.back()) / 3);
  PMPI_Gatherv(noted.data(), mine, MPI_DOUBLE, all.data(), counts.data(), places.data(), MPI_DOUBLE, 0, MPI_COMM_WORLD);
  of_ranks.clear();
  for (size_t r = 0; rank == 0 && r < counts.size(); ++r)
    of_ranks.emplace_back(all.begin() + places[r] / 3, all.begin() + places[r + 1] / 3);
}

bool write_png(const char *path, const char *title) {
  if (of_ranks.empty()) return true;  // not rank 0
  double seconds = 1e-9;
  for (const auto &rank : of_ranks) {
    for (const Interval &one : rank) seconds = std::max(seconds, one.end);
  }
  const double height = static_cast<double>(of_ranks.size()) * (row_height + row_gap);
  cairo_t *const picture = picture_begin();
  text(picture, title, 0, -42, 0, 14, 1);
  draw_legend(picture, -18);
  draw_axis(picture, seconds, height);
  for (size_t r = 0; r < of_ranks.size(); ++r) {
    const double y = static_cast<double>(r) * (row_height + row_gap);
    draw_rank(picture, of_ranks[r], seconds, y);
    text(picture, "rank " + std::to_string(r), -12, y + row_height / 2 + 4, 1, 12);
  }
  const char *const wrong = picture_write_png(picture, path);
  if (wrong != nullptr) std::fprintf(stderr, "%s: %s\n", path, wrong);
  return wrong == nullptr;
}

}  // namespace timeline

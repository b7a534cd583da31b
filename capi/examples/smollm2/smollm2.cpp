// smollm2: a language model, SmolLM2-135M-Instruct, on fovea alone. run.py, which `./dev example smollm2` calls, turns
// text into the numbers of tokens; this turns them back.
//
//     smollm2 [OPTION...] MODEL answer < REQUESTS   a line of tokens that all prompts begin with, then a line for each prompt:
//                                                   answers all of them together
//     smollm2 [OPTION...] MODEL chat < TURNS        answers each line of tokens as it comes, word by word; an interrupt (Ctrl-C)
//                                                   ends the answer
//     smollm2 [OPTION...] MODEL bench               tokens per second, and what bounds them
//     smollm2 [OPTION...] MODEL measure < CASES     tokens per second of each case as it is asked for; see bench.hpp
//     smollm2 [OPTION...] MODEL logits FILE < TOKENS   writes the logits behind each token of a line, float32 [tokens, vocabulary]
//
//   MODEL                 a directory with model.safetensors and vocabulary.txt, as prepare.py makes it
//   --weights TYPE        bf16 (else f32, i8)
//   --cache TYPE          what keys and values are kept as: bf16 (else f32, f16, i8, or i8u4: keys in 8 bits, values in 4)
//   --together N          requests that are answered at a time: 8
//   --most N              tokens of an answer: 256
//   --more N              of logits: so many likeliest tokens more: 0
//   --temperature T       0 (the likeliest token)
//   --top-p P             0.95
//   --seed N              1
//
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>

#include "batch.hpp"
#include "bench.hpp"
#include "vocabulary.hpp"

namespace {

using namespace smollm2;

constexpr std::int32_t end_of_turn = 2;        // <|im_end|>
constexpr std::int64_t step_tokens = 512;      // at most
constexpr std::int64_t chat_positions = 8192;  // what the model was trained for

volatile std::sig_atomic_t interrupted = 0;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Arguments {
  Weights weights = Weights::bf16;
  fovea_dtype cache = FOVEA_BF16;
  std::int64_t together = 8, most = 256, more = 0;
  SamplerOptions sampling;
  std::string model, command, file;
};

Weights weights_type(const std::string &name) {
  static const std::map<std::string, Weights> types = {
      {"f32", Weights::f32}, {"bf16", Weights::bf16}, {"i8", Weights::i8}};
  const auto found = types.find(name);
  if (found == types.end()) throw std::invalid_argument("--weights " + name + ", expected f32, bf16 or i8");
  return found->second;
}

fovea_dtype cache_type(const std::string &name) {
  static const std::map<std::string, fovea_dtype> types = {
      {"f32", FOVEA_F32}, {"f16", FOVEA_F16}, {"bf16", FOVEA_BF16}, {"i8", FOVEA_I8}, {"i8u4", FOVEA_U8}};
  const auto found = types.find(name);
  if (found == types.end()) throw std::invalid_argument("--cache " + name + ", expected f32, f16, bf16, i8 or i8u4");
  return found->second;
}

std::int64_t whole(const std::string &option, const std::string &text, std::int64_t most) {
  std::size_t end = 0;
  const std::int64_t number = std::stoll(text, &end);
  if (end != text.size() || number < 1 || number > most) {
    throw std::invalid_argument(option + " " + text + ", expected 1 to " + std::to_string(most));
  }
  return number;
}

Arguments read_arguments(int argc, char **argv) {
  Arguments its;
  std::vector<std::string> plain;
  for (int n = 1; n < argc; ++n) {
    const std::string name = argv[n];
    if (name.rfind("--", 0) != 0) {
      plain.push_back(name);
      continue;
    }
    if (++n == argc) throw std::invalid_argument(name + " needs a value");
    const std::string value = argv[n];
    if (name == "--weights") {
      its.weights = weights_type(value);
    } else if (name == "--cache") {
      its.cache = cache_type(value);
    } else if (name == "--together") {
      its.together = whole(name, value, 64);
    } else if (name == "--most") {
      its.most = whole(name, value, 4096);
    } else if (name == "--more") {
      its.more = whole(name, value, 4096);
    } else if (name == "--temperature") {
      its.sampling.temperature = std::stof(value);
    } else if (name == "--top-p") {
      its.sampling.top_p = std::stof(value);
    } else if (name == "--seed") {
      its.sampling.seed = std::stoull(value);
    } else {
      throw std::invalid_argument("unknown option " + name);
    }
  }
  if (plain.size() < 2) throw std::invalid_argument("expected MODEL and answer, chat, bench, measure or logits");
  its.model = plain[0];
  its.command = plain[1];
  if (plain.size() > 2) its.file = plain[2];
  return its;
}

std::optional<std::vector<std::int32_t>> read_tokens() {
  std::string line;
  if (!std::getline(std::cin, line)) return {};
  std::istringstream numbers(line);
  std::vector<std::int32_t> tokens;
  for (std::int32_t token; numbers >> token;) {
    if (token < 0 || token >= ModelSizes().vocabulary) {
      throw std::invalid_argument("token " + std::to_string(token) + ", expected 0 to 49151");
    }
    tokens.push_back(token);
  }
  return tokens;
}

void answer(const Model &model, const Vocabulary &vocabulary, const Arguments &its) {
  const std::vector<std::int32_t> common = read_tokens().value_or(std::vector<std::int32_t>());
  std::vector<std::vector<std::int32_t>> prompts;
  std::int64_t longest = 0;
  while (auto prompt = read_tokens()) {
    if (prompt->empty()) continue;
    longest = std::max(longest, static_cast<std::int64_t>(prompt->size()));
    prompts.push_back(std::move(*prompt));
  }
  const std::int64_t page = 128;  // a fork's first page is a copy at most
  const std::int64_t positions =
      static_cast<std::int64_t>(common.size()) + page + its.together * (longest + its.most + 2 * page);
  Decoder decoder(model, {.sequences = its.together + 1, .tokens = step_tokens, .positions = positions}, its.cache);
  Batch batch(decoder, its.together, step_tokens, end_of_turn);
  const double start = seconds();
  if (!common.empty()) batch.begin_with(common);
  std::size_t tokens = common.size(), made = 0;
  for (std::size_t n = 0; n < prompts.size(); ++n) {
    SamplerOptions sampling = its.sampling;
    sampling.seed += n;
    batch.add({prompts[n], its.most, sampling});
    tokens += prompts[n].size();
  }
  std::vector<std::string> texts(prompts.size());
  std::vector<std::int64_t> lengths(prompts.size());
  const auto told = [&](std::size_t request, std::int32_t token) {
    ++made;
    const bool ends = token == end_of_turn;
    if (!ends) texts[request] += vocabulary[token];
    if (ends || ++lengths[request] == its.most) {
      std::printf("%zu: %s%s\n\n", request + 1, texts[request].c_str(), ends ? "" : " …");
      std::fflush(stdout);
    }
  };
  while (batch.step(told)) {
  }
  const double time = seconds() - start;
  const Times &where = decoder.times();
  std::printf(
      "%zu answers, %zu tokens read and %zu written in %.2f s: %.0f tokens per second; %zu tokens of all prompts "
      "were read once\n",
      prompts.size(), tokens, made, time, static_cast<double>(tokens + made) / time, common.size());
  std::printf("of the time, attention %.0f %%, products %.0f %%; the cache held %.0f MB\n",
              100 * where.attention / time, 100 * where.products / time,
              static_cast<double>(decoder.pool_bytes()) / 1e6);
}

void chat(const Model &model, const Vocabulary &vocabulary, const Arguments &its) {
  Decoder decoder(model, {.sequences = 1, .tokens = step_tokens, .positions = chat_positions}, its.cache);
  Sampler sampler(its.sampling);
  fovea::Sequence sequence = decoder.open();
  std::signal(SIGINT, [](int) { interrupted = 1; });
  while (const auto turn = read_tokens()) {
    interrupted = 0;
    if (sequence.length() + std::ssize(*turn) + its.most > chat_positions) {
      std::printf("[the conversation is as long as it can be]");
    } else if (!turn->empty()) {
      std::span<const float> logits;
      for (std::size_t at = 0; at < turn->size(); at += step_tokens) {
        const std::size_t count = std::min<std::size_t>(turn->size() - at, step_tokens);
        logits = decoder.step({{&sequence, std::span(*turn).subspan(at, count)}});
      }
      std::int32_t token = sampler(logits);
      for (std::int64_t n = 0; n < its.most && token != end_of_turn && interrupted == 0; ++n) {
        std::fputs(vocabulary[token].c_str(), stdout);
        std::fflush(stdout);
        token = sampler(decoder.step({{&sequence, std::span(&token, 1)}}));
      }
      token = end_of_turn;
      decoder.step({{&sequence, std::span(&token, 1)}});
    }
    std::printf("\n%c", 4);  // an end of transmission tells run.py that it is its turn
    std::fflush(stdout);
  }
}

void write_logits(const Model &model, const Arguments &its) {
  std::vector<std::int32_t> tokens = read_tokens().value_or(std::vector<std::int32_t>());
  const std::size_t all = tokens.empty() ? 0 : tokens.size() + static_cast<std::size_t>(its.more);
  Decoder decoder(model, {.sequences = 1, .tokens = step_tokens, .positions = chat_positions}, its.cache);
  const fovea::Sequence sequence = decoder.open();
  Sampler likeliest({});
  std::FILE *file = std::fopen(its.file.c_str(), "wb");
  if (file == nullptr) throw std::runtime_error(its.file + ": cannot be opened");
  for (std::size_t n = 0; n < all; ++n) {
    const std::span<const float> logits = decoder.step({{&sequence, std::span(tokens).subspan(n, 1)}});
    if (n + 1 == tokens.size() && n + 1 < all) tokens.push_back(likeliest(logits));
    if (std::fwrite(logits.data(), sizeof(float), logits.size(), file) != logits.size()) {
      std::fclose(file);
      throw std::runtime_error(its.file + ": cannot be written");
    }
  }
  if (std::fclose(file) != 0) throw std::runtime_error(its.file + ": cannot be written");
}

void run(const Arguments &its) {
  Safetensors file(its.model + "/model.safetensors");
  const Model model(file, its.weights);
  if (its.command == "bench") return bench(model, its.cache);
  if (its.command == "measure") return measure(model, its.cache);
  if (its.command == "logits") return write_logits(model, its);
  const Vocabulary vocabulary(its.model + "/vocabulary.txt");
  if (its.command == "answer") return answer(model, vocabulary, its);
  if (its.command == "chat") return chat(model, vocabulary, its);
  throw std::invalid_argument("unknown command '" + its.command + "', expected answer, chat, bench, measure or logits");
}

}  // namespace

int main(int argc, char **argv) {
  try {
    run(read_arguments(argc, argv));
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "smollm2: %s\n", error.what());
    return 1;
  }
}

// SPDX-License-Identifier: MIT
// What an engine answers to verbs that it does not have, and what its answers must look like.
#include "engine/port.h"

#include <fmt/format.h>

namespace kvcheck {

void Engine::unsupported(std::string_view verb) const {
  throw Unsupported(fmt::format("{}: {} is not supported", hello().name, verb));
}

void Engine::batch(std::span<const Feed>, Rows, Logits&) { unsupported("batch"); }
void Engine::truncate(SequenceId, int) { unsupported("truncate"); }
SequenceId Engine::fork(SequenceId) { unsupported("fork"); }
void Engine::reorder(std::span<const SequenceId>, std::span<const int>) { unsupported("reorder"); }
State Engine::save(SequenceId) { unsupported("save"); }
SequenceId Engine::load(std::span<const std::byte>) { unsupported("load"); }
void Engine::shift(SequenceId, int, int) { unsupported("shift"); }
void Engine::evict(SequenceId, int, int) { unsupported("evict"); }
int Engine::lookup(std::span<const int>) { unsupported("lookup"); }
Places Engine::places(SequenceId) const { unsupported("places"); }
std::uint64_t Engine::fingerprint(SequenceId) const { unsupported("fingerprint"); }

void require_rows(const Engine& engine, const Logits& logits, std::size_t rows) {
  if (logits.rows() != static_cast<int>(rows)) {
    throw EngineError(fmt::format("{} rows of logits were answered where {} were asked for",
                                  logits.rows(), rows));
  }
  if (logits.vocabulary != engine.hello().vocabulary) {
    throw EngineError(fmt::format("rows of {} logits were answered, the vocabulary has {}",
                                  logits.vocabulary, engine.hello().vocabulary));
  }
}

}  // namespace kvcheck

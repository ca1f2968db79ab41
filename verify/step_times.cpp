// SPDX-License-Identifier: MIT
// Takes the times.
#include "verify/step_times.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

namespace kvcheck {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRunsMax = 101;  // odd, so that the median is one of them
constexpr int kFitFrom = 8;    // the longest length divided by this
constexpr std::size_t kFitMin = 3;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// The median time of `step`, which prepare() makes ready: at least one run, and as many as fit into
// `seconds`.
template <typename Prepare, typename Step>
double time_of(double seconds, Prepare prepare, Step step) {
  const Clock::time_point start = Clock::now();
  std::vector<double> times;
  while (times.empty() || (times.size() < kRunsMax && seconds_since(start) < seconds)) {
    prepare();
    const Clock::time_point began = Clock::now();
    step();
    times.push_back(seconds_since(began));
  }
  return median(std::move(times));
}

struct Interrupted {};
struct TimeOver {};

// Steps of one sequence that grows.
class StepTimer {
 public:
  StepTimer(Engine& engine, const std::vector<int>& tokens)
      : engine_(engine), tokens_(tokens), id_(engine.open()) {}

  void close() { engine_.close(id_); }

  template <typename KeepOn>
  StepTime time(int length, double share, KeepOn keep_on) {
    const std::span<const int> prefix(tokens_.data(), static_cast<std::size_t>(length));
    // The rows before the step, fed at once; what is held already stays.
    const auto before = prefix.first(prefix.size() - 1).subspan(static_cast<std::size_t>(held_));
    keep_on();
    if (!before.empty()) engine_.feed(id_, before, Rows::last, logits_);
    held_ = length - 1;
    StepTime time{.length = length};
    time.cached = time_of(
        share,
        [&] {
          keep_on();
          engine_.truncate(id_, held_);
        },
        [&] { engine_.feed(id_, prefix.last(1), Rows::last, logits_); });
    engine_.truncate(id_, held_);
    time.uncached = time_of(share, keep_on, [&] {
      engine_.full({prefix, 1}, Rows::last, logits_);
    });
    return time;
  }

 private:
  Engine& engine_;
  const std::vector<int>& tokens_;
  const SequenceId id_;
  Logits logits_;
  int held_ = 0;
};

// Tokens 0, 1, 2 ... of the vocabulary, over and over.
std::vector<int> tokens_of(const Engine& engine, const std::vector<int>& lengths) {
  std::vector<int> tokens(static_cast<std::size_t>(lengths.empty() ? 0 : lengths.back()));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int>(i) % engine.hello().vocabulary;
  }
  return tokens;
}

bool fitted(int length, int last) { return std::int64_t{length} * kFitFrom >= last; }

// The cached steps are fed to `id`, from its first row on.
template <typename KeepOn>
RunTime time_of_run(Engine& engine, SequenceId id, std::span<const int> run, double share,
                    KeepOn keep_on) {
  Logits logits;
  RunTime time{.length = static_cast<int>(run.size())};
  time.cached = time_of(
      share, [&] { engine.truncate(id, 0); },
      [&] {
        for (const int& token : run) {
          keep_on();
          engine.feed(id, {&token, 1}, Rows::last, logits);
        }
      });
  time.forward = time_of(share, keep_on, [&] { engine.full({run, 1}, Rows::all, logits); });
  time.every_prefix = time_of(
      share, [] {},
      [&] {
        for (std::size_t n = 1; n <= run.size(); ++n) {
          keep_on();
          engine.full({run.first(n), 1}, Rows::last, logits);
        }
      });
  return time;
}

}  // namespace

StepTimes measure_steps(Engine& engine, const std::vector<int>& lengths, double seconds,
                        const std::function<bool(std::size_t)>& go_on) {
  const Clock::time_point start = Clock::now();
  const double share = seconds / (2.0 * static_cast<double>(lengths.size()));
  StepTimes times;
  const auto keep_on = [&] {
    if (!go_on(times.steps.size())) throw Interrupted{};
  };
  const std::vector<int> tokens = tokens_of(engine, lengths);
  StepTimer timer(engine, tokens);
  try {
    for (const int length : lengths) {
      if (seconds_since(start) >= seconds) {
        times.complete = false;
        break;
      }
      times.steps.push_back(timer.time(length, share, keep_on));
    }
  } catch (const Interrupted&) {
    times.interrupted = true;
  }
  timer.close();
  return times;
}

RunTimes measure_runs(Engine& engine, const std::vector<int>& lengths, double seconds,
                      const std::function<bool(std::size_t done)>& go_on) {
  const Clock::time_point start = Clock::now();
  const double share = seconds / (3.0 * static_cast<double>(lengths.size()));
  const std::vector<int> tokens = tokens_of(engine, lengths);
  RunTimes times;
  // A run of a length is many steps: the time ends the one at hand, as a signal does.
  const auto keep_on = [&] {
    if (!go_on(times.runs.size())) throw Interrupted{};
    if (seconds_since(start) >= seconds) throw TimeOver{};
  };
  const SequenceId id = engine.open();
  try {
    for (const int length : lengths) {
      if (!fitted(length, lengths.back())) continue;
      const std::span<const int> run(tokens.data(), static_cast<std::size_t>(length));
      times.runs.push_back(time_of_run(engine, id, run, share, keep_on));
    }
  } catch (const Interrupted&) {
    times.interrupted = true;
  } catch (const TimeOver&) {
    times.complete = false;
  }
  engine.close(id);
  return times;
}

template <typename Time>
std::optional<FittedPower> fit_power(const std::vector<Time>& times, double Time::*seconds) {
  if (times.empty()) return std::nullopt;
  std::vector<double> x;
  std::vector<double> y;
  FittedPower fit{.to = times.back().length};
  for (const Time& time : times) {
    if (!fitted(time.length, times.back().length) || !(time.*seconds > 0)) continue;
    if (x.empty()) fit.from = time.length;
    x.push_back(std::log(time.length));
    y.push_back(std::log(time.*seconds));
  }
  if (x.size() < kFitMin) return std::nullopt;
  const auto count = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / count;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / count;
  double covariance = 0;
  double variance = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    covariance += (x[i] - mean_x) * (y[i] - mean_y);
    variance += (x[i] - mean_x) * (x[i] - mean_x);
  }
  fit.exponent = covariance / variance;
  return fit;
}

template std::optional<FittedPower> fit_power(const std::vector<StepTime>&, double StepTime::*);
template std::optional<FittedPower> fit_power(const std::vector<RunTime>&, double RunTime::*);

}  // namespace kvcheck

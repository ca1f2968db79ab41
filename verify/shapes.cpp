// SPDX-License-Identifier: MIT
// Shapes by way of observers.
#include "verify/shapes.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/builtin.h"
#include "engine/error.h"
#include "engine/uncached.h"
#include "verify/builtin_inside.h"

namespace kvcheck {
namespace {

template <Scalar T>
void note(const SiteTensor<T>& tensor, StepShapes& shapes) {
  const auto found = std::ranges::find_if(shapes, [&](const SiteShape& shape) {
    return shape.site == tensor.site && shape.layer == tensor.layer;
  });
  if (found == shapes.end()) {
    shapes.push_back(
        {tensor.site, tensor.layer, 1, tensor.rows, tensor.rows, tensor.columns, tensor.columns});
    return;
  }
  ++found->tensors;
  found->rows_min = std::min(found->rows_min, tensor.rows);
  found->rows_max = std::max(found->rows_max, tensor.rows);
  found->columns_min = std::min(found->columns_min, tensor.columns);
  found->columns_max = std::max(found->columns_max, tensor.columns);
}

template <Scalar T>
void record(Engine& engine, std::vector<StepShapes>& steps) {
  Builtin<T>* const builtin = builtin_inside<T>(engine);
  if (builtin == nullptr) {
    throw bad_input({"--trace", "engine", "the built-in one", engine.hello().name});
  }
  builtin->also_observe_cached(Observer<T>(
      [&steps](const SiteTensor<T>& tensor) {
        if (tensor.site == Site::embedding) steps.emplace_back();
        note(tensor, steps.back());
      },
      SiteSet::all()));
}

template <Scalar T>
StepShapes shapes_of_forward(const ModelData& model, Arithmetic arithmetic,
                             std::span<const int> tokens) {
  const std::shared_ptr<const Model<T>> weights = HeldModel(model.weights).in<T>();
  Uncached<T> uncached(*weights, ops_for<T>(arithmetic));
  StepShapes shapes;
  const Observer<T> observer([&](const SiteTensor<T>& tensor) { note(tensor, shapes); },
                             SiteSet::all());
  (void)uncached.logits({tokens, 1}, Rows::last, &observer);
  return shapes;
}

std::string from_to(int least, int most) {
  return least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
}

}  // namespace

std::string to_text(const SiteShape& shape) {
  const std::string one = fmt::format("[{}, {}]", from_to(shape.rows_min, shape.rows_max),
                                      from_to(shape.columns_min, shape.columns_max));
  return shape.tensors == 1 ? one : fmt::format("{} x {}", shape.tensors, one);
}

void record_shapes(Engine& engine, ScalarKind scalar, std::vector<StepShapes>& steps) {
  if (scalar == ScalarKind::f32) return record<float>(engine, steps);
  record<double>(engine, steps);
}

StepShapes uncached_shapes(const ModelData& model, const EngineSetup& setup,
                           std::span<const int> tokens) {
  if (setup.scalar == ScalarKind::f32) {
    return shapes_of_forward<float>(model, setup.arithmetic, tokens);
  }
  return shapes_of_forward<double>(model, setup.arithmetic, tokens);
}

}  // namespace kvcheck

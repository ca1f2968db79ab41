// SPDX-License-Identifier: MIT
// Weights of the usual scalars, and what a configuration says about them.
#include "engine/model.h"

#include <functional>
#include <numeric>

#include "engine/model_impl.h"

namespace kvcheck {

std::string_view name(Part part) {
  switch (part) {
    case Part::embedding:
      return "embedding";
    case Part::positions:
      return "positions";
    case Part::attention:
      return "attention";
    case Part::mlp:
      return "mlp";
    case Part::norms:
      return "norms";
    case Part::output:
      return "output";
  }
  return "?";
}

std::int64_t TensorShape::count() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<TensorShape> tensor_shapes(const Config& config) {
  std::vector<TensorShape> shapes;
  const Model<float>* no_weights = nullptr;
  model_impl::walk(config, no_weights,
                   [&](std::string name, Part part, int rows, int columns, const auto*) {
                     shapes.push_back({std::move(name), part, model_impl::shape_of(rows, columns)});
                   });
  return shapes;
}

std::int64_t parameter_count(const Config& config) {
  std::int64_t count = 0;
  for (const TensorShape& tensor : tensor_shapes(config)) count += tensor.count();
  return count;
}

std::int64_t parameter_count(const Config& config, Part part) {
  std::int64_t count = 0;
  for (const TensorShape& tensor : tensor_shapes(config)) {
    if (tensor.part == part) count += tensor.count();
  }
  return count;
}

#define KVCHECK_INSTANTIATE(T)                                       \
  template std::vector<TensorRef<T>> tensors(Model<T>&);             \
  template std::vector<TensorRef<const T>> tensors(const Model<T>&); \
  template Model<T> make_model(const Config&);                       \
  template void tie_output(Model<T>&);
KVCHECK_INSTANTIATE(float)
KVCHECK_INSTANTIATE(double)
KVCHECK_INSTANTIATE(long double)
#undef KVCHECK_INSTANTIATE

template Model<float> cast(const Model<float>&);
template Model<float> cast(const Model<double>&);
template Model<double> cast(const Model<float>&);
template Model<double> cast(const Model<double>&);
template Model<long double> cast(const Model<float>&);
template Model<long double> cast(const Model<double>&);

}  // namespace kvcheck

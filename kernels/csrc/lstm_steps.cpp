// The steps of one direction of an LSTM layer, forward and back: the loops of elmokit.nn.lstm_steps
// without Python, with all that is not a matrix product made in one pass over memory.
//
// The build forbids the compiler to fuse a product and a sum, so that every operation rounds alike
// in a vector and in what is left over at its end, and a row's bits do not depend on its place.
//
// Letters: n positions of a chunk, b rows of a step, B rows, D output width, H cell size. The gates
// i, f, g, o lie in this order along 4H. All tensors are float32 on the CPU; those that are not
// weights, nor the output before the first step, have their rows one after another. An infinite
// clip is none.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

// Each function so marked is compiled for processors with AVX-512, with AVX2 and without, and the
// program chooses when it is loaded.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_PROCESSOR \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define INLINE inline __attribute__((always_inline))
#else
#define FOR_EACH_PROCESSOR
#define INLINE inline
#endif

namespace {

using at::Tensor;

constexpr int64_t kGrain = 8192;  // values below which a second thread does not pay

// e^x - 1 for x in [-87, 87]: 2^n (e^r - 1) + (2^n - 1), where r is at most ln(2) / 2 from 0 and
// e^r - 1 is its Taylor series. Near 0 the relative error stays small.
INLINE float exp_minus_one(float x) {
  const float shift = 12582912.0f;  // 1.5 * 2^23: a sum with it has no fraction
  const float n = (x * 1.44269504f + shift) - shift;
  const float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;  // the first product is exact
  float series = 1.0f / 5040;
  series = series * r + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * (r * r) + r;
  const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof(power));
  return power * series + (power - 1.0f);
}

// Written such that a NaN stays one.
INLINE float clamp(float x, float limit) {
  x = x < -limit ? -limit : x;
  return x > limit ? limit : x;
}

INLINE float sigmoid(float x) { return 1.0f / (2.0f + exp_minus_one(clamp(-x, 87.0f))); }

INLINE float tanh(float x) {
  const float t = exp_minus_one(-2.0f * clamp(std::fabs(x), 20.0f));
  return std::copysign(t / (t + 2.0f), x);
}

// gates (4H): sums -> values; c (H): before -> after; hidden (H): written.
FOR_EACH_PROCESSOR
void cell_row(float* __restrict__ gates, float* __restrict__ c, float* __restrict__ hidden,
              int64_t cell_dim, float clip) {
  float* __restrict__ gi = gates;
  float* __restrict__ gf = gates + cell_dim;
  float* __restrict__ gg = gates + 2 * cell_dim;
  float* __restrict__ go = gates + 3 * cell_dim;
  for (int64_t k = 0; k < cell_dim; ++k) {
    const float i = sigmoid(gi[k]), f = sigmoid(gf[k]), g = tanh(gg[k]), o = sigmoid(go[k]);
    const float cell = clamp(c[k] * f + i * g, clip);
    gi[k] = i;
    gf[k] = f;
    gg[k] = g;
    go[k] = o;
    c[k] = cell;
    hidden[k] = o * tanh(cell);
  }
}

// The same where the sums of i, f and o (4H) come halved, and hidden (H) is wanted doubled.
FOR_EACH_PROCESSOR
void cell_row_of_halves(const float* __restrict__ gates, float* __restrict__ c,
                        float* __restrict__ hidden, int64_t cell_dim, float clip) {
  const float* __restrict__ gi = gates;
  const float* __restrict__ gf = gates + cell_dim;
  const float* __restrict__ gg = gates + 2 * cell_dim;
  const float* __restrict__ go = gates + 3 * cell_dim;
  for (int64_t k = 0; k < cell_dim; ++k) {
    const float added = sigmoid(2.0f * gi[k]) * tanh(gg[k]);
    const float cell = clamp(c[k] * sigmoid(2.0f * gf[k]) + added, clip);
    c[k] = cell;
    hidden[k] = 2.0f * (sigmoid(2.0f * go[k]) * tanh(cell));
  }
}

// by_gates (4H) and hidden (H): written; by_cell (H): gradient by the cell -> by the cell before.
FOR_EACH_PROCESSOR
void cell_row_back(const float* __restrict__ gates, const float* __restrict__ before,
                   const float* __restrict__ after, const float* __restrict__ by_hidden,
                   float* __restrict__ by_gates, float* __restrict__ hidden,
                   float* __restrict__ by_cell, int64_t cell_dim, float clip) {
  float* __restrict__ by_i = by_gates;
  float* __restrict__ by_f = by_gates + cell_dim;
  float* __restrict__ by_g = by_gates + 2 * cell_dim;
  float* __restrict__ by_o = by_gates + 3 * cell_dim;
  for (int64_t k = 0; k < cell_dim; ++k) {
    const float i = gates[k], f = gates[cell_dim + k];
    const float g = gates[2 * cell_dim + k], o = gates[3 * cell_dim + k];
    const float squashed = tanh(after[k]);
    const float slope = by_cell[k] + by_hidden[k] * (o * (1.0f - squashed * squashed));
    const float by = std::fabs(after[k]) >= clip ? 0.0f : slope;
    hidden[k] = o * squashed;
    by_i[k] = by * (g * (i * (1.0f - i)));
    by_f[k] = by * (before[k] * (f * (1.0f - f)));
    by_g[k] = by * (i * (1.0f - g * g));
    by_o[k] = by_hidden[k] * (squashed * (o * (1.0f - o)));
    by_cell[k] = by * f;
  }
}

FOR_EACH_PROCESSOR
void clamp_all(float* values, int64_t count, float limit) {
  for (int64_t k = 0; k < count; ++k) values[k] = clamp(values[k], limit);
}

// gradient += later, but 0 where the value is at the clip.
FOR_EACH_PROCESSOR
void add_unless_clipped(float* __restrict__ gradient, const float* __restrict__ later,
                        const float* __restrict__ values, int64_t count, float clip) {
  for (int64_t k = 0; k < count; ++k) {
    const float sum = gradient[k] + later[k];
    gradient[k] = std::fabs(values[k]) >= clip ? 0.0f : sum;
  }
}

// The whole number below value * factor + shift, from 0 to most. A NaN counts as 0.
INLINE int32_t code_of(float value, float factor, float shift, float most) {
  const float step = value * factor + shift;
  return static_cast<int32_t>(step > 0.0f ? (step < most ? step : most) : 0.0f);
}

FOR_EACH_PROCESSOR
void code_row(const float* __restrict__ values, uint8_t* __restrict__ codes, int64_t count,
              float factor, float shift, float most) {
  for (int64_t k = 0; k < count; ++k) {
    codes[k] = static_cast<uint8_t>(code_of(values[k], factor, shift, most));
  }
}

FOR_EACH_PROCESSOR
void two_codes_row(const float* __restrict__ values, uint8_t* __restrict__ upper,
                   uint8_t* __restrict__ lower, int64_t count, float factor, float shift,
                   float most) {
  for (int64_t k = 0; k < count; ++k) {
    const int32_t code = code_of(values[k], factor, shift, most);
    upper[k] = static_cast<uint8_t>(code >> 7);
    lower[k] = static_cast<uint8_t>(code & 127);
  }
}

template <typename Row>
void for_each_row(int64_t rows, int64_t width, Row row) {
  at::parallel_for(0, rows, std::max<int64_t>(1, kGrain / width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) row(r);
  });
}

float* data(const Tensor& tensor, int64_t rows, int64_t width, const char* name) {
  TORCH_CHECK(tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat &&
                  tensor.is_contiguous() && tensor.dim() == 2 && tensor.size(0) >= rows &&
                  tensor.size(1) == width,
              name, " must be a contiguous float32 matrix (", rows, ", ", width, ") on the CPU");
  return tensor.data_ptr<float>();
}

void check_steps(const std::vector<int64_t>& sizes, int64_t positions, int64_t rows) {
  int64_t total = 0;
  for (const int64_t size : sizes) {
    TORCH_CHECK(size >= 0 && size <= rows, "a step has ", size, " of ", rows, " rows");
    total += size;
  }
  TORCH_CHECK(total == positions, "the steps have ", total, " of ", positions, " positions");
}

// Makes the steps of a chunk. gates (n, 4H): what the inputs add to them -> their values; h (B, D):
// output before; c (B, H): cell before -> after; outputs (n, D) and cells (n, H): written.
void forward(const Tensor& gates, Tensor h, const Tensor& c, const Tensor& outputs,
             const std::optional<Tensor>& cells, const std::vector<int64_t>& sizes,
             const Tensor& recurrent, const std::optional<Tensor>& projection, float cell_clip,
             float projection_clip) {
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  const int64_t n = gates.size(0), cell_dim = c.size(1), dim = outputs.size(1);
  check_steps(sizes, n, c.size(0));
  TORCH_CHECK(projection || dim == cell_dim, "without a projection D is H");
  float* const gate_rows = data(gates, n, 4 * cell_dim, "gates");
  float* const c_rows = data(c, 0, cell_dim, "c");
  float* const output_rows = data(outputs, n, dim, "outputs");
  float* const cell_rows = cells ? data(*cells, n, cell_dim, "cells") : nullptr;
  const Tensor from_output = recurrent.t();
  const Tensor from_hidden = projection ? projection->t() : Tensor();
  const Tensor hidden = projection ? at::empty_like(c) : Tensor();
  int64_t start = 0;
  for (const int64_t size : sizes) {
    gates.narrow(0, start, size).addmm_(h.narrow(0, 0, size), from_output);
    float* const output = output_rows + start * dim;
    float* const hidden_rows = projection ? hidden.data_ptr<float>() : output;
    for_each_row(size, cell_dim, [&](int64_t r) {
      cell_row(gate_rows + (start + r) * 4 * cell_dim, c_rows + r * cell_dim,
               hidden_rows + r * cell_dim, cell_dim, cell_clip);
    });
    h = outputs.narrow(0, start, size);
    if (projection) {
      at::mm_out(h, hidden.narrow(0, 0, size), from_hidden);
      clamp_all(output, size * dim, projection_clip);
    }
    if (cell_rows) std::copy_n(c_rows, size * cell_dim, cell_rows + start * cell_dim);
    start += size;
  }
}

// Carries the gradient back through the steps of a chunk. Read: gates (n, 4H), before and cells
// (n, H), outputs (n, D). Written: by_gates (n, 4H), hidden (n, H). by_outputs (n, D): the loss's
// own gradient -> that by the values before the clip. h (B, D) and c (B, H): gradient by the output
// and the cell after the chunk -> before it.
void backward(const Tensor& gates, const Tensor& before, const Tensor& cells,
              const Tensor& outputs, const Tensor& by_gates, const Tensor& hidden,
              const Tensor& by_outputs, const Tensor& h, const Tensor& c,
              const std::vector<int64_t>& sizes, const Tensor& recurrent,
              const std::optional<Tensor>& projection, float cell_clip, float projection_clip) {
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  const int64_t n = gates.size(0), cell_dim = c.size(1), dim = outputs.size(1);
  check_steps(sizes, n, std::min(h.size(0), c.size(0)));
  TORCH_CHECK(projection || dim == cell_dim, "without a projection D is H");
  const float* const gate_rows = data(gates, n, 4 * cell_dim, "gates");
  const float* const before_rows = data(before, n, cell_dim, "cells before");
  const float* const cell_rows = data(cells, n, cell_dim, "cells");
  const float* const output_rows = data(outputs, n, dim, "outputs");
  float* const by_gate_rows = data(by_gates, n, 4 * cell_dim, "gradient by gates");
  float* const hidden_rows = data(hidden, n, cell_dim, "hidden");
  float* const by_output_rows = data(by_outputs, n, dim, "gradient by outputs");
  float* const h_rows = data(h, 0, dim, "h");
  float* const c_rows = data(c, 0, cell_dim, "c");
  const Tensor product = projection ? at::empty_like(c) : Tensor();
  int64_t start = n;
  for (auto step = sizes.rbegin(); step != sizes.rend(); ++step) {
    const int64_t size = *step;
    start -= size;
    float* const by_output = by_output_rows + start * dim;
    add_unless_clipped(by_output, h_rows, output_rows + start * dim, size * dim, projection_clip);
    const float* by_hidden = by_output;
    if (projection) {
      Tensor rows = product.narrow(0, 0, size);
      at::mm_out(rows, by_outputs.narrow(0, start, size), *projection);
      by_hidden = rows.data_ptr<float>();
    }
    for_each_row(size, cell_dim, [&](int64_t r) {
      const int64_t at = (start + r) * cell_dim;
      cell_row_back(gate_rows + 4 * at, before_rows + at, cell_rows + at, by_hidden + r * cell_dim,
                    by_gate_rows + 4 * at, hidden_rows + at, c_rows + r * cell_dim, cell_dim,
                    cell_clip);
    });
    Tensor h_before = h.narrow(0, 0, size);
    at::mm_out(h_before, by_gates.narrow(0, start, size), recurrent);
  }
}

// Makes the cell of a step of b rows whose matrices are multiplied elsewhere: gates (b, 4H), those
// of i, f and o halved; c (b, H): before -> after. Returns twice the hidden values (b, H).
Tensor cell_of_halves(const Tensor& gates, const Tensor& c, float clip) {
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  const int64_t rows = c.size(0), cell_dim = c.size(1);
  const float* const gate_rows = data(gates, rows, 4 * cell_dim, "gates");
  float* const c_rows = data(c, rows, cell_dim, "c");
  const Tensor hidden = at::empty_like(c);
  float* const hidden_rows = hidden.data_ptr<float>();
  for_each_row(rows, cell_dim, [&](int64_t r) {
    cell_row_of_halves(gate_rows + r * 4 * cell_dim, c_rows + r * cell_dim,
                       hidden_rows + r * cell_dim, cell_dim, clip);
  });
  return hidden;
}

// Codes (1, n, I), or (2, n, I) of 7 bits each where most goes beyond them, of values (n, I).
Tensor codes_of(const Tensor& values, float factor, float shift, float most) {
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  TORCH_CHECK(values.dim() == 2, "values must be a matrix");
  const int64_t rows = values.size(0), width = values.size(1), parts = most > 127.0f ? 2 : 1;
  const float* const value_rows = data(values, rows, width, "values");
  const Tensor codes = at::empty({parts, rows, width}, values.options().dtype(at::kByte));
  uint8_t* const code_rows = codes.data_ptr<uint8_t>();
  for_each_row(rows, width, [&](int64_t r) {
    const float* const row = value_rows + r * width;
    uint8_t* const upper = code_rows + r * width;
    if (parts == 1) {
      code_row(row, upper, width, factor, shift, most);
    } else {
      two_codes_row(row, upper, upper + rows * width, width, factor, shift, most);
    }
  });
  return codes;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  using WithoutGIL = pybind11::call_guard<pybind11::gil_scoped_release>;
  module.def("forward", &forward, WithoutGIL());
  module.def("backward", &backward, WithoutGIL());
  module.def("cell_of_halves", &cell_of_halves, WithoutGIL());
  module.def("codes_of", &codes_of, WithoutGIL());
}

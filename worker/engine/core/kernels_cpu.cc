#include "worker/engine/core/kernels_cpu.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <type_traits>

#include "common/error.h"
#include "worker/engine/core/cpu_target.h"
#include "worker/engine/core/parallel_for.h"
#include "worker/engine/core/vector_math.h"

namespace am::engine::kernels::cpu {
namespace {

using c10::BFloat16;

constexpr int64_t kGrainElements = 16384;  // below that a second thread costs more than it brings

int64_t RowGrain(int64_t columns) {
  return std::max<int64_t>(1, kGrainElements / std::max<int64_t>(columns, 1));
}

template <typename T>
T* Data(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.data_ptr()) : nullptr;
}

// Calls f with a null pointer of the activations' type.
template <typename F>
void ForType(at::ScalarType dtype, const F& f) {
  if (dtype == at::kFloat) {
    f(static_cast<float*>(nullptr));
  } else {
    f(static_cast<BFloat16*>(nullptr));
  }
}

// --- RMSNorm ---

template <typename T>
AM_TARGET_CLONES void NormRows(const T* residual, const T* delta, const T* weight, T* sum, T* out,
                               float* rstd, int64_t begin, int64_t end, int64_t columns,
                               float eps) {
  for (int64_t row = begin; row < end; ++row) {
    const T* x = residual + row * columns;
    T* o = out + row * columns;
    float squares = 0;
    if (delta != nullptr) {
      const T* d = delta + row * columns;
      T* s = sum + row * columns;
#pragma omp simd reduction(+ : squares)
      for (int64_t i = 0; i < columns; ++i) {
        const float v = Rounded<T>(Load(x + i) + Load(d + i));
        Store(s + i, v);
        squares += v * v;
      }
      x = s;
    } else {
#pragma omp simd reduction(+ : squares)
      for (int64_t i = 0; i < columns; ++i) {
        const float v = Load(x + i);
        squares += v * v;
      }
    }
    const float scale = 1.0f / std::sqrt(squares / static_cast<float>(columns) + eps);
    rstd[row] = scale;
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) {
      Store(o + i, Load(weight + i) * Rounded<T>(Load(x + i) * scale));
    }
  }
}

// weight_sum: [columns], added to, or null.
template <typename T>
AM_TARGET_CLONES void NormRowsBackward(const T* grad_sum, const T* grad_out, const T* sum,
                                       const float* rstd, const T* weight, T* grad,
                                       float* weight_sum, int64_t begin, int64_t end,
                                       int64_t columns) {
  for (int64_t row = begin; row < end; ++row) {
    const T* g = grad_out + row * columns;
    const T* x = sum + row * columns;
    T* o = grad + row * columns;
    const float scale = rstd[row];
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < columns; ++i) {
      dot += Load(g + i) * Load(weight + i) * (Load(x + i) * scale);
    }
    const float mean = dot / static_cast<float>(columns);
    if (weight_sum != nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < columns; ++i) {
        weight_sum[i] += Load(g + i) * Rounded<T>(Load(x + i) * scale);
      }
    }
    if (grad_sum != nullptr) {
      const T* r = grad_sum + row * columns;
#pragma omp simd
      for (int64_t i = 0; i < columns; ++i) {
        const float xhat = Load(x + i) * scale;
        const float v = (Load(g + i) * Load(weight + i) - xhat * mean) * scale;
        Store(o + i, v + Load(r + i));
      }
    } else {
#pragma omp simd
      for (int64_t i = 0; i < columns; ++i) {
        const float xhat = Load(x + i) * scale;
        Store(o + i, (Load(g + i) * Load(weight + i) - xhat * mean) * scale);
      }
    }
  }
}

// --- SwiGLU ---

template <typename T>
AM_TARGET_CLONES void SwiGluRows(const T* gate_up, T* out, int64_t begin, int64_t end, int64_t f) {
  for (int64_t row = begin; row < end; ++row) {
    const T* gate = gate_up + row * 2 * f;
    const T* up = gate + f;
    T* o = out + row * f;
#pragma omp simd
    for (int64_t i = 0; i < f; ++i) {
      const float g = Load(gate + i);
      Store(o + i, g * FastSigmoid(g) * Load(up + i));
    }
  }
}

template <typename T>
AM_TARGET_CLONES void SwiGluRowsBackward(const T* grad_out, const T* gate_up, T* grad,
                                         int64_t begin, int64_t end, int64_t f) {
  for (int64_t row = begin; row < end; ++row) {
    const T* d = grad_out + row * f;
    const T* gate = gate_up + row * 2 * f;
    const T* up = gate + f;
    T* grad_gate = grad + row * 2 * f;
    T* grad_up = grad_gate + f;
#pragma omp simd
    for (int64_t i = 0; i < f; ++i) {
      const float g = Load(gate + i);
      const float s = FastSigmoid(g);
      const float by = Load(d + i) * s;
      Store(grad_gate + i, by * Load(up + i) * (1.0f + g * (1.0f - s)));
      Store(grad_up + i, by * g);
    }
  }
}

// --- RoPE ---

template <typename T>
AM_TARGET_CLONES void RotateRows(T* x, int64_t stride, const int32_t* positions, const float* cos,
                                 const float* sin, int64_t begin, int64_t end, int64_t heads,
                                 int64_t half, float sign) {
  for (int64_t row = begin; row < end; ++row) {
    const float* c = cos + positions[row] * half;
    const float* s = sin + positions[row] * half;
    for (int64_t head = 0; head < heads; ++head) {
      T* first = x + row * stride + head * 2 * half;
      T* second = first + half;
#pragma omp simd
      for (int64_t i = 0; i < half; ++i) {
        const float a = Load(first + i);
        const float b = Load(second + i);
        const float sine = sign * s[i];
        Store(first + i, a * c[i] - b * sine);
        Store(second + i, b * c[i] + a * sine);
      }
    }
  }
}

// --- Cross entropy ---

constexpr int64_t kPiece = 2048;  // values of a row at a time, as float32 in the first-level cache

AM_ALWAYS_INLINE const float* AsFloat(const float* values, float*, int64_t) { return values; }
AM_ALWAYS_INLINE const float* AsFloat(const BFloat16* values, float* buffer, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) buffer[i] = Load(values + i);
  return buffer;
}

template <typename T>
AM_TARGET_CLONES float LossOfRow(T* logits, int64_t columns, int64_t target, bool want_grad,
                                 float grad_scale) {
  if (target < 0) {
    if (want_grad) std::fill(logits, logits + columns, T(0.0f));
    return 0;
  }
  alignas(64) float buffer[kPiece];
  float top = Load(logits);
  for (int64_t begin = 0; begin < columns; begin += kPiece) {
    const int64_t n = columns - begin < kPiece ? columns - begin : kPiece;
    const float* x = AsFloat(logits + begin, buffer, n);
#pragma omp simd reduction(max : top)
    for (int64_t i = 0; i < n; ++i) top = top > x[i] ? top : x[i];
  }
  const float at_target = Load(logits + target);
  double total = 0;
  for (int64_t begin = 0; begin < columns; begin += kPiece) {
    const int64_t n = columns - begin < kPiece ? columns - begin : kPiece;
    const float* x = AsFloat(logits + begin, buffer, n);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += FastExp(x[i] - top);
    total += sum;
  }
  if (want_grad) {
    const float factor = static_cast<float>(grad_scale / total);
    for (int64_t begin = 0; begin < columns; begin += kPiece) {
      const int64_t n = columns - begin < kPiece ? columns - begin : kPiece;
      T* out = logits + begin;
      const float* x = AsFloat(out, buffer, n);
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) buffer[i] = FastExp(x[i] - top) * factor;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) Store(out + i, buffer[i]);
    }
    Store(logits + target, FastExp(at_target - top) * factor - grad_scale);
  }
  return static_cast<float>(std::log(total) - (static_cast<double>(at_target) - top));
}

// --- Sums over flat memory ---

template <typename T>
AM_TARGET_CLONES void AddRange(float* destination, const T* source, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) destination[i] += Load(source + i);
}

// Dense [rows, columns] of the same dtype as `like`.
void CheckRows(const char* kernel, const at::Tensor& tensor, int64_t rows, int64_t columns,
               const at::Tensor& like) {
  if (tensor.dim() == 2 && tensor.size(0) == rows && tensor.size(1) == columns &&
      tensor.is_contiguous() && tensor.scalar_type() == like.scalar_type()) {
    return;
  }
  std::ostringstream text;
  text << kernel << ": " << tensor.scalar_type() << " " << tensor.sizes() << " with strides "
       << tensor.strides() << ", expected dense " << like.scalar_type() << " [" << rows << ", "
       << columns << "]";
  throw InternalError(text.str());
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> AddRmsNorm(const at::Tensor& residual,
                                                          const at::Tensor& delta,
                                                          const at::Tensor& weight, double eps) {
  const int64_t rows = residual.size(0);
  const int64_t columns = weight.numel();
  CheckRows("RMSNorm", residual, rows, columns, residual);
  if (delta.defined()) CheckRows("RMSNorm", delta, rows, columns, residual);
  const at::Tensor sum = delta.defined() ? at::empty_like(residual) : residual;
  const at::Tensor out = at::empty_like(residual);
  const at::Tensor rstd = at::empty({rows}, residual.options().dtype(at::kFloat));
  ForType(residual.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    ParallelFor(0, rows, RowGrain(columns), [&](int64_t begin, int64_t end) {
      NormRows<T>(Data<T>(residual), Data<T>(delta), Data<T>(weight), Data<T>(sum), Data<T>(out),
                  Data<float>(rstd), begin, end, columns, static_cast<float>(eps));
    });
  });
  return {sum, out, rstd};
}

std::pair<at::Tensor, at::Tensor> AddRmsNormBackward(const at::Tensor& grad_sum,
                                                     const at::Tensor& grad_out,
                                                     const at::Tensor& sum, const at::Tensor& rstd,
                                                     const at::Tensor& weight, bool want_weight) {
  const int64_t rows = sum.size(0);
  const int64_t columns = weight.numel();
  CheckRows("RMSNorm backward", sum, rows, columns, sum);
  CheckRows("RMSNorm backward", grad_out, rows, columns, sum);
  if (grad_sum.defined()) CheckRows("RMSNorm backward", grad_sum, rows, columns, sum);
  const at::Tensor grad = at::empty_like(sum);
  // One partial sum of the weight's gradient a thread, added in order.
  const int64_t shares = std::min<int64_t>(ParallelThreads(), std::max<int64_t>(rows, 1));
  const at::Tensor partial =
      want_weight ? at::zeros({shares, columns}, sum.options().dtype(at::kFloat)) : at::Tensor();
  ForType(sum.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    ParallelFor(0, shares, 1, [&](int64_t first, int64_t last) {
      for (int64_t share = first; share < last; ++share) {
        NormRowsBackward<T>(Data<T>(grad_sum), Data<T>(grad_out), Data<T>(sum), Data<float>(rstd),
                            Data<T>(weight), Data<T>(grad),
                            want_weight ? Data<float>(partial) + share * columns : nullptr,
                            rows * share / shares, rows * (share + 1) / shares, columns);
      }
    });
  });
  if (!want_weight) return {grad, at::Tensor()};
  float* total = Data<float>(partial);
  for (int64_t share = 1; share < shares; ++share) {
    AddRange(total, total + share * columns, columns);
  }
  return {grad, partial[0]};
}

at::Tensor SwiGlu(const at::Tensor& gate_up) {
  const int64_t rows = gate_up.size(0);
  const int64_t f = gate_up.size(1) / 2;
  CheckRows("SwiGLU", gate_up, rows, 2 * f, gate_up);
  const at::Tensor out = at::empty({rows, f}, gate_up.options());
  ForType(gate_up.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    ParallelFor(0, rows, RowGrain(f), [&](int64_t begin, int64_t end) {
      SwiGluRows<T>(Data<T>(gate_up), Data<T>(out), begin, end, f);
    });
  });
  return out;
}

at::Tensor SwiGluBackward(const at::Tensor& grad_out, const at::Tensor& gate_up) {
  const int64_t rows = gate_up.size(0);
  const int64_t f = gate_up.size(1) / 2;
  CheckRows("SwiGLU backward", gate_up, rows, 2 * f, gate_up);
  CheckRows("SwiGLU backward", grad_out, rows, f, gate_up);
  const at::Tensor grad = at::empty_like(gate_up);
  ForType(gate_up.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    ParallelFor(0, rows, RowGrain(f), [&](int64_t begin, int64_t end) {
      SwiGluRowsBackward<T>(Data<T>(grad_out), Data<T>(gate_up), Data<T>(grad), begin, end, f);
    });
  });
  return grad;
}

void RopeInPlace(at::Tensor& x, const at::Tensor& positions, const at::Tensor& cos,
                 const at::Tensor& sin, int64_t heads, int64_t head_dim, bool inverse) {
  const int64_t rows = x.size(0);
  if (x.dim() != 2 || x.stride(1) != 1 || x.size(1) < heads * head_dim ||
      positions.scalar_type() != at::kInt || positions.numel() != rows ||
      cos.size(1) * 2 != head_dim || !cos.is_contiguous() || !sin.is_contiguous()) {
    throw InternalError("RoPE: rows of " + std::to_string(heads) + " heads of " +
                        std::to_string(head_dim) +
                        " need int32 positions and a table of half that");
  }
  ForType(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    ParallelFor(0, rows, RowGrain(heads * head_dim), [&](int64_t begin, int64_t end) {
      RotateRows<T>(Data<T>(x), x.stride(0), Data<int32_t>(positions), Data<float>(cos),
                    Data<float>(sin), begin, end, heads, head_dim / 2, inverse ? -1.0f : 1.0f);
    });
  });
}

at::Tensor CrossEntropyInPlace(at::Tensor& logits, const at::Tensor& targets, double grad_scale) {
  const int64_t rows = logits.size(0);
  const int64_t columns = logits.size(1);
  CheckRows("cross entropy", logits, rows, columns, logits);
  if (targets.scalar_type() != at::kLong || targets.numel() != rows || !targets.is_contiguous()) {
    throw InternalError("cross entropy: needs one int64 target a row");
  }
  const at::Tensor loss = at::empty({rows}, logits.options().dtype(at::kFloat));
  ForType(logits.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t* target = Data<int64_t>(targets);
    ParallelFor(0, rows, RowGrain(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        if (target[row] >= columns) {
          throw InternalError("cross entropy: target " + std::to_string(target[row]) + " of " +
                              std::to_string(columns) + " classes");
        }
        Data<float>(loss)[row] = LossOfRow<T>(Data<T>(logits) + row * columns, columns, target[row],
                                              grad_scale != 0, static_cast<float>(grad_scale));
      }
    });
  });
  return loss;
}

void AddRows(at::Tensor& table, const at::Tensor& ids, const at::Tensor& rows) {
  const int64_t columns = table.size(1);
  CheckRows("row sum", table, table.size(0), columns, table);
  CheckRows("row sum", rows, ids.numel(), columns, rows);
  const int64_t* id = Data<int64_t>(ids);
  const int64_t count = rows.size(0);
  ForType(rows.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    // Threads split the columns: rows that share an id are added in order, without a race.
    ParallelFor(0, columns, std::max<int64_t>(64, kGrainElements / std::max<int64_t>(count, 1)),
                [&](int64_t begin, int64_t end) {
                  for (int64_t t = 0; t < count; ++t) {
                    AddRange(Data<float>(table) + id[t] * columns + begin,
                             Data<T>(rows) + t * columns + begin, end - begin);
                  }
                });
  });
}

void AddInto(at::Tensor& destination, const at::Tensor& source) {
  ForType(source.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    ParallelFor(0, destination.numel(), kGrainElements, [&](int64_t begin, int64_t end) {
      AddRange(Data<float>(destination) + begin, Data<T>(source) + begin, end - begin);
    });
  });
}

}  // namespace am::engine::kernels::cpu

// Causal attention over packed sequences, forward and backward, in float32 arithmetic.
//
// Made for the sequences of fine-tuning: some tens to some thousands of tokens. A task is one key
// and value head of one sequence: its keys and values are laid out once as float32 in the
// second-level cache and serve all query heads of their group. Rows of scores are kept whole (no
// running softmax), 16 queries at a time, and only up to the diagonal. Every product is one small
// register-blocked loop. Backward recomputes the probabilities from the saved log-sum-exp (Dao et
// al. 2022).
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "worker/engine/core/cpu_target.h"
#include "worker/engine/core/kernels_cpu.h"
#include "worker/engine/core/parallel_for.h"
#include "worker/engine/core/vector_math.h"

namespace am::engine::kernels::cpu {
namespace {

using c10::BFloat16;

constexpr int64_t kLanes = 16;     // floats in a Vector
constexpr int64_t kTileRows = 8;   // rows of a product kept in registers
constexpr int64_t kTileCols = 32;  // and columns, where there are as many
constexpr int64_t kQueryRows = 16;

typedef float Vector __attribute__((vector_size(64)));
typedef float LooseVector __attribute__((vector_size(64), aligned(4), may_alias));

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// c[8][16 * kWidth] = (or +=) a[8][k] b[k][16 * kWidth]; element (r, i) of a lies at a[r * a_row +
// i * a_step].
template <int kWidth>
AM_ALWAYS_INLINE void Tile(int64_t k, const float* a, int64_t a_row, int64_t a_step, const float* b,
                           int64_t b_row, float* c, int64_t c_row, bool add) {
  Vector sums[kTileRows][kWidth];
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
    for (int w = 0; w < kWidth; ++w) {
      sums[r][w] =
          add ? *reinterpret_cast<const LooseVector*>(c + r * c_row + w * kLanes) : Vector{};
    }
  }
  for (int64_t i = 0; i < k; ++i) {
    Vector row[kWidth];
#pragma GCC unroll 2
    for (int w = 0; w < kWidth; ++w) {
      row[w] = *reinterpret_cast<const LooseVector*>(b + i * b_row + w * kLanes);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
      const float by = a[r * a_row + i * a_step];
#pragma GCC unroll 2
      for (int w = 0; w < kWidth; ++w) sums[r][w] += by * row[w];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
    for (int w = 0; w < kWidth; ++w) {
      *reinterpret_cast<LooseVector*>(c + r * c_row + w * kLanes) = sums[r][w];
    }
  }
}

// c[m][n] = (or +=) a[m][k] b[k][n]; m a multiple of 8, n of 16.
AM_TARGET_CLONES void Product(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row,
                              int64_t a_step, const float* b, int64_t b_row, float* c,
                              int64_t c_row, bool add) {
  for (int64_t r = 0; r < m; r += kTileRows) {
    int64_t column = 0;
    for (; column + kTileCols <= n; column += kTileCols) {
      Tile<2>(k, a + r * a_row, a_row, a_step, b + column, b_row, c + r * c_row + column, c_row,
              add);
    }
    if (column < n) {
      Tile<1>(k, a + r * a_row, a_row, a_step, b + column, b_row, c + r * c_row + column, c_row,
              add);
    }
  }
}

// rows [n][d] at `source` as float32 times `scale`; with zero rows up to `padded`.
template <typename T>
AM_TARGET_CLONES void LoadRows(const T* source, int64_t stride, int64_t n, int64_t padded,
                               int64_t d, float scale, float* rows) {
  for (int64_t t = 0; t < n; ++t) {
#pragma omp simd
    for (int64_t i = 0; i < d; ++i) rows[t * d + i] = Load(source + t * stride + i) * scale;
  }
  std::fill(rows + n * d, rows + padded * d, 0.0f);
}

template <typename T>
AM_TARGET_CLONES void StoreRows(const float* rows, int64_t n, int64_t d, float scale,
                                T* destination, int64_t stride) {
  for (int64_t t = 0; t < n; ++t) {
#pragma omp simd
    for (int64_t i = 0; i < d; ++i) Store(destination + t * stride + i, rows[t * d + i] * scale);
  }
}

// [n][d] -> [d][padded], zeros behind n.
AM_TARGET_CLONES void Transpose(const float* rows, int64_t n, int64_t d, int64_t padded,
                                float* columns) {
  for (int64_t first = 0; first < padded; first += kLanes) {
    const int64_t count = std::min(kLanes, n - first);
    for (int64_t i = 0; i < d; ++i) {
      float* out = columns + i * padded + first;
      for (int64_t t = 0; t < kLanes; ++t) out[t] = t < count ? rows[(first + t) * d + i] : 0;
    }
  }
}

// Softmax of row[0, n) in place, zeros up to `padded`; returns the log of the sum of exponentials.
AM_TARGET_CLONES float SoftmaxRow(float* row, int64_t n, int64_t padded) {
  float top = row[0];
#pragma omp simd reduction(max : top)
  for (int64_t j = 0; j < n; ++j) top = top > row[j] ? top : row[j];
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) {
    row[j] = FastExp(row[j] - top);
    sum += row[j];
  }
  const float factor = 1.0f / sum;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) row[j] *= factor;
  std::fill(row + n, row + padded, 0.0f);
  return top + std::log(sum);
}

// scores -> probabilities p, and grad (dP) -> gradient of the scores p (dP - delta); zeros from n
// up to `padded`.
AM_TARGET_CLONES void SoftmaxRowBackward(float* p, float* grad, float lse, float delta, int64_t n,
                                         int64_t padded) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float e = FastExp(p[j] - lse);
    p[j] = e;
    grad[j] = e * (grad[j] - delta);
  }
  std::fill(p + n, p + padded, 0.0f);
  std::fill(grad + n, grad + padded, 0.0f);
}

AM_TARGET_CLONES float Dot(const float* a, const float* b, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Memory of a thread that its tasks share, grown as needed.
class Scratch {
 public:
  explicit Scratch(int64_t floats) {
    if (floats > size_) {
      memory_.reset(static_cast<float*>(std::aligned_alloc(64, RoundUp(floats * 4, 64))));
      if (!memory_) throw InternalError("attention: out of memory");
      size_ = floats;
    }
    next_ = memory_.get();
  }
  float* Take(int64_t floats) { return std::exchange(next_, next_ + RoundUp(floats, kLanes)); }

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  static thread_local std::unique_ptr<float[], Free> memory_;
  static thread_local int64_t size_;
  float* next_;
};
thread_local std::unique_ptr<float[], Scratch::Free> Scratch::memory_;
thread_local int64_t Scratch::size_ = 0;

struct Shape {
  int64_t heads;
  int64_t kv_heads;
  int64_t d;
  int64_t width() const { return (heads + 2 * kv_heads) * d; }  // of a row of qkv
  int64_t group() const { return heads / kv_heads; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(d)); }
};

// One key and value head of one sequence, rows [begin, begin + n).
struct Task {
  int64_t begin;
  int64_t n;
  int64_t kv_head;
};

template <typename T>
void Forward(const Shape& shape, const Task& task, const T* qkv, T* out, float* lse) {
  const int64_t n = task.n, d = shape.d, padded = RoundUp(n, kTileCols);
  Scratch scratch(2 * padded * d + padded * d + kQueryRows * (2 * d + padded) + 6 * kLanes);
  float* keys = scratch.Take(padded * d);
  float* keys_by_column = scratch.Take(padded * d);
  float* values = scratch.Take(padded * d);
  float* queries = scratch.Take(kQueryRows * d);
  float* result = scratch.Take(kQueryRows * d);
  float* scores = scratch.Take(kQueryRows * padded);
  const T* rows = qkv + task.begin * shape.width();
  const T* key = rows + (shape.heads + task.kv_head) * d;
  LoadRows(key, shape.width(), n, padded, d, 1, keys);
  Transpose(keys, n, d, padded, keys_by_column);
  LoadRows(key + shape.kv_heads * d, shape.width(), n, padded, d, 1, values);
  for (int64_t member = 0; member < shape.group(); ++member) {
    const int64_t head = task.kv_head * shape.group() + member;
    for (int64_t first = 0; first < n; first += kQueryRows) {
      const int64_t count = std::min(kQueryRows, n - first);
      const int64_t reach = RoundUp(first + count, kTileCols);  // keys up to the diagonal
      LoadRows(rows + first * shape.width() + head * d, shape.width(), count, kQueryRows, d,
               shape.scale(), queries);
      Product(kQueryRows, reach, d, queries, d, 1, keys_by_column, padded, scores, padded, false);
      for (int64_t r = 0; r < count; ++r) {
        lse[(task.begin + first + r) * shape.heads + head] =
            SoftmaxRow(scores + r * padded, first + r + 1, reach);
      }
      Product(kQueryRows, d, first + count, scores, padded, 1, values, d, result, d, false);
      StoreRows(result, count, d, 1, out + (task.begin + first) * shape.heads * d + head * d,
                shape.heads * d);
    }
  }
}

template <typename T>
void Backward(const Shape& shape, const Task& task, const T* grad_out, const T* qkv, const T* out,
              const float* lse, T* grad) {
  const int64_t n = task.n, d = shape.d, padded = RoundUp(n, kTileCols);
  Scratch scratch(6 * padded * d + kQueryRows * (4 * d + 2 * padded) + 12 * kLanes);
  float* keys = scratch.Take(padded * d);
  float* keys_by_column = scratch.Take(padded * d);
  float* values = scratch.Take(padded * d);
  float* values_by_column = scratch.Take(padded * d);
  float* grad_keys = scratch.Take(padded * d);
  float* grad_values = scratch.Take(padded * d);
  float* queries = scratch.Take(kQueryRows * d);
  float* outputs = scratch.Take(kQueryRows * d);
  float* grad_outputs = scratch.Take(kQueryRows * d);
  float* grad_queries = scratch.Take(kQueryRows * d);
  float* scores = scratch.Take(kQueryRows * padded);
  float* grad_scores = scratch.Take(kQueryRows * padded);
  const int64_t key_offset = task.begin * shape.width() + (shape.heads + task.kv_head) * d;
  const int64_t value_offset = key_offset + shape.kv_heads * d;
  LoadRows(qkv + key_offset, shape.width(), n, padded, d, 1, keys);
  LoadRows(qkv + value_offset, shape.width(), n, padded, d, 1, values);
  Transpose(keys, n, d, padded, keys_by_column);
  Transpose(values, n, d, padded, values_by_column);
  std::fill(grad_keys, grad_keys + padded * d, 0.0f);
  std::fill(grad_values, grad_values + padded * d, 0.0f);
  for (int64_t member = 0; member < shape.group(); ++member) {
    const int64_t head = task.kv_head * shape.group() + member;
    for (int64_t first = 0; first < n; first += kQueryRows) {
      const int64_t count = std::min(kQueryRows, n - first);
      const int64_t reach = RoundUp(first + count, kTileCols);
      const int64_t q_offset = (task.begin + first) * shape.width() + head * d;
      const int64_t out_offset = (task.begin + first) * shape.heads * d + head * d;
      LoadRows(qkv + q_offset, shape.width(), count, kQueryRows, d, shape.scale(), queries);
      LoadRows(out + out_offset, shape.heads * d, count, kQueryRows, d, 1, outputs);
      LoadRows(grad_out + out_offset, shape.heads * d, count, kQueryRows, d, 1, grad_outputs);
      Product(kQueryRows, reach, d, queries, d, 1, keys_by_column, padded, scores, padded, false);
      Product(kQueryRows, reach, d, grad_outputs, d, 1, values_by_column, padded, grad_scores,
              padded, false);
      for (int64_t r = 0; r < count; ++r) {
        SoftmaxRowBackward(scores + r * padded, grad_scores + r * padded,
                           lse[(task.begin + first + r) * shape.heads + head],
                           Dot(outputs + r * d, grad_outputs + r * d, d), first + r + 1, reach);
      }
      // Rows beyond the last query are zero in queries and grad_outputs alike; their scores must
      // not be NaN.
      for (int64_t r = count; r < kQueryRows; ++r) {
        std::fill_n(scores + r * padded, reach, 0.0f);
        std::fill_n(grad_scores + r * padded, reach, 0.0f);
      }
      Product(kQueryRows, d, first + count, grad_scores, padded, 1, keys, d, grad_queries, d,
              false);
      StoreRows(grad_queries, count, d, shape.scale(), grad + q_offset, shape.width());
      const int64_t touched = RoundUp(first + count, kTileRows);
      Product(touched, d, kQueryRows, scores, 1, padded, grad_outputs, d, grad_values, d, true);
      Product(touched, d, kQueryRows, grad_scores, 1, padded, queries, d, grad_keys, d, true);
    }
  }
  StoreRows(grad_keys, n, d, 1, grad + key_offset, shape.width());
  StoreRows(grad_values, n, d, 1, grad + value_offset, shape.width());
}

// The tasks of a batch, the longest first, so that threads finish together.
std::vector<Task> TasksOf(const at::Tensor& qkv, at::ArrayRef<int64_t> cu_seqlens,
                          const Shape& shape) {
  if (qkv.dim() != 2 || !qkv.is_contiguous() || qkv.size(1) != shape.width() ||
      shape.heads % shape.kv_heads != 0 || cu_seqlens.empty() || cu_seqlens[0] != 0 ||
      cu_seqlens.back() != qkv.size(0) || !std::is_sorted(cu_seqlens.begin(), cu_seqlens.end())) {
    throw InternalError("attention: needs dense rows of " + std::to_string(shape.heads) +
                        " + 2 x " + std::to_string(shape.kv_heads) + " heads of " +
                        std::to_string(shape.d) + " and the ascending starts of the sequences");
  }
  std::vector<Task> tasks;
  for (size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
    for (int64_t kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
      const int64_t n = cu_seqlens[i + 1] - cu_seqlens[i];
      if (n > 0) tasks.push_back({cu_seqlens[i], n, kv_head});
    }
  }
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const Task& a, const Task& b) { return a.n > b.n; });
  return tasks;
}

template <typename F>
void ForType(at::ScalarType dtype, const F& f) {
  if (dtype == at::kFloat) {
    f(static_cast<float*>(nullptr));
  } else {
    f(static_cast<BFloat16*>(nullptr));
  }
}

}  // namespace

std::pair<at::Tensor, at::Tensor> VarlenAttention(const at::Tensor& qkv,
                                                  at::ArrayRef<int64_t> cu_seqlens, int64_t heads,
                                                  int64_t kv_heads, int64_t head_dim) {
  const Shape shape{heads, kv_heads, head_dim};
  const std::vector<Task> tasks = TasksOf(qkv, cu_seqlens, shape);
  const at::Tensor out = at::empty({qkv.size(0), heads * head_dim}, qkv.options());
  const at::Tensor lse = at::empty({qkv.size(0), heads}, qkv.options().dtype(at::kFloat));
  ForType(qkv.scalar_type(), [&]<typename T>(T*) {
    ParallelTasks(std::ssize(tasks), [&](int64_t i) {
      Forward<T>(shape, tasks[i], static_cast<const T*>(qkv.data_ptr()),
                 static_cast<T*>(out.data_ptr()), static_cast<float*>(lse.data_ptr()));
    });
  });
  return {out, lse};
}

at::Tensor VarlenAttentionBackward(const at::Tensor& grad_out, const at::Tensor& qkv,
                                   const at::Tensor& out, const at::Tensor& lse,
                                   at::ArrayRef<int64_t> cu_seqlens, int64_t heads,
                                   int64_t kv_heads, int64_t head_dim) {
  const Shape shape{heads, kv_heads, head_dim};
  const std::vector<Task> tasks = TasksOf(qkv, cu_seqlens, shape);
  for (const at::Tensor& rows : {grad_out, out}) {
    if (!rows.is_contiguous() || rows.scalar_type() != qkv.scalar_type() ||
        rows.numel() != qkv.size(0) * heads * head_dim) {
      throw InternalError(
          "attention backward: output and its gradient must be dense, in qkv's dtype");
    }
  }
  const at::Tensor grad = at::empty_like(qkv);
  ForType(qkv.scalar_type(), [&]<typename T>(T*) {
    ParallelTasks(std::ssize(tasks), [&](int64_t i) {
      Backward<T>(shape, tasks[i], static_cast<const T*>(grad_out.data_ptr()),
                  static_cast<const T*>(qkv.data_ptr()), static_cast<const T*>(out.data_ptr()),
                  static_cast<const float*>(lse.data_ptr()), static_cast<T*>(grad.data_ptr()));
    });
  });
  return grad;
}

}  // namespace am::engine::kernels::cpu

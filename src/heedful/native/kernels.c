// Transformers on a CPU, with int8 or float32 weights: a list of operations on rows of buffers, run by one call.
//
//   y = (q_x . q_w) s_x s_w + b     q_x, q_w whole numbers from -127 to 127; one scale per row of x, one per column of w
//
// Sums of products are whole numbers, and all other sums run over one row in a fixed order: a row gets the same bits
// alone, among any neighbours and with any number of threads.
//
// Widths are padded by zeros: those of buffers and weights to a multiple of 64, those of heads to one of 16. The caller (plan.py) makes sure that all sizes, indices and lengths are inside their buffers.
//
// One source for three sets of instructions: AVX2; AVX-512 with VNNI; the latter with AMX.
#define _GNU_SOURCE
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#else
#define omp_get_thread_num() 0
#endif

#define INLINE static inline __attribute__((always_inline))
#define APART 64  // between rows of q: rows whose distance is a power of two are in each other's way in a cache
#define AHEAD 4096  // bytes by which weights are asked for before they are used; what follows them is there to be read
#define IN_CACHE (1 << 16)  // floats that a core keeps next to the weights that it multiplies by
#define CHUNK 4096  // columns that one thread normalises at a time
#define ROWS _Pragma("omp for schedule(static)") for (int64_t r = 0; r < f->rows; r++)

// --- vectors of floats ------------------------------------------------------------------------------------------------

#ifdef __AVX512F__
#define W 16
typedef __m512 V;
#define F(operation) _mm512_##operation##_ps
INLINE float sum_of(V x) { return _mm512_reduce_add_ps(x); }
INLINE float greatest_of(V x) { return _mm512_reduce_max_ps(x); }
INLINE V rounded(V x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE V power_of_two(V n) { return _mm512_scalef_ps(_mm512_set1_ps(1.0f), n); }
INLINE int any_greater(V x, V y) { return _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ) != 0; }
#define WHOLE(x, less) _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_loadu_si512(x), _mm512_set1_epi32(less)))
#else
#define W 8
typedef __m256 V;
#define F(operation) _mm256_##operation##_ps
INLINE float sum_of(V x) {
  __m128 h = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  h = _mm_add_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}
INLINE float greatest_of(V x) {
  __m128 h = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  h = _mm_max_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)));
}
INLINE V rounded(V x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE V power_of_two(V n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
INLINE int any_greater(V x, V y) { return _mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_GT_OQ)) != 0; }
#define WHOLE(x, less) \
  _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_loadu_si256((const __m256i*)(x)), _mm256_set1_epi32(less)))
#endif

INLINE V all(float x) { return F(set1)(x); }
INLINE V without_sign(V x) { return F(max)(x, F(sub)(F(setzero)(), x)); }

// e^x as 2^n 2^f: a polynomial for 2^f, |f| <= 1/2 (relative error 2e-7); x is at least -87, so that 2^n is normal.
INLINE V exponential(V x) {
  x = F(min)(F(max)(x, all(-87.0f)), all(88.0f));
  V t = F(mul)(x, all(1.44269504f)), n = rounded(t), f = F(sub)(t, n), p = all(1.5403530e-4f);
  p = F(fmadd)(p, f, all(1.3333558e-3f));
  p = F(fmadd)(p, f, all(9.6181291e-3f));
  p = F(fmadd)(p, f, all(5.5504109e-2f));
  p = F(fmadd)(p, f, all(2.4022651e-1f));
  p = F(fmadd)(p, f, all(6.9314718e-1f));
  return F(mul)(F(fmadd)(p, f, all(1.0f)), power_of_two(n));
}

INLINE V sigmoid(V x) { return F(div)(all(1.0f), F(add)(all(1.0f), exponential(F(sub)(F(setzero)(), x)))); }

// x P(X <= x) = max(x, 0) - |x| P(X > |x|), X normal: Abramowitz and Stegun 7.1.26, absolute error 1.5e-7 |x|.
INLINE V gelu(V x) {
  V z = without_sign(F(mul)(x, all(0.70710678f))), t = F(div)(all(1.0f), F(fmadd)(z, all(0.3275911f), all(1.0f)));
  V p = all(1.061405429f);
  p = F(fmadd)(p, t, all(-1.453152027f));
  p = F(fmadd)(p, t, all(1.421413741f));
  p = F(fmadd)(p, t, all(-0.284496736f));
  p = F(fmadd)(p, t, all(0.254829592f));
  V tail = F(mul)(F(mul)(p, t), exponential(F(sub)(F(setzero)(), F(mul)(z, z))));  // 1 - erf |x / sqrt 2|
  return F(sub)(F(max)(x, F(setzero)()), F(mul)(F(mul)(all(0.5f), without_sign(x)), tail));
}

INLINE V gelu_tanh(V x) {  // x (1 + tanh u) / 2 = x sigmoid(2 u)
  V cube = F(mul)(F(mul)(x, x), x);
  return F(mul)(x, sigmoid(F(mul)(all(1.5957691216f), F(fmadd)(all(0.044715f), cube, x))));
}

enum { NONE, RELU, GELU, GELU_TANH, SILU };

INLINE V activate(V x, int kind) {
  switch (kind) {
    case RELU: return F(max)(x, F(setzero)());
    case GELU: return gelu(x);
    case GELU_TANH: return gelu_tanh(x);
    case SILU: return F(mul)(x, sigmoid(x));
    default: return x;
  }
}

// --- what is run ------------------------------------------------------------------------------------------------------

enum { LINEAR, NORM, ATTEND, ROTATE, GATE, STORE, EMBED, NORMALISE, FLOATS };
enum { STEP, MEMORY, PACKED };  // over what a row attends to

typedef struct {
  int32_t kind, in, out, skip;            // buffers: what is read, written, and added (-1 for nothing)
  int32_t n, k;                           // columns that are written and read, padded; of a norm, n is its true width
  int32_t act, mode;                      // activation; over what is attended to, or 1 for the root mean square
  int32_t heads, groups, key, value;      // heads of queries, of keys and values; their padded widths
  int32_t rotated, causal, radius, free;  // columns that are rotated; -1 for no radius
  float factor, eps;                      // of what is skipped, or of scores
  const uint8_t* w;                       // [n / 32][k / 4][32][4], 128 more than the weights; floats: [n / 32][k][32]
  const float *scale, *bias;              // [n]; of a norm, its factors and what is added
  const float* waves;                     // [positions][rotated / 2 sines, rotated / 2 cosines], or [rotated][n] to add
  float *keys, *values;                   // of the cache [slots][room][beams][groups * width], or of the memory
  int64_t key_row, value_row;             // numbers between two rows of keys and of values
} Op;

typedef struct {
  int64_t rows, beams, room, bound;   // K rows for each sentence; positions of the cache; longest that is attended to
  float* buffer[6];                   // [rows][stride]
  int64_t stride[6];
  int8_t* q;                          // [rows, to a multiple of 32][k + APART]: the rows that a product reads
  float* row_scale;                   // [rows]
  int32_t* row_sum;                   // [rows]
  float* scores;                      // [threads][bound, to a multiple of 16]
  int32_t* places;                    // [threads][bound]
  const int32_t *slot, *position;     // of each sentence in a step, of each row otherwise
  int16_t* ancestors;                 // [sentences][beams][room]: the row that wrote what a row descends from
  const int32_t *first, *count;       // of the memory, by slot; of packed sentences, by row
  const int64_t* tokens;              // [rows]
  float *greatest, *log_sum, *parts;  // [rows], [rows], [rows][2][n / CHUNK, rounded up]
} Frame;

// --- products ---------------------------------------------------------------------------------------------------------

INLINE void quantize(const float* x, int k, int8_t* q, float* scale, int32_t* sum) {
  V m = F(setzero)();
  for (int i = 0; i < k; i += W) m = F(max)(m, without_sign(F(loadu)(x + i)));
  float greatest = greatest_of(m);
  V r = all(greatest > 0 ? 127 / greatest : 0);
  *scale = greatest / 127;
#ifdef __AVX512F__
  __m512i s = _mm512_setzero_si512();
  for (int i = 0; i < k; i += W) {
    __m512i v = _mm512_cvtps_epi32(F(mul)(F(loadu)(x + i), r));
    s = _mm512_add_epi32(s, v);
    _mm_storeu_si128((__m128i*)(q + i), _mm512_cvtsepi32_epi8(v));
  }
  *sum = 128 * _mm512_reduce_add_epi32(s);  // weights are stored as 128 more than they are
#else
  for (int i = 0; i < k; i += 32) {
    __m256i v[4];
    for (int j = 0; j < 4; j++) v[j] = _mm256_cvtps_epi32(F(mul)(F(loadu)(x + i + 8 * j), r));
    __m256i b = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    b = _mm256_permutevar8x32_epi32(b, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i*)(q + i), b);
  }
  *sum = 0;
#endif
}

// Finish 32 columns of `count` rows, from the sums of products: scales, bias, activation, skip connection.
static __attribute__((noinline)) void finish(const Op* o, const Frame* f, int64_t first, int64_t count, int c,
                                             const void* products) {
  for (int64_t m = 0; m < count; m++) {
    int64_t r = first + m;
    float* y = f->buffer[o->out] + r * f->stride[o->out] + c;
    const float* skip = o->skip >= 0 ? f->buffer[o->skip] + r * f->stride[o->skip] + c : 0;
    for (int i = 0; i < 32; i += W) {
      const void* sums = (const float*)products + 32 * m + i;  // or whole numbers, which are as large
      V b = F(loadu)(o->bias + c + i), x;
      if (o->kind == FLOATS) x = F(add)(F(loadu)(sums), b);
      else x = F(fmadd)(WHOLE(sums, f->row_sum[r]), F(mul)(all(f->row_scale[r]), F(loadu)(o->scale + c + i)), b);
      x = activate(x, o->act);
      if (skip) x = F(fmadd)(all(o->factor), F(loadu)(skip + i), x);
      F(storeu)(y + i, x);
    }
  }
}

#ifdef __AVX512F__
#define TILE 12
// M rows times 32 columns; `far`: the weights come from memory and are read once, so they are asked for early.
INLINE void tile(const int M, const Op* o, const Frame* f, int block, int64_t r, const int far) {
  __m512i sums[TILE][2];
  const uint8_t* w = o->w + (size_t)block * 32 * o->k;
  const int8_t* q = f->q + (size_t)r * (o->k + APART);
#pragma GCC unroll 12
  for (int m = 0; m < M; m++) sums[m][0] = sums[m][1] = _mm512_setzero_si512();
  for (int i = 0; i < o->k; i += 4, w += 128) {
    __m512i left = _mm512_loadu_si512(w), right = _mm512_loadu_si512(w + 64);
    if (far) {
      _mm_prefetch((const char*)w + AHEAD, _MM_HINT_T0);
      _mm_prefetch((const char*)w + AHEAD + 64, _MM_HINT_T0);
    }
#pragma GCC unroll 12
    for (int m = 0; m < M; m++) {
      int32_t four;
      memcpy(&four, q + (size_t)m * (o->k + APART) + i, 4);
      __m512i x = _mm512_set1_epi32(four);  // in assembly, since gcc 12 copies and spills around the intrinsic
      __asm__("vpdpbusd %2, %1, %0" : "+v"(sums[m][0]) : "v"(left), "v"(x));
      __asm__("vpdpbusd %2, %1, %0" : "+v"(sums[m][1]) : "v"(right), "v"(x));
    }
  }
  int32_t found[TILE][32] __attribute__((aligned(64)));
#pragma GCC unroll 12
  for (int m = 0; m < M; m++) {
    _mm512_store_si512(found[m], sums[m][0]);
    _mm512_store_si512(found[m] + 16, sums[m][1]);
  }
  finish(o, f, r, M, block * 32, found);
}
#else
#define TILE 3
// vpmaddubsw adds two products in 16 bits: those of |w| and x with the sign of w are at most 2 * 127 * 127 = 32,258,
// and fit; products of the stored bytes, from 1 to 255, would saturate.
INLINE void tile(const int M, const Op* o, const Frame* f, int block, int64_t r, const int far) {
  __m256i sums[TILE][4];
  const uint8_t* w = o->w + (size_t)block * 32 * o->k;
  const int8_t* q = f->q + (size_t)r * (o->k + APART);
#pragma GCC unroll 3
  for (int m = 0; m < M; m++)
    for (int j = 0; j < 4; j++) sums[m][j] = _mm256_setzero_si256();
  for (int i = 0; i < o->k; i += 4, w += 128) {
    if (far) _mm_prefetch((const char*)w + AHEAD, _MM_HINT_T0);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
      __m256i v = _mm256_xor_si256(_mm256_loadu_si256((const __m256i*)(w + 32 * j)), _mm256_set1_epi8(-128));
      __m256i size = _mm256_abs_epi8(v);
#pragma GCC unroll 3
      for (int m = 0; m < M; m++) {
        int32_t four;
        memcpy(&four, q + (size_t)m * (o->k + APART) + i, 4);
        __m256i pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(_mm256_set1_epi32(four), v));
        sums[m][j] = _mm256_add_epi32(sums[m][j], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
      }
    }
  }
  int32_t found[TILE][32] __attribute__((aligned(64)));
#pragma GCC unroll 3
  for (int m = 0; m < M; m++)
    for (int j = 0; j < 4; j++) _mm256_store_si256((__m256i*)(found[m] + 8 * j), sums[m][j]);
  finish(o, f, r, M, block * 32, found);
}
#endif

// The same with float32 weights: each sum is over the columns in their order.
INLINE void tile_of_packed(const int M, const Op* o, const Frame* f, int block, int64_t r, const int far) {
  V sums[TILE][32 / W];
  const float* w = (const float*)o->w + (size_t)block * 32 * o->k;
  int64_t stride = f->stride[o->in];
  const float* x = f->buffer[o->in] + r * stride;
#pragma GCC unroll 12
  for (int m = 0; m < M; m++)
    for (int j = 0; j < 32 / W; j++) sums[m][j] = F(setzero)();
  for (int i = 0; i < o->k; i++, w += 32) {
    V v[32 / W];
#pragma GCC unroll 4
    for (int j = 0; j < 32 / W; j++) v[j] = F(loadu)(w + W * j);
    if (far) {
      _mm_prefetch((const char*)w + AHEAD, _MM_HINT_T0);
      _mm_prefetch((const char*)w + AHEAD + 64, _MM_HINT_T0);
    }
#pragma GCC unroll 12
    for (int m = 0; m < M; m++) {
      V a = all(x[m * stride + i]);
#pragma GCC unroll 4
      for (int j = 0; j < 32 / W; j++) sums[m][j] = F(fmadd)(a, v[j], sums[m][j]);
    }
  }
  float found[TILE][32];
#pragma GCC unroll 12
  for (int m = 0; m < M; m++)
    for (int j = 0; j < 32 / W; j++) F(storeu)(found[m] + W * j, sums[m][j]);
  finish(o, f, r, M, block * 32, found);
}

#define CASE(M) case M: TILE_OF(M, 1); break;
#if TILE == 12
#define CASES CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11)
#else
#define CASES CASE(1) CASE(2)
#endif
#define ALL_TILES(first, end)                                                              \
  for (int64_t r = first; r < end; r += TILE) switch (end - r) {                            \
      CASES                                                                                \
      default:                                                                             \
        if (f->rows <= TILE) TILE_OF(TILE, 1);                                             \
        else TILE_OF(TILE, 0);                                                             \
    }

INLINE void block_of_columns(const Op* o, const Frame* f, int block) {
#define TILE_OF(M, far) tile(M, o, f, block, r, far)
  ALL_TILES(0, f->rows)
#undef TILE_OF
}

// Rows that are many are taken in groups that stay in a cache while all weights pass.
static void linear_of_floats(const Op* o, const Frame* f) {
#define TILE_OF(M, far) tile_of_packed(M, o, f, block, r, far)
  int64_t group = (IN_CACHE / o->k / TILE + 1) * TILE;
  for (int64_t first = 0; first < f->rows; first += group) {
    int64_t end = first + group < f->rows ? first + group : f->rows;
#pragma omp for schedule(static) nowait
    for (int block = 0; block < o->n / 32; block++) {
      ALL_TILES(first, end)
    }
  }
#pragma omp barrier
#undef TILE_OF
}

#ifdef __AMX_INT8__
#define MANY 16  // rows from which on tiles pay
typedef struct { uint8_t palette, start, zeros[14]; uint16_t bytes[16]; uint8_t rows[16]; } __attribute__((packed)) Tiles;

static void configure(void) {
  Tiles t __attribute__((aligned(64)));
  memset(&t, 0, sizeof t);
  t.palette = 1;
  for (int i = 0; i < 8; i++) { t.bytes[i] = 64; t.rows[i] = 16; }
  _tile_loadconfig(&t);
}

// 32 rows times 32 columns at once: four tiles of sums, two of rows, two of weights.
static void block_by_tiles(const Op* o, const Frame* f, int block) {
  int32_t sums[32][32] __attribute__((aligned(64)));
  for (int64_t r = 0; r < f->rows; r += 32) {
    const int8_t* q = f->q + (size_t)r * (o->k + APART);
    const uint8_t* w = o->w + (size_t)block * 32 * o->k;
    _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
    for (int i = 0; i < o->k; i += 64, w += 2048) {
      _tile_loadd(4, q + i, o->k + APART);
      _tile_loadd(5, q + (size_t)16 * (o->k + APART) + i, o->k + APART);
      _tile_loadd(6, w, 128);
      _tile_loadd(7, w + 64, 128);
      _tile_dpbsud(0, 4, 6); _tile_dpbsud(1, 4, 7); _tile_dpbsud(2, 5, 6); _tile_dpbsud(3, 5, 7);
    }
    _tile_stored(0, sums[0], 128); _tile_stored(1, &sums[0][16], 128);
    _tile_stored(2, sums[16], 128); _tile_stored(3, &sums[16][16], 128);
    int64_t count = f->rows - r < 32 ? f->rows - r : 32;
    finish(o, f, r, count, block * 32, sums);
  }
}
#endif

static void linear(const Op* o, const Frame* f) {
  ROWS quantize(f->buffer[o->in] + r * f->stride[o->in], o->k, f->q + r * (o->k + APART), f->row_scale + r, f->row_sum + r);
#ifdef __AMX_INT8__
  if (f->rows >= MANY) {
    configure();
#pragma omp for schedule(static)
    for (int block = 0; block < o->n / 32; block++) block_by_tiles(o, f, block);
    _tile_release();
    return;
  }
#endif
#pragma omp for schedule(static)
  for (int block = 0; block < o->n / 32; block++) block_of_columns(o, f, block);
}

// --- norms and gates --------------------------------------------------------------------------------------------------

// mode 0: (x - mean) / sqrt(variance + eps) w + b; mode 1: x / sqrt(mean of squares + eps) w + b
static void norm(const Op* o, const Frame* f) {
  int n = o->n, whole = n / W * W;
  ROWS {
    const float* x = f->buffer[o->in] + r * f->stride[o->in];
    float *y = f->buffer[o->out] + r * f->stride[o->out], mean = 0;
    V s = F(setzero)();
    if (o->mode == 0) {
      for (int i = 0; i < whole; i += W) s = F(add)(s, F(loadu)(x + i));
      mean = sum_of(s);
      for (int i = whole; i < n; i++) mean += x[i];
      mean /= n;
    }
    s = F(setzero)();
    for (int i = 0; i < whole; i += W) {
      V d = F(sub)(F(loadu)(x + i), all(mean));
      s = F(fmadd)(d, d, s);
    }
    float square = sum_of(s);
    for (int i = whole; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
    V rate = all(1 / sqrtf(square / n + o->eps));
    for (int i = 0; i < o->k; i += W) {  // factors and biases of padding are 0
      V d = F(mul)(F(sub)(F(loadu)(x + i), all(mean)), rate);
      F(storeu)(y + i, F(fmadd)(d, F(loadu)(o->scale + i), F(loadu)(o->bias + i)));
    }
  }
}

// y = act(first half of x) * second half
static void gate(const Op* o, const Frame* f) {
  ROWS {
    const float* x = f->buffer[o->in] + r * f->stride[o->in];
    float* y = f->buffer[o->out] + r * f->stride[o->out];
    for (int i = 0; i < o->n; i += W)
      F(storeu)(y + i, F(mul)(activate(F(loadu)(x + i), o->act), F(loadu)(x + o->n + i)));
  }
}

// y = table[token] * factor + position; rows that are not there would be read from anywhere
static void embed(const Op* o, const Frame* f) {
  ROWS {
    int64_t token = f->tokens[r], t = f->position[r / f->beams];
    const float* x = (const float*)o->w + (token >= 0 && token < o->heads ? token : 0) * o->n;
    const float* p = o->waves ? o->waves + (t >= 0 && t < o->rotated ? t : 0) * o->n : 0;
    float* y = f->buffer[o->out] + r * f->stride[o->out];
    for (int i = 0; i < o->n; i++) y[i] = x[i] * o->factor + (p ? p[i] : 0);
  }
}

// The greatest of each row, and log sum exp(x - greatest): of pieces of a row, which are put together in their order.
static void normalise(const float* x, int64_t rows, int64_t n, int64_t stride, float* greatest, float* log_sum, float* parts) {
  int64_t pieces = (n + CHUNK - 1) / CHUNK;
  for (int pass = 0; pass < 2; pass++) {
#pragma omp for schedule(static)
    for (int64_t item = 0; item < rows * pieces; item++) {
      int64_t r = item / pieces, first = item % pieces * CHUNK, count = n - first < CHUNK ? n - first : CHUNK;
      const float* row = x + r * stride + first;
      float *found = parts + (r * 2 + pass) * pieces + item % pieces, rest = 0;
      int64_t whole = count / W * W;
      if (pass == 0) {
        V high = all(-INFINITY);
        for (int64_t i = 0; i < whole; i += W) high = F(max)(high, F(loadu)(row + i));
        *found = greatest_of(high);
        for (int64_t i = whole; i < count; i++) *found = row[i] > *found ? row[i] : *found;
      } else {
        V top = all(greatest[r]), sum = F(setzero)();
        for (int64_t i = 0; i < whole; i += W) sum = F(add)(sum, exponential(F(sub)(F(loadu)(row + i), top)));
        for (int64_t i = whole; i < count; i++) rest += expf(row[i] - greatest[r]);
        *found = sum_of(sum) + rest;
      }
    }
#pragma omp for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
      const float* found = parts + (r * 2 + pass) * pieces;
      float whole = found[0];
      for (int64_t i = 1; i < pieces; i++) whole = pass ? whole + found[i] : found[i] > whole ? found[i] : whole;
      if (pass) log_sum[r] = logf(whole);
      else greatest[r] = whole;
    }
  }
}

// --- attention --------------------------------------------------------------------------------------------------------

// Columns 2c and 2c+1 of each head's queries and keys, as a plane, turn by an angle that grows with the position.
static void rotate(const Op* o, const Frame* f) {
  int half = o->rotated / 2;
  ROWS {
    const float* sine = o->waves + (size_t)f->position[o->mode == PACKED ? r : r / f->beams] * o->rotated;
    for (int h = 0; h < o->heads + o->groups; h++) {
      float* x = f->buffer[o->in] + r * f->stride[o->in] + h * o->key;
      for (int c = 0; c < half; c++) {
        float a = x[2 * c], b = x[2 * c + 1], s = sine[c], t = sine[half + c];
        x[2 * c] = a * t - b * s;
        x[2 * c + 1] = a * s + b * t;
      }
    }
  }
}

// One head of one row over `count` rows of keys and values, those in `places`, or from `first` on where it is null.
INLINE void attend_head(const Op* o, const float* q, const float* keys, const float* values, const int32_t* places,
                        int64_t first, int count, float* p, float* y) {
#define AT(t) (places ? (int64_t)places[t] : first + (t))
  V high = all(-INFINITY);
  for (int t = 0; t < count; t++) {
    const float* k = keys + AT(t) * o->key_row;
    V s = F(mul)(F(loadu)(q), F(loadu)(k));
    for (int i = W; i < o->key; i += W) s = F(fmadd)(F(loadu)(q + i), F(loadu)(k + i), s);
    p[t] = sum_of(s) * o->factor;
  }
  int padded = (count + W - 1) / W * W;
  for (int t = count; t < padded; t++) p[t] = -INFINITY;
  for (int t = 0; t < padded; t += W) high = F(max)(high, F(loadu)(p + t));
  V greatest = all(greatest_of(high)), total = F(setzero)();
  for (int t = 0; t < padded; t += W) {
    V e = exponential(F(sub)(F(loadu)(p + t), greatest));
    F(storeu)(p + t, e);
  }
  for (int t = count; t < padded; t++) p[t] = 0;
  for (int t = 0; t < padded; t += W) total = F(add)(total, F(loadu)(p + t));
  V share = all(1 / sum_of(total));
  int c = 0;
  for (; c + 4 * W <= o->value; c += 4 * W) {  // four at once: their sums do not wait for each other
    V a = F(setzero)(), b = a, d = a, e = a;
    for (int t = 0; t < count; t++) {
      const float* v = values + AT(t) * o->value_row + c;
      V w = all(p[t]);
      a = F(fmadd)(w, F(loadu)(v), a);
      b = F(fmadd)(w, F(loadu)(v + W), b);
      d = F(fmadd)(w, F(loadu)(v + 2 * W), d);
      e = F(fmadd)(w, F(loadu)(v + 3 * W), e);
    }
    F(storeu)(y + c, F(mul)(a, share));
    F(storeu)(y + c + W, F(mul)(b, share));
    F(storeu)(y + c + 2 * W, F(mul)(d, share));
    F(storeu)(y + c + 3 * W, F(mul)(e, share));
  }
  for (; c < o->value; c += W) {
    V a = F(setzero)();
    for (int t = 0; t < count; t++) a = F(fmadd)(all(p[t]), F(loadu)(values + AT(t) * o->value_row + c), a);
    F(storeu)(y + c, F(mul)(a, share));
  }
}

INLINE void put_in_cache(const Op* o, const Frame* f, int64_t r, int64_t entry) {
  const float* k = f->buffer[o->in] + r * f->stride[o->in] + o->heads * o->key;
  memcpy(o->keys + entry * o->key_row, k, (size_t)o->groups * o->key * 4);
  memcpy(o->values + entry * o->value_row, k + o->groups * o->key, (size_t)o->groups * o->value * 4);
}

// Keys and values of prompts, which all rows of their sentences descend from.
static void store(const Op* o, const Frame* f) {
  ROWS put_in_cache(o, f, r, (f->slot[r] * f->room + f->position[r]) * f->beams);
}

static void attend(const Op* o, const Frame* f) {
  int64_t K = f->beams, known = -1, from = 0, count = 0, first = 0;
  int32_t* places = f->places + omp_get_thread_num() * f->bound;
  float* p = f->scores + omp_get_thread_num() * ((f->bound + 15) / 16 * 16);
  int shared = o->heads / o->groups;
  if (o->mode == STEP)
    ROWS {
      int64_t t = f->position[r / K];
      put_in_cache(o, f, r, (f->slot[r / K] * f->room + t) * K + r % K);
      f->ancestors[r * f->room + t] = r % K;
    }
#pragma omp for schedule(static)
  for (int64_t item = 0; item < f->rows * o->heads; item++) {  // heads one by one: there may be but one row
    int64_t r = item / o->heads;
    int h = item % o->heads, g = h / shared;
    float* row = f->buffer[o->in] + r * f->stride[o->in];
    const float *q = row + h * o->key, *keys = o->keys, *values = o->values;
    const int32_t* at = 0;
    if (o->mode == STEP) {
      if (r != known) {
        int64_t t = f->position[r / K], base = f->slot[r / K] * f->room;
        from = o->radius >= 0 && t > o->radius ? t - o->radius : 0;
        count = t + 1 - from;
        for (int64_t i = 0; i < count; i++)
          places[i] = (int32_t)((base + from + i) * K + f->ancestors[r * f->room + from + i]);
        known = r;
      }
      at = places;
    } else if (o->mode == MEMORY) {
      first = f->first[f->slot[r / K]];
      count = f->count[f->slot[r / K]];
    } else {
      keys = f->buffer[o->in] + o->heads * o->key;
      values = keys + o->groups * o->key;
      first = f->first[r];
      int64_t last = o->causal ? r : first + f->count[r] - 1;
      if (o->radius >= 0) {
        if (first < r - o->radius) first = r - o->radius;
        if (last > r + o->radius) last = r + o->radius;
      }
      count = last + 1 - first;
    }
    attend_head(o, q, keys + g * o->key, values + g * o->value, at, first, (int)count, p,
                f->buffer[o->out] + r * f->stride[o->out] + h * o->value);
  }
}

// --- calls ------------------------------------------------------------------------------------------------------------

void heedful_run(const Op* ops, int64_t count, const Frame* f, int32_t threads) {
  (void)threads;
#pragma omp parallel num_threads(threads)
  for (int64_t i = 0; i < count; i++) {
    const Op* o = ops + i;
    switch (o->kind) {
      case LINEAR: linear(o, f); break;
      case FLOATS: linear_of_floats(o, f); break;
      case NORM: norm(o, f); break;
      case ATTEND: attend(o, f); break;
      case ROTATE: rotate(o, f); break;
      case GATE: gate(o, f); break;
      case STORE: store(o, f); break;
      case EMBED: embed(o, f); break;
      case NORMALISE:
        normalise(f->buffer[o->in], f->rows, o->n, f->stride[o->in], f->greatest, f->log_sum, f->parts);
    }
  }
}

void heedful_normalise(const float* x, int64_t rows, int64_t n, int64_t stride, float* greatest, float* log_sum,
                       float* parts, int32_t threads) {
  (void)threads;
#pragma omp parallel num_threads(threads)
  normalise(x, rows, n, stride, greatest, log_sum, parts);
}

// The best `count` of each row, at most n, and their columns: best first, of equal ones the first.
void heedful_best(const float* x, int64_t rows, int64_t n, int64_t stride, int64_t count, float* best, int64_t* ids,
                  int32_t threads) {
  (void)threads;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t r = 0; r < rows; r++) {
    const float* row = x + r * stride;
    float* b = best + r * count;
    int64_t *d = ids + r * count, found = 0;
    for (int64_t i = 0; i < n; i += W) {
      if (found == count && i + W <= n && !any_greater(F(loadu)(row + i), all(b[count - 1]))) continue;
      for (int64_t j = i; j < i + W && j < n; j++) {
        if (found == count && !(row[j] > b[count - 1])) continue;
        int64_t at = found < count ? found++ : count - 1;
        for (; at > 0 && row[j] > b[at - 1]; at--) { b[at] = b[at - 1]; d[at] = d[at - 1]; }
        b[at] = row[j];
        d[at] = j;
      }
    }
  }
}

// Ask the kernel for tiles, once per process and before they are used; 0 if they may be.
int32_t heedful_allow_tiles(void) {
#ifdef __AMX_INT8__
  return syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* XTILEDATA */) ? -1 : 0;
#else
  return 0;
#endif
}

// The next byte: of the likeliest ones that top-k and top-p leave, the one that a draw falls on.
#include "args.h"
#include "philox.h"
#include "vecmath.h"

constexpr int BYTES = 256, CHOICE_WORDS = 16;
enum { SEED = 0, FIRST = 1, TEMPERATURE = 2, TOP_P = 3, TOP_K = 4, STOP = 8 };  // core/ops/sample.py
enum { WRITTEN = 0, OVER = 1 };
enum { STOPPED = 1, NO_NUMBER = 2 };

INLINE bool all_finite(const float* logits) {
  constexpr u32 EXPONENT = 0x7f800000;
  for (int i = 0; i < BYTES; i++)
    if ((__builtin_bit_cast(u32, logits[i]) & EXPONENT) == EXPONENT) return false;
  return true;
}

// Bits of a float such that a larger float has the smaller number.
INLINE u32 falling_key(float x) {
  u32 bits = __builtin_bit_cast(u32, x + 0.0f);  // one zero, not two
  return bits >> 31 ? bits : ~(bits | 0x80000000);
}

// Bytes in the order of falling logits, equal ones by byte: a radix sort, digit by digit, each pass stable.
static void sort_bytes(const float* logits, u8 (&order)[BYTES]) {
  u8 from[BYTES];
  u32 keys[BYTES];
  for (int i = 0; i < BYTES; i++) order[i] = (u8)i, keys[i] = falling_key(logits[i]);
  for (int shift = 0; shift < 32; shift += 8) {
    int ends[BYTES + 1] = {};
    for (int i = 0; i < BYTES; i++) from[i] = order[i], ends[(keys[i] >> shift & 255) + 1]++;
    for (int digit = 0; digit < BYTES; digit++) ends[digit + 1] += ends[digit];
    for (int i = 0; i < BYTES; i++) order[ends[keys[from[i]] >> shift & 255]++] = from[i];
  }
}

// In [0, 1), 53 bits of it drawn.
INLINE double uniform(u32 seed, u32 place) {
  constexpr u32 SAMPLE = 4;  // core/rng.py
  Words words = philox(seed, SAMPLE, place);
  return (double)((words.at[0][0] << 21) | (words.at[1][0] >> 11)) / 9007199254740992.0;
}

static int chosen(const float* logits, const i32* choice, u32 place) {
  u8 order[BYTES];
  sort_bytes(logits, order);
  float temperature = __builtin_bit_cast(float, choice[TEMPERATURE]);
  if (temperature == 0) return order[0];
  int count = choice[TOP_K] ? (int)min_of(choice[TOP_K], BYTES) : BYTES;
  alignas(64) float weights[BYTES];
  for (int i = 0; i < BYTES; i++) weights[i] = (logits[order[i]] - logits[order[0]]) / temperature;
  for (int i = 0; i < BYTES; i += LANES) store(weights + i, exp(load(weights + i)));

  double total = 0, reached = 0;
  for (int i = 0; i < count; i++) total += weights[i];
  double goal = __builtin_bit_cast(float, choice[TOP_P]) * total;
  int kept = 0;
  do reached += weights[kept++];
  while (kept < count && reached < goal);

  double target = uniform((u32)choice[SEED], place) * reached;
  for (int i = 0; i < kept; i++) {
    target -= weights[i];
    if (target < 0) return order[i];
  }
  return order[kept - 1];  // rounding left a sliver above the last candidate
}

static void sample(const sample_args& a, Team& team) {
  Range rows = team.share(a.N);
  for (i64 n = rows.begin; n < rows.end; n++) {
    i64 r = a.row ? a.row[0] : n;
    const float* logits = a.logits + n * BYTES;
    const i32* choice = a.choice + r * CHOICE_WORDS;
    i32* cursor = a.cursor + 2 * r;
    if (cursor[OVER]) continue;
    if (!all_finite(logits)) {
      cursor[OVER] = NO_NUMBER;
      continue;
    }
    i32 place = cursor[WRITTEN]++;
    int byte = chosen(logits, choice, (u32)(choice[FIRST] + place));
    a.written[r * a.room + place % a.room] = byte;
    a.token[r] = byte;
    a.position[r]++;
    if ((u32)choice[STOP + byte / 32] >> (byte % 32) & 1) cursor[OVER] = STOPPED;
  }
}

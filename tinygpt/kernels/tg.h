// What every kernel is given: its arguments (args.h, made from core/ops's signatures) and its team.
#pragma once
#include "system.h"

// Threads are the host's: each calls tg_run with its number, all replay the same words, each takes its
// share of every op and meets the others at a barrier in memory that they share. Shares may depend on the
// number of threads; results must not.

using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;
using u8 = unsigned char;
using i8 = signed char;
struct half {  // a float16
  unsigned short bits;
};

INLINE i64 min_of(i64 a, i64 b) { return a < b ? a : b; }
INLINE i64 max_of(i64 a, i64 b) { return a > b ? a : b; }
INLINE i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

// Some tens of microseconds: longer than a kernel's imbalance. WebAssembly has no pause, so its turns are shorter.
#if defined(__wasm__)
constexpr int SPINS_BEFORE_WAIT = 60000;
#else
constexpr int SPINS_BEFORE_WAIT = 4000;
#endif

constexpr int LINE_WORDS = 16;   // of a cache line: what different threads write lies on different ones
constexpr int MAX_THREADS = 64;  // core/plan/cpu's

// Words that a team shares, all zero when the first run begins. `generation`, and from then on the work, stay as a run
// has left them.
struct Barrier {
  i32 arrived, apart[LINE_WORDS - 1];
  i32 generation;
  i32 stop;  // the host's: it wants the run to end
  i32 done;  // how many times the program was run through
  i32 apart_too[LINE_WORDS - 3];
  struct {
    u64 left;  // of a thread's share of the work: Team::each_piece
    i32 apart[LINE_WORDS - 2];
  } work[MAX_THREADS];
};

struct Range {
  i64 begin, end;
};

struct Team {
  i32 thread, threads;
  Barrier* barrier;
  bool halted = false;  // the host wants a stop; all have seen so at the same meeting
  u32 meetings = 0;
  i32 first = 0;  // in a part of a team, its first member's number in the whole

  bool stop_wanted() const { return __atomic_load_n(&barrier->stop, __ATOMIC_RELAXED) != 0; }

  // Nobody goes on before everybody is here; what was written before is seen after. The generation's lowest bit says
  // `halted`: a word of its own could be the next run's before the last one has read it.
  void meet() {
    meetings++;
    if (threads == 1) {
      halted = stop_wanted();
      return;
    }
    i32 generation = __atomic_load_n(&barrier->generation, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&barrier->arrived, 1, __ATOMIC_ACQ_REL) == threads) {
      __atomic_store_n(&barrier->arrived, 0, __ATOMIC_RELAXED);
      halted = stop_wanted();
      __atomic_store_n(&barrier->generation, (i32)((((u32)generation | 1) + 1) | halted), __ATOMIC_RELEASE);
#if defined(__wasm_atomics__)
      __builtin_wasm_memory_atomic_notify(&barrier->generation, threads);
#endif
      return;
    }
    i32 now;
    for (int spin = 0; (now = __atomic_load_n(&barrier->generation, __ATOMIC_ACQUIRE)) == generation; spin++) {
      if (spin < SPINS_BEFORE_WAIT) {
        pause_briefly();
      } else {
#if defined(__wasm_atomics__)
        __builtin_wasm_memory_atomic_wait32(&barrier->generation, generation, -1);
#elif !defined(__wasm__)
        give_way();
#endif
      }
    }
    halted = now & 1;
  }

  // This thread's contiguous share of `count` items.
  Range share(i64 count) const { return {count * thread / threads, count * (thread + 1) / threads}; }
};

// This thread's share of `count` items, in pieces, and then, lest a core that others slow down be waited for, pieces
// of what others have not begun of theirs. Nobody takes from a thread that is not here yet, so an item's own thread may
// have prepared it. Between two meetings each has another `number`; where that is ALONE, the share comes whole.
struct Pieces {
  static constexpr i64 BITS = 24, NUMBERS = 64, MOST = (1 << BITS) - 1, ALONE = -1;
  const Team& team;
  Range own;
  u64 tag;
  i32 visited;  // how many threads have nothing left, this one first

  Pieces(const Team& team, i64 count, i64 number) : team(team), own(team.share(count)), visited(0) {
    if (team.threads == 1 || number == ALONE || number >= NUMBERS || count > MOST) {
      visited = team.threads;
      return;
    }
    tag = (u64)(team.meetings * NUMBERS + number) << 2 * BITS;
    __atomic_store_n(left_of(team.thread), left(own), __ATOMIC_RELEASE);
  }

  u64 left(Range range) const { return tag | (u64)range.begin << BITS | (u64)range.end; }
  u64* left_of(i32 thread) const { return &team.barrier->work[team.first + thread].left; }

  // The next piece, half of what its thread has left.
  __attribute__((noinline)) bool next(Range& piece) {
    if (visited == team.threads) {
      piece = own;
      own.begin = own.end;
      return piece.begin < piece.end;
    }
    for (; visited < team.threads; visited++) {
      u64* left_there = left_of((team.thread + visited) % team.threads);
      u64 seen = __atomic_load_n(left_there, __ATOMIC_ACQUIRE);
      while (seen >> 2 * BITS == tag >> 2 * BITS) {
        Range range{(i64)(seen >> BITS & MOST), (i64)(seen & MOST)};
        if (range.begin == range.end) break;
        bool mine = visited == 0;
        i64 middle = range.begin + (range.end - range.begin + mine) / 2;
        Range lower{range.begin, middle}, upper{middle, range.end};
        piece = mine ? lower : upper;
        if (__atomic_compare_exchange_n(left_there, &seen, left(mine ? upper : lower), false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
          return true;
      }
    }
    own.begin = own.end;
    return false;
  }
};

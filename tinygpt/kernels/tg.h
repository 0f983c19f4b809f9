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

INLINE i64 min_of(i64 a, i64 b) { return a < b ? a : b; }
INLINE i64 max_of(i64 a, i64 b) { return a > b ? a : b; }
INLINE i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

// Some tens of microseconds: longer than a kernel's imbalance. WebAssembly has no pause, so its turns are shorter.
#if defined(__wasm__)
constexpr int SPINS_BEFORE_WAIT = 60000;
#else
constexpr int SPINS_BEFORE_WAIT = 4000;
#endif

// Words that a team shares, all zero when a run begins but for the first two, which are the team's own.
struct Barrier {
  i32 arrived;
  i32 generation;
  i32 stop;  // the host's: it wants the run to end
  i32 done;  // how many times the program was run through
};

struct Range {
  i64 begin, end;
};

struct Team {
  i32 thread, threads;
  Barrier* barrier;
  bool halted = false;  // the host wants a stop; all have seen so at the same meeting

  bool stop_wanted() const { return __atomic_load_n(&barrier->stop, __ATOMIC_RELAXED) != 0; }

  // Nobody goes on before everybody is here; what was written before is seen after. The generation's lowest bit says
  // `halted`: a word of its own could be the next run's before the last one has read it.
  void meet() {
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

// The player: replays a program's words on an arena. Everything it needs was decided in Python.
#include "tg.h"

#include "args.h"  // made by build.py from core/ops: argument structs, their decoding, run_op()

// Runs the program `times` times, or until the host wants a stop. It is heard between two ops, and only before the word
// `commit`, from where on the program writes what outlives it: so a repetition is done whole, or as if never begun.
extern "C" EXPORT void tg_run(float* arena, const i32* words, i64 count, i64 commit, i32 times, Barrier* barrier,
                              i32 thread, i32 threads) {
  Team team{thread, threads, barrier};
  for (i32 turn = 0; turn < times; turn++) {
    for (i64 at = 0; at < count; at += words[at + 1]) {
      if (at <= commit && team.halted) return;
      run_op(arena, words + at, team);
      team.meet();
    }
    if (thread == 0) barrier->done = turn + 1;
  }
}

// The player: replays a program's words on an arena. Everything it needs was decided in Python.
#include "tg.h"

#include "args.h"  // made by build.py from core/ops: argument structs, their decoding, run_op()

extern "C" __attribute__((visibility("default"))) void tg_run(float* arena, const i32* words, i64 count, Barrier* barrier,
                                                              i32 thread, i32 threads) {
  Team team{thread, threads, barrier};
  for (i64 at = 0; at < count; at += words[at + 1]) {
    run_op(arena, words + at, team);
    team.meet();
  }
}

// Keeping count of steps, and of their losses and norms until someone reads them.
#include "args.h"

static void record(const record_args& a, Team& team) {
  if (team.thread != 0) return;
  float* row = a.ring + 2 * (a.counters[0] % a.rows);
  row[0] = a.loss[0];
  row[1] = a.norm[0];
  a.counters[0]++;
  a.counters[1] = 0;
}

static void count(const count_args& a, Team& team) {
  if (team.thread == 0) a.counters[a.which]++;
}

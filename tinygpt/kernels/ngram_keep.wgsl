// recent[r] takes in tokens[r], of each of R texts; with HAS_ROW, of that text alone, the last of N tokens up to its
// position. An invocation per text.
override N: u32;
override R: u32;
override HAS_ROW: bool;

const NGRAM_BYTES = 8u;

@group(0) @binding(0) var<storage, read> tokens: array<i32>;
@group(0) @binding(1) var<storage, read> position: array<i32>;
@group(0) @binding(2) var<storage, read> row: array<i32>;
@group(0) @binding(3) var<storage, read_write> recent: array<i32>;

@compute @workgroup_size(256)
fn ngram_keep(@builtin(global_invocation_id) id: vec3u) {
  let r = id.x;
  if (r >= R) {
    return;
  }
  if (HAS_ROW) {
    if (r == u32(row[0])) {
      let last = position[r];
      for (var back = 0u; back < NGRAM_BYTES; back++) {
        if (i32(back) <= last) {
          recent[r * NGRAM_BYTES + back] = tokens[min(u32(last) - back, N - 1u)];
        }
      }
    }
    return;
  }
  for (var turn = 1u; turn < NGRAM_BYTES; turn++) {
    let back = NGRAM_BYTES - turn;
    recent[r * NGRAM_BYTES + back] = recent[r * NGRAM_BYTES + back - 1u];
  }
  recent[r * NGRAM_BYTES] = tokens[r];
}

// With n = x rstd and dn = dy gain:  dx = dresidual + rstd (dn - n mean(dn n)),  dgain (+)= sum over rows of dy n.
override N: u32;
override C: u32;
override HAS_DRESIDUAL: bool;
override ACCUMULATE: bool;
override TURNS: u32 = (C / WIDTH + LANES - 1u) / LANES;  // words of a row that an invocation takes
override SUM_GROUPS: u32;  // workgroups for the sums over rows
override COLUMN_TILES: u32 = (C / WIDTH + 3u) / 4u;
override SLICE_TURNS: u32 = ((N + SLICES - 1u) / SLICES + 63u) / 64u;  // rows of a slice that a row lane takes

@group(0) @binding(0) var<storage, read> dy: array<Floats>;
@group(0) @binding(1) var<storage, read> x: array<Floats>;
@group(0) @binding(2) var<storage, read> rstd: array<f32>;
@group(0) @binding(3) var<storage, read> gain: array<Floats>;
@group(0) @binding(4) var<storage, read> dresidual: array<Floats>;
@group(0) @binding(5) var<storage, read_write> dx: array<Floats>;
@group(0) @binding(6) var<storage, read_write> dgain: array<Floats>;

// The sums need nothing of dx: one dispatch has workgroups for both, those that walk further first.
@compute @workgroup_size(256)
fn rmsnorm_backward(group: Group, @builtin(local_invocation_index) me: u32) {
  let number = group_number(group);
  if (number < SUM_GROUPS) {
    sum_columns(number % COLUMN_TILES, number / COLUMN_TILES, me);
  } else {
    make_dx((number - SUM_GROUPS) * (256u / LANES) + me / LANES, me, group);
  }
}

// A row of dx, by LANES invocations.
fn make_dx(row: u32, me: u32, group: Group) {
  let words = select(0u, C / WIDTH, row < N);  // a surplus row has none
  let first = row * words;
  let scale = rstd[min(row, N - 1u)];

  var dn_n_sum = Floats();
  for (var turn = 0u; turn < TURNS; turn++) {
    let i = me % LANES + turn * LANES;
    if (i >= words) {
      break;
    }
    dn_n_sum += dy[first + i] * gain[i] * (x[first + i] * scale);
  }
  let dn_n_mean = row_sum(sum_of(dn_n_sum), me, group) / f32(C);

  for (var turn = 0u; turn < TURNS; turn++) {
    let i = me % LANES + turn * LANES;
    if (i >= words) {
      break;
    }
    var d = scale * (dy[first + i] * gain[i] - x[first + i] * scale * dn_n_mean);
    if (HAS_DRESIDUAL) {
      d += dresidual[first + i];
    }
    dx[first + i] = d;
  }
}

var<workgroup> dgain_parts: array<Floats, 256>;

// dgain of a slice's rows and a tile of 4 columns (words), by 64 row lanes.
fn sum_columns(tile: u32, slice: u32, me: u32) {
  let words = C / WIDTH;
  let column = tile * 4u + me % 4u;
  let end = min(N, (slice + 1u) * slice_rows(N));

  var dgain_part = Floats();
  for (var turn = 0u; turn < SLICE_TURNS; turn++) {
    let row = slice * slice_rows(N) + me / 4u + turn * 64u;
    if (row >= end || column >= words) {
      break;
    }
    dgain_part += dy[row * words + column] * (x[row * words + column] * rstd[row]);
  }
  dgain_parts[me % 256u] = dgain_part;
  for (var halving = 0u; halving < 6u; halving++) {
    let apart = 128u >> halving;
    workgroupBarrier();
    if (me < apart) {
      dgain_parts[me % 256u] += dgain_parts[(me + apart) % 256u];
    }
  }
  if (me >= 4u || column >= words) {
    return;
  }
  dgain_part = dgain_parts[me % 256u];
  let to = in_slice(column, slice);
  if (ACCUMULATE) {
    dgain_part += dgain[to];
  }
  dgain[to] = dgain_part;
}

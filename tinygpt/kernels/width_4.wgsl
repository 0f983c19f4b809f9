// Kernels take numbers four at a time, in tensors whose width is a multiple of 4. "Words" below are these fours.
alias Floats = vec4f;
alias Draws = vec4u;
const WIDTH = 4u;

fn sum_of(x: Floats) -> f32 {
  return (x.x + x.y) + (x.z + x.w);
}

fn max_of(x: Floats) -> f32 {
  return max(max(x.x, x.y), max(x.z, x.w));
}

fn pick(x: Floats, place: u32) -> f32 {
  return x[place % 4u];
}

// 1 at this place, 0 elsewhere; 0 everywhere for a place outside.
fn one_at(place: u32) -> Floats {
  return select(Floats(0.0), Floats(1.0), vec4u(place) == vec4u(0u, 1u, 2u, 3u));
}

// The words of a draw for the numbers from this place on.
fn of_draw(draw: vec4u, place: u32) -> Draws {
  return draw;
}

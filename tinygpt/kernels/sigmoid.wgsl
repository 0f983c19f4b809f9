// sigmoid(g), and 1 - sigmoid(g).
struct Sigmoid {
  value: Floats,
  rest: Floats,  // 1 - value, without that difference's cancellation
}

fn sigmoid(g: Floats) -> Sigmoid {
  let small = exp(-abs(g));
  let large = 1.0 / (1.0 + small);
  let negative = g < Floats();
  return Sigmoid(select(large, small * large, negative), select(small * large, large, negative));
}

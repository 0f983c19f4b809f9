// What matmul tiles are kept in: float32.
alias Quad = vec4<f32>;
alias Number = f32;

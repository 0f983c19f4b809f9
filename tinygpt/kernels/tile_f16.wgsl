// What matmul tiles are kept in: float16. Sums are float32 all the same.
alias Quad = vec4<f16>;
alias Number = f16;

// Philox4x32-10, as core/rng.py has it.

// The upper 32 bits of a product of 64, by halves of 16 bits: no sum of them overflows.
fn high_product(a: u32, b: u32) -> u32 {
  let low_low = (a & 0xffffu) * (b & 0xffffu);
  let high_low = (a >> 16u) * (b & 0xffffu);
  let low_high = (a & 0xffffu) * (b >> 16u);
  let middle = (low_low >> 16u) + (high_low & 0xffffu) + low_high;
  return (a >> 16u) * (b >> 16u) + (high_low >> 16u) + (middle >> 16u);
}

fn philox(start_key: vec2u, counter: vec4u) -> vec4u {
  var k = start_key;
  var c = counter;
  for (var round = 0u; round < 10u; round++) {
    let product0 = vec2u(high_product(0xD2511F53u, c.x), 0xD2511F53u * c.x);
    let product1 = vec2u(high_product(0xCD9E8D57u, c.z), 0xCD9E8D57u * c.z);
    c = vec4u(product1.x ^ c.y ^ k.x, product1.y, product0.x ^ c.w ^ k.y, product0.y);
    k += vec2u(0x9E3779B9u, 0xBB67AE85u);
  }
  return c;
}

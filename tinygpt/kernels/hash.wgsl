// A hash of 32 bits, as core/rng.py has it.
fn mixed(word: u32) -> u32 {
  var hash = word * 0x9E3779B1u;
  hash = (hash ^ (hash >> 15u)) * 0x85EBCA77u;
  return hash ^ (hash >> 13u);
}

// A hash of 32 bits, as core/rng.py has it.
#pragma once
#include "tg.h"

INLINE u32 mixed(u32 word) {
  word *= 0x9E3779B1;
  word = (word ^ word >> 15) * 0x85EBCA77;
  return word ^ word >> 13;
}

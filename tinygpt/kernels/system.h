// What the kernels need of the system they run on: a pause, a turn given to another thread, an exported name.
#pragma once

#define INLINE static inline __attribute__((always_inline))

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

// While a thread looks at memory again and again.
#if defined(__x86_64__)
INLINE void pause_briefly() { __builtin_ia32_pause(); }
#elif defined(__aarch64__)
INLINE void pause_briefly() { __asm__ volatile("yield"); }
#else
INLINE void pause_briefly() {}
#endif

// While others have work on this core. WebAssembly waits by other means (tg.h).
#if defined(_WIN32)
extern "C" __declspec(dllimport) int SwitchToThread(void);
INLINE void give_way() { SwitchToThread(); }
#elif !defined(__wasm__)
extern "C" int sched_yield(void);
INLINE void give_way() { sched_yield(); }
#endif

// Elsewhere libc is in the process already, or the compiler needs none of it. On Windows it calls these three.
#if defined(_WIN32)
extern "C" void* memset(void* to, int value, decltype(sizeof(0)) count) {
  void* at = to;
  __asm__ volatile("rep stosb" : "+D"(at), "+c"(count) : "a"(value) : "memory");
  return to;
}
extern "C" void* memcpy(void* to, const void* from, decltype(sizeof(0)) count) {
  void* at = to;
  __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(count)::"memory");
  return to;
}
// Called before a frame of rax bytes is taken from the stack: touches it page by page, from the top, as the system's
// guard page wants it, and changes no register.
extern "C" __attribute__((naked)) void ___chkstk_ms() {
  __asm__(
      "push %rcx\n"
      "push %rax\n"
      "lea 24(%rsp), %rcx\n"
      "1: cmp $4096, %rax\n"
      "jb 2f\n"
      "sub $4096, %rcx\n"
      "orl $0, (%rcx)\n"
      "sub $4096, %rax\n"
      "jmp 1b\n"
      "2: sub %rax, %rcx\n"
      "orl $0, (%rcx)\n"
      "pop %rax\n"
      "pop %rcx\n"
      "ret\n");
}
#endif

// What the generated C++ of a kernel and the runtime share: types, and the machine's state.
#pragma once
#include <stdint.h>
#include <string.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef unsigned __int128 u128;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef __int128 s128;
typedef float f32;
typedef double f64;
typedef _Float16 f16;
struct bf16 { u16 bits; };
template <class T> struct two { T lo, hi; };
typedef two<f16> f16x2;
typedef two<bf16> bf16x2;
typedef two<u16> u16x2;
typedef two<s16> s16x2;
typedef two<f32> f32x2;

template <int N> struct uint_of;
template <> struct uint_of<1> { typedef u8 type; };
template <> struct uint_of<2> { typedef u16 type; };
template <> struct uint_of<4> { typedef u32 type; };
template <> struct uint_of<8> { typedef u64 type; };
template <> struct uint_of<16> { typedef u128 type; };
template <class T> struct is_int { static const bool value = false; };
template <> struct is_int<bool> { static const bool value = true; };
template <> struct is_int<u8> { static const bool value = true; };
template <> struct is_int<u16> { static const bool value = true; };
template <> struct is_int<u32> { static const bool value = true; };
template <> struct is_int<u64> { static const bool value = true; };
template <> struct is_int<u128> { static const bool value = true; };
template <> struct is_int<s8> { static const bool value = true; };
template <> struct is_int<s16> { static const bool value = true; };
template <> struct is_int<s32> { static const bool value = true; };
template <> struct is_int<s64> { static const bool value = true; };

// A register holds bits. as<T>: its low bits read as T. reg<R>: a T put into a register of type R,
// signed integers sign-extended.
template <class T, class R> static inline T as(R r) {
  if constexpr (is_int<T>::value) return (T)r;
  else return __builtin_bit_cast(T, (typename uint_of<sizeof(T)>::type)r);
}
template <class R, class T> static inline R reg(T v) {
  if constexpr (is_int<T>::value) return (R)v;
  else return (R)__builtin_bit_cast(typename uint_of<sizeof(T)>::type, v);
}

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

// Windows of the generic address space; everything else is global memory, and constants and
// parameters, which lie there too. Shared memory begins at 1 KiB, which sm_90 and later reserve.
static const u64 SHARED_WINDOW = 1ull << 48, LOCAL_WINDOW = 1ull << 49, WINDOW_BYTES = 1ull << 32;
static const u32 SHARED_BASE = 1024;

enum Kind {
  RACE, UNINITIALISED, IN_FLIGHT, BOUNDS, ALIGNMENT, BARRIER, DEADLOCK, PROXY_FENCE, ASYNC_WAIT,
  TRAP, LIMIT, UNSUPPORTED, COUNTERS
};
// Bits of an access. STRONG: seen at once by all, as volatile and atomic accesses are.
enum Access { READ = 1, WRITE = 2, STRONG = 4, ATOMIC = 7 };

struct Warp;
struct Thread {
  void* stack_pointer;
  Warp* warp;
  u32 id, lane;           // id: linear in the block
  u32 x, y, z;
  u32 fuel;               // back edges until it lets others run
  u32 line;               // where it waits, or where it last let others run
  const char* waits_for;  // "" when it can run
  u8* local;              // its local memory
  u32 local_top;          // bytes in use
  u32* clock;             // what it has seen of each thread (vector clock)
  u32* proxy;             // the same, as the async proxy may see it
  Thread* next;           // in a list of waiters
  u32 result;             // of what it waited for
  bool exited;
};

// One range of global memory that a kernel may touch.
struct Region { u64 begin, end; u32 writable, tracked; };

struct Machine {
  u8* arena;              // global memory
  u64 arena_base, arena_bytes;
  Region* regions;
  const u16* granules;    // the region (1..) of each 256 bytes of the arena; 0: none
  u8* written;            // 1 for each byte of tracked regions that was written
  u8* shared;
  u32 shared_bytes, local_bytes;
  u64 params;             // address of the kernel's parameters
  u32 grid[3], block[3], ctaid[3];
  u32 static_shared, dynamic_shared;
  u32 slice;              // back edges a thread may run before it lets others run
  u64* counts;            // executions of each basic block, of all threads
};
extern Machine M;

// Where a faulty access goes after it was reported.
u8* fault(Thread*, u32 line, u64 address, u32 bytes, u32 align, int access, const char* space);
void watch_shared(Thread*, u32 line, u32 offset, u32 bytes, int access, const void* value);
void watch_global(Thread*, u32 line, u64 offset, u32 bytes, int access, const void* value);
void yield_now(Thread*, u32 line);
void thread_exit(Thread*);
void trap(Thread*, u32 line, const char* why);

static inline void back_edge(Thread* t, u32 line) {
  if (UNLIKELY(--t->fuel == 0)) yield_now(t, line);
}

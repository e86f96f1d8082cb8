// Loads and stores of every state space. at_*: where the bytes of a checked access are.
#pragma once
#ifndef CHECKED
#define CHECKED 0
#endif

static inline u8* at_shared(Thread* t, u32 line, u64 address, u32 bytes, int access,
                            const void* value, u32 align) {
  u64 offset = address - SHARED_BASE;
  if (UNLIKELY(offset >= M.shared_bytes || offset + bytes > M.shared_bytes ||
               (address & (align - 1))))
    return fault(t, line, address, bytes, align, access, "shared");
  if (CHECKED) watch_shared(t, line, (u32)offset, bytes, access, value);
  return M.shared + offset;
}

static inline u8* at_global(Thread* t, u32 line, u64 address, u32 bytes, int access,
                            const void* value, u32 align) {
  u64 offset = address - M.arena_base;
  if (UNLIKELY(offset >= M.arena_bytes || (address & (align - 1))))
    return fault(t, line, address, bytes, align, access, "global");
  const Region& r = M.regions[M.granules[offset >> 8]];
  if (UNLIKELY(offset < r.begin || offset + bytes > r.end || ((access & WRITE) && !r.writable)))
    return fault(t, line, address, bytes, align, access, "global");
  if (CHECKED) watch_global(t, line, offset, bytes, access, value);
  return M.arena + offset;
}

static inline u8* at_local(Thread* t, u32 line, u64 address, u32 bytes, int access, const void*,
                           u32 align) {
  if (UNLIKELY(address >= t->local_top || address + bytes > t->local_top ||
               (address & (align - 1))))
    return fault(t, line, address, bytes, align, access, "local");
  return t->local + address;
}

// Addresses of the parameter space count from the first parameter.
static inline u8* at_param(Thread* t, u32 line, u64 address, u32 bytes, int access,
                           const void* value, u32 align) {
  return at_global(t, line, address + M.params, bytes, access, value, align);
}

static inline u8* at_generic(Thread* t, u32 line, u64 address, u32 bytes, int access,
                             const void* value, u32 align) {
  if (UNLIKELY(address - SHARED_WINDOW < WINDOW_BYTES))
    return at_shared(t, line, address - SHARED_WINDOW, bytes, access, value, align);
  if (UNLIKELY(address - LOCAL_WINDOW < WINDOW_BYTES))
    return at_local(t, line, address - LOCAL_WINDOW, bytes, access, value, align);
  return at_global(t, line, address, bytes, access, value, align);
}

template <class T, int N> struct pack { T at[N]; };
typedef u8* At(Thread*, u32, u64, u32, int, const void*, u32);

template <At at, class T, int N = 1, int ACCESS = READ>
static inline pack<T, N> load(Thread* t, u32 line, u64 address) {
  pack<T, N> out;
  memcpy(&out, at(t, line, address, sizeof out, ACCESS, 0, sizeof out), sizeof out);
  return out;
}
template <At at, class T, int N = 1, int ACCESS = WRITE>
static inline void store(Thread* t, u32 line, u64 address, pack<T, N> value) {
  memcpy(at(t, line, address, sizeof value, ACCESS, &value, sizeof value), &value, sizeof value);
}
// Reads, computes and writes as one; returns what was there.
template <At at, class T, class F>
static inline T atomic(Thread* t, u32 line, u64 address, F f) {
  T* p = (T*)at(t, line, address, sizeof(T), ATOMIC, 0, sizeof(T));
  T old, made;
  memcpy(&old, p, sizeof old);
  made = f(old);
  memcpy(p, &made, sizeof made);
  return old;
}
// A parameter or local buffer of the function itself: constant offsets, checked when translated.
template <class T, int N = 1> static inline pack<T, N> load_plain(const u8* from) {
  pack<T, N> out;
  memcpy(&out, from, sizeof out);
  return out;
}
template <class T, int N = 1> static inline void store_plain(u8* to, pack<T, N> value) {
  memcpy(to, &value, sizeof value);
}

template <class T, int N> static inline pack<T, N> bits_in(const T (&x)[N]) {
  pack<T, N> out;
  memcpy(&out, x, sizeof out);
  return out;
}

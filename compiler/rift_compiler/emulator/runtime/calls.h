// What a kernel calls in the runtime.
#pragma once
void warp_sync(Thread*, u32 line, u32 mask);
u32 shfl(Thread*, u32 line, u32 mode, u32 value, u32 b, u32 c, u32 mask, bool& valid);
u32 vote(Thread*, u32 line, u32 mode, bool predicate, u32 mask);
u32 match_lanes(Thread*, u32 line, bool all, u64 value, u32 mask, bool& same);
u32 redux(Thread*, u32 line, u32 operation, u32 kind, u32 value, u32 mask);
u32 elect(Thread*, u32 line, u32 mask);
enum BarrierKind { BAR_SYNC, BAR_ARRIVE, BAR_POPC, BAR_AND, BAR_OR };
u32 bar(Thread*, u32 line, u32 kind, u32 id, u32 count, bool predicate, bool aligned);
void cluster_arrive(Thread*, u32 line);
void cluster_wait(Thread*, u32 line);
void fence(Thread*);
void fence_proxy(Thread*);
void synchronise(Thread*, u64 address, bool reads, bool writes, bool acquire, bool release);
u64 clock_now();
void print_text(Thread*, u32 line, u8* result, const u8* text, const u8* args);
int launch_kernel(struct Launch*, void (*entry)(Thread*));
// same: of each instruction, which one before has its A, and its B.
void mma(Thread*, u32 line, u32 kind, u32* q, u32 count, const u8* same);
void mma64(Thread*, u32 line, u32 rows, u32 k, u64* q);
void ldmatrix(Thread*, u32 line, u32* q, u32 count, u32 matrices, bool transposed);
void stmatrix(Thread*, u32 line, u32* q, u32 matrices, bool transposed);
u32 movmatrix(Thread*, u32 line, u32 value);
void mbarrier_init(Thread*, u32 line, u64 address, u32 count);
void mbarrier_inval(Thread*, u32 line, u64 address);
u64 mbarrier_arrive(Thread*, u32 line, u64 address, u32 count, s64 bytes, bool drop, bool relaxed);
void mbarrier_expect(Thread*, u32 line, u64 address, s64 bytes);
bool mbarrier_wait(Thread*, u32 line, u64 address, u64 state, bool token, bool try_, bool relaxed);
void copy_async(Thread*, u32 line, u64 to, u64 from, u32 bytes, u32 read);
void copy_commit(Thread*);
void copy_wait(Thread*, u32 pending);
void copy_wait_all(Thread*);
void copy_arrive(Thread*, u32 line, u64 mbarrier, bool counted);
void bulk_load(Thread*, u32 line, u64 to, u64 from, u32 bytes, u64 mbarrier);
void bulk_store(Thread*, u32 line, u64 to, u64 from, u32 bytes, u32 operation, u32 type);
void tensor_load(Thread*, u32 line, u64 to, u64 map, const s32* at, u32 rank, u64 mbarrier);
void tensor_store(Thread*, u32 line, u64 map, const s32* at, u32 rank, u64 from, u32 operation);
void bulk_commit(Thread*);
void bulk_wait(Thread*, u32 pending);
void wgmma(Thread*, u32 line, u32* q);
void wgmma_commit(Thread*, u32 line);
void wgmma_wait(Thread*, u32 line, u32 pending);
const u32* wgmma_sums(Thread*, u32 token);
// The product that tokens were last asked of: a lane's come in a row.
struct Resolved { u32 key; const u32* sums; };
static inline u32 resolve(Thread* t, Resolved& known, u32 value) {
  if (value >> 8 != known.key) known.key = value >> 8, known.sums = wgmma_sums(t, value);
  return known.sums ? known.sums[value & 0xff] : value;
}
void wgmma_resolved(Thread*);
void token_used(Thread*, u32 line);
void tensormap_replace(Thread*, u32 line, u64 address, bool shared, u32 field, u32 index, u64 value);
void tensormap_copy(Thread*, u32 line, u64 to, u64 from);

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
void mma(Thread*, u32 line, u32 kind, u32* q, u32 count);
void mma64(Thread*, u32 line, u32 rows, u32 k, u64* q);
void ldmatrix(Thread*, u32 line, u32* q, u32 count, u32 matrices, bool transposed);
void stmatrix(Thread*, u32 line, u32* q, u32 matrices, bool transposed);
u32 movmatrix(Thread*, u32 line, u32 value);

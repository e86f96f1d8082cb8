// What the runtime's own files share.
#pragma once
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

// Asynchronous engines with a clock of their own: one for each mbarrier (64, then they share), then
// one for each warpgroup.
static const u32 COPY_AGENTS = 64, AGENTS = COPY_AGENTS + 8;
static const u32 NOBODY = 0xffff;

struct Meeting;
typedef void Meet(Warp*, Meeting&);
// A warp's collective instruction: lanes leave pointers to their operands, the last one runs it.
struct Meeting {
  u32 mask, arrived, line;
  Meet* run;
  u32 count;  // how many instructions of one kind are done at once
  const u8* same;
  u32* args[32];
};

struct Warp {
  u32 index;
  u32 exists, alive;  // lanes
  u32 ready, later;   // lanes that can run in this round, and in the next
  Thread* lanes[32];
  Meeting meetings[32];
};

struct Finding { u32 kind, line, other, count; char text[512]; };

struct Launch {
  u64 arena, arena_base, arena_bytes, regions, granules, written, params;
  u64 counts, lines, line_counts;  // lines: how many; line_counts: 4 for each line
  u64 stack_bytes;  // of a fibre
  u64 proxies;  // whether the kernel has instructions of the asynchronous proxy
  u32 grid[3], block[3], static_shared, dynamic_shared, local_bytes, checks, seed, exact, arch;
  u32 random_landing;
  f64 limit_s;
};

extern Launch* L;
extern std::vector<Warp> warps;
extern std::vector<Thread> threads;
extern u32 alive_threads, clock_words;
extern void (*entry_function)(Thread*);

// The checks that watch every access to memory.
static const u32 WATCHED = 1u << RACE | 1u << UNINITIALISED | 1u << IN_FLIGHT | 1u << PROXY_FENCE |
                           1u << COUNTERS;
static inline bool checking(Kind kind) { return (L->checks >> kind) & 1; }
void report(Kind kind, u32 line, u32 other, const char* format, ...)
    __attribute__((format(printf, 4, 5)));
[[noreturn]] void stop_launch();
u32 random_below(u32 n);

void park(Thread* t, u32 line, const char* why);
void wake(Thread* t);
extern u32 fruitless;          // polls and turns since something last landed
bool land_something();        // an asynchronous copy lands because nobody can run
void describe_barriers(std::vector<char>& out);

// Vector clocks.
void join(u32* into, const u32* from);
void join_proxy(u32* into, const u32* from);
void tick(Thread* t);
void reset_clocks();
u32* new_clock();

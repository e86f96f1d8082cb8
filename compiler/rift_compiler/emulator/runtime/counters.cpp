// What a GPU's memory would do, counted for each PTX line: lanes that access memory at one line are
// put together by warp; a lane that comes again begins the next access.
struct Pending { u32 mask, bytes; bool shared; u64 at[32]; };
static std::vector<std::vector<Pending*>> pending_of;  // of each warp, by line
static const u32 BANKS = 32, SECTOR_BYTES = 32;        // CUDA Programming Guide, 5.3.2
enum { ACCESSES, WAVEFRONTS, IDEAL, SECTORS };

static u64* counts_of(u32 line) { return (u64*)L->line_counts + 4ull * line; }

// The most words that one bank has to give; words are distinct.
static u32 fullest_bank(const u32* words, u32 count) {
  u32 seen[BANKS], most = 0;
  u8 n[BANKS] = {0};
  bool simple = true;
  u32 used = 0;
  for (u32 i = 0; i < count && simple; i++) {
    u32 bank = words[i] % BANKS;
    simple = !(used >> bank & 1) || seen[bank] == words[i];
    used |= 1u << bank, seen[bank] = words[i];
  }
  if (simple) return count != 0;
  std::vector<u32> sorted(words, words + count);
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  for (u32 word : sorted) most = std::max(most, (u32)++n[word % BANKS]);
  return most;
}

// Lanes of a wide access go in phases of 128 bytes; in each, a bank gives one word at a time.
static u32 wavefronts(const u64* at, u32 mask, u32 bytes) {
  u32 lanes = bytes >= 16 ? 8 : bytes >= 8 ? 16 : 32, per = bytes < 4 ? 1 : bytes / 4, total = 0;
  for (u32 first = 0; first < 32; first += lanes) {
    u32 words[32], count = 0;
    for (u32 lane = first; lane < first + lanes; lane++)
      if (mask >> lane & 1)
        for (u32 w = 0; w < per; w++) words[count++] = (u32)(at[lane] / 4) + w;
    total += fullest_bank(words, count);
  }
  return total;
}

static u32 ideal_wavefronts(u32 mask, u32 bytes) {
  u32 lanes = bytes >= 16 ? 8 : bytes >= 8 ? 16 : 32, n = 0;
  for (u32 first = 0; first < 32; first += lanes) {
    u32 group = lanes == 32 ? mask : (mask >> first) & ((1u << lanes) - 1);
    n += group != 0;
  }
  return n;
}

static u32 sectors(const u64* at, u32 mask, u32 bytes) {
  u64 found[32 * 2];
  u32 n = 0;
  for (u32 lane = 0; lane < 32; lane++) {
    if (!(mask >> lane & 1)) continue;
    for (u64 s = at[lane] / SECTOR_BYTES; s <= (at[lane] + bytes - 1) / SECTOR_BYTES; s++)
      if (n < 64) found[n++] = s;
  }
  if (!std::is_sorted(found, found + n)) std::sort(found, found + n);
  return (u32)(std::unique(found, found + n) - found);
}

static void flush(Pending& p, u32 line) {
  if (!p.mask) return;
  u64* c = counts_of(line);
  c[ACCESSES]++;
  if (p.shared) {
    c[WAVEFRONTS] += wavefronts(p.at, p.mask, p.bytes);
    c[IDEAL] += ideal_wavefronts(p.mask, p.bytes);
  } else {
    c[SECTORS] += sectors(p.at, p.mask, p.bytes);
  }
  p.mask = 0;
}

static void count(Thread* t, u32 line, u64 at, u32 bytes, bool shared) {
  if (bytes > 16) return;  // a bulk copy
  Pending*& p = pending_of[t->warp->index][line];
  if (!p) p = new Pending(), p->mask = 0;
  u32 bit = 1u << t->lane;
  if ((p->mask & bit) || p->shared != shared || p->bytes != bytes) flush(*p, line);
  p->mask |= bit, p->bytes = bytes, p->shared = shared, p->at[t->lane] = at;
}

void count_shared(Thread* t, u32 line, u32 offset, u32 bytes) { count(t, line, offset, bytes, true); }
void count_global(Thread* t, u32 line, u64 offset, u32 bytes) { count(t, line, offset, bytes, false); }

static void flush_counters() {
  for (auto& lines : pending_of)
    for (u32 line = 0; line < lines.size(); line++)
      if (lines[line]) flush(*lines[line], line);
}

static void make_counters() {
  for (auto& lines : pending_of)
    for (Pending* p : lines) delete p;
  pending_of.assign(checking(COUNTERS) ? warps.size() : 0, {});
  for (auto& lines : pending_of) lines.assign(L->lines + 1, nullptr);
}

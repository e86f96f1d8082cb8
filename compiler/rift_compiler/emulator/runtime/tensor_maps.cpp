// Tensor maps as kernels hold them, and the swizzle of their boxes in shared memory.
struct TensorMapBits {  // as tensor_map.py encodes it
  u64 magic, address;
  u8 rank, element, swizzle, nan_fill;
  u32 unused;
  u32 size[5];
  u64 stride[5];
  u16 box[5];
  u8 step[5];
} __attribute__((packed));
static const u64 TENSOR_MAP_MAGIC = 0x524946544D415031ull;

static bool read_map(Thread* t, u32 line, u64 address, TensorMapBits& map) {
  u8* p = at_generic(t, line, address, 128, READ, 0, 64);
  memcpy(&map, p, sizeof map);
  if (map.magic == TENSOR_MAP_MAGIC) return true;
  report(BOUNDS, line, 0, "thread %u: no tensor map at 0x%llx", t->id, (unsigned long long)address);
  return false;
}

static u32 swizzled(u32 address, u32 mode) {  // 1: 32, 2: 64, 4: 128 bytes
  u32 bits = mode == 4 ? 7 : mode == 2 ? 3 : mode == 1 ? 1 : 0;
  return address ^ ((address >> 7 & bits) << 4);
}

// tensormap.replace: one field of a tensor map that a kernel makes for itself.
enum MapField { F_ADDRESS, F_RANK, F_BOX, F_SIZE, F_STRIDE, F_STEP, F_TYPE, F_SWIZZLE, F_FILL };

static void set_field(Thread* t, u32 line, TensorMapBits& m, u32 field, u32 index, u64 value) {
  // Element types as tensormap.replace numbers them: u8 u16 u32 s32 u64 s64 f16 f32 f32.ftz f64 bf16.
  static const u8 bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4};
  static const u8 modes[] = {0, 1, 2, 4};
  switch (field) {
    case F_ADDRESS: m.address = value, m.magic = TENSOR_MAP_MAGIC; break;
    case F_RANK: m.rank = (u8)(value + 1); break;
    case F_BOX: m.box[index] = (u16)value; break;
    case F_SIZE: m.size[index] = (u32)value; break;
    case F_STRIDE: m.stride[index + 1] = value; break;
    case F_STEP: m.step[index] = (u8)value; break;
    case F_TYPE: m.element = bytes[value], m.stride[0] = bytes[value]; break;
    case F_SWIZZLE: m.swizzle = modes[value]; break;
    default: m.nan_fill = (u8)value;
  }
}

void tensormap_replace(Thread* t, u32 line, u64 address, bool shared, u32 field, u32 index, u64 value) {
  TensorMapBits m;
  u8* p = shared ? at_shared(t, line, address, 128, READ | WRITE, 0, 64)
                 : at_generic(t, line, address, 128, READ | WRITE, 0, 64);
  if (p >= M.shared && p < M.shared + M.shared_bytes && L->checks & WATCHED)
    watch_shared(t, line, (u32)(p - M.shared), 128, READ | WRITE, 0);
  memcpy(&m, p, sizeof m);
  set_field(t, line, m, field, index, value);
  memcpy(p, &m, sizeof m);
}

// args: the two addresses, of two words each.
static void run_map_copy(Warp* w, Meeting& m) {
  Thread* t = w->lanes[__builtin_ctz(m.arrived)];
  const u32* q = m.args[t->lane];
  u64 to = (u64)q[1] << 32 | q[0], from = (u64)q[3] << 32 | q[2];
  u8* source = at_shared(t, m.line, from, 128, READ, 0, 64);
  u8* target = at_global(t, m.line, to, 128, WRITE, 0, 64);
  memcpy(target, source, 128);
  if (checking(UNINITIALISED) && target == M.arena + (to - M.arena_base))
    memset(M.written + (to - M.arena_base), 1, 128);
}

// tensormap.cp_fenceproxy: a warp copies a tensor map from shared to global memory.
void tensormap_copy(Thread* t, u32 line, u64 to, u64 from) {
  u32 args[4] = {(u32)to, (u32)(to >> 32), (u32)from, (u32)(from >> 32)};
  fence(t);
  meet(t, line, t->warp->exists, run_map_copy, args);
}

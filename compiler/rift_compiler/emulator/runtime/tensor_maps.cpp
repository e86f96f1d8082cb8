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

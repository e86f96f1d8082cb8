static void reset_async() {}
static void finish_async() {}
bool land_something() { return false; }
void describe_barriers(std::vector<char>&) {}
static void check_mbarrier_memory(Thread*, u32, u32, u32) {}
void cluster_arrive(Thread*, u32) {}
void cluster_wait(Thread*, u32) {}

"""PyTorch to fused kernels: IRs, rules, code generation, the PTX emulator."""

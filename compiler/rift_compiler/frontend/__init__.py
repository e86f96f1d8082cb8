"""From PyTorch to Tensor IR: trace with torch.export, then lower op by op, keyword by keyword."""

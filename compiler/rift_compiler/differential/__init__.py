"""Nothing silently wrong: compiled functions against torch eager.

`suite.run` drives it. `opinfo` takes cases from PyTorch's own operator samples, `probes` holds
hand-written ones, `compare` judges one. Every case is right, refused or wrong; none may be wrong.
Nothing is imported here: `opinfo` needs torch's internal test modules, which take seconds to load.
"""

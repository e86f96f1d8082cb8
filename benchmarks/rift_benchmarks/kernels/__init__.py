"""The suite `kernels`: the compiler's kernels against torch's and Inductor's, on this CPU."""

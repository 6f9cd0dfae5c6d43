// Source file that the target of libtorch's precompiled header needs.

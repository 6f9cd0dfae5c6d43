// The precompiled header of libtorch needs a source file to belong to.

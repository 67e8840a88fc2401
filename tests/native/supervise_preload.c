/* A library that does nothing but be preloaded. */
extern const int supervise_preload_is_here;
__attribute__((visibility("default"))) const int supervise_preload_is_here = 1;

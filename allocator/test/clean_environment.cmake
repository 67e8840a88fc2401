# Read by ctest before it starts a test: removes the caller's settings of allocators, so that every
# test sees its own only.  tests/conftest.py does the same for the tests in Python.
execute_process(COMMAND env OUTPUT_VARIABLE environment)
string(REGEX MATCHALL
  "(^|\n)(EXGEN_CONF|GLIBC_TUNABLES|LD_PRELOAD|(MALLOC|MIMALLOC|TCMALLOC)_[A-Za-z0-9_]*)="
  settings "${environment}")
foreach(setting IN LISTS settings)
  string(REGEX REPLACE "[\n=]" "" name "${setting}")
  unset(ENV{${name}})
endforeach()

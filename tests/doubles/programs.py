"""Small programs and libraries in C and C++ that tests compile; without a compiler they skip."""

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.doubles.places import ROOT

SINGLE = "int main(void) { return 0; }"
THREAD = """
#include <pthread.h>
static void *run(void *p) { return p; }
int NAME(void) { pthread_t t; return pthread_create(&t, 0, run, 0) || pthread_join(t, 0); }
"""
"""A function NAME that starts a thread."""
PTHREAD = THREAD.replace("NAME", "main")
DLOPEN = '#include <dlfcn.h>\nint main(void) { return !dlopen("libm.so.6", RTLD_NOW); }'

JEMALLOC = "libjemalloc.so.2"


def compile_(folder: Path, source: str, *options: str, name: str = "app") -> Path:
    """Compile a program or, with ``-shared``, a library; C++ when it looks like it."""
    output = folder / name
    output.write_bytes(_compiled(source, options))
    output.chmod(0o755)
    return output


def native(folder: Path, name: str, *options: str) -> Path:
    source = (ROOT / "tests" / "native" / name).read_text()
    return compile_(folder, source, "-O1", *options, name=Path(name).stem.rpartition("_")[2])


@functools.cache
def _compiled(source: str, options: tuple[str, ...]) -> bytes:
    """Return what the compiler makes; many tests want the same."""
    compiler = ["g++", "-std=c++20", "-xc++"] if "std::" in source else ["gcc", "-xc"]
    if shutil.which(compiler[0]) is None:
        pytest.skip("no compiler")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output"
        command = [*compiler, "-", "-xnone", "-o", str(output), *options]
        done = subprocess.run(command, check=False, capture_output=True, text=True, input=source)
        if done.returncode:
            pytest.skip(f"cannot be compiled here: {done.stderr.splitlines()[-1]}")
        return output.read_bytes()


def calls_jemalloc(folder: Path) -> str:
    """Compile a program that takes a block by a name that other allocators lack."""
    source = "void *mallocx(long, int); int main(void) { return !mallocx(9, 0); }"
    return str(compile_(folder, source, f"-l:{JEMALLOC}"))


def library(folder: Path, source: str, name: str, *options: str) -> Path:
    return compile_(folder, source, "-shared", "-fPIC", *options, name=f"lib{name}.so")

"""Small programs and libraries in C and C++ that tests compile; without a compiler they skip."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

needs_cc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")

SINGLE = "int main(void) { return 0; }"
THREAD = """
#include <pthread.h>
static void *run(void *p) { return p; }
int NAME(void) { pthread_t t; return pthread_create(&t, 0, run, 0) || pthread_join(t, 0); }
"""
"""A function NAME that starts a thread."""
PTHREAD = THREAD.replace("NAME", "main")
DLOPEN = '#include <dlfcn.h>\nint main(void) { return !dlopen("libm.so.6", RTLD_NOW); }'


def compile_(folder: Path, source: str, *options: str, name: str = "app") -> Path:
    """Compile a program or, with ``-shared``, a library; C++ when it looks like it."""
    is_cxx = "std::" in source
    path = folder / f"{name}.{'cc' if is_cxx else 'c'}"
    path.write_text(source)
    output = folder / name
    compiler = ["g++", "-std=c++20"] if is_cxx else ["gcc"]
    command = [*compiler, str(path), "-o", str(output), *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot be compiled here: {done.stderr.splitlines()[-1]}")
    return output


def library(folder: Path, source: str, name: str, *options: str) -> Path:
    return compile_(folder, source, "-shared", "-fPIC", *options, name=f"lib{name}.so")

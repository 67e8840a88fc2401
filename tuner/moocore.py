"""moocore without what fetches its example data.

``import moocore`` imports that too, and with it clients of HTTP, certificates, e-mail and what
reads the metadata of packages: as much CPU time as a dozen trials cost beside their replays.  So
its package is made without being run, and its functions are taken from the module that has them.

Limits: the module is not part of what moocore promises; a version without it is imported as usual.
"""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType

_FUNCTIONS = "moocore._moocore"


def load_moocore() -> ModuleType:
    """Return moocore, which others that import it from now on get too."""
    spec = None if "moocore" in sys.modules else find_spec("moocore")
    if spec is None:
        return import_module("moocore")
    package = sys.modules["moocore"] = module_from_spec(spec)
    try:
        functions = import_module(_FUNCTIONS)
    except ImportError:
        del sys.modules["moocore"]
        return import_module("moocore")
    names = (name for name in vars(functions) if not name.startswith("_"))
    vars(package).update({name: getattr(functions, name) for name in names})
    return package

"""zstd of the standard library (Python 3.14), or its backport.

Layer: beside `units`.
"""

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError, ZstdFile, compress, decompress, get_frame_info
else:
    from backports.zstd import ZstdError, ZstdFile, compress, decompress, get_frame_info

MAGIC = b"\x28\xb5\x2f\xfd"
"""First bytes of a frame (RFC 8878, section 3.1.1)."""

__all__ = ["MAGIC", "ZstdError", "ZstdFile", "compress", "decompress", "get_frame_info"]

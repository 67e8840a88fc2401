"""The files users write: campaigns and allocator search spaces, read strictly.

``reading`` turns TOML into pydantic models with errors that name file, key, value and
what is allowed; ``allocator_file`` and ``campaign`` are the two models; ``levels``
and ``versions`` the arithmetic of scales and of version ranges inside them.
"""

from tuner.config.allocator_file import (
    AllocatorFile,
    Narrowing,
    ParameterSpec,
    allocator_variables,
    load_allocator_file,
    shipped_allocator_file,
)
from tuner.config.campaign import (
    AllocatorChoice,
    CampaignSpec,
    campaign_from_options,
    dump_campaign,
    load_campaign,
    name_after,
)
from tuner.config.versions import is_version_in, parse_version

__all__ = [
    "AllocatorChoice",
    "AllocatorFile",
    "CampaignSpec",
    "Narrowing",
    "ParameterSpec",
    "allocator_variables",
    "campaign_from_options",
    "dump_campaign",
    "is_version_in",
    "load_allocator_file",
    "load_campaign",
    "name_after",
    "parse_version",
    "shipped_allocator_file",
]

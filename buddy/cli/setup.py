"""`buddy init`: a commented buddy.toml, written once."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping

from buddy.cli.telling import tell
from buddy.config.loading import directories
from buddy.extend.templates import template_text


def init(environment: Mapping[str, str]) -> int:
    """Write the person's buddy.toml. One that stands there is kept beside it."""
    where = directories(environment)
    path = os.path.join(where.config, "buddy.toml")
    try:
        os.makedirs(where.config, mode=0o700, exist_ok=True)
        if os.path.lexists(path):
            backup = f"{path}.{time.strftime('%Y%m%d-%H%M%S')}"
            shutil.copy2(path, backup)
            sys.stdout.write(f"kept the one that was there as {backup}\n")
        temporary = f"{path}.new"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(template_text("buddy.toml"))
        os.replace(temporary, path)
    except OSError as error:
        tell(f"buddy: {error.filename or path}: {error.strerror}; nothing was written\n")
        return 1
    sys.stdout.write(f"wrote {path}\nSet a key (export OPENAI_API_KEY=… or buddy login), then start: buddy\n")
    return 0
